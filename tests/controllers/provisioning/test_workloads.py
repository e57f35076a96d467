"""Workloads of Kueue on a model of the API server: held before quota, and by admission check."""

import asyncio
from typing import Any

import pytest

from master.controllers.provisioning import bookings
from master.controllers.provisioning.held_jobs import HeldJobs
from master.kube.errors import KubeError
from master.kube.objects import PODS
from master.kube.schedulers.topologies import KUEUE_FLAVORS
from master.kube.schedulers.workloads import ADMISSION_CHECKS, HELD, WORKLOADS
from tests.controllers.nomination.masters import FLIES, until
from tests.controllers.nomination.objects import GPU, PAIR, WORDS, gated_pod
from tests.controllers.provisioning.request_world import (
    VENDOR_LABELS,
    RequestCluster,
    RequestMaster,
    server_now,
    stamp,
    unplugged,
)
from tests.controllers.provisioning.test_requests import is_open, node_of
from topo.gangs.annotation_keys import ADMISSION_GATED_BY, KUEUE_WORKLOAD
from topo.model.conditions.gang_states import GangState
from topo.model.ids import SWITCHBOX
from topo.provisioning.machine import FENCE_S
from topo.provisioning.messages import Book, Held, NoRoom
from topo.provisioning.workloads import WAITING_S

pytestmark = pytest.mark.virtual_time
JOBS_AT = "/apis/batch/v1/namespaces/jobs/jobs"
WORKLOADS_AT = "/apis/kueue.x-k8s.io/v1beta2/namespaces/jobs/workloads"
OF_BOX = {"nodeLabels": {"metax-tech.com/switchbox": "switchbox-2"}}
CHECKS_AT = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks"


class KueueCluster(RequestCluster):
    """A cluster with Kueue, of which the test plays the part."""

    def __init__(self, *, has_requests: bool = False) -> None:
        super().__init__(of_kueue=True, has_requests=has_requests)
        spec = {"controllerName": WORDS.whole_groups}
        self.api.add(ADMISSION_CHECKS, "topo", spec=spec)
        self.api.add(ADMISSION_CHECKS, "other", spec={"controllerName": "example.com/other"})
        self.api.add(KUEUE_FLAVORS, "switchbox-2", spec=OF_BOX)

    def queue(
        self, name: str, pods: int, gates: str = "", size: str = "16", **stamped: str
    ) -> None:
        """A job in a queue, and the workload that Kueue makes for it."""
        held = {ADMISSION_GATED_BY: gates} if gates else {}
        job = self.api.add(HELD[0], name, metadata={"namespace": "jobs", "annotations": held})
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": job.document["metadata"]["uid"],
            "controller": True,
        }
        container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
        asked = {**({WORDS.size: size} if size else {}), **stamped}
        template = {"metadata": {"annotations": asked}, "spec": {"containers": [container]}}
        self.api.add(
            WORKLOADS,
            f"job-{name}",
            metadata={
                "namespace": "jobs",
                "annotations": held,
                "ownerReferences": [owner],
                "creationTimestamp": stamp(server_now()),
            },
            spec={"podSets": [{"name": "main", "count": pods, "template": template}]},
        )

    def give_quota(self, name: str, *checks: str, flavor: str = "", **assigned: Any) -> None:
        """Kueue reserves quota for a job, and waits for these checks."""
        since = {"lastTransitionTime": stamp(server_now())}
        flavors = {GPU: flavor} if flavor else {}
        status = {
            "conditions": [{"type": "QuotaReserved", "status": "True", **since}],
            "admission": {"podSetAssignments": [{"name": "main", "flavors": flavors, **assigned}]},
            "admissionChecks": [
                {"name": each, "state": "Pending", "message": "", **since} for each in checks
            ],
        }
        self.api.objects[WORKLOADS_AT, f"job-{name}"].document["status"] = status
        self.api.touch(WORKLOADS_AT, f"job-{name}")

    def gates(self, name: str) -> str:
        metadata = self.api.objects[JOBS_AT, name].document["metadata"]
        return str(metadata["annotations"][ADMISSION_GATED_BY])

    def check(self, name: str, of: str = "topo") -> Any:
        status = self.api.objects[WORKLOADS_AT, f"job-{name}"].document.get("status", {})
        return next((e for e in status.get("admissionChecks", ()) if e["name"] == of), {})


