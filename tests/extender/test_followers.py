"""Two masters behind one Service: whichever a scheduler asks, the answer is the leader's."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext

import pytest
from aiohttp import web

from tests.extender.model import NODES, Asking, Scheduler, asked, dragonfly, split_groups
from tests.kube.fake_server import FakeServer
from tests.kube.plain import serving
from tests.replicas.installation import LEASES, Installation, leads
from tests.support.ports import free_ports
from tests.support.waiting import eventually

pytestmark = pytest.mark.virtual_time


@dataclass
class Elections:
    """An API server with a Lease, and how masters that elect each other are started."""

    server: FakeServer
    start: Callable[[str], AbstractAsyncContextManager[Asking]]


@pytest.fixture
async def elections(tmp_path: Path) -> AsyncIterator[Elections]:
    async with electing(tmp_path) as made:
        yield made


@asynccontextmanager
async def electing(
    home: Path, *further: str, client: SSLContext | None = None
) -> AsyncIterator[Elections]:
    """No master yet; each is started with the further flags, and asked by this client."""
    server, installed = FakeServer(), Installation(home)
    (home / "replica-token").write_text("shared-by-masters")

    async def handle(request: web.Request) -> web.StreamResponse:
        is_lease = request.path.startswith(LEASES)
        return await (installed if is_lease else server).handle(request)

    @asynccontextmanager
    async def start(name: str) -> AsyncIterator[Asking]:
        api, reports, extender = free_ports((0, 0, 0))
        flags = installed.flags(name, (api, reports))[1:]
        flags = (*flags, f"--extender-port={extender}", *further)
        ports = (api, reports, extender)
        async with asked(server, home, *flags, ports=ports, client=client) as found:
            yield found

    async with serving(handle) as url:
        server.url = url
        yield Elections(server, start)
        server.cut_watches()


def answers(asking: Asking, answer: str, verb: str = "filter") -> float:
    """How many questions a master answered so."""
    labels = {"verb": verb, "answer": answer}
    registry = asking.master.service.registry
    return registry.get_sample_value("topo_master_extender_answers_total", labels) or 0.0


async def test_a_follower_answers_what_the_leader_answers_and_takes_over_what_it_held(
    elections: Elections,
) -> None:
    scheduler = Scheduler(elections.server)
    await scheduler.nodes_come()
    async with AsyncExitStack() as first:
        leader = await first.enter_async_context(elections.start("a"))
        await leads(leader.master)
        async with elections.start("b") as follower:
            await eventually(lambda: bool(follower.master.service.replica.role.extender_url))
            # The follower has not heard of the hold yet: it polls each second.
            await scheduler.job_comes("train", 2, 8, 16)
            await scheduler.schedule(follower, "train-0")
            kept = dragonfly(scheduler.node_of("train-0"))
            await scheduler.pod_comes("single", 8)
            found = await scheduler.schedule(follower, "single")
            assert found["NodeNames"] == [node for node in NODES if dragonfly(node) != kept]
            assert answers(follower, "forwarded") == answers(leader, "planned") + 1 == 2
            assert answers(follower, "forwarded", "prioritize") == 2

            await first.aclose()
            found = await scheduler.schedule(follower, "train-1")
            assert "it is asked again" in found["Error"], "nothing is given away meanwhile"
            await scheduler.pod_comes("without", 0)
            found = await scheduler.schedule(follower, "without")
            assert not found["Error"]
            assert scheduler.node_of("without"), "a pod without GPUs needs no leader"
            await leads(follower.master)
            await eventually(lambda: follower.master.service.replica.serves)
            await bind(scheduler, follower, "train-1")
            assert split_groups(scheduler, "train", 2, 2) == []
            assert answers(follower, "planned") == 1


async def bind(scheduler: Scheduler, asking: Asking, name: str) -> None:
    """Tries a pod until it is bound."""

    async def is_bound() -> bool:
        await scheduler.schedule(asking, name)
        await asyncio.sleep(1)
        return bool(scheduler.node_of(name))

    await eventually(is_bound)
