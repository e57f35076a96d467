"""Masters of one installation in this process: an API server with a Lease and ConfigMaps, ports."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from master.kube.client import Call
from master.kube.errors import KubeError
from tests.kube.config_maps import MAPS, Maps
from tests.kube.leader_election.lease_server import NO_FAULT, Fault, LeaseServer
from tests.kube.plain import kubeconfig, serving
from tests.master.world import Master, running
from tests.support.kubernetes import node_manifest
from tests.support.ports import free_ports
from tests.support.waiting import eventually

LEASES = "/apis/coordination.k8s.io/v1/namespaces/topo/leases"
FOREVER_S = 1e6
LOOK_S = 0.25


@dataclass
class Installation:
    """The API server, and how masters are started that ask it.

    `fault` says what happens to a call about the lease, by the name of the pod that asks.
    """

    home: Path
    lease: LeaseServer = field(default_factory=LeaseServer)
    maps: Maps = field(default_factory=Maps)
    fault: Callable[[], Fault] = lambda: NO_FAULT
    nodes: tuple[str, ...] = ("n1", "n2")
    kubeconfig: str = ""
    pod_ip: str = "127.0.0.1"
    accounts: dict[str, str] = field(default_factory=dict)
    reviews: int = 0
    is_away: bool = False
    """Whether every request ends with its connection, as where nobody listens."""

    def flags(self, name: str, ports: tuple[int, int]) -> tuple[str, ...]:
        """What makes a master one of them."""
        return (
            f"--kubeconfig={self.kubeconfig}",
            f"--pod-name={name}",
            "--pod-namespace=topo",
            f"--pod-ip={self.pod_ip}",
            f"--replica-token-file={self.home / 'replica-token'}",
            "--leader-elect=true",
            f"--server-port={ports[0]}",
            f"--rpc-server-port={ports[1]}",
        )

    def master(self, name: str, *flags: str) -> AbstractAsyncContextManager[Master]:
        """A master in this process."""
        api, reports = free_ports((0, 0))
        return running(*self.flags(name, (api, reports)), *flags, ports=(api, reports))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request to the API server."""
        if self.is_away and request.transport is not None:
            request.transport.abort()
        if "watch" in request.query:
            await asyncio.sleep(FOREVER_S)
        body = await request.read()
        call = Call(
            method=request.method, path=request.path, query=dict(request.query), body=body or None
        )
        try:
            return web.Response(body=await self._answer(call), content_type="application/json")
        except KubeError as error:
            said = {"kind": "Status", "code": error.status, "reason": error.reason}
            said["message"] = error.message
            return web.json_response(said, status=error.status or 500)

    async def _answer(self, call: Call) -> bytes:
        if call.path.startswith(LEASES):
            return await self.lease.do(call, self.fault())
        if call.path.endswith("/tokenreviews"):
            return self._review(orjson.loads(call.body or b"")["spec"])
        if call.path.startswith(MAPS) and "fieldSelector" not in call.query:
            return await self.maps.call(call)
        kinds = {"nodes": "NodeList", "pods": "PodList", "configmaps": "ConfigMapList"}
        kind = kinds.get(call.path.rpartition("/")[2])
        if kind is None:
            raise KubeError("there is no such kind", status=404)
        items = (
            [node_manifest(name, gpus=1, metadata={"uid": f"uid-{name}"}) for name in self.nodes]
            if kind == "NodeList"
            else []
        )
        return orjson.dumps({"kind": kind, "metadata": {"resourceVersion": "1"}, "items": items})

    def _review(self, spec: dict[str, Any]) -> bytes:
        """Whose a token is: `accounts` says so of those that name the right audience."""
        self.reviews += 1
        user = self.accounts.get(spec["token"])
        status = {"authenticated": user is not None, "audiences": spec["audiences"]}
        user_said = {"username": user} if user is not None else {}
        return orjson.dumps({"kind": "TokenReview", "status": {**status, "user": user_said}})


@asynccontextmanager
async def installation(home: Path) -> AsyncIterator[Installation]:
    """An API server that no master asked yet."""
    made = Installation(home)
    async with serving(made.handle) as url:
        made.kubeconfig = str(kubeconfig(home, url))
        (home / "replica-token").write_text("shared-by-masters")
        yield made


async def leads(master: Master) -> None:
    """Returns when the master leads."""
    await eventually(lambda: master.service.replica.role.acts)


async def becomes(holds: Callable[[], Awaitable[bool]]) -> None:
    """Returns when it holds; each look is a call or more, so it does not look too often."""

    async def looked() -> bool:
        if await holds():
            return True
        await asyncio.sleep(LOOK_S)
        return False

    await eventually(looked)


async def follows(follower: Master, leader: Master) -> None:
    """Returns when the follower shows what the leader shows."""

    async def same() -> bool:
        ours, theirs = [await each.get("/node_group") for each in (follower, leader)]
        return ours.status == theirs.status == 200 and ours.body == theirs.body

    await becomes(same)