def held_jobs(master: RequestMaster) -> HeldJobs:
    """What a master shows of the jobs that it holds."""
    return HeldJobs(
        machine=lambda: master.controller.machine,
        form=master.controller.form,
        ahead_s=lambda: 0,
    )


async def test_the_oldest_job_is_let_go_once_its_groups_are_booked_and_the_others_are_held():
    cluster = KueueCluster()
    async with cluster.master() as master:
        for pair in FLIES[1:]:
            cluster.take(min(pair))
        cluster.queue("first", 2, f"example.com/a,{WORDS.whole_groups}")
        await asyncio.sleep(1)
        cluster.queue("second", 2, WORDS.whole_groups)
        await asyncio.sleep(3)
        assert cluster.gates("first") == "example.com/a"
        assert cluster.gates("second") == WORDS.whole_groups
        assert master.booked == dict.fromkeys(FLIES[0], 8)
        shown = {gang.name: status for gang, status in held_jobs(master).all()}
        assert shown["second"].state is GangState.NO_ROOM
        assert "takes no quota" in shown["second"].text
        cluster.api.remove(WORKLOADS, "job-first", "jobs")
        await until(lambda: cluster.gates("first") != "" and cluster.gates("second") == "")
        assert master.booked == dict.fromkeys(FLIES[0], 8), "the deleted job gave them back"


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("16", "its groups are booked, and it is let go to Kueue"),
        (
            "12",
            "nothing is booked for it, and it is let go to Kueue: metax-tech.com/gpu-group-size 12",
        ),
        ("", "nothing is booked for it, and it is let go to Kueue: none of its pods has"),
    ],
)
async def test_a_job_that_is_let_go_says_whether_groups_are_booked_for_it(size: str, said: str):
    cluster = KueueCluster()
    async with cluster.master() as master:
        cluster.api.refusals[JOBS_AT] = [KubeError("may not patch jobs", status=403)] * 100
        cluster.queue("one", 2, WORDS.whole_groups, size=size)
        await asyncio.sleep(3)
        ((_, status),) = held_jobs(master).all()
        assert status.text.startswith(said)
        assert bool(master.booked) == (size == "16")


async def test_of_one_namespace_only_so_many_jobs_without_quota_have_groups_booked(monkeypatch):
    monkeypatch.setattr(bookings, "SHARES", 1000)
    cluster = KueueCluster()
    async with cluster.master() as master:
        cluster.queue("first", 2, WORDS.whole_groups)
        await asyncio.sleep(1)
        cluster.queue("second", 2, WORDS.whole_groups)
        cluster.queue("with-quota", 2)
        cluster.give_quota("with-quota", "topo")
        await asyncio.sleep(3)
        assert cluster.gates("first") == ""
        assert cluster.gates("second") == WORDS.whole_groups
        assert cluster.check("with-quota")["state"] == "Ready"
        (why,) = {each.refused.text for each in master.controller.machine.records() if each.refused}
        assert why.startswith("namespace jobs has groups booked for 1 job without pods")
        for name in ("job-first", "job-with-quota"):
            cluster.api.remove(WORKLOADS, name, "jobs")
        await until(lambda: cluster.gates("second") == "")


