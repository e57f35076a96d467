"""The life of a job of one kind by one scheduler: made, scaled, a pod lost, made again."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.job_controllers import torch_runtime
from tests.e2e.controlplane.processes import Program
from tests.e2e.jobkinds.kinds import ALL, NAME, Kind, has_gpus, pod_specs, split_pairs
from tests.e2e.kueue.queues import FLAVOR, PLAIN, QUEUE_NAME, WORKLOADS
from tests.e2e.scheduling.jobs import BATCH_JOBS, PODS, WORDS
from tests.support.waiting import eventually
from topo.gangs.annotation_keys import ADMISSION_GATED_BY
from topo.sim.worlds.presets import World

HELD = "kueue-held"
"""Kueue, with jobs that are held before their quota until their groups are booked."""
QUEUES: Mapping[str, tuple[str, str]] = {
    "kueue": (PLAIN, PLAIN),
    HELD: (PLAIN, PLAIN),
    "kueue-native": ("topology", FLAVOR),
}
"""The queue that jobs of a scheduler are in, and its flavor."""
_RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
_REVIEWED = (WORDS.pods, WORDS.ungrouped, "podset-slice-size", "metax-tech.com/gangs")
"""What the webhook leaves on a job: a stamp, why there is none, slices of Kueue, or a patch."""
_POD_GROUP = "kueue.x-k8s.io/pod-group"
_HOLDS = "example.com/ends-slowly"
_REFUSED_CHANGES = re.compile(
    r'^apiserver_admission_webhook_rejection_count{.*-changed\.placement\..*"422".*} (\S+)$',
    re.MULTILINE,
)


def written(kind: Kind, scheduler: str) -> Any:
    """A job of a kind as its user writes it for a scheduler; a list of pods without one."""
    job = kind.job()
    for each in job if isinstance(job, list) else [job]:
        metadata = each["metadata"]
        if scheduler.startswith("volcano"):
            for spec in pod_specs(each):
                spec["schedulerName"] = "volcano"
        if scheduler.endswith("native"):
            metadata["annotations"][WORDS.way] = "native"
        if scheduler == "kueue-native":  # Kueue gives no flavor to pods that ask for nothing
            for spec in pod_specs(each):
                spec["containers"][0].setdefault("resources", {})["requests"] = {"cpu": "1"}
        if scheduler in QUEUES:
            labels = metadata.setdefault("labels", {})
            labels[QUEUE_NAME] = QUEUES[scheduler][0]
            if kind.name == "pods":
                labels[f"{_POD_GROUP}-name"] = NAME
                metadata["annotations"][f"{_POD_GROUP}-total-count"] = str(ALL)
    return job


@dataclass
class Life:
    """One job of a kind, as its user and its controller have it.

    `url` returns where the API of the leading master is, empty while none leads; `program` is the
    controller, None where nobody restarts it.
    """

    api: Api
    world: World
    kind: Kind
    scheduler: str
    url: Callable[[], Awaitable[str]]
    program: Program | None = None

    async def make(self, pods: int = ALL) -> None:
        """The job is created; return when so many pods are bound and its pairs are whole."""
        if self.kind.name == "trainjob":
            runtime = torch_runtime()
            if self.scheduler == "volcano":
                for spec in pod_specs(runtime):
                    spec["schedulerName"] = "volcano"
            await self.api.create(_RUNTIMES, runtime)
        job = written(self.kind, self.scheduler)
        for each in job if isinstance(job, list) else [job]:
            await eventually(partial(self._is_taken, each))
        await self.is_whole(pods)

    async def lose_a_pod(self, at: int = 0) -> None:
        """A pod goes while the controller is down; return when all is whole again.

        `at`: which of the bound ones in the order of names.
        """
        lost = [each for each in await self.pods() if self._is_bound(each)][at]
        name = lost["metadata"]["name"]
        if self.program is not None:
            await asyncio.to_thread(self.program.stop, 0.0)
        job = written(self.kind, self.scheduler)
        # kwok deletes by name what it saw end: late, it would delete the new pod of that name.
        grace_s = None if isinstance(job, list) else 0
        await self.api.delete(f"{PODS}/{name}", grace_s=grace_s)
        if self.program is not None:
            self.program.start()
        if isinstance(job, list):  # nobody makes it again but who made it
            await eventually(lambda: self._is_gone(name))
            await self.api.create(PODS, next(x for x in job if x["metadata"]["name"] == name))
        await self.is_whole(ALL, without=lost["metadata"]["uid"])

    async def fail(self) -> None:
        """A Job of a JobSet fails; return when all is whole in the pods of the next attempt."""
        lost = (await self.pods())[0]
        labels = lost["metadata"]["labels"]
        job = f"{BATCH_JOBS}/{labels['batch.kubernetes.io/job-name']}"
        await self.api.merge(job, {"spec": {"backoffLimit": 0}})
        await self.api.delete(f"{PODS}/{lost['metadata']['name']}", grace_s=0)
        await self.is_whole(ALL, without=lost["metadata"]["uid"])

        async def is_next() -> bool:
            key = "jobset.sigs.k8s.io/restart-attempt"
            found = [each["metadata"]["labels"][key] for each in await self.pods()]
            return {*found} == {str(int(labels[key]) + 1)}

        await eventually(is_next)
        await self.is_whole(ALL)

    async def apply_again(self) -> None:
        """The user applies the job once more, unchanged; no stamp goes."""
        if isinstance(job := written(self.kind, self.scheduler), list):
            return
        path = f"{self.kind.path}/{NAME}"
        before, after = await self.api.get(path), await self.api.merge(path, job)
        was, now = (str(each["spec"]).count(WORDS.pods) for each in (before, after))
        assert was == now, f"of {was} stamps {now} are left: {after['spec']}"

    async def scale(self, pods: int) -> None:
        """Its user applies it with so many pods; return when it has them, in whole pairs."""
        assert self.kind.scaled is not None
        changed = self.kind.scaled(written(self.kind, self.scheduler), pods)
        await self.api.merge(f"{self.kind.path}/{NAME}", changed)
        await self.is_whole(pods)

    async def scale_slowly(self, pods: int) -> None:
        """It is scaled, and two of its old pods take their time to end."""
        assert self.kind.scaled is not None
        changed = self.kind.scaled(written(self.kind, self.scheduler), pods)
        await self._end_slowly(lambda: self.api.merge(f"{self.kind.path}/{NAME}", changed))
        await self.is_whole(pods)

    async def start_again_slowly(self, *meanwhile: Callable[[], Awaitable[object]]) -> None:
        """Kueue stops it and starts it again, and two of its old pods take their time to end.

        `meanwhile`: what is done while it is stopped.
        """
        pods = len(await self.pods())
        (workload,) = await self.api.items(WORKLOADS)
        path = f"{WORKLOADS}/{workload['metadata']['name']}"

        async def stop_and_start() -> None:
            await self.api.merge(path, {"spec": {"active": False}})
            await eventually(lambda: self._is("QuotaReserved", "False"))
            for act in meanwhile:
                await act()
            await self.api.merge(path, {"spec": {"active": True}})

        await self._end_slowly(stop_and_start)
        await self.is_whole(pods)

    async def _end_slowly(self, act: Callable[[], Awaitable[object]]) -> None:
        """Two pods are held until Kueue wants to start the job, or a pod of it, and is refused.

        The master says so, too.
        """
        bound = sorted(await self.pods(), key=self._index)
        held = {f"{PODS}/{each['metadata']['name']}": each for each in (bound[1], bound[-1])}
        for path, pod in held.items():
            names = [*pod["metadata"].get("finalizers", ()), _HOLDS]
            await self.api.merge(path, {"metadata": {"finalizers": names}})
        before = await self._refused_changes()
        await act()

        async def is_refused() -> bool:
            told = f"before the old ones are gone ({len(held)} left)" in await self._told()
            return told and await self._refused_changes() > before

        await eventually(is_refused)
        for path in held:
            now = (await self.api.get(path))["metadata"]["finalizers"]
            names = [each for each in now if each != _HOLDS]
            await self.api.merge(path, {"metadata": {"finalizers": names}})

    async def _refused_changes(self) -> float:
        """How many changes of jobs and pods our webhooks refused, as the API server counts."""
        text = str(await self.api.call("GET", "/metrics"))
        return sum(map(float, _REFUSED_CHANGES.findall(text)))

    async def _is(self, condition: str, status: str) -> bool:
        """Whether Kueue says so of the job."""
        return any(
            (each["type"], each["status"]) == (condition, status)
            for workload in await self.api.items(WORKLOADS)
            for each in workload.get("status", {}).get("conditions", ())
        )

    def _index(self, pod: Any) -> int:
        assert self.kind.rank is not None
        return self.kind.rank(pod)

    async def scale_as_told(self, pods: int) -> None:
        """Its user is refused so many pods while it runs, and does what the refusal says."""
        assert self.kind.scaled is not None
        path = f"{self.kind.path}/{NAME}"
        changed = self.kind.scaled(written(self.kind, self.scheduler), pods)
        label = re.search(r"kubectl get workloads -l (\S+)\)", await self._refused(path, changed))
        assert label
        (workload,) = await self.api.items(WORKLOADS, labelSelector=label[1])
        workload_path = f"{WORKLOADS}/{workload['metadata']['name']}"
        await self.api.merge(workload_path, {"spec": {"active": False}})
        await eventually(self._has_no_pods)
        await self.api.merge(path, changed)
        await self.api.merge(workload_path, {"spec": {"active": True}})
        await self.is_whole(pods)

    async def _refused(self, path: str, changed: Any) -> str:
        refusal: ApiError | None = None
        try:
            await self.api.merge(path, changed)
        except ApiError as error:
            refusal = error
        assert (refusal and refusal.status) == HTTPStatus.UNPROCESSABLE_ENTITY, refusal
        return str(refusal)

    async def _has_no_pods(self) -> bool:
        return not any(map(has_gpus, await self.api.items(PODS)))

    async def is_whole(self, pods: int, without: str = "") -> None:
        """Return when so many pods are bound, none with this uid, and all pairs are whole."""

        async def is_it() -> bool:
            found = await self.pods()
            uids = {each["metadata"]["uid"] for each in found}
            if len(found) != pods or without in uids or not all(map(self._is_bound, found)):
                return False
            return not split_pairs(self.world, self.kind, found)

        await eventually(is_it)

    def _is_bound(self, pod: Any) -> bool:
        is_noted = WORDS.placement in pod["metadata"].get("annotations", {})
        return "nodeName" in pod["spec"] and (is_noted or self.kind.rank is not None)

    async def pods(self) -> list[Any]:
        """The pods with GPUs that run or will run."""
        return [
            each
            for each in await self.api.items(PODS)
            if has_gpus(each)
            and "deletionTimestamp" not in each["metadata"]
            and each["status"].get("phase") not in {"Failed", "Succeeded"}
        ]

    async def _is_taken(self, job: Any) -> bool:
        """Create it, again where it was refused or passed by the master's webhook.

        Webhooks of controllers that have just started refuse it for a moment, and API servers hear
        of webhooks a moment after these were installed.
        """
        try:
            made = await self.api.call("POST", self.kind.path, job, fieldValidation="Strict")
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return False
        is_held = ADMISSION_GATED_BY in str(made)
        if self.kind.made_at:
            await eventually(self._is_made)
            made = await self.api.items(self.kind.made_at)
        if any(mark in str(made) for mark in _REVIEWED):
            assert is_held == (self.scheduler == HELD), made["metadata"]
            return True
        await self._clear()
        return False

    async def _is_made(self) -> bool:
        return bool(self.kind.made_at and await self.api.items(self.kind.made_at))

    async def _is_gone(self, pod: str) -> bool:
        return pod not in {each["metadata"]["name"] for each in await self.api.items(PODS)}

    async def end(self) -> None:
        """The job and all pods go, and what was made for them."""
        await self._clear()
        if self.kind.name == "trainjob":
            await self.api.delete(f"{_RUNTIMES}/torch-distributed")

    async def _clear(self) -> None:
        if self.kind.program:
            await self.api.delete(f"{self.kind.path}/{NAME}")

        async def is_empty() -> bool:
            pods = await self.api.items(PODS)
            for each in pods:
                await self.api.delete(f"{PODS}/{each['metadata']['name']}", grace_s=0)
            if pods and not self.kind.program and self.scheduler in QUEUES:
                # Kueue waits for pods in place of those that were deleted, as long as it is there.
                await self.api.delete(f"{WORKLOADS}/{NAME}")
            return not pods and not await self._is_there()

        await eventually(is_empty)

    async def _is_there(self) -> bool:
        names = {each["metadata"]["name"] for each in await self.api.items(self.kind.path)}
        return (bool(self.kind.program) and NAME in names) or await self._is_made()

    async def explain(self) -> str:
        """What a reader of a failed cell wants to know: its pods, and what the master says."""
        pods = await self.pods()
        unbound = [each for each in pods if "nodeName" not in each["spec"]]
        is_down = self.program is not None and not self.program.is_alive
        said = f"{self.kind.program} has ended; " if is_down else ""
        said += f"{len(pods)} pods, {len(unbound)} unbound"
        bound = [each for each in pods if self._is_bound(each)]
        with suppress(KeyError, ValueError):
            said += f", split: {split_pairs(self.world, self.kind, bound)[:4]}"
        for pod in unbound[:1]:
            gates = [each["name"] for each in pod["spec"].get("schedulingGates", ())]
            conditions = pod["status"].get("conditions", ())
            said += f"; {pod['metadata']['name']}: gates {gates}, " + "; ".join(
                each.get("message", "") for each in conditions
            )
        return (said + await self._told())[:1500]

    async def _told(self) -> str:
        """What the master says of each gang; empty while none leads."""
        if not (url := await self.url()):
            return ""
        async with ClientSession() as session, session.get(f"{url}/v1/gangs") as answer:
            gangs = (await answer.json())["gangs"] if answer.ok else []
        return "".join(f"; gang {each['state']}: {each.get('text', '')}" for each in gangs)
