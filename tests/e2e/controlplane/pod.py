"""A pod whose containers are real processes, and what a kubelet says of it."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import ClientError, ClientSession, TCPConnector

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.container import Container
from tests.e2e.controlplane.core import LOOPBACK
from tests.e2e.controlplane.pod_status import PodStatus, path_of
from tests.e2e.controlplane.tasks import ended
from tests.e2e.controlplane.volumes import materialise

_Variables = Mapping[str, Mapping[str, str]]
_AGAIN_S = 0.2
_FAST_S = 0.2
"""Between two askings of a probe that has not passed yet, whatever its period: a test waits."""
_GRACE_S = 30.0


def listening_address(pod_address: str) -> str:
    """Where the processes of a pod listen. An endpoint may not be a loopback address, so a pod at
    10.a.b.c, which no interface has, is played at 127.a.b.c, which every Linux has.
    """
    return "127." + pod_address.partition(".")[2]


class NodePlace(NamedTuple):
    """What a node gives a pod: an address, the folders of the host, the recording of its GPUs."""

    address: str
    host: Path
    hardware: Path | None


class PodProcess:
    """One pod from its start to its end; `run` is its whole life."""

    def __init__(self, api: Api, pod: Any, folder: Path, node: NodePlace) -> None:
        self._api, self._pod, self._folder, self._node = api, pod, folder, node
        self._is_ending = False
        self.path = path_of(pod)
        seen = {**pod, "status": {"podIP": self.listens_at, "hostIP": LOOPBACK}}
        spec = pod["spec"]
        self._first = [
            Container(seen, each, folder, node.hardware) for each in spec.get("initContainers", ())
        ]
        self._containers = [
            Container(seen, each, folder, node.hardware) for each in spec["containers"]
        ]
        self._status = PodStatus(api, pod, node.address, self._containers)

    @property
    def node(self) -> str:
        """The node that it is bound to."""
        name: str = self._pod["spec"]["nodeName"]
        return name

    @property
    def listens_at(self) -> str:
        """The address that its processes listen on."""
        return listening_address(self._node.address)

    @property
    def pids(self) -> list[int]:
        """The numbers of its running processes."""
        return [pid for each in self._containers if (pid := each.pid) is not None]

    @property
    def restarts(self) -> int:
        """How often its containers were started again."""
        return sum(each.restarts for each in self._containers)

    @property
    def log(self) -> str:
        """What its containers wrote."""
        logs = (each.log for each in self._containers)
        return "".join(log.read_text() for log in logs if log.exists())

    def observe(self, pod: Any) -> None:
        """The API server has this object of it."""
        self._status.observe(pod)

    async def run(self, variables: Mapping[str, str], hosts: Callable[[], Awaitable[str]]) -> None:
        """Runs its containers until they have ended for good; restarts those that must not end.

        `hosts` gives the text of its hosts file.
        """
        own = await self._prepare(variables, hosts)
        telling = asyncio.create_task(self._status.run())
        try:
            for each in self._first:
                if await each.run(own[each.name]) != 0:
                    await self._status.is_over(failed=True)
                    return
            self._status.runs()
            await self._serve(own)
            await self._status.is_over()
        finally:
            await ended([telling])

    async def end(self) -> None:
        """Ends its processes as its spec asks, and for good."""
        self._is_ending = True
        grace_s = self._pod["spec"].get("terminationGracePeriodSeconds", _GRACE_S)
        await asyncio.gather(*(each.end(grace_s) for each in (*self._first, *self._containers)))

    async def _prepare(
        self, variables: Mapping[str, str], hosts: Callable[[], Awaitable[str]]
    ) -> _Variables:
        """Makes its files; the variables of each container by its name."""
        while True:
            try:
                shutil.rmtree(self._folder, ignore_errors=True)
                (self._folder / "volumes").mkdir(parents=True)
                (self._folder / "hosts").write_text(await hosts())
                await materialise(self._api, self._pod, self._folder / "volumes", self._node.host)
                return {
                    each.name: {**variables, **await each.variables(self._api)}
                    for each in (*self._first, *self._containers)
                }
            except (ApiError, ClientError, OSError):  # it comes: an object, the server
                await asyncio.sleep(_AGAIN_S)

    async def _serve(self, own: _Variables) -> None:
        async with ClientSession(connector=TCPConnector(ssl=False)) as session:
            probing = [asyncio.create_task(self._probe(session, each)) for each in self._containers]
            try:
                async with asyncio.TaskGroup() as group:
                    for each in self._containers:
                        group.create_task(self._keep(each, own[each.name]))
            finally:
                await ended(probing)

    async def _keep(self, container: Container, variables: Mapping[str, str]) -> None:
        policy = self._pod["spec"].get("restartPolicy", "Always")
        while not self._is_ending:
            code = await container.run(variables)
            self._status.ended(container, code)
            if policy == "Never" or (policy == "OnFailure" and code == 0):
                return
            if not self._is_ending:
                container.restarts += 1
                self._status.runs()
                await asyncio.sleep(_AGAIN_S)

    async def _probe(self, session: ClientSession, container: Container) -> None:
        """Keeps saying whether the container is ready."""
        while not await container.passes(session, "startupProbe", if_absent=True):
            await asyncio.sleep(_FAST_S)
        while True:
            passes = await container.passes(session, "readinessProbe", if_absent=True)
            ready = passes and container.pid is not None
            self._status.is_ready(container, ready)
            period_s = container.setting("readinessProbe", "periodSeconds", 10)
            await asyncio.sleep(period_s if ready else _FAST_S)