async def test_what_ends_meanwhile_waits_for_no_long_row_of_searches(monkeypatch):
    cluster = KueueCluster()
    async with cluster.master() as master:
        cluster.queue("booked", 8, WORDS.whole_groups)
        await until(lambda: cluster.gates("booked") == "")
        book, asked = master.controller.bookings.book, list[str]()

        def noted(each: Book) -> Held | NoRoom:
            if not asked:
                cluster.api.remove(WORKLOADS, "job-booked", "jobs")
            asked.append(f"{each.name} {len(master.booked)}")
            return book(each)

        monkeypatch.setattr(master.controller.bookings, "book", noted)
        for number in range(60):
            cluster.queue(f"job-{number}", 8, WORDS.whole_groups)
        await until(lambda: len(asked) >= 60)
        with_room = [at for at, each in enumerate(asked) if each.endswith(" 0")]
        assert 0 < with_room[0] < 50


async def test_a_check_is_active_ready_with_a_pin_and_tried_again_when_a_group_breaks():
    cluster = KueueCluster()
    async with cluster.master() as master:
        cluster.queue("one", 2)
        cluster.give_quota("one", "topo", "other", flavor="switchbox-2")
        await until(lambda: cluster.check("one").get("state") == "Ready")
        (update,) = cluster.check("one")["podSetUpdates"]
        (hold,) = master.leader.placements.state.holds()
        assert {*hold.gpus} in FLIES[2:], "where its flavor is"
        labels = {VENDOR_LABELS[node][SWITCHBOX] for node in hold.gpus}
        assert {update["nodeSelector"]["metax-tech.com/switchbox"]} == labels
        assert update["annotations"] == {WORDS.booking: hold.id}
        assert cluster.check("one", "other")["state"] == "Pending"
        active = cluster.api.objects[CHECKS_AT, "topo"].document["status"]["conditions"]
        assert [(each["type"], each["status"]) for each in active] == [("Active", "True")]
        assert "status" not in cluster.api.objects[CHECKS_AT, "other"].document
        cluster.cordon(min(hold.gpus))
        await until(lambda: cluster.check("one").get("state") == "Retry")
        assert "cordoned" in cluster.check("one")["message"]
        await asyncio.sleep(1)
        assert not master.booked


async def test_a_check_is_tried_again_where_a_cable_no_longer_joins_what_it_booked():
    cluster = KueueCluster()
    async with cluster.master() as master:
        cluster.queue("one", 2)
        cluster.give_quota("one", "topo", "other", flavor="switchbox-2")
        await until(lambda: cluster.check("one").get("state") == "Ready")
        (hold,) = master.leader.placements.state.holds()
        master.leader.placements.state.follow(unplugged(*hold.gpus))
        await until(lambda: cluster.check("one").get("state") == "Retry")
        assert "would be split" in cluster.check("one")["message"]
        await asyncio.sleep(1)
        assert not master.booked


async def test_one_that_waits_too_long_gives_its_quota_back_and_one_that_asks_nothing_starts():
    cluster = KueueCluster()
    async with cluster.master() as master:
        for pair in FLIES:
            cluster.take(min(pair))
        cluster.queue("waits", 2)
        cluster.give_quota("waits", "topo")
        cluster.queue("single", 2, size="")
        cluster.give_quota("single", "topo")
        cluster.queue("chosen", 2)
        cluster.give_quota("chosen", "topo", topologyAssignment={"levels": ["host"]})
        await asyncio.sleep(5)
        assert "whole group" in cluster.check("waits")["message"]
        cluster.queue("exclusive", 2, **{WORDS.own_domains: "1x2@rack"})
        cluster.give_quota("exclusive", "topo")
        await until(lambda: cluster.check("exclusive").get("state") == "Ready")
        for name in ("single", "chosen", "exclusive"):
            assert cluster.check(name)["state"] == "Ready"
            assert "podSetUpdates" not in cluster.check(name)
        await asyncio.sleep(WAITING_S)
        assert cluster.check("waits")["state"] == "Retry"
        assert cluster.check("waits")["requeueAfterSeconds"] > 0
        assert not master.booked


