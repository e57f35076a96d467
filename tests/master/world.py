"""A master on real sockets, and workers that say what a test wants them to say.

It lives by the clock of the test's loop, so that nearly all its tests run in virtual time.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson
from aiohttp import ClientResponse, ClientSession
from pydantic import TypeAdapter

from master.app import build_app
from master.composition.service import build_service
from master.role import ALONE, Role
from master.service import Service
from master.settings import MasterSettings
from master.sources.row import SourceRow
from master.sources.table import SOURCE_ROWS
from master.tree.engine import GATHER_CEILING_S
from tests.support.waiting import eventually
from topo.kit.settings import read
from topo.kit.tasks import Site, start
from topo.model.ids import BootId, NodeName, ServerUuid
from topo.model.machine import Gpu, NodeFacts, NodeIdentity, Peer, ServerPeers
from topo.model.wire import REPORTS_PATH

TOKEN = "worker-secret-1"

READY_LOOK_S = 0.25
"""A start without a state takes half a minute of virtual time: each look at it is a call."""

_FACTS = TypeAdapter(NodeFacts)
_instances = count(1)


def facts(
    name: str, *remotes: str, boot: str = "boot-1", system: str = "", healthy: bool = True
) -> NodeFacts:
    """Facts of a node whose server UUID is `uuid-<name>`, wired to the servers of `remotes`."""
    peers = tuple(
        Peer(slot, ServerUuid(f"uuid-{remote}"), connected=True)
        for slot, remote in enumerate(remotes, 1)
    )
    return NodeFacts(
        NodeIdentity(NodeName(name), BootId(f"{boot}-{name}"), system_uuid=system or f"sys-{name}"),
        gpus=(Gpu(0, healthy=healthy),),
        peers=ServerPeers(ServerUuid(f"uuid-{name}"), peers),
    )


@dataclass
class Answer:
    """One HTTP answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return orjson.loads(self.body)


@dataclass
class Worker:
    """A worker process as the master sees it: an instance, a sequence, a token."""

    url: str
    session: ClientSession
    node: str
    token: str | None = TOKEN
    instance: str = field(default_factory=lambda: f"instance-{next(_instances)}")
    seq: int = -1

    async def full(self, said: NodeFacts) -> Answer:
        """Sends everything."""
        body = orjson.loads(_FACTS.dump_json(said))
        return await self.send(kind="full", facts=body)

    async def change(self, **sections: Any) -> Answer:
        """Sends the sections that differ."""
        return await self.send(kind="change", change=sections)

    async def beat(self) -> Answer:
        """Sends a sign of life."""
        return await self.send(kind="beat")

    async def send(self, **body: Any) -> Answer:
        """Sends a report with the next number."""
        self.seq += 1
        report = {"node": self.node, "instance": self.instance, "seq": self.seq, **body}
        return await self.post(json.dumps(report).encode())

    async def post(self, body: bytes) -> Answer:
        """Sends these bytes."""
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        url = self.url + REPORTS_PATH
        async with self.session.post(url, data=body, headers=headers) as answer:
            return await _read(answer)


@dataclass
class Master:
    """A running master: its API, its workers' port, its insides."""

    service: Service
    url: str
    reports_url: str
    session: ClientSession

    async def get(self, path: str, **headers: str) -> Answer:
        """One GET; header names with underscores for dashes. Nothing is decompressed."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("Accept-Encoding", "identity")
        async with self.session.get(self.url + path, headers=named) as answer:
            return await _read(answer)

    def worker(self, node: str, token: str | None = TOKEN) -> Worker:
        """A worker process that has said nothing yet."""
        return Worker(self.reports_url, self.session, node, token)

    async def pair(self, one: str, two: str) -> tuple[Worker, Worker]:
        """Two workers that see each other, reported."""
        first, second = self.worker(one), self.worker(two)
        assert (await first.full(facts(one, two))).status == 200
        assert (await second.full(facts(two, one))).status == 200
        return first, second

    async def tree(self) -> Any:
        """The vendor's document once the master shows it."""
        await self.ready()
        return (await self.get("/node_group")).json

    async def ready(self) -> None:
        """Returns when the master is ready."""

        async def is_ready() -> bool:
            if (await self.get("/ready")).status == 200:
                return True
            await asyncio.sleep(READY_LOOK_S)
            return False

        await eventually(is_ready)

    async def generation(self) -> int:
        """The generation in virtual time's next moment: all that was said before is applied."""
        await asyncio.sleep(2 * GATHER_CEILING_S)
        return int((await self.get("/v1/topology")).json["generation"])


async def _read(answer: ClientResponse) -> Answer:
    return Answer(answer.status, answer.headers, await answer.read())


def settings(*flags: str) -> MasterSettings:
    """Settings from flags, as the process would read them."""
    result = read(MasterSettings, flags)
    assert isinstance(result, MasterSettings), result
    return result


@asynccontextmanager
async def running(
    *flags: str,
    role: Role = ALONE,
    source_rows: Sequence[SourceRow] = SOURCE_ROWS,
    ports: tuple[int, int] = (0, 0),
    began_s: float | None = None,
) -> AsyncIterator[Master]:
    """A master in this process on the loopback, on free ports if none are given; then stopped.

    `began_s`: the Unix time at which its clock was 0; without it the past has the machine's time.
    """
    clock = asyncio.get_running_loop().time
    service = build_service(settings(*flags), role, source_rows, clock)
    if began_s is not None:
        service.past.clock = lambda: began_s + clock()
    sites = (
        (build_app(service), service.api_limits.connections, ports[0]),
        (service.worker_port.app(), service.report_connections, ports[1]),
    )
    async with AsyncExitStack() as stack:
        urls = []
        for app, connections, port in sites:
            site = Site(app=app, port=port, connections=connections, host="127.0.0.1", drain_s=2)
            [(host, bound)] = await start(site, stack)
            urls.append(f"http://{host}:{bound}")
        session = await stack.enter_async_context(ClientSession(auto_decompress=False))
        yield Master(service, urls[0], urls[1], session)
