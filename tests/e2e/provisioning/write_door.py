"""A webhook of the test that sees each write of the masters before the store does."""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.support.waiting import eventually
from topo.kit.tls import server_context
from topo.sim.certificates import Authority

_AT = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_NAME, _OCTET, _HTTPS = "write-door.example.com", 205, 443
Write = Any
"""The `request` of an AdmissionReview."""


class WriteDoor:
    """Lets writes pass; at the first one that is awaited it does an act, and then passes it or not.

    So the act comes between two writes, however fast the writer is. A write that does not pass is
    as one that never arrived: who sent it is dead by then.
    """

    def __init__(self) -> None:
        self._awaited: Callable[[Write], bool] = lambda _: False
        self._act: Callable[[], Awaitable[None]] | None = None
        self._passes = True
        self.has_acted = False
        """Whether the awaited write came, and what was to be done then is done."""
        self.seen = 0
        """Writes of the masters."""

    def await_write(
        self, is_it: Callable[[Write], bool], act: Callable[[], Awaitable[None]], *, passes: bool
    ) -> None:
        """Do the act at the next write that is this one."""
        self._awaited, self._act, self._passes = is_it, act, passes
        self.has_acted = False

    async def review(self, request: web.Request) -> web.Response:
        """Answer one AdmissionReview."""
        asked = (await request.json())["request"]
        self.seen += 1
        is_allowed = True
        if self._act is not None and self._awaited(asked):
            act, self._act = self._act, None
            await act()
            self.has_acted = True
            is_allowed = self._passes
        answer = {"uid": asked["uid"], "allowed": is_allowed}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return web.json_response({**review, "response": answer})


@asynccontextmanager
async def write_door(cluster: Cluster, api: Api, account: str) -> AsyncIterator[WriteDoor]:
    """What an account writes in ConfigMaps and in the status of requests comes by this door."""
    authority, door = Authority.at(cluster.files.home / "pki"), WriteDoor()
    address = f"{cluster.ports.services}.{_OCTET}"
    tls = server_context(*authority.leaf("write-door", address))
    app = web.Application(client_max_size=8 << 20)
    app.router.add_post("/", door.review)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, _HTTPS, ssl_context=tls).start()
        trusted = base64.b64encode(authority.certificate_file.read_bytes()).decode()
        await api.create(_AT, _configuration(f"https://{address}/", trusted, account))
        await eventually(lambda: door.seen > 0)  # leaders that are idle save now and then
        yield door
    finally:
        await api.delete(f"{_AT}/{_NAME}")
        await runner.cleanup()


def _configuration(url: str, trusted: str, account: str) -> Any:
    def rule(group: str, resource: str) -> Any:
        return {
            "apiGroups": [group],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": [resource],
        }

    webhook = {
        "name": _NAME,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 30,
        "clientConfig": {"url": url, "caBundle": trusted},
        "rules": [
            rule("", "configmaps"),
            rule("autoscaling.x-k8s.io", "provisioningrequests/status"),
        ],
        "matchConditions": [
            {"name": "masters", "expression": f"request.userInfo.username == '{account}'"}
        ],
    }
    return {"metadata": {"name": _NAME}, "webhooks": [webhook]}
