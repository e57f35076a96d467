"""Two masters on the real API server, of which one has its wall clock off by ten minutes."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import ClientSession

from tests.chaos.ports import own_ports
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.clock import wrong_by
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.core import LOOPBACK
from tests.e2e.controlplane.processes import Program
from tests.e2e.kubernetes.forest_master import (
    VENDOR,
    ForestMaster,
    Tree,
    forest_master,
    labels,
    wanted_labels,
)
from tests.support.leading import leads
from tests.support.waiting import eventually
from topo.kit.files import write_private
from topo.sim.worlds.presets import World

OFF_S = 600
RESPECTED_S = 5.0
"""A killed leader is respected for longer: for 12 s from its last renewal, of one each 2 s."""
MOVED: Tree = {**VENDOR, "switchbox-2": {"dragonfly-3": ["node-sample5", "node-sample6"]}}
LESS: Tree = {"switchbox-1": VENDOR["switchbox-1"]}


@dataclass
class Candidate:
    """A master that can be killed and started again; `name` is that of its pod."""

    name: str
    program: Program
    port: int
    session: ClientSession

    async def leads(self) -> bool:
        """What it says itself, while it runs."""
        return await leads(f"http://{LOOPBACK}:{self.port}")

    async def start(self) -> None:
        """Returns when it has seen who leads."""
        told = self._told()
        self.program.start()
        await eventually(lambda: self._told() > told)

    async def kill(self) -> None:
        await asyncio.to_thread(self.program.stop, number=signal.SIGKILL)

    def _told(self) -> int:
        log = self.program.log
        return log.read_text().count('"event":"who leads"') if log.exists() else 0


async def test_who_leads_is_decided_by_nobodys_wall_clock(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path, world: World
) -> None:
    """One whose clock is ahead takes over no sooner, and one that sees such a record no later."""
    names = [str(host.name) for host in world.nodes]
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/topo-master"

    async def is_right(tree: Tree, leader: Candidate) -> bool:
        spec = (await api.get(path))["spec"]
        is_held = spec["holderIdentity"].startswith(f"{leader.name}_")
        return is_held and await labels(api) == wanted_labels(tree, names)

    async def ahead_s() -> float:
        """How far the record's time is ahead of ours."""
        spec = (await api.get(path))["spec"]
        renewed = datetime.fromisoformat(spec["renewTime"])
        return (renewed - datetime.now(UTC)).total_seconds()

    async def taken_over(leader: Candidate, other: Candidate, tree: Tree) -> None:
        transitions = (await api.get(path))["spec"]["leaseTransitions"]
        await other.start()
        await asyncio.sleep(RESPECTED_S)
        assert await leader.leads()
        assert not await other.leads()
        await leader.kill()
        killed_s = asyncio.get_running_loop().time()
        master.declare(tree)
        await eventually(other.leads)
        took_s = asyncio.get_running_loop().time() - killed_s
        print(f"{other.name} leads {took_s:.1f} s after the end of {leader.name}")
        assert took_s > RESPECTED_S
        await eventually(lambda: is_right(tree, other))
        assert (await api.get(path))["spec"]["leaseTransitions"] == transitions + 1

    async with _two(cluster, namespace, tmp_path) as (master, right, wrong):
        await eventually(right.leads)
        await eventually(lambda: is_right(VENDOR, right))
        assert abs(await ahead_s()) < OFF_S / 2
        await taken_over(right, wrong, MOVED)
        assert await ahead_s() > OFF_S / 2, "its clock is not ahead"
        await taken_over(wrong, right, LESS)


@asynccontextmanager
async def _two(
    cluster: Cluster, namespace: str, home: Path
) -> AsyncIterator[tuple[ForestMaster, Candidate, Candidate]]:
    """The masters, of which the first runs and the second's clock is ahead."""
    write_private(home / "replica-token", b"a-token-that-all-masters-share")
    shared = ("--leader-elect=true", f"--replica-token-file={home / 'replica-token'}")
    with own_ports() as some, own_ports() as others:
        first, second = (
            (f"--server-port={ports[0]}", f"--rpc-server-port={ports[1]}")
            for ports in (some, others)
        )
        flags = (*shared, f"--pod-ip={LOOPBACK}", *first)
        async with (
            ClientSession() as session,
            forest_master(cluster, namespace, home, VENDOR, *flags) as master,
        ):
            right = Candidate("topo-master-0", master.program, some[0], session)
            other = master.beside("--pod-name=topo-master-1", *second)
            other.environment = {**other.environment, **wrong_by(OFF_S, home / "clock")}
            wrong = Candidate("topo-master-1", other, others[0], session)
            try:
                yield master, right, wrong
            finally:
                await asyncio.to_thread(other.stop)
