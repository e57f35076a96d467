"""Jobs that get no groups, or none yet: the master reports a true reason for each.

One of each kind in turn: pods that may run on one cordoned node alone, a pod without a job, a size
that no groups can have, and a job of which a rank ends while the others run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.kwok import COMPLETE
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.jobs import GPU, NODES, PODS, WORDS, events_of, is_reviewed, owner_of
from tests.support.waiting import eventually

GangOf = Callable[[str], Awaitable[dict[str, Any]]]
"""What the master says of a job by its name; empty where it says nothing."""
_PAIR = 2
_AGAIN_S = 5.0


class OddJobs:
    """Creates an odd job, waits until the master reports it truly, and removes it."""

    def __init__(self, api: Api, collection: str, job: Callable[..., Any], gang_of: GangOf) -> None:
        self._api, self._collection, self._job, self._gang_of = api, collection, job, gang_of
        self.seen = 0

    async def try_next(self) -> None:
        """One kind; raises `AssertionError` where something untrue is told."""
        kinds = (self._pinned, self._bare, self._unfit, self._ended)
        kind = kinds[self.seen % len(kinds)]
        self.seen += 1
        name = f"odd-{self.seen}"
        try:
            await kind(name)
        finally:
            await self._remove(name)

    async def _pinned(self, name: str) -> None:
        """Its pods name a node that takes none: no plan is made, and it is not told as bound."""
        node = (await self._api.items(NODES))[0]["metadata"]["name"]
        await self._api.merge(f"{NODES}/{node}", {"spec": {"unschedulable": True}})
        try:
            job = self._job(name, _PAIR, 16)
            for template in templates(job):
                template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
            await self._create(job)
            await self._until_told(name, "GangNotPlaced", "name their nodes themselves")
            assert "GangBound" not in await events_of(self._api, name)
        finally:
            await self._api.merge(f"{NODES}/{node}", {"spec": {"unschedulable": None}})

    async def _bare(self, name: str) -> None:
        """A pod of no job: its Event says which pods get groups."""
        container = {
            "name": "main",
            "image": "alpine:3.19",
            "resources": {"limits": {GPU: "8"}, "requests": {GPU: "8"}},
        }
        metadata = {"name": name, "annotations": {WORDS.size: "16"}}
        await self._api.create(PODS, {"metadata": metadata, "spec": {"containers": [container]}})
        await self._until_told(name, "GangUngrouped", "pods without a job get none")

    async def _unfit(self, name: str) -> None:
        """A size that is no multiple of a pod's GPUs."""
        await self._create(self._job(name, _PAIR, 12))
        await self._until_told(name, "GangUngrouped", "12 is not a multiple of the 8 GPUs of a pod")

    async def _ended(self, name: str) -> None:
        """One of its ranks has ended: it is no missing pod."""
        await self._create(self._job(name, _PAIR, 16))
        state = await self._until(name, {"bound", "no-room", "behind", "never-fits"})
        if state != "bound":
            return
        first = next(pod for pod in await self._pods(name) if asking.rank_of(pod) == 0)
        patch = {"metadata": {"annotations": {COMPLETE: "true"}}}
        path = f"{PODS}/{first['metadata']['name']}"
        await self._api.merge(path, patch)

        async def is_seen() -> bool:
            """The master counts one pod less; then nothing is missing and nothing waits."""
            gang = await self._gang_of(name)
            if gang.get("bound") != 1:
                return False
            assert gang["state"] == "bound", f"{name}: {gang['text']}"
            return True

        await eventually(is_seen)

    async def _create(self, job: Any) -> None:
        """The job, once a master has reviewed it."""
        made = await self._api.create(self._collection, job)
        while not is_reviewed(made):
            await self._remove(job["metadata"]["name"])
            await asyncio.sleep(_AGAIN_S)
            made = await self._api.create(self._collection, job)

    async def _until(self, name: str, states: set[str]) -> str:
        """Return the first of these states that is told of a job, and goes on to be."""
        found = ""

        async def is_so() -> bool:
            nonlocal found
            found = str((await self._gang_of(name)).get("state", ""))
            return found in states

        await eventually(is_so)
        assert found != "bound" or all(
            "nodeName" in pod["spec"] for pod in await self._pods(name)
        ), f"{name} is said to be bound, and a pod of it waits"
        return found

    async def _until_told(self, name: str, reason: str, text: str) -> None:
        async def is_told() -> bool:
            return text in (await events_of(self._api, name)).get(reason, "")

        await eventually(is_told)

    async def _pods(self, name: str) -> list[Any]:
        pods = await self._api.items(PODS)
        return [pod for pod in pods if name in {owner_of(pod), pod["metadata"]["name"]}]

    async def _remove(self, name: str) -> None:
        await self._api.delete(f"{self._collection}/{name}")
        while pods := await self._pods(name):
            ends = (
                self._api.delete(f"{PODS}/{pod['metadata']['name']}", grace_s=0) for pod in pods
            )
            await asyncio.gather(*ends)


def templates(job: Any) -> Iterator[Any]:
    """Yield the pod templates of a job of Volcano or of Kubernetes."""
    spec = job["spec"]
    yield from (task["template"] for task in spec.get("tasks", ()))
    if "template" in spec:
        yield spec["template"]