async def test_another_leader_holds_to_what_was_booked():
    cluster = KueueCluster()
    async with cluster.master() as first:
        cluster.queue("one", 2)
        cluster.give_quota("one", "topo")
        await until(lambda: cluster.check("one").get("state") == "Ready")
        kept = first.leader.placements.state.persistent_state()
    async with cluster.master(kept=kept) as second:
        await asyncio.sleep(3)
        assert cluster.check("one")["state"] == "Ready"
        assert len(second.booked) == 2
    async with cluster.master() as without:
        await until(lambda: cluster.check("one").get("state") == "Retry")
        assert not without.booked, "what the state was lost of is promised no more"


async def test_pods_get_what_was_booked_before_there_was_quota_also_if_letting_go_is_not_seen_yet():
    """A workload and its pods come on two streams, of which either may be late."""
    cluster = KueueCluster()
    async with cluster.master() as master:
        cluster.take("node-1")
        cluster.queue("one", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("one") == "")
        booked = {*master.booked}
        cluster.api.remove(PODS, "taker-node-1", "others")
        pods = [
            cluster.api.add(
                PODS, f"p-{rank}", **gated_pod(rank, PAIR, **{KUEUE_WORKLOAD: "job-one"}), status={}
            )
            for rank in range(2)
        ]
        await until(lambda: all(map(is_open, pods)))
        assert {node_of(pod) for pod in pods} == booked
        await asyncio.sleep(2)
        assert master.booked.keys() == booked, "the pods have taken the booking over"


async def test_a_job_is_let_go_however_often_that_was_refused():
    """The queue of writes keeps a refused write back for longer each time, and says nothing."""
    cluster = KueueCluster()
    async with cluster.master():
        denied = KubeError("may not patch jobs", status=403)
        cluster.api.refusals[JOBS_AT] = refusals = [denied] * 7
        cluster.queue("one", 2, WORDS.whole_groups)
        await asyncio.sleep(500)
        assert not refusals
        assert cluster.gates("one") == ""


async def test_a_check_is_answered_however_often_its_workload_changes_that_nobody_is_told_of():
    """As where Kueue or a person sets `spec.priority`: only the version is another one."""
    cluster = KueueCluster()
    async with cluster.master() as master:
        cluster.queue("train", 2)
        await asyncio.sleep(1)
        cluster.give_quota("train", "topo")
        for _ in range(300):
            await asyncio.sleep(0.007)
            cluster.api.touch(WORKLOADS_AT, "job-train")
        await asyncio.sleep(5)
        assert cluster.check("train")["state"] == "Ready"
        assert len(master.booked) == 2


@pytest.mark.parametrize("lag_s", [0.0, 0.05, 0.3])
async def test_a_new_leader_begins_although_workloads_change_while_it_looks(lag_s: float):
    """Their versions are others than it listed, and nothing of them that is read."""
    cluster = KueueCluster()
    async with cluster.master():
        for pair in FLIES:
            cluster.take(min(pair))
        cluster.queue("train", 2)
        await asyncio.sleep(1)
        cluster.give_quota("train", "topo")
        await asyncio.sleep(5)
        assert cluster.check("train")["message"].startswith("waiting for whole groups")
    async with cluster.master() as second:
        await asyncio.sleep(lag_s)
        for _ in range(5):
            cluster.api.touch(WORKLOADS_AT, "job-train")
            await asyncio.sleep(0.11)
        await asyncio.sleep(5)
        assert second.controller.is_restored


