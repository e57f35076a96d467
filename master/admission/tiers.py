"""The tiers of HyperNodes and the GPUs of their groups, for jobs whose nodes Volcano chooses."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from topo.gangs.native import HyperNodeTier, Tiers
from topo.kit.threads import off_loop
from topo.model.forest import Forest
from topo.model.ids import GroupPath
from topo.placement.capacity.host import Host
from topo.publish.hypernodes import group_tiers

POLL_S = 1.0
OLD_S = 30.0
"""Without a change of the forest a group changes only with the GPUs of its nodes."""
SETTLED_S = 5.0
"""The shortest time between two counts of a forest that changes all the time."""


def tiers(forest: Forest, hosts: Iterable[Host]) -> Tiers:
    """Return the tiers of the groups that have hosts. O(hosts x depth of the tree)."""
    numbers = group_tiers(forest)
    nodes: dict[GroupPath, Counter[int]] = {}
    for host in hosts:
        for depth in range(1, len(host.path) + 1):
            above = GroupPath(host.path[:depth])
            if above in numbers:
                nodes.setdefault(above, Counter())[host.gpus] += 1
    by_number: dict[int, list[GroupPath]] = {}
    for path in nodes:
        by_number.setdefault(numbers[path].number, []).append(path)
    return tuple(
        HyperNodeTier(
            number,
            frozenset(numbers[path].kind for path in paths),
            frozenset(tuple(sorted(nodes[path].items())) for path in paths),
        )
        for number, paths in sorted(by_number.items())
    )


@dataclass(slots=True, kw_only=True)
class KnownTiers:
    """The last counted tiers. Only the first review waits for a count; later ones run in a thread.

    `forest` returns None while the groups or their GPUs are unknown.
    """

    forest: Callable[[], Forest | None]
    hosts: Callable[[], Iterable[Host]]
    clock: Callable[[], float]
    _known: Tiers = field(default=(), init=False)
    _of: Forest | None = field(default=None, init=False)
    _counted_s: float = field(default=0.0, init=False)

    def now(self) -> Tiers:
        """Return the current tiers, empty while they are unknown. O(1) after the first count."""
        forest = self.forest()
        if forest is None:
            return ()
        if self._of is None or (not self._known and forest is not self._of):
            self._take(forest, tiers(forest, self.hosts()))
        return self._known

    async def run(self) -> None:
        """Count repeatedly until cancelled."""
        while True:
            forest, age_s = self.forest(), self.clock() - self._counted_s
            if forest is None:
                self._of = None
            elif self._of is None or age_s >= (SETTLED_S if forest is not self._of else OLD_S):
                hosts = list(self.hosts())
                self._take(forest, await off_loop(partial(tiers, forest, hosts)))
            await asyncio.sleep(POLL_S)

    def _take(self, forest: Forest, found: Tiers) -> None:
        self._known, self._of, self._counted_s = found, forest, self.clock()
