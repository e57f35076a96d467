"""Tokens that really end: the API server refuses them, and what holds them takes up new ones."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientError, ClientSession

from tests.chaos.ports import own_ports
from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, service_account, token
from tests.e2e.controlplane.core import LOOPBACK
from tests.e2e.controlplane.hosts import Hosts
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.signing import ending
from tests.e2e.kubernetes.forest_master import (
    RULES,
    VENDOR,
    ForestMaster,
    Tree,
    forest_master,
    labels,
    wanted_labels,
)
from tests.e2e.kubernetes.test_worker_identity import ASK, READ, Accounts
from tests.support.waiting import eventually
from topo.kit.files import replace_whole, write_private
from topo.sim.worlds.presets import World

SOON_S = 12.0
"""Where the first call comes later than that, the first one is refused and not a later one."""
_TERM = ("holderIdentity", "leaseTransitions", "acquireTime")
MOVED = {**VENDOR, "switchbox-2": {"dragonfly-3": ["node-sample5", "node-sample6"]}}


@dataclass(frozen=True)
class Renewed:
    """A service account whose token lies in a file, and a kubeconfig that names the file."""

    cluster: Cluster
    api: Api
    namespace: str
    folder: Path
    account: str = "renewed"

    @property
    def file(self) -> Path:
        return self.folder / "token"

    @property
    def kubeconfig(self) -> Path:
        path = self.folder / "renewed.kubeconfig"
        document = yaml.safe_load(self.cluster.admin.kubeconfig(path).read_text())
        document["users"][0]["user"] = {"tokenFile": str(self.file)}
        path.write_text(yaml.safe_dump(document))
        return path

    async def issue(self) -> str:
        """A token of an hour, as the API server gives it."""
        return await token(self.api, self.namespace, self.account)

    async def put(self, *, after_s: float | None = None) -> str:
        """Puts a token into the file, that ends after that time; in an hour where none is given."""
        text = await self.issue()
        if after_s is not None:
            text = ending(text, self.cluster.files, after_s=after_s)
        replace_whole(self.file, text.encode())
        return text

    async def is_refused(self, text: str) -> bool:
        """Whether the API server takes the token no more, asked by a client of our own."""
        access = replace(self.cluster.admin, token=text)
        async with self.cluster.api(access) as api:
            try:
                await api.get("/api/v1/nodes", limit="1")
            except ApiError as error:
                return error.status == HTTPStatus.UNAUTHORIZED
        return False


@pytest.fixture
async def renewed(cluster: Cluster, api: Api, namespace: str, tmp_path: Path) -> Renewed:
    """Of this test, with the rights of a master."""
    made = Renewed(cluster, api, namespace, tmp_path)
    await service_account(api, namespace, made.account, RULES)
    return made


async def test_a_leader_whose_token_ends_goes_on_with_the_one_that_is_in_its_file_by_then(
    renewed: Renewed, world: World
) -> None:
    """It reads the file anew when it is refused, in time to keep its lease."""
    old = await renewed.put(after_s=SOON_S)
    write_private(renewed.folder / "replica-token", b"a-token-that-all-masters-share")
    with own_ports() as ports:
        flags = (
            f"--kubeconfig={renewed.kubeconfig}",
            *("--leader-elect=true", "--pod-ip=127.0.0.1"),
            f"--replica-token-file={renewed.folder / 'replica-token'}",
            f"--server-port={ports[0]}",
            f"--rpc-server-port={ports[1]}",
        )
        async with _leading(renewed, *flags) as master:
            await eventually(lambda: len(_logged(master.program, "Kubernetes is asked")) == 1)
            await renewed.put()
            await eventually(lambda: _are_labelled(renewed, world, VENDOR))
            lease = await _lease(renewed)
            await eventually(lambda: renewed.is_refused(old))
            refused = await _lease(renewed)
            master.declare(MOVED)
            await eventually(lambda: _are_labelled(renewed, world, MOVED))
            await eventually(lambda: _is_renewed_since(renewed, refused))
            master.program.must_live()
            now = await _lease(renewed)
            assert {key: now[key] for key in _TERM} == {key: lease[key] for key in _TERM}


async def test_a_master_whose_token_has_ended_says_so_and_needs_no_restart_for_a_new_one(
    renewed: Renewed, world: World
) -> None:
    assert await renewed.is_refused(await renewed.put(after_s=-1))
    with own_ports() as ports:
        flags = (f"--kubeconfig={renewed.kubeconfig}", f"--server-port={ports[0]}")
        async with _leading(renewed, *flags) as master:
            async with ClientSession() as session:
                await eventually(lambda: _says_why(session, ports[0]))
            assert not any((await labels(renewed.api)).values())
            await renewed.put()
            await eventually(lambda: _are_labelled(renewed, world, VENDOR))
            master.program.must_live()


async def test_a_worker_whose_token_has_ended_is_told_and_goes_on_with_the_next_one(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path, hosts: Hosts
) -> None:
    node = min(hosts.world.nodes, key=lambda host: host.number)
    pods = Accounts(cluster, api, namespace, tmp_path)
    await service_account(api, namespace, "topo-worker")
    pod = await pods.pod("worker", str(node.name))
    issued = await pods.token(pod)
    file = tmp_path / "worker-token"
    write_private(file, ending(issued, cluster.files, after_s=SOON_S).encode())
    async with pods.running(READ, ASK) as master:
        replay = (
            f"--server-address={master.reports_url.removeprefix('http://')}",
            f"--node-name={node.name}",
            f"--token-file={file}",
            f"--replay={hosts.folder / node.name}",
        )
        argv = (sys.executable, "-m", "worker", "--metrics-address=127.0.0.1:0", *replay)
        worker = Program("topo-worker", argv, tmp_path / "worker.log")
        worker.start()
        try:
            # Where the worker starts later than the token ends, its first report is refused.
            await eventually(lambda: len(_logged(worker, "reports do not arrive")) == 1)
            (refused,) = _logged(worker, "reports do not arrive")
            arrived = len(_logged(worker, "reports arrive"))
            assert refused["reason"] == "unauthorized"
            assert "has it expired" in refused["detail"] + refused["fix"]
            replace_whole(file, (await pods.token(pod)).encode())
            await eventually(lambda: len(_logged(worker, "reports arrive")) == arrived + 1)
            worker.must_live()
            assert issued.rpartition(".")[0] not in worker.log.read_text()
        finally:
            await asyncio.to_thread(worker.stop)


@asynccontextmanager
async def _leading(renewed: Renewed, *flags: str) -> AsyncIterator[ForestMaster]:
    cluster, folder = renewed.cluster, renewed.folder
    async with forest_master(cluster, renewed.namespace, folder, VENDOR, *flags) as master:
        yield master


async def _are_labelled(renewed: Renewed, world: World, tree: Tree) -> bool:
    names = [str(host.name) for host in world.nodes]
    return await labels(renewed.api) == wanted_labels(tree, names)


async def _lease(renewed: Renewed) -> Any:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{renewed.namespace}/leases/topo-master"
    return (await renewed.api.get(path))["spec"]


async def _is_renewed_since(renewed: Renewed, before: Any) -> bool:
    return bool((await _lease(renewed))["renewTime"] != before["renewTime"])


async def _says_why(session: ClientSession, port: int) -> bool:
    try:
        async with session.get(f"http://{LOOPBACK}:{port}/v1/topology") as answer:
            warnings = (await answer.json())["warnings"] if answer.ok else ()
    except ClientError:
        return False
    said = {each["code"]: each["fix"] for each in warnings}
    return "has it expired" in said.get("kubernetes-nodes", "")


def _logged(program: Program, event: str) -> list[dict[str, Any]]:
    """The lines of that event."""
    return [each for each in program.events if each["event"] == event]
