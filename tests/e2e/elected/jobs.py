"""Jobs with groups that come and go, and a watch of their pods that tells the history."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.chaos.model.pod_history import PodHistory, PodVersion
from tests.chaos.notes import Notes
from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.scheduling.asking import rank_of
from tests.e2e.scheduling.jobs import GATE, GPU, JOBS, PODS, WORDS, owner_of, volcano_job

_PAIR = 2
_MOST = 6
"""Jobs that are there at once: more than the nodes take beside the holds."""
_OVER = frozenset({"Succeeded", "Failed"})


class Jobs:
    """Creates and deletes Volcano Jobs of pairs until cancelled."""

    def __init__(self, api: Api, history: PodHistory, notes: Notes, seed: int) -> None:
        self._api, self._history, self._notes = api, history, notes
        self._chance = random.Random(f"jobs/{seed}")  # noqa: S311
        self._count = 0
        self.present: dict[str, str] = {}
        """Names of the jobs that are there, with their uids."""
        self.sizes: dict[str, int] = {}
        """The pods of each job."""

    async def run(self) -> None:
        while True:
            if len(self.present) < _MOST:
                await self.create()
            elif self._chance.random() < 0.5:
                await self.delete(self._chance.choice(list(self.present)))
            await asyncio.sleep(self._chance.uniform(0.2, 2))

    async def create(self) -> None:
        self._count += 1
        name = f"elected-{self._count}"
        pods = _PAIR * self._chance.randint(1, 3)
        made = await self._api.create(JOBS, volcano_job(name, pods, 16))
        self.present[name], self.sizes[name] = made["metadata"]["uid"], pods

    async def delete(self, name: str) -> None:
        """A job goes: from the request on its GPUs may be another's."""
        self._history.leaving.add(self.present.pop(name))
        await self._api.delete(f"{JOBS}/{name}")
        which = {"labelSelector": f"volcano.sh/job-name={name}", "gracePeriodSeconds": "0"}
        await self._api.call("DELETE", PODS, **which)

    async def bound(self) -> Counter[str]:
        """How many pods of each job are bound."""
        pods = await self._api.items(PODS)
        owners = (owner_of(pod) for pod in pods if "nodeName" in pod["spec"])
        return Counter(job for job in owners if job in self.present)


async def follow_pods(
    api: Api, history: PodHistory, notes: Notes, now: Callable[[], float]
) -> None:
    """Judge every version of every pod with groups that a watch shows; never ends."""
    version = (await api.get(PODS))["metadata"]["resourceVersion"]
    while True:
        try:
            async with api.watch(PODS, resourceVersion=version) as events:
                async for event in events:
                    pod = event["object"]
                    if event["type"] == "ERROR":
                        raise ApiError(410, json.dumps(pod))
                    version = pod["metadata"]["resourceVersion"]
                    found = seen(pod, is_gone=event["type"] == "DELETED", seen_s=now())
                    if found is not None:
                        notes.judged("versions of pods", history.see(found))
        except (OSError, TimeoutError):
            continue  # the same version is watched on: none is missed


def seen(pod: Any, *, is_gone: bool, seen_s: float) -> PodVersion | None:
    """A pod with groups as the model knows it; None for another pod."""
    metadata, spec = pod["metadata"], pod["spec"]
    owner = next((each for each in metadata.get("ownerReferences", ())), None)
    annotations = metadata.get("annotations", {})
    if owner is None or WORDS.size not in annotations:
        return None
    note = json.loads(annotations.get(WORDS.placement, "{}"))
    return PodVersion(
        uid=metadata["uid"],
        gang=owner["uid"],
        group=rank_of(pod) // _PAIR,
        gpus=int(spec["containers"][0]["resources"]["limits"][GPU]),
        seen_s=seen_s,
        node=spec.get("nodeName", ""),
        planned=note.get("node", ""),
        gated=GATE in spec.get("schedulingGates", ()),
        is_over=is_gone or pod["status"].get("phase") in _OVER,
    )
