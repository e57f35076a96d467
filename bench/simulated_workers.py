"""Many workers in one process: real connections that speak `topo.model.wire`, without the probes.

What a real worker does after it saw a change is done here too: it says what changed and confirms it
with further readings, `QUICK_S` apart, until `EQUAL_READINGS` equal ones were sent.
"""

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from bench.client import Connection
from bench.cluster import INSTANCE, full_report
from bench.processes import LOOPBACK
from bench.scale import SEED, CannotRunError
from topo.model.machine import NodeFacts
from topo.model.wire import REPORTS_PATH, FactsChange, Report

QUICK_S = 0.2
EQUAL_READINGS = 3
_AT_ONCE = 32
"""Workers that introduce themselves at the same time."""


@dataclass(slots=True)
class SimWorker:
    """One worker: its facts as the master shall know them, its connection, its sequence number."""

    facts: NodeFacts
    connection: Connection
    token: str
    seq: int = -1
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def node(self) -> str:
        """The node's name."""
        return str(self.facts.identity.name)

    async def full(self) -> None:
        """Says everything."""
        async with self.turn:
            self.seq += 1
            await self._post(full_report(self.facts, self.seq))

    async def beat(self) -> None:
        """Says that nothing changed: one more reading."""
        async with self.turn:
            self.seq += 1
            body = f'{{"v":1,"node":"{self.node}","instance":"{INSTANCE}","seq":{self.seq},'
            await self._post(f'{body}"kind":"beat"}}'.encode())

    async def change(self, change: FactsChange) -> None:
        """Says what differs, then sends the readings that confirm it."""
        sections = {name: getattr(change, name) for name in change.model_fields_set}
        self.facts = replace(self.facts, **sections)
        async with self.turn:
            self.seq += 1
            report = Report(
                node=self.facts.identity.name,
                instance=INSTANCE,
                seq=self.seq,
                kind="change",
                change=change,
            )
            await self._post(report.model_dump_json(exclude_unset=True).encode())
        for _ in range(EQUAL_READINGS - 1):
            await asyncio.sleep(QUICK_S)
            await self.beat()

    async def beat_for_ever(self, first_s: float, beat_s: float) -> None:
        """Beats at a steady pace until cancelled."""
        await asyncio.sleep(first_s)
        while True:
            await self.beat()
            await asyncio.sleep(beat_s)

    async def _post(self, body: bytes) -> None:
        head = (
            f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        answer = await self.connection.ask(head.encode() + body)
        if answer.status != 200 or b'"want":"change"' not in answer.body:
            raise CannotRunError(f"the master answers a report: {answer.body.decode()[:200]}")


@asynccontextmanager
async def simulated_workers(
    port: int, token: str, facts: Iterable[NodeFacts], beat_s: float
) -> AsyncIterator[Sequence[SimWorker]]:
    """Workers that have introduced themselves and beat inside the block, evenly spread."""
    workers: list[SimWorker] = []
    gate = asyncio.Semaphore(_AT_ONCE)

    async def introduce(said: NodeFacts) -> None:
        async with gate:
            connection = await Connection.open(LOOPBACK, port)
            worker = SimWorker(said, connection, token)
            await worker.full()
            workers.append(worker)

    async with asyncio.TaskGroup() as group:
        for said in facts:
            group.create_task(introduce(said))
    gc.collect()
    gc.freeze()  # our own collector's pauses are not what is measured
    choice = random.Random(SEED)
    try:
        async with asyncio.TaskGroup() as group:
            beating = [
                group.create_task(worker.beat_for_ever(choice.uniform(0, beat_s), beat_s))
                for worker in workers
            ]
            yield workers
            for task in beating:
                task.cancel()
    finally:
        for worker in workers:
            worker.connection.close()
