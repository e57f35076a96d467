"""When a controller compares: soon after a change, and every five minutes.

Level-triggered: a change only says where to look, never what to do. So a missed event loses
nothing, and a master that starts needs no history.
"""

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

from master.kube.objects import KubeObject
from master.kube.reflector import Listed, StoreEvent
from topo.model.forest import Snapshot

GATHER_S = 0.05
"""Changes within this time are compared together. Fixed, so that constant churn delays nothing."""
REST_CEILING_S = 1.0
"""The longest pause: a controller rests as long as it compared, so that constant churn leaves time
for other work."""
RESYNC_S = 300.0
"""The longest time between two full comparisons, which also repeat refused writes."""
SETTLING_POLL_S = 0.5

T = TypeVar("T", bound=KubeObject)
ChangedNames = AbstractSet[str] | None
"""Objects that may differ from what is wanted; None for all."""


class Controller(Generic[T]):
    """Calls `compare` with the names of changed objects, one call at a time.

    Nothing is compared while `is_settled` is False: a node that is not known yet would look like
    one that left its group.
    """

    def __init__(
        self, compare: Callable[[ChangedNames], Awaitable[None]], *, is_settled: Callable[[], bool]
    ) -> None:
        self._compare = compare
        self._is_settled = is_settled
        self._names: set[str] = set()
        self._all = True
        self._woken = asyncio.Event()
        self._woken.set()

    def wake(self, *names: str) -> None:
        """Compare these objects soon; all of them without names."""
        self._names.update(names)
        self._all |= not names
        self._woken.set()

    def on_forest(self, _snapshot: Snapshot) -> None:
        """Handle a change of the forest."""
        self.wake()

    def on_object(self, event: StoreEvent[T]) -> None:
        """Handle a change of an object, or a new list."""
        if isinstance(event, Listed):
            self.wake()
        else:
            self.wake(event.object.metadata.name)

    async def run(self) -> None:
        """Compare until cancelled. An exception of `compare` ends the process."""
        loop, rest_s = asyncio.get_running_loop(), GATHER_S
        while True:
            try:
                async with asyncio.timeout(RESYNC_S):
                    await self._woken.wait()
            except TimeoutError:
                self._all = True
            await asyncio.sleep(rest_s)
            while not self._is_settled():  # noqa: ASYNC110 - that it has settled is no event
                await asyncio.sleep(SETTLING_POLL_S)
            self._woken.clear()
            names, self._names = self._names, set()
            changed = None if self._all else names
            self._all = False
            began_s = loop.time()
            await self._compare(changed)
            rest_s = min(max(GATHER_S, loop.time() - began_s), REST_CEILING_S)
