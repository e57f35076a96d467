"""Calls to a simulated API server without a socket, in few words."""

import itertools
from typing import Any

import orjson

from topo.sim.kubernetes.apiserver.api import Api, ApiRequest
from topo.sim.kubernetes.apiserver.statuses import RefusedError
from topo.sim.kubernetes.apiserver.store import ObjectStore

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/jobs/pods"
GATE = {"name": "example.com/gate"}


def api() -> Api:
    """A server without webhooks; its clock stands and its uids count."""
    numbers = itertools.count(1)
    return Api(ObjectStore(lambda: "2026-01-02T03:04:05Z", lambda: f"{next(numbers):05}-uid"))


async def call(
    server: Api, method: str, path: str, body: Any = None, *, as_: str = "", **query: str
) -> Any:
    """The answer to one call; `as_` is the content type of a patch."""
    content = None if body is None else orjson.dumps(body)
    request = ApiRequest(
        method=method, path=path, query=query, body=content, content_type=as_ or "application/json"
    )
    return await server.answer(request)


async def refusal(server: Api, *arguments: Any, **more: Any) -> RefusedError:
    """Why the server refuses a call."""
    try:
        answer = await call(server, *arguments, **more)
    except RefusedError as error:
        return error
    raise AssertionError(f"it was not refused: {answer}")


def pod(name: str, *, gated: bool = False, gpus: int = 8, **spec: Any) -> dict[str, Any]:
    """A pod as a user writes it."""
    limits = {"metax-tech.com/gpu": str(gpus)}
    gates = {"schedulingGates": [GATE]} if gated else {}
    container = {"name": "main", "resources": {"limits": limits}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **gates, **spec}}


def node(name: str, gpus: int = 8, **labels: str) -> dict[str, Any]:
    """A node with GPUs."""
    allocatable = {"metax-tech.com/gpu": str(gpus), "pods": "110"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}
