"""Jobs that were scaled, stopped or admitted in part, and whose ranks failed, start again."""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from master.kube.objects import PODS
from master.kube.schedulers.jobs import job_resource
from tests.controllers.nomination.gang_world import GangWorld, gang_world, is_open, nominated
from tests.controllers.nomination.masters import leading
from tests.controllers.nomination.objects import gated_pod
from tests.gangs.admission.patching import WORDS, batch, task, volcano
from tests.gangs.job_kinds import made
from topo.gangs.job_kinds.batch_job import BATCH_JOB
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.stateful_set import STATEFUL_SET
from topo.gangs.job_kinds.volcano_job import VOLCANO_JOB
from topo.gangs.machine.gang import gang_of_owner
from topo.gangs.stamp import Stamp
from topo.model.conditions.gang_states import GangState

pytestmark = pytest.mark.virtual_time
UID = "job-1"
JOBS: dict[str, tuple[JobKind, dict[str, Any]]] = {
    "batch Job": (BATCH_JOB, batch(4)),
    "Volcano Job": (VOLCANO_JOB, volcano(task("worker", 4, gpu_group_size="16"))),
    "StatefulSet": (STATEFUL_SET, made.stateful_set(4, podManagementPolicy="Parallel")),
}
SIZES = {
    "Job": ("completions", "parallelism"),
    "StatefulSet": ("replicas",),
}
AT = "/api/v1/namespaces/jobs/pods"


