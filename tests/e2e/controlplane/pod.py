"""A pod whose containers are real processes, and what a kubelet says of it."""

import asyncio
import datetime as dt
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import ClientSession, TCPConnector

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.container import Container
from tests.e2e.controlplane.core import LOOPBACK
from tests.e2e.controlplane.volumes import materialise

_RESTART_S = 0.2
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
        self._address = node.address
        metadata = pod["metadata"]
        self.path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._ready: set[str] = set()
        self._codes: dict[str, int] = {}
        seen = {**pod, "status": {"podIP": self.listens_at, "hostIP": LOOPBACK}}
        spec = pod["spec"]
        self._first = [
            Container(seen, each, folder, node.hardware) for each in spec.get("initContainers", ())
        ]
        self._containers = [
            Container(seen, each, folder, node.hardware) for each in spec["containers"]
        ]

    @property
    def node(self) -> str:
        """The node that it is bound to."""
        name: str = self._pod["spec"]["nodeName"]
        return name

    @property
    def listens_at(self) -> str:
        """The address that its processes listen on."""
        return listening_address(self._address)

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

    async def run(self, variables: Mapping[str, str], hosts: str) -> None:
        """Runs its containers until they have ended for good; restarts those that must not end."""
        (self._folder / "volumes").mkdir(parents=True)
        (self._folder / "hosts").write_text(hosts)
        await materialise(self._api, self._pod, self._folder / "volumes", self._node.host)
        for each in self._first:
            if await each.run({**variables, **await each.variables(self._api)}) != 0:
                await self._tell("Failed")
                return
        await self._tell("Running")
        async with ClientSession(connector=TCPConnector(ssl=False)) as session:
            probing = [asyncio.create_task(self._probe(session, each)) for each in self._containers]
            try:
                async with asyncio.TaskGroup() as group:
                    for each in self._containers:
                        group.create_task(self._keep(each, variables))
            finally:
                for task in probing:
                    task.cancel()
                await asyncio.gather(*probing, return_exceptions=True)
        await self._tell("Failed" if any(self._codes.values()) else "Succeeded")

    async def end(self) -> None:
        """Ends its processes as its spec asks, and says that it is gone."""
        grace_s = self._pod["spec"].get("terminationGracePeriodSeconds", _GRACE_S)
        self._ready.clear()
        await asyncio.gather(*(each.end(grace_s) for each in self._containers))

    async def _keep(self, container: Container, variables: Mapping[str, str]) -> None:
        policy = self._pod["spec"].get("restartPolicy", "Always")
        own = await container.variables(self._api)
        while True:
            code = await container.run({**variables, **own})
            self._codes[container.name] = code
            if policy == "Never" or (policy == "OnFailure" and code == 0):
                return
            container.restarts += 1
            self._ready.discard(container.name)
            await self._tell("Running")
            await asyncio.sleep(_RESTART_S)

    async def _probe(self, session: ClientSession, container: Container) -> None:
        """Keeps saying whether the container is ready."""
        while not await container.passes(session, "startupProbe", if_absent=True):
            await asyncio.sleep(_FAST_S)
        while True:
            ready = await container.passes(session, "readinessProbe", if_absent=True)
            if container.pid is None:
                ready = False
            if ready != (container.name in self._ready):
                (self._ready.add if ready else self._ready.discard)(container.name)
                await self._tell("Running")
            period_s = container.setting("readinessProbe", "periodSeconds", 10)
            await asyncio.sleep(period_s if ready else _FAST_S)

    async def _tell(self, phase: str) -> None:
        """Writes the pod's status; a pod that is gone needs none."""
        with suppress(ApiError):
            await self._api.merge(f"{self.path}/status", {"status": self._status(phase)})

    def _status(self, phase: str) -> Any:
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = phase == "Running" and len(self._ready) == len(self._containers)
        states = {
            "Initialized": True,
            "ContainersReady": ready,
            "Ready": ready,
            "PodScheduled": True,
        }
        return {
            "phase": phase,
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "hostIP": LOOPBACK,
            "hostIPs": [{"ip": LOOPBACK}],
            "startTime": self._pod["metadata"]["creationTimestamp"],
            "conditions": [
                {"type": name, "status": str(held), "lastTransitionTime": now}
                for name, held in states.items()
            ],
            "containerStatuses": [
                self._container_status(each, phase, now) for each in self._containers
            ],
        }

    def _container_status(self, container: Container, phase: str, now: str) -> Any:
        code = self._codes.get(container.name)
        ended = {
            "exitCode": code,
            "finishedAt": now,
            "reason": "Completed" if code == 0 else "Error",
        }
        spec = next(s for s in self._pod["spec"]["containers"] if s["name"] == container.name)
        state = {"running": {"startedAt": now}} if phase == "Running" else {"terminated": ended}
        return {
            "name": container.name,
            "image": spec["image"],
            "imageID": "",
            "ready": container.name in self._ready,
            "restartCount": container.restarts,
            "state": state,
        }
