"""Sees when a change becomes visible in `GET /node_group`, as a reader who polls would."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from bench.client import Connection, get
from bench.scale import CannotRunError

POLL_S = 0.01
"""How often the document is asked for, with its ETag: the resolution of what is measured."""
PATIENCE_S = 10.0
"""A change that is not visible by then counts with this time."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A node as the document shows it: the kind of the group around it, empty outside any."""

    around: str
    status: str


Sight = Callable[[Shown], bool]


class Watch:
    """A reader of one master's document. `run` it in the background."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._awaited: dict[str, tuple[Sight, asyncio.Future[float]]] = {}
        self._tag = ""
        self.shown: dict[str, Shown] = {}
        self.documents = 0

    async def run(self) -> None:
        """Polls until cancelled."""
        while True:
            answer = await self._connection.ask(get("/node_group", If_None_Match=self._tag))
            if answer.status == 200:
                self._tag = answer.header("ETag") or ""
                self._look(orjson.loads(answer.body), time.monotonic())
            await asyncio.sleep(POLL_S)

    async def until_shown(self, nodes: Collection[str]) -> None:
        """Returns when the document shows all these nodes; raises when it does not in time."""
        await asyncio.gather(*(self.seen(node, lambda _: True) for node in nodes))
        missing = [node for node in nodes if node not in self.shown]
        if missing:
            raise CannotRunError(f"the master shows {len(missing)} nodes not, such as {missing[0]}")

    async def seen(self, node: str, sight: Sight) -> float:
        """When a document came that shows the node so: monotonic seconds, at most `PATIENCE_S` on.

        Await it while the change is on its way; one at a time for a node.
        """
        given_up_s = time.monotonic() + PATIENCE_S
        sighted: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._awaited[node] = sight, sighted
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await sighted
        except TimeoutError:
            return given_up_s
        finally:
            del self._awaited[node]

    def _look(self, document: Any, now_s: float) -> None:
        self.documents += 1
        self.shown = dict(_nodes(document, ""))
        for node, (sight, sighted) in self._awaited.items():
            shown = self.shown.get(node)
            if shown is not None and not sighted.done() and sight(shown):
                sighted.set_result(now_s)


def _nodes(children: Any, around: str) -> Iterator[tuple[str, Shown]]:
    for child in children:
        if child["kind"] == "node":
            yield child["name"], Shown(around, child["status"])
        else:
            yield from _nodes(child["child"], child["kind"])