@dataclass
class JobWorld:
    """A job of four pods in pairs, and its controller: what a test has it do."""

    world: GangWorld
    kind: JobKind
    document: dict[str, Any]

    @property
    def job(self) -> Any:
        at = f"/apis/{self.kind.api_version}/namespaces/jobs/{self.kind.resource}"
        return self.world.api.objects[at, "train"].document

    def tell(self) -> None:
        """The API server tells of the job as it is now."""
        at = f"/apis/{self.kind.api_version}/namespaces/jobs/{self.kind.resource}"
        self.world.api.touch(at, "train")

    def resize(self, pods: int) -> None:
        spec = self.job["spec"]
        if "tasks" in spec:
            spec["tasks"][0]["replicas"] = pods
        for key in SIZES[self.kind.kind] if "tasks" not in spec else ():
            spec[key] = pods
        self.tell()

    def make(self, ranks: Iterable[int], group: str = "", **asked: str) -> list[Any]:
        """Pods of these ranks, as the webhook leaves them; of a PodGroup of Volcano, if named."""
        return [self._make(rank, group, asked) for rank in ranks]

    def _make(self, rank: int, group: str, asked: dict[str, str]) -> Any:
        made_of = gated_pod(rank, Stamp(4, 0, 2), uid=UID, group=group, **asked)
        owner = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        made_of["metadata"]["ownerReferences"][0] |= owner
        index = {self.kind.index_key: str(rank)}
        made_of["metadata"] |= {"labels": {WORDS.group: str(rank // 2), **index}}
        return self.world.api.add(
            PODS, f"pod-{rank}", **copy.deepcopy(made_of), status={"phase": "Pending"}
        )

    def delete(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            self.world.api.remove(PODS, f"pod-{rank}", "jobs")

    async def run(self, ranks: Iterable[int] = range(4)) -> list[Any]:
        """These pods come, are placed and bound."""
        pods = self.make(ranks)
        await asyncio.sleep(10)
        for pod in pods:
            self.world.bind(pod)
        await asyncio.sleep(10)
        return pods

    def end(self, pod: Any, phase: str) -> None:
        pod.document["status"]["phase"] = phase
        self.world.api.touch(AT, pod.document["metadata"]["name"])

    def state(self) -> tuple[GangState, str]:
        (found,) = [each for _, each in self.world.nomination.status.nomination.all()]
        return found.state, found.text

    def history(self) -> list[GangState]:
        gang_id = gang_of_owner("jobs", self.kind.api_version, self.kind.kind, UID)
        return [each.state for each in self.world.nomination.status.store.history(gang_id)]


@asynccontextmanager
async def job_world(name: str = "batch Job") -> AsyncIterator[JobWorld]:
    kind, found = JOBS[name]
    document = made.admitted({**found, "metadata": {**found["metadata"], "namespace": "jobs"}})
    async with gang_world() as world:
        fields = {key: document[key] for key in ("spec",)}
        metadata = {**document["metadata"], "uid": UID}
        world.api.add(job_resource(kind), "train", metadata=metadata, **fields)
        yield JobWorld(world, kind, document)


def nodes(pods: Iterable[Any]) -> list[str]:
    return [nominated(pod) for pod in pods if is_open(pod)]


@pytest.mark.parametrize("name", JOBS)
async def test_a_job_that_is_scaled_in_while_it_is_stopped_starts_with_what_it_has(
    name: str,
) -> None:
    async with job_world(name) as jobs:
        await jobs.run()
        jobs.delete(range(4))
        jobs.resize(2)
        again = jobs.make(range(2))
        await asyncio.sleep(20)
        assert len(set(nodes(again))) == 2


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("job_first", [True, False])
async def test_a_job_that_is_scaled_in_while_it_waits_starts_with_what_it_has(
    name: str, *, job_first: bool
) -> None:
    async with job_world(name) as jobs:
        for number in range(1, 7):
            jobs.world.take(f"node-{number}")
        pods = jobs.make(range(4))
        await asyncio.sleep(10)
        assert jobs.state()[0] is GangState.NO_ROOM
        steps = [lambda: jobs.resize(2), lambda: jobs.delete((2, 3))]
        for step in steps if job_first else reversed(steps):
            step()
            await asyncio.sleep(10)
        assert sorted(nodes(pods[:2])) == ["node-7", "node-8"]


@pytest.mark.parametrize("name", JOBS)
async def test_a_job_that_is_scaled_in_while_it_runs_is_bound_and_replaces_a_lost_pod(
    name: str,
) -> None:
    async with job_world(name) as jobs:
        await jobs.run()
        jobs.resize(2)
        jobs.delete((2, 3))
        await asyncio.sleep(10)
        assert jobs.state() == (GangState.BOUND, "all of its pods run")
        assert GangState.PODS_MISSING not in jobs.history()[1:]
        jobs.delete([1])
        (again,) = jobs.make([1])
        await asyncio.sleep(20)
        assert is_open(again)


async def test_a_job_that_is_scaled_out_again_starts_with_all_of_its_pods() -> None:
    async with job_world("StatefulSet") as jobs:
        await jobs.run()
        before = 4
        for pods in (2, 0, 4):
            jobs.delete(range(before))
            jobs.resize(pods)
            again = jobs.make(range(pods))
            await asyncio.sleep(20)
            assert len(set(nodes(again))) == pods
            before = pods


async def test_pods_beyond_the_size_of_the_job_get_no_place_and_make_it_no_larger() -> None:
    async with job_world() as jobs:
        pods = await jobs.run()
        (forged,) = jobs.make([9])
        await asyncio.sleep(20)
        assert not is_open(forged)
        state, text = jobs.state()
        assert state is GangState.PODS_MISSING
        assert text == "pods pod-9 have ranks that a job of 4 pods has not"
        jobs.delete([3])
        (again,) = jobs.make([3])
        await asyncio.sleep(20)
        assert is_open(again), "the others of its gang are placed"
        assert all(map(is_open, pods[:3]))


async def test_the_next_leader_knows_the_size_as_well() -> None:
    async with job_world() as jobs:
        jobs.resize(2)
        api = jobs.world.api
        async with leading(api, api, leads=False) as next_leader:
            await asyncio.sleep(5)
            jobs.make(range(2))
            await asyncio.sleep(5)
            gangs = list(next_leader.nomination.reader.build_all())
    assert [each.request.pods for each in gangs] == [2]


async def test_a_job_that_was_admitted_in_part_starts_in_whole_groups_and_goes_on() -> None:
    async with job_world() as jobs:
        jobs.job["spec"]["parallelism"] = 2
        jobs.tell()
        pods = await jobs.run(range(2))
        assert jobs.state() == (GangState.BOUND, "all of its pods run")
        jobs.end(pods[0], "Succeeded")
        (third,) = jobs.make([2])
        await asyncio.sleep(20)
        assert not is_open(third)
        wanted = "rank 3 of group 1 is made once others of its job have ended"
        assert jobs.state() == (GangState.PODS_MISSING, wanted)
        jobs.end(pods[1], "Succeeded")
        (fourth,) = jobs.make([3])
        await asyncio.sleep(20)
        assert len(set(nodes([third, fourth]))) == 2


async def test_ranks_that_a_job_calls_failed_are_not_missing_when_it_starts_again() -> None:
    async with job_world() as jobs:
        pods = await jobs.run()
        jobs.end(pods[1], "Failed")
        await asyncio.sleep(10)
        assert jobs.state()[0] is GangState.PODS_MISSING, "its controller may make it again"
        jobs.job["status"] = {"failedIndexes": "1,3"}
        jobs.tell()
        jobs.end(pods[3], "Failed")
        await asyncio.sleep(10)
        assert jobs.state() == (GangState.BOUND, "all of its pods run")
        jobs.delete((0, 2))
        again = jobs.make((0, 2))
        await asyncio.sleep(20)
        assert len(set(nodes(again))) == 2


async def test_a_failed_pod_that_its_controller_keeps_is_not_missing() -> None:
    async with job_world("Volcano Job") as jobs:
        pods = await jobs.run()
        jobs.end(pods[1], "Failed")
        await asyncio.sleep(10)
        assert jobs.state() == (GangState.BOUND, "all of its pods run")
        jobs.delete((0, 2, 3))
        again = jobs.make((0, 2, 3))
        await asyncio.sleep(20)
        assert len(set(nodes(again))) == 3


async def test_a_failed_pod_that_is_deleted_is_made_again() -> None:
    async with job_world("Volcano Job") as jobs:
        pods = await jobs.run()
        jobs.end(pods[1], "Failed")
        held = {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["of/another"]}
        pods[1].document["metadata"] |= held
        jobs.world.api.touch(AT, "pod-1")
        jobs.delete((0, 2, 3))
        again = jobs.make((0, 2, 3))
        await asyncio.sleep(20)
        assert nodes(again) == []
        jobs.delete([1])
        again += jobs.make([1])
        await asyncio.sleep(20)
        assert len(set(nodes(again))) == 4


async def test_a_volcano_job_in_steps_runs_and_the_places_of_later_steps_are_kept() -> None:
    """Its first two ranks depend on the others, of which its PodGroup wants two."""
    async with job_world("Volcano Job") as jobs:
        world = jobs.world
        world.add_queue("default", weight=1)
        world.add_group("group", "default")
        for number in range(5, 9):
            world.take(f"node-{number}")
        late = {WORDS.is_late: "true"}
        first = jobs.make((2, 3), group="group", **late)
        await asyncio.sleep(10)
        assert len(set(nodes(first))) == 2
        for pod in first:
            world.bind(pod)
        other = world.add_pod(0, job="other", stamp=Stamp(2, 0, 2))
        world.add_pod(1, job="other", stamp=Stamp(2, 0, 2))
        await asyncio.sleep(10)
        assert not is_open(other), "the places of the later ones are kept"
        second = jobs.make((0, 1), group="group", **late)
        await asyncio.sleep(10)
        assert len(set(nodes(second))) == 2


async def test_a_volcano_job_in_steps_without_room_for_all_opens_none() -> None:
    async with job_world("Volcano Job") as jobs:
        world = jobs.world
        world.add_queue("default", weight=1)
        world.add_group("group", "default")
        for number in range(3, 9):
            world.take(f"node-{number}")
        first = jobs.make((2, 3), group="group", **{WORDS.is_late: "true"})
        await asyncio.sleep(20)
        assert nodes(first) == []
        assert jobs.state()[0] is GangState.NO_ROOM


@pytest.mark.parametrize("why", ["runs in part", "failed in part", "smaller"])
async def test_room_is_needed_only_for_the_pods_that_are_made(why: str) -> None:
    async with job_world() as jobs:
        for number in range(1, 7):
            jobs.world.take(f"node-{number}")
        if why == "runs in part":
            jobs.job["spec"]["parallelism"] = 2
        elif why == "failed in part":
            jobs.job["status"] = {"failedIndexes": "2-3"}
        else:
            jobs.resize(2)
        jobs.tell()
        pods = jobs.make(range(2))
        await asyncio.sleep(10)
        assert sorted(nodes(pods)) == ["node-7", "node-8"]
