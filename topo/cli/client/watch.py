"""Follows a master through its changes, its restarts and the loss of the connection."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from topo.cli.client.client import TOPOLOGY_PATH, MasterClient
from topo.cli.exit_codes import CliError
from topo.model.errors import Refusal
from topo.model.rest.changes import StepDocument
from topo.model.rest.generation_id import GenerationId

_RETRY_S = 1.0
_REFRESH_S = 5.0
"""How often the document is fetched although nothing changed: the ages of the sources move."""
_COALESCE_S = 0.1
"""A burst of changes is drawn once."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The event stream stands (again); what is known may be older than `generation`."""

    generation: int


@dataclass(frozen=True, slots=True)
class MasterLost:
    """The master does not answer; another attempt follows."""

    refusal: Refusal


async def follow(
    master: MasterClient, *, retry_s: float = _RETRY_S
) -> AsyncIterator[Connected | StepDocument | MasterLost]:
    """Yield every change of the forest from now on, without end.

    After a break the stream resumes at the last generation seen. A master that forgot it, or
    another run that counts anew, answers with its present: `Connected` says so.
    """
    last: GenerationId | None = None
    while True:
        try:
            document = await master.topology(depth=0)
            last = resume_point(last, GenerationId(document["generation"], document["run"]))
            yield Connected(document["generation"])
            async with aclosing(master.changes(last)) as stream:
                async for event in stream:
                    if event is None:
                        last = None
                        break
                    last = event.generation
                    yield event.step
        except CliError as error:
            yield MasterLost(error.refusal)
        await asyncio.sleep(retry_s)


def resume_point(last: GenerationId | None, now: GenerationId) -> GenerationId:
    """Return where to resume: the last generation seen if the master still counts on from it.

    `now` is the master's present. Another run counts other changes under the same numbers, and a
    lower number without a run is another run too.
    """
    if last is not None and last.run == now.run and last.number <= now.number:
        return last
    return now


Display = Callable[[Any, Refusal | None, float], None]
"""Shows the newest document known, what keeps us from a newer one, and how many seconds ago it
came."""


async def watch(
    master: MasterClient, query: Mapping[str, str | int | None], display: Display
) -> None:
    """Show `/v1/topology` and keep it current until cancelled.

    Raises `CliError` when the first answer cannot be had; later failures are shown, and waited out.
    """
    latest = await _latest(master, query)
    display(latest.document, None, 0.0)
    moved = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_note_changes(master, moved))
            while True:
                await _moved_or_time(moved)
                latest = await _shown(master, query, display, latest)
    except ExceptionGroup as failures:
        # The first to fail cancels the other; a closed pipe must reach the shell as itself.
        raise failures.exceptions[0] from None


class _Latest(NamedTuple):
    """The newest document known, and when it came, on the loop's clock."""

    document: Any
    came_s: float


async def _latest(master: MasterClient, query: Mapping[str, str | int | None]) -> _Latest:
    document = await master.document(TOPOLOGY_PATH, **query)
    return _Latest(document, asyncio.get_running_loop().time())


async def _shown(
    master: MasterClient, query: Mapping[str, str | int | None], display: Display, known: _Latest
) -> _Latest:
    """Show the present document, or the known one with the trouble; return the one shown."""
    trouble: Refusal | None = None
    try:
        known = await _latest(master, query)
    except CliError as error:
        trouble = error.refusal
    display(known.document, trouble, asyncio.get_running_loop().time() - known.came_s)
    return known


async def _note_changes(master: MasterClient, moved: asyncio.Event) -> None:
    async for _ in follow(master):
        moved.set()


async def _moved_or_time(moved: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_REFRESH_S):
            await moved.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_COALESCE_S)
    moved.clear()