async def test_a_new_leader_waits_a_while_for_a_workload_that_cannot_be_written_and_begins():
    """A webhook of the workload's namespace is broken, and answers each write with an error."""
    cluster = KueueCluster()
    async with cluster.master():
        for pair in FLIES:
            cluster.take(min(pair))
        cluster.queue("train", 2)
        await asyncio.sleep(1)
        cluster.give_quota("train", "topo")
        await asyncio.sleep(5)
    broken = KubeError("failed calling webhook", status=500)
    cluster.api.refusals[f"{WORKLOADS_AT}/job-train"] = [broken] * 1000
    async with cluster.master() as second:
        began: list[tuple[bool, list[str]]] = []
        for wait_s in (FENCE_S - 5, 10):
            await asyncio.sleep(wait_s)
            told = [each.text for each in second.controller.warnings()]
            began.append((second.controller.is_restored, told))
        awaited = "nothing is placed before these are written: jobs/job-train"
        assert began == [(False, [awaited]), (True, [])]
        cluster.api.remove(PODS, f"taker-{min(FLIES[2])}", "others")
        cluster.api.refusals.clear()
        await asyncio.sleep(60)
        assert cluster.check("train")["state"] == "Ready"


def with_pods(cluster: KueueCluster, name: str, **spec: Any) -> None:
    """Other pods than those that the template of a workload has so far."""
    (pod_set,) = cluster.api.objects[WORKLOADS_AT, f"job-{name}"].document["spec"]["podSets"]
    pod_set["template"]["spec"] = spec
    cluster.api.touch(WORKLOADS_AT, f"job-{name}")


CLAIMING = {
    "containers": [{"name": "main"}],
    "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "eight"}],
}


@pytest.mark.parametrize("ahead_share", [1.0, 0.01])
async def test_gpus_that_pods_claim_are_booked_like_those_that_they_request(ahead_share: float):
    """Their number is stamped on the template; the queue's quota is for them, too."""
    cluster = KueueCluster()
    async with cluster.master(ahead_share=ahead_share) as master:
        cluster.queue("train", 2, **{WORDS.claimed_gpus: "8"})
        with_pods(cluster, "train", **CLAIMING)
        await asyncio.sleep(1)
        cluster.give_quota("train", "topo")
        await asyncio.sleep(3)
        assert cluster.check("train")["state"] == "Ready"
        assert master.booked.keys() in FLIES
        assert set(master.booked.values()) == {8}


async def test_a_held_job_whose_gpus_are_claimed_is_let_go_with_its_groups():
    cluster = KueueCluster()
    async with cluster.master() as master:
        cluster.queue("train", 2, WORDS.whole_groups, **{WORDS.claimed_gpus: "8"})
        with_pods(cluster, "train", **CLAIMING)
        await asyncio.sleep(3)
        assert cluster.gates("train") == ""
        assert master.booked.keys() in FLIES


@pytest.mark.parametrize("gates", ["", WORDS.whole_groups])
@pytest.mark.parametrize("of", ["unknown claims", "shared cards", "no GPUs"])
async def test_a_workload_of_which_nothing_can_be_booked_starts_and_is_never_rejected(
    of: str, gates: str
):
    limits = {"metax-tech.com/sgpu": "4"} if of == "shared cards" else {}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    cluster = KueueCluster()
    async with cluster.master() as master:
        cluster.queue("train", 2, gates)
        with_pods(cluster, "train", **(CLAIMING if of == "unknown claims" else spec))
        await asyncio.sleep(3)
        assert not gates or cluster.gates("train") == ""
        cluster.give_quota("train", "topo")
        if not gates:
            await asyncio.sleep(3)
            assert cluster.check("train")["state"] == "Ready"
        assert not master.booked


async def test_nothing_is_booked_for_a_workload_of_which_only_some_pods_have_a_known_number():
    cluster = KueueCluster()
    async with cluster.master() as master:
        cluster.queue("train", 2)
        pod_sets = cluster.api.objects[WORKLOADS_AT, "job-train"].document["spec"]["podSets"]
        template = {"metadata": pod_sets[0]["template"]["metadata"], "spec": CLAIMING}
        pod_sets.append({"name": "claiming", "count": 2, "template": template})
        cluster.api.touch(WORKLOADS_AT, "job-train")
        await asyncio.sleep(1)
        cluster.give_quota("train", "topo")
        await asyncio.sleep(3)
        assert cluster.check("train")["state"] == "Ready"
        assert "not known" in cluster.check("train")["message"]
        assert not master.booked
