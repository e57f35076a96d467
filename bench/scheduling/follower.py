"""A second client that follows all pods by one watch and notes when each step of each was seen."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from bench.scale import CannotRunError
from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.asking import rank_of
from tests.e2e.scheduling.jobs import WORDS

PODS = "/api/v1/pods"


@dataclass(slots=True)
class PodTimes:
    """When steps of a pod were seen, in monotonic seconds; None for one that did not come yet."""

    rank: int
    there_s: float
    nominated_s: float | None = None
    opened_s: float | None = None
    bound_s: float | None = None
    node: str = ""


class Follower:
    """Follows from the beginning of its block to the end."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._jobs: dict[str, dict[str, PodTimes]] = {}
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def pods(self, job: str) -> Mapping[str, PodTimes]:
        """The pods there are of the job of this uid."""
        return self._jobs.get(job, {})

    def bound(self, job: str) -> int:
        """How many pods of the job are bound."""
        return sum(1 for pod in self.pods(job).values() if pod.bound_s is not None)

    async def until(self, holds: Callable[[], bool], limit_s: float) -> bool:
        """Whether it holds within this time; looked at after each event."""
        end_s = time.monotonic() + limit_s
        while not holds():
            if self._task.done():
                raise CannotRunError("the watch of the pods has ended")
            self._changed.clear()
            try:
                async with asyncio.timeout(end_s - time.monotonic()):
                    await self._changed.wait()
            except TimeoutError:
                return False
        return True

    async def _follow(self) -> None:
        """The API server ends the watch of a client too busy to read: then all is listed."""
        try:
            while True:
                listed = await self._api.get(PODS)
                now_s = time.monotonic()
                there = {pod["metadata"]["uid"] for pod in listed["items"]}
                for pods in self._jobs.values():
                    for uid in pods.keys() - there:
                        del pods[uid]
                for pod in listed["items"]:
                    self._take("MODIFIED", pod, now_s)
                await self._watch(listed["metadata"]["resourceVersion"])
        finally:
            self._changed.set()

    async def _watch(self, version: str) -> None:
        async with self._api.watch(PODS, resourceVersion=version) as events:
            async for event in events:
                if event["type"] == "ERROR":
                    return
                self._take(event["type"], event["object"], time.monotonic())
                self._changed.set()

    def _take(self, kind: str, pod: Any, now_s: float) -> None:
        owners = pod["metadata"].get("ownerReferences", ())
        job = next((each["uid"] for each in owners if each.get("controller")), "")
        pods, uid = self._jobs.setdefault(job, {}), pod["metadata"]["uid"]
        if kind == "DELETED":
            pods.pop(uid, None)
            return
        known = pods.setdefault(uid, PodTimes(rank_of(pod), now_s))
        spec, status = pod["spec"], pod.get("status", {})
        gated = any(each["name"] == WORDS.gate for each in spec.get("schedulingGates", ()))
        if known.nominated_s is None and status.get("nominatedNodeName"):
            known.nominated_s = now_s
        if known.opened_s is None and not gated:
            known.opened_s = now_s
        if known.bound_s is None and spec.get("nodeName"):
            known.bound_s, known.node = now_s, spec["nodeName"]
