"""What a kubelet says of a pod: the latest status, written until the API server has it.

Others change it, too: the node lifecycle controller marks the pods of a node that it believes away
as not ready. A kubelet that sees this writes its own status again, and so does this one.
"""

import asyncio
import datetime as dt
from collections.abc import Sequence
from typing import Any

from aiohttp import ClientError

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.container import Container
from tests.e2e.controlplane.core import LOOPBACK

_AGAIN_S = 0.2
_GONE = 404


def path_of(pod: Any) -> str:
    """The path of the pod's object."""
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


class PodStatus:
    """The status of one pod at an address: what is said of it here, `run` writes."""

    def __init__(self, api: Api, pod: Any, address: str, containers: Sequence[Container]) -> None:
        self._api, self._pod, self._address, self._containers = api, pod, address, containers
        self._ready: set[str] = set()
        self._codes: dict[str, int] = {}
        self._document: Any = None
        self._untold, self._told = asyncio.Event(), asyncio.Event()

    def runs(self) -> None:
        """The pod runs; its containers are not ready yet."""
        self._tell("Running")

    def is_ready(self, container: Container, ready: bool) -> None:  # noqa: FBT001 - what was found
        """A container takes requests, or does not."""
        if ready != (container.name in self._ready):
            (self._ready.add if ready else self._ready.discard)(container.name)
            self._tell("Running")

    def ended(self, container: Container, code: int) -> None:
        """A container has ended."""
        self._codes[container.name] = code
        self._ready.discard(container.name)
        self._tell("Running")

    async def is_over(self, *, failed: bool = False) -> None:
        """The containers have ended for good; returns when that is written."""
        self._tell("Failed" if failed or any(self._codes.values()) else "Succeeded")
        await self._told.wait()

    def observe(self, pod: Any) -> None:
        """The API server has this object: what differs from what was told is told again."""
        if self._document is not None and _verdict(pod["status"]) != _verdict(self._document):
            self._untold.set()

    def _tell(self, phase: str) -> None:
        self._document = self._status(phase)
        self._told.clear()
        self._untold.set()

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            await self._untold.wait()
            self._untold.clear()
            while not await self._is_written():
                await asyncio.sleep(_AGAIN_S)
            if not self._untold.is_set():
                self._told.set()

    async def _is_written(self) -> bool:
        """Whether the status was taken, or its pod is gone."""
        try:
            await self._api.merge(f"{path_of(self._pod)}/status", {"status": self._document})
        except ApiError as error:
            return error.status == _GONE
        except (ClientError, OSError):  # the server is away: a kubelet goes on, and tells it later
            return False
        return True

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
                self._of_container(each, phase, now) for each in self._containers
            ],
        }

    def _of_container(self, container: Container, phase: str, now: str) -> Any:
        code = self._codes.get(container.name)
        ended = {
            "exitCode": code,
            "finishedAt": now,
            "reason": "Completed" if code == 0 else "Error",
        }
        state = {"running": {"startedAt": now}} if phase == "Running" else {"terminated": ended}
        return {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": container.name in self._ready,
            "restartCount": container.restarts,
            "state": state,
        }


def _verdict(status: Any) -> tuple[str, str]:
    """The phase, and whether the pod is ready."""
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return status.get("phase", ""), conditions.get("Ready", "")
