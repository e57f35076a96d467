"""A client of the demo's API server, by the kubeconfig of the demo's user."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from topo.cli.demo_directory import Demo
from topo.cli.exit_codes import CliError, Exit
from topo.kit.serving.body import bounded_bytes
from topo.kit.tls import client_context
from topo.model.errors import Refusal
from topo.sim.kubernetes.access import ADMIN, KubeAccess, kubeconfig_file

NAMESPACE = "default"
"""Of the jobs that are submitted."""
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
MERGE = "application/merge-patch+json"
_MAX_ANSWER_BYTES = 64 << 20
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_WEBHOOK_TRIES, _WEBHOOK_WAIT_S = 60, 0.25
"""A master that just started has no certificate yet, and the API server asks it in vain."""
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KubernetesClient:
    """The calls that the demo's commands make; each raises `CliError`."""

    session: aiohttp.ClientSession
    server: str

    async def items(self, path: str) -> list[Document]:
        """Return all objects of a collection."""
        found: list[Document] = []
        token = ""
        while True:
            more = {"continue": token} if token else {}
            page, _ = await self._call("GET", path, query={"limit": "500", **more})
            found += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return found

    async def create(self, path: str, document: Mapping[str, Any]) -> tuple[str, ...]:
        """Create an object; return what the webhooks warn of."""
        for _ in range(_WEBHOOK_TRIES):
            try:
                return (await self._call("POST", path, document))[1]
            except _WebhookAwayError:
                await asyncio.sleep(_WEBHOOK_WAIT_S)
        what = "the master's webhook does not answer the API server, so no job can be created"
        raise CliError(Exit.FINDING, Refusal(what, self.server, "look at `topo demo status`"))

    async def merge(self, path: str, document: Mapping[str, Any]) -> None:
        """Change an object by a merge patch."""
        await self._call("PATCH", path, document, content_type=MERGE)

    async def delete(self, path: str) -> None:
        """Delete an object."""
        await self._call("DELETE", path)

    async def _call(
        self,
        method: str,
        path: str,
        document: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> tuple[Any, tuple[str, ...]]:
        """Return the document of a 2xx answer and its warnings."""
        try:
            async with self.session.request(
                method,
                self.server + path,
                params=query,
                data=None if document is None else orjson.dumps(document),
                headers={"Content-Type": content_type},
            ) as answer:
                body = await bounded_bytes(answer.content, _MAX_ANSWER_BYTES)
                found = orjson.loads(body or b"{}")
                if answer.ok:
                    return found, tuple(_texts(answer.headers.getall("Warning", ())))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            fix = "`topo demo status` says whether it runs"
            refusal = Refusal("the demo's API server does not answer", self.server, fix)
            raise CliError(Exit.UNREACHABLE, refusal) from None
        if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _WebhookAwayError
        message = str(found.get("message", answer.status))
        raise CliError(Exit.REFUSED, Refusal(message, path, "`topo demo jobs` lists what there is"))


class _WebhookAwayError(Exception):
    """The API server could not ask a webhook."""


def _texts(headers: Iterable[str]) -> Iterable[str]:
    """Yield the texts of `Warning` headers: RFC 9111 writes them as `299 - "text"`."""
    return (header.partition('"')[2].rstrip('"') for header in headers)


@asynccontextmanager
async def kubernetes(demo: Demo) -> AsyncIterator[KubernetesClient]:
    """A client while the block runs. Raises `CliError` for a demo without jobs."""
    if not demo.kubernetes:
        fix = "start it without --no-jobs"
        refusal = Refusal("this demo plays no jobs", "topo demo", fix)
        raise CliError(Exit.FINDING, refusal)
    access = KubeAccess.read(kubeconfig_file(Path(demo.kubernetes), ADMIN))
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=client_context(access.ca_file)),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Authorization": f"Bearer {access.token}", "User-Agent": "topo"},
        timeout=_TIMEOUT,
    ) as session:
        yield KubernetesClient(session, access.server)
