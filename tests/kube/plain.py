"""A plain HTTP server that answers as a test says, and clients of it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from master.kube.client import KubeClient
from master.kube.credentials.config import KubeConfig

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """The URL at which the handler answers every request."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


def kubeconfig(folder: Path, server: str, *, user: Any = None, cluster: Any = None) -> Path:
    """A kubeconfig file for that server; JSON is YAML."""
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return path


@asynccontextmanager
async def client_of(path: Path, **options: Any) -> AsyncIterator[KubeClient]:
    """An opened client by that kubeconfig file."""
    client = KubeClient(KubeConfig(kubeconfig=path), **options)
    await client.open()
    try:
        yield client
    finally:
        await client.close()
