"""A kube-proxy on the loopback address: each ClusterIP and port leads to a ready endpoint."""

import asyncio
import itertools
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Self

from tests.e2e.controlplane.client import Api, follow
from tests.e2e.controlplane.kwok import REAL_PREFIX
from tests.e2e.controlplane.pod import listening_address

_CHUNK_BYTES = 1 << 16


class _Door(NamedTuple):
    """Where a Service listens, and the name of its port."""

    address: str
    port: int
    namespace: str
    service: str
    name: str


class Proxy:
    """Listens for each Service of a `real-` namespace; connections take the endpoints in turn."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._servers: dict[_Door, asyncio.Server] = {}
        self._slices: dict[str, Any] = {}
        self._turns = itertools.count()
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def run(self) -> None:
        """Follows Services and EndpointSlices; never ends."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_slices())
            group.create_task(self._follow_services())

    async def _follow_slices(self) -> None:
        async for slices in follow(self._api, "/apis/discovery.k8s.io/v1/endpointslices"):
            self._slices = dict(slices)

    async def _follow_services(self) -> None:
        async for services in follow(self._api, "/api/v1/services"):
            wanted = {door for service in services.values() for door in _doors(service)}
            for door in self._servers.keys() - wanted:
                self._servers.pop(door).close()
            for door in wanted - self._servers.keys():
                self._servers[door] = await asyncio.start_server(
                    partial(self._accept, door), door.address, door.port
                )

    def endpoints(self, door: _Door) -> list[tuple[str, int]]:
        """Where connections to this door go, in a stable order."""
        found = set()
        for each in self._slices.values():
            metadata = each["metadata"]
            owner = metadata.get("labels", {}).get("kubernetes.io/service-name")
            if (metadata["namespace"], owner) != (door.namespace, door.service):
                continue
            ports = [
                port["port"] for port in each["ports"] or () if port.get("name", "") == door.name
            ]
            for endpoint in each["endpoints"] or ():
                if endpoint["conditions"].get("ready", True):
                    addresses = (listening_address(address) for address in endpoint["addresses"])
                    found |= {(address, port) for address in addresses for port in ports}
        return sorted(found)

    async def _accept(
        self, door: _Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            endpoints = self.endpoints(door)
            if endpoints:
                chosen = endpoints[next(self._turns) % len(endpoints)]
                await _join(reader, writer, chosen)
        except (OSError, asyncio.CancelledError):
            pass  # the caller sees a closed connection, as from a node without the pod
        finally:
            self._open.discard(task)
            writer.close()


async def _join(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: tuple[str, int]
) -> None:
    from_pod, to_pod = await asyncio.open_connection(*endpoint)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, to_pod))
            group.create_task(_pump(from_pod, writer))
    except* OSError:
        pass  # one side broke off: so does the other
    finally:
        to_pod.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Passes on what comes until the end of it, and then that end."""
    while chunk := await source.read(_CHUNK_BYTES):
        target.write(chunk)
        await target.drain()
    with suppress(OSError):
        target.write_eof()


def _doors(service: Any) -> list[_Door]:
    metadata, spec = service["metadata"], service["spec"]
    address = spec.get("clusterIP", "None")
    if not metadata["namespace"].startswith(REAL_PREFIX) or address == "None":
        return []
    return [
        _Door(address, port["port"], metadata["namespace"], metadata["name"], port.get("name", ""))
        for port in spec["ports"]
    ]
