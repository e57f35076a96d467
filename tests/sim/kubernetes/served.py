"""A simulated cluster on a real port, and a webhook that answers as a test says."""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from tests.sim.kubernetes.calls import call
from tests.support.ports import free_ports
from topo.kit.tls import server_context
from topo.sim.certificates import Authority
from topo.sim.kubernetes.access import NAMESPACE
from topo.sim.kubernetes.access import prepare_access as prepare
from topo.sim.kubernetes.apiserver.resources import WEBHOOKS
from topo.sim.kubernetes.cluster import SimulatedCluster
from topo.sim.kubernetes.install import ADMISSION
from topo.sim.kubernetes.server import LOOPBACK, KubernetesSettings, simulated_kubernetes
from topo.sim.worlds.presets import World, world

TWO_PAIRS = world(0, 2, 2)
Answer = Callable[[Any], dict[str, Any]]


def allow(request: Any) -> dict[str, Any]:
    return {"uid": request["uid"], "allowed": True}


class Webhook:
    """Answers reviews as a test says, behind a certificate of its own authority."""

    def __init__(self, folder: Path) -> None:
        self.answer: Answer = allow
        self.reviews: list[Any] = []
        self.authority = Authority.at(folder / "webhook")
        self.other = Authority.at(folder / "another")

    async def handle(self, request: web.Request) -> web.Response:
        review = orjson.loads(await request.read())
        self.reviews.append(review)
        answer = {**review, "response": self.answer(review["request"])}
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    @asynccontextmanager
    async def served(self) -> AsyncIterator[tuple[str, int]]:
        app = web.Application()
        app.router.add_post("/admission", self.handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        tls = server_context(*self.authority.leaf("admission", f"{ADMISSION}.{NAMESPACE}.svc"))
        await web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls).start()
        try:
            yield LOOPBACK, runner.addresses[0][1]
        finally:
            await runner.cleanup()


@asynccontextmanager
async def cluster_in(
    folder: Path, webhook: Webhook, nodes: World = TWO_PAIRS, *, trusted: Authority | None = None
) -> AsyncIterator[SimulatedCluster]:
    """A cluster that trusts the webhook, or another authority."""
    async with webhook.served() as place:
        (port,) = free_ports((0,))
        folder.mkdir(exist_ok=True)
        prepare(folder, LOOPBACK, port)
        services = {(NAMESPACE, ADMISSION): place}
        settings = KubernetesSettings(
            directory=folder, nodes=nodes.nodes, port=port, services=services
        )
        async with simulated_kubernetes(settings) as cluster:
            await trust(cluster, trusted or webhook.authority)
            yield cluster


async def trust(cluster: SimulatedCluster, authority: Authority) -> None:
    bundle = base64.b64encode(authority.certificate_file.read_bytes()).decode()
    path = f"{WEBHOOKS.root}/{ADMISSION}"
    known = await call(cluster.api, "GET", path)
    trusting = [
        {"name": each["name"], "clientConfig": {"caBundle": bundle}} for each in known["webhooks"]
    ]
    asked = {"as_": "application/apply-patch+yaml", "fieldManager": "m", "force": "true"}
    await call(cluster.api, "PATCH", path, {"webhooks": trusting}, **asked)
