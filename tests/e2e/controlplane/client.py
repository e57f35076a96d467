"""A plain client of the API server for tests: it shares no line with the product's."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml
from aiohttp import ClientError, ClientSession, ClientTimeout, StreamReader, TCPConnector

from tests.support.waiting import CEILING_S, eventually

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
_LINE_BYTES = 4 << 20
"""An object of a watch is one line."""
_ANSWER_S = 20.0
"""A request that hangs is sent again: one lost answer does not cost a test its whole patience."""
_AGAIN_S = 0.05
_GONE, _CONFLICT, _INVALID = 404, 409, 422
_NOT_YET = 429
"""A server that has just started asks to wait until it has read the store."""
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Access:
    """Who speaks to which API server: what a kubeconfig says."""

    server: str
    ca: Path
    token: str

    def kubeconfig(self, path: Path) -> Path:
        """Writes this as a kubeconfig file, which only its owner can read."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "clusters": [
                {
                    "name": "e2e",
                    "cluster": {"server": self.server, "certificate-authority": str(self.ca)},
                }
            ],
            "users": [{"name": "e2e", "user": {"token": self.token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document))
        return path


class ApiError(Exception):
    """An answer that is no 2xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status

    @property
    def is_of_policy(self) -> bool:
        """Whether the chart's policy refuses, in the words of one of its messages.

        An expression that cannot be evaluated refuses, too, and says that instead.
        """
        return self.status == _INVALID and " denied request: topo-master " in str(self)


class Api:
    """Calls by method and path, as `curl` would make them."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.warnings: list[str] = []
        """What the last answer warned of."""
        tls = ssl.create_default_context(cafile=str(access.ca))
        self._session = ClientSession(
            connector=TCPConnector(ssl=tls, limit=32),
            timeout=ClientTimeout(total=None, sock_connect=_ANSWER_S, sock_read=_ANSWER_S),
            read_bufsize=_LINE_BYTES,
            headers={"Authorization": f"Bearer {access.token}"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> Any:
        """The answer's document, once the server takes the call; raises `ApiError` if refused."""
        async with asyncio.timeout(CEILING_S):
            while True:
                try:
                    async with self._session.request(
                        method,
                        self._access.server + path,
                        data=None if body is None else json.dumps(body),
                        params=query,
                        headers={"Content-Type": content_type, "Accept": accept},
                    ) as answer:
                        text = await answer.text()
                        self.warnings = answer.headers.getall("Warning", [])
                except TimeoutError:
                    if method == "POST":  # it may have made what would be made twice
                        raise
                    continue
                if answer.status != _NOT_YET:
                    break
                await asyncio.sleep(_AGAIN_S)
        if not answer.ok:
            raise ApiError(answer.status, text[:1000])
        return json.loads(text) if text.startswith("{") else text

    async def get(self, path: str, **query: str) -> Any:
        """The object, or the list, of this path."""
        return await self.call("GET", path, **query)

    async def items(self, path: str, **query: str) -> list[Any]:
        """The objects of a list."""
        found: list[Any] = (await self.get(path, **query))["items"]
        return found

    async def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """The object as the server made it of this body; `path` is that of the collection."""
        return await self.call("POST", path, body)

    async def namespace(self, name: str, **labels: str) -> None:
        """Makes a namespace, and returns when its pods have the account without which none is made.

        A controller makes it a moment later, on a busy machine a long one.
        """
        await self.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        await eventually(lambda: self._is_there(f"{accounts}/default"))

    async def _is_there(self, path: str) -> bool:
        try:
            await self.get(path)
        except ApiError as error:
            if error.status != _GONE:
                raise
            return False
        return True

    async def merge(self, path: str, body: Mapping[str, Any]) -> Any:
        """The object after a JSON merge patch (RFC 7396)."""
        return await self.call("PATCH", path, body, content_type=MERGE)

    async def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> Any:
        """The object after a server-side apply that takes all its fields over."""
        return await self.call(
            "PATCH", path, body, content_type=APPLY, fieldManager=manager, force="true"
        )

    async def delete(
        self, path: str, *, grace_s: int | None = None, uid: str | None = None
    ) -> None:
        """Asks for the end of the object, or of all that a collection holds; absent is fine.

        With a uid it is that object's end: another one of the name stays.
        """
        body: dict[str, Any] = {"propagationPolicy": "Background"}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            await self.call("DELETE", path, body)
        except ApiError as error:
            is_another = uid is not None and error.status == _CONFLICT
            if error.status != _GONE and not is_another:
                raise

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[AsyncIterator[Any]]:
        """The events of a watch, {type, object}; without a version those of what is there first."""
        async with self._session.get(
            self._access.server + path,
            params={"watch": "true", **query},
            timeout=ClientTimeout(total=None, sock_connect=_ANSWER_S),
        ) as answer:
            if not answer.ok:
                raise ApiError(answer.status, (await answer.text())[:1000])
            yield _events(answer.content)


async def follow(api: Api, path: str) -> AsyncIterator[Mapping[str, Any]]:
    """All objects of a collection by uid, anew after each change, whatever the server suffers."""
    while True:
        with suppress(ApiError, ClientError, OSError):
            listed = await api.get(path)
            objects = {each["metadata"]["uid"]: each for each in listed["items"] or ()}
            yield objects
            version = listed["metadata"]["resourceVersion"]
            async with api.watch(path, resourceVersion=version) as events:
                async for event in events:
                    if event["type"] == "ERROR":
                        break
                    uid = event["object"]["metadata"]["uid"]
                    if event["type"] == "DELETED":
                        objects.pop(uid, None)
                    else:
                        objects[uid] = event["object"]
                    yield objects
        await asyncio.sleep(_AGAIN_S)


async def _events(lines: StreamReader) -> AsyncIterator[Any]:
    async for line in lines:
        yield json.loads(line)
