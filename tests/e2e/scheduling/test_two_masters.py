"""Two masters on the real API server: one dies in the middle of a gang; then both are away."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.chaos.ports import own_ports
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.processes import Program
from tests.e2e.scheduling.gang_master import (
    RULES,
    api_url,
    gang_master,
)
from tests.e2e.scheduling.jobs import (
    JOBS,
    are_whole,
    gang_labels,
    pods_of,
    volcano_job,
)
from tests.e2e.scheduling.shut_gates import gates_shut
from tests.support.leading import leads
from tests.support.waiting import eventually
from topo.kit.files import write_private
from topo.sim.worlds.presets import World

PODS_OF_GANG = 4
TERM_S = 9
AWAY_S = 10.0
"""Longer than the term of a leader that gave nothing back."""
_ELECTED = (
    *RULES,
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update"],
    },
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
)


async def test_what_one_leader_began_the_next_one_ends_and_jobs_of_the_time_without_any_are_placed(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    async def is_whole(job: str) -> bool:
        found = await pods_of(api, job)
        nodes = [each.node for each in found if each.node]
        if len(nodes) < PODS_OF_GANG:
            return False
        assert nodes == [each.planned for each in found]
        return are_whole(world, "dragonfly", nodes, 2) and len({*nodes}) == PODS_OF_GANG

    async def is_ready_to_open() -> bool:
        found = await pods_of(api, "halfway")
        assert all(each.gated for each in found)
        labelled = set().union(*(await gang_labels(api)).values())
        planned = {each.planned for each in found}
        return len(found) == PODS_OF_GANG and "" not in planned and planned == labelled

    async with _two(cluster, world, tmp_path) as (one, other):
        await eventually(lambda: _leads(one))
        async with gates_shut(api):
            await api.create(JOBS, volcano_job("halfway", PODS_OF_GANG, 16))
            await eventually(is_ready_to_open)
            other.start()
            await asyncio.to_thread(one.stop, number=signal.SIGKILL)
        await eventually(lambda: is_whole("halfway"))
        assert await _leads(other)

        await asyncio.to_thread(other.stop, number=signal.SIGKILL)
        await api.create(JOBS, volcano_job("waited", PODS_OF_GANG, 16))
        await asyncio.sleep(AWAY_S)

        async def has_its_pods() -> bool:
            return len(await pods_of(api, "waited")) == PODS_OF_GANG

        await eventually(has_its_pods)
        assert all(each.gated for each in await pods_of(api, "waited"))
        for program in (one, other):
            program.start()
        await eventually(lambda: is_whole("waited"))
        assert await is_whole("halfway")
        assert [await _leads(one), await _leads(other)].count(True) == 1


@asynccontextmanager
async def _two(
    cluster: Cluster, world: World, home: Path
) -> AsyncIterator[tuple[Program, Program]]:
    """Two masters that elect who leads, of which the first runs."""
    token = home / "replica-token"
    write_private(token, b"a-token-that-all-masters-share")
    flags = (
        *("--leader-elect=true", f"--lease-duration={TERM_S}s"),
        *(f"--replica-token-file={token}", "--pod-ip=127.0.0.1"),
    )
    with own_ports() as some, own_ports() as others:
        first, second = (
            (f"--server-port={ports[0]}", f"--rpc-server-port={ports[1]}")
            for ports in (some, others)
        )
        async with gang_master(cluster, world, home, *flags, *first, rules=_ELECTED) as master:
            one = master.program
            environment = {**one.environment, "POD_NAME": "topo-master-1"}
            argv = (*one.argv, *second)
            other = Program("other-topo-master", argv, home / "other.log", environment)
            try:
                yield one, other
            finally:
                await asyncio.to_thread(other.stop)


async def _leads(program: Program) -> bool:
    """What it says itself."""
    program.must_live()
    return await leads(api_url(program))
