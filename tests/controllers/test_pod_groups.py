"""PodGroups of Kubernetes: each gang of kube-scheduler has one, with the minimum that it needs."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import prometheus_client as prom
import pytest

from master.controllers.pod_groups import PATIENCE_S, PodGroups
from master.kube.objects import PODS, parsed
from master.kube.schedulers.composite_groups import COMPOSITE_GROUPS
from master.kube.schedulers.scheduling_groups import SCHEDULING_GROUPS
from master.kube.writing.writer import Writer, WriterMetrics
from master.object_errors import ObjectKind
from master.sources.kubernetes.pods import PodParser
from tests.controllers.nomination.masters import until
from tests.controllers.nomination.objects import GANG, JOB, WORDS, gang_of_job, gated_pod
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore
from topo.gangs.machine.gang import GangId
from topo.gangs.stamp import Stamp
from topo.gangs.terms import Way
from topo.placement.job.policy import Policy

pytestmark = pytest.mark.virtual_time
AT = "/apis/scheduling.k8s.io/v1beta1/namespaces/jobs/podgroups"
NAME = "train-0a1b"


class Gangs:
    """A cluster, its PodGroups, and how many ranks of each gang of 4 have ended."""

    def __init__(self, *, serves: bool = True) -> None:
        self.api, self.key = ApiModel(), ""
        self.succeeded: Counter[GangId] = Counter()
        self.compared: Counter[GangId] = Counter()
        parser = PodParser(Policy(), WORDS, Way.NOMINATION)
        self.store = ModelStore(self.api, SCHEDULING_GROUPS, synced=serves)
        self.pods: Any = ModelStore(self.api, parsed(PODS, parser.parse))
        clock = asyncio.get_running_loop().time
        self.writer = Writer(self.api, WriterMetrics(prom.CollectorRegistry()), clock=clock)
        self.composites = ModelStore(self.api, COMPOSITE_GROUPS)
        self.groups = PodGroups(
            store=self.store,
            composites=self.composites,
            pods=self.pods,
            writer=self.writer,
            awaited=self._awaited,
            domain="metax-tech.com",
            clock=clock,
        )

    def _awaited(self, gang_id: GangId) -> int:
        self.compared[gang_id] += 1
        return 4 - self.succeeded[gang_id]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        works = [asyncio.ensure_future(work()) for work in (self.writer.run, self.groups.run)]
        try:
            yield
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)

    def pod(self, rank: int, job: str = "job-1", **spec: Any) -> None:
        """A pod of the job, as the webhook leaves it."""
        name = NAME if job == "job-1" else job
        asked = {WORDS.pod_group: name, **({WORDS.topology_key: self.key} if self.key else {})}
        made = gated_pod(rank, Stamp(4, 0, 2), uid=job, **asked)
        made["spec"] |= {"schedulingGroup": {"podGroupName": name}, **spec}
        self.api.add(PODS, f"{name}-{rank}", **made)

    @property
    def group(self) -> Any:
        """The PodGroup; None while there is none."""
        stored = self.api.objects.get((AT, NAME))
        return stored.document if stored is not None else None

    def least(self) -> int:
        """Its minimum; 0 while there is none."""
        if self.group is None:
            return 0
        return int(self.group["spec"]["schedulingPolicy"]["gang"]["minCount"])

    def codes(self) -> list[str]:
        """The warnings."""
        return [each.code for each in self.groups.warnings()]


async def test_the_first_pod_of_a_job_brings_its_pod_group_which_the_job_owns() -> None:
    gangs = Gangs()
    async with gangs.running():
        gangs.pod(0, priorityClassName="high")
        await until(lambda: gangs.group is not None)
        owner = {key: JOB[key] for key in ("apiVersion", "kind", "name", "uid")}
        assert gangs.group["metadata"]["ownerReferences"] == [owner]
        assert gangs.group["spec"] == {
            "schedulingPolicy": {"gang": {"minCount": 4}},
            "priorityClassName": "high",
        }
        for rank in (1, 2, 3):
            gangs.pod(rank)
        await asyncio.sleep(10)
        assert gangs.api.writes == [("POST", NAME)]


async def test_a_pod_group_that_changes_is_compared_alone() -> None:
    """kube-scheduler writes conditions of each at each attempt."""
    gangs = Gangs()
    async with gangs.running():
        gangs.pod(0)
        gangs.pod(0, "other")
        await until(lambda: (AT, "other") in gangs.api.objects and gangs.group is not None)
        await asyncio.sleep(0.5)
        before = gangs.compared.copy()
        for told in ("True", "False", "Unknown", "False", "True"):
            gangs.group["status"] = {"conditions": [{"type": "PodGroupScheduled", "status": told}]}
            gangs.api.touch(AT, NAME)
            await asyncio.sleep(0.1)
        more = gangs.compared - before
        assert more[GANG] >= 5
        assert more[gang_of_job("other")] <= 2, "the look of each second"


async def test_a_pod_of_another_job_under_the_name_of_one_before_has_the_group_of_its_job() -> None:
    """A watch that was lost shows the new pod alone; the group of the job before stays deleted."""
    gangs = Gangs()
    async with gangs.running():
        gangs.pod(0)
        await until(lambda: gangs.group is not None)
        gangs.api.remove(SCHEDULING_GROUPS, NAME, "jobs")
        made = gated_pod(0, Stamp(4, 0, 2), uid="job-2", **{WORDS.pod_group: "other"})
        made["spec"]["schedulingGroup"] = {"podGroupName": "other"}
        gangs.api.add(PODS, f"{NAME}-0", **made)
        await until(lambda: (AT, "other") in gangs.api.objects)
        await asyncio.sleep(10)
        assert gangs.group is None


async def test_a_follower_collects_no_marks_and_makes_what_lacks_once_it_leads() -> None:
    gangs = Gangs()
    gangs.pod(0, "gone")
    gangs.api.remove(PODS, "gone-0", "jobs")
    gangs.pod(0)
    assert not gangs.groups._marked
    async with gangs.running():
        await until(lambda: gangs.group is not None)
        assert (AT, "gone") not in gangs.api.objects


async def test_the_minimum_goes_down_with_each_rank_that_succeeds() -> None:
    gangs = Gangs()
    async with gangs.running():
        gangs.pod(0)
        await until(lambda: gangs.least() == 4)
        gangs.succeeded[GANG] = 3
        await until(lambda: gangs.least() == 1)
        gangs.succeeded[GANG] = 4
        await asyncio.sleep(10)
        assert gangs.least() == 1


async def test_a_pod_group_of_somebody_else_stays_as_it_is() -> None:
    gangs = Gangs()
    own = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    gangs.api.add(SCHEDULING_GROUPS, NAME, metadata={"namespace": "jobs"}, spec=own)
    async with gangs.running():
        gangs.pod(0)
        await asyncio.sleep(10)
        assert gangs.least() == 2


async def test_an_api_server_without_pod_groups_is_a_warning() -> None:
    gangs = Gangs(serves=False)
    async with gangs.running():
        gangs.pod(0)
        assert gangs.codes() == []
        await asyncio.sleep(PATIENCE_S + 1)
        assert gangs.group is None
        assert gangs.codes() == ["pod-groups-unserved"]


async def test_pods_that_are_bound_without_a_report_on_their_group_are_a_warning() -> None:
    gangs = Gangs()
    async with gangs.running():
        for rank in range(4):
            gangs.pod(rank, nodeName=f"n{rank}")
        await asyncio.sleep(2 * PATIENCE_S)
        assert gangs.codes() == ["pod-groups-unheeded"]
        done = {"type": "PodGroupInitiallyScheduled", "status": "True"}
        gangs.group["status"] = {"conditions": [done]}
        gangs.api.touch(AT, NAME)
        await asyncio.sleep(2)
        assert gangs.codes() == []


async def test_a_constraint_that_the_api_server_drops_is_a_warning() -> None:
    gangs = Gangs()
    gangs.key = "metax-tech.com/dragonfly"
    async with gangs.running():
        gangs.pod(0)
        await until(lambda: gangs.group is not None)
        assert gangs.group["spec"].pop("schedulingConstraints") == {
            "topology": [{"key": gangs.key}]
        }
        gangs.api.touch(AT, NAME)
        await asyncio.sleep(PATIENCE_S + 2)
        assert gangs.codes() == ["pod-groups-unconstrained"]


async def test_a_composite_group_of_which_some_groups_alone_are_scheduled_is_a_warning() -> None:
    gangs = Gangs()
    done = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    gangs.api.add(COMPOSITE_GROUPS, "tree", metadata={"namespace": "jobs"}, spec=spec)
    of_leaf = {"schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": "tree"}
    for leaf in ("a", "b"):
        metadata = {"namespace": "jobs"}
        gangs.api.add(SCHEDULING_GROUPS, leaf, metadata=metadata, spec=of_leaf, status={})
    async with gangs.running():
        for rank in range(4):
            leaf = "a" if rank < 2 else "b"
            more = {WORDS.of_pod_group: leaf, WORDS.of_composite: "tree"}
            made = gated_pod(rank, Stamp(4, 0, 2), **more)
            made["spec"] |= {"schedulingGroup": {"podGroupName": leaf}}
            gangs.api.add(PODS, f"leaf-{rank}", **made)
        await asyncio.sleep(2 * PATIENCE_S)
        assert gangs.codes() == []
        for leaf, expected in (("a", ["composite-pod-groups-unheeded"]), ("b", [])):
            gangs.api.objects[AT, leaf].document["status"] = done
            gangs.api.touch(AT, leaf)
            await asyncio.sleep(2 * PATIENCE_S)
            assert gangs.codes() == expected


async def test_an_error_about_one_pod_group_costs_that_one_alone() -> None:
    gangs = Gangs()
    counted = gangs.groups.awaited

    def awaited(gang_id: GangId) -> int | None:
        if gang_id == gang_of_job("job-2"):
            raise KeyError(gang_id)
        return counted(gang_id)

    gangs.groups.awaited = awaited
    async with gangs.running():
        gangs.pod(0, job="job-2")
        gangs.pod(0)
        await until(lambda: gangs.group is not None)
        assert gangs.api.writes == [("POST", NAME)]
        assert list(gangs.groups.errors.of(ObjectKind.WRITE)) == ["PodGroup jobs/job-2"]
        gangs.groups.awaited = counted
        await until(lambda: ("POST", "job-2") in gangs.api.writes)
        assert not gangs.groups.errors.of(ObjectKind.WRITE)
