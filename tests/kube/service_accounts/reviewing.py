"""Tokens of service accounts, and an API server that says whose they are, as the real one does."""

import asyncio
import base64
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from master.kube.client import Call
from master.kube.errors import KubeError, error_of_answer
from master.kube.service_accounts.accounts import Wanted

AUDIENCE = "topo-master"
WORKERS = Wanted(account="topo:topo-worker", audience=AUDIENCE, on_node=True)
PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
NODE = "authentication.kubernetes.io/node-name"
END_S = 3600.0
"""When a token ends; the tests' wall clock begins at 0."""


def token(
    node: str | None = "node-1",
    *,
    audience: Any = (AUDIENCE,),
    account: str = "topo:topo-worker",
    ends_s: float = END_S,
    number: int = 0,
) -> str:
    """A token that says this of itself; the signature is for the API server to judge."""
    bound: dict[str, Any] = {"pod": {"name": "topo-worker-x", "uid": "1"}}
    if node is not None:
        bound["node"] = {"name": node, "uid": "2"}
    claims = {
        "aud": list(audience) if isinstance(audience, tuple) else audience,
        "exp": ends_s,
        "jti": str(number),
        "sub": f"system:serviceaccount:{account}",
        "kubernetes.io": bound,
    }
    return ".".join(_part(part) for part in ({"alg": "RS256"}, claims, {"signed": True}))


def _part(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def claims(text: str) -> dict[str, Any]:
    """What a token says of itself."""
    payload = text.split(".")[1]
    found: dict[str, Any] = json.loads(
        base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    )
    return found


def review(**status: Any) -> dict[str, Any]:
    """A `TokenReview` as it is answered."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}


Spoilt = tuple[int, bytes]
"""A status and a body."""


@dataclass
class Reviewer:
    """An API server that knows tokens. `revoked` are those that it refuses.

    `spoilt` is answered instead; while `held` is there and not set, nothing is answered.
    """

    asked: list[str] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)
    spoilt: Spoilt | None = None
    held: asyncio.Event | None = None
    at_once: int = 0
    most_at_once: int = 0

    async def call(self, call: Call) -> bytes:
        """As `KubeClient.call`, without a socket."""
        assert (call.method, call.path) == ("POST", PATH)
        assert call.body is not None
        try:
            async with asyncio.timeout(call.timeout_s):
                status, body = await self.answer(call.body)
        except TimeoutError:
            raise KubeError("nothing came in time") from None
        if status >= 300:
            raise error_of_answer(status, {}, body)
        return body

    async def handle(self, request: web.Request) -> web.Response:
        """On a socket: any request."""
        assert (request.method, request.path) == ("POST", PATH)
        status, body = await self.answer(await request.read())
        return web.Response(status=status, body=body, content_type="application/json")

    async def answer(self, body: bytes) -> Spoilt:
        """What is answered, when it is time."""
        spec = json.loads(body)["spec"]
        self.asked.append(spec["token"])
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            if self.held is not None:
                await self.held.wait()
        finally:
            self.at_once -= 1
        if self.spoilt is not None:
            return self.spoilt
        return 201, json.dumps(self.judged(spec["token"], spec["audiences"])).encode()

    def judged(self, text: str, audiences: list[str]) -> dict[str, Any]:
        """What the real one says of the token."""
        said = claims(text)
        wanted = [each for each in audiences if each in said["aud"]]
        if text in self.revoked or not wanted:
            why = "[invalid bearer token, service account token has been invalidated]"
            return review(user={}, error=why)
        node = said["kubernetes.io"].get("node")
        extra = {"authentication.kubernetes.io/pod-name": ["topo-worker-x"]}
        if node is not None:
            extra[NODE] = [node["name"]]
        groups = ["system:serviceaccounts", "system:authenticated"]
        user = {"username": said["sub"], "uid": "3", "groups": groups, "extra": extra}
        return review(authenticated=True, user=user, audiences=wanted)
