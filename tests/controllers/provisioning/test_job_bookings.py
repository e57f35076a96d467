"""A job of Kueue for which groups are booked by two ways has one booking."""

import asyncio
from typing import Any

import pytest

from master.kube.objects import PODS, QUOTAS
from master.kube.schedulers.provisioning import PROVISIONING_REQUESTS
from tests.controllers.nomination.masters import FLIES, until
from tests.controllers.nomination.objects import GPU, PAIR, WORDS, gated_pod
from tests.controllers.provisioning.request_world import RequestMaster, server_now, stamp
from tests.controllers.provisioning.test_requests import is_open, node_of
from tests.controllers.provisioning.test_workloads import WORKLOADS_AT, KueueCluster
from topo.gangs.annotation_keys import CONSUMES, KUEUE_WORKLOAD

pytestmark = pytest.mark.virtual_time
REQUEST = "job-train-dws-1"


class BothWays(KueueCluster):
    """A cluster whose masters answer for workloads and for requests, which Kueue writes."""

    def __init__(self, *, free: int) -> None:
        """`free`: how many pairs of nodes are."""
        super().__init__(has_requests=True)
        for pair in FLIES[free:]:
            self.take(min(pair))
        self.template()

    def request(self, pods: int = 2, size: str = "16") -> None:
        """Kueue's own check asks for capacity for the workload."""
        workload = self.api.objects[WORKLOADS_AT, "job-train"].document["metadata"]
        owner = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "name": "job-train",
            "uid": workload["uid"],
            "controller": True,
        }
        spec = {
            "provisioningClassName": WORDS.provisioning_class,
            "podSets": [{"podTemplateRef": {"name": "worker"}, "count": pods}],
            "parameters": {"gpu-group-size": size},
        }
        made = stamp(server_now())
        metadata = {"namespace": "jobs", "creationTimestamp": made, "ownerReferences": [owner]}
        self.api.add(PROVISIONING_REQUESTS, REQUEST, metadata=metadata, spec=spec)

    def start(self) -> list[Any]:
        """Kueue lets the job start: its pods name the workload and the request."""
        of_name, of_class = CONSUMES[0]
        words = {
            KUEUE_WORKLOAD: "job-train",
            of_name: REQUEST,
            of_class: WORDS.provisioning_class,
        }
        return [
            self.api.add(PODS, f"p-{rank}", **gated_pod(rank, PAIR, **words), status={})
            for rank in range(2)
        ]


def booked(master: RequestMaster) -> int:
    return sum(master.booked.values())


@pytest.mark.parametrize("free", [1, 4])
async def test_a_request_takes_over_what_was_booked_before_its_job_had_quota(free: int) -> None:
    """With exactly the groups that the job needs free, and with room for a second booking."""
    cluster = BothWays(free=free)
    async with cluster.master() as master:
        cluster.queue("train", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("train") == "")
        cluster.give_quota("train")
        await asyncio.sleep(1)
        cluster.request()
        await until(lambda: "Provisioned" in cluster.true(REQUEST))
        assert booked(master) == 16
        pods = cluster.start()
        await until(lambda: all(map(is_open, pods)))
        assert {node_of(pod) for pod in pods} in FLIES
        await asyncio.sleep(30)
        assert "CapacityRevoked" not in cluster.true(REQUEST)
        assert booked(master) <= 16


@pytest.mark.parametrize("free", [1, 4])
@pytest.mark.parametrize("first", ["check", "request"])
async def test_a_check_and_a_request_of_one_job_share_its_booking(free: int, first: str) -> None:
    cluster = BothWays(free=free)
    async with cluster.master() as master:
        cluster.queue("train", 2)
        await asyncio.sleep(1)
        if first == "request":
            cluster.request()
            await until(lambda: "Provisioned" in cluster.true(REQUEST))
            cluster.give_quota("train", "topo")
        else:
            cluster.give_quota("train", "topo")
            await until(lambda: cluster.check("train").get("state") == "Ready")
            cluster.request()
        await asyncio.sleep(60)
        assert cluster.true(REQUEST) == ["Accepted", "Provisioned"]
        assert cluster.check("train")["state"] == "Ready"
        assert booked(master) == 16
        kept = master.leader.placements.state.persistent_state()
    async with cluster.master(kept=kept) as second:
        await asyncio.sleep(60)
        assert cluster.true(REQUEST) == ["Accepted", "Provisioned"]
        assert cluster.check("train")["state"] == "Ready"
        assert booked(second) == 16


async def test_a_new_leader_that_lost_the_takeover_books_for_the_request_what_it_says() -> None:
    """It knows the booking before quota alone, which has nodes that the request was promised."""
    cluster = BothWays(free=1)
    async with cluster.master() as first:
        cluster.queue("train", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("train") == "")
        cluster.give_quota("train")
        await asyncio.sleep(1)
        kept = first.leader.placements.state.persistent_state()
        cluster.request()
        await until(lambda: "Provisioned" in cluster.true(REQUEST))
    async with cluster.master(kept=kept) as second:
        await asyncio.sleep(30)
        assert cluster.true(REQUEST) == ["Accepted", "Provisioned"]
        assert booked(second) == 16
        (hold,) = second.leader.placements.state.holds()
        assert (hold.wish.key or "").startswith("provisioning/")


async def test_a_booking_that_is_taken_over_counts_once_against_the_quota_of_its_namespace() -> (
    None
):
    cluster = BothWays(free=4)
    async with cluster.master() as master:
        hard = {f"requests.{GPU}": "16"}
        status = {"hard": hard, "used": {f"requests.{GPU}": "0"}}
        cluster.api.add(
            QUOTAS, "team", metadata={"namespace": "jobs"}, spec={"hard": hard}, status=status
        )
        cluster.queue("train", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("train") == "")
        cluster.give_quota("train")
        await asyncio.sleep(1)
        cluster.request()
        await until(lambda: "Provisioned" in cluster.true(REQUEST))
        assert booked(master) == 16


async def test_what_a_stranger_is_refused_is_not_refused_to_the_job_that_has_it_booked() -> None:
    """Both ask for the same in one moment."""
    cluster = BothWays(free=1)
    async with cluster.master():
        cluster.queue("train", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("train") == "")
        cluster.give_quota("train")
        await asyncio.sleep(1)
        cluster.ask("a-stranger", 2, **{"gpu-group-size": "16"})
        cluster.request()
        await asyncio.sleep(0.9)
        assert "Provisioned" in cluster.true(REQUEST)
        assert cluster.true("a-stranger") == ["Accepted"]


async def test_a_booking_of_which_pods_have_a_part_stays_theirs() -> None:
    cluster = BothWays(free=2)
    async with cluster.master() as master:
        cluster.queue("train", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("train") == "")
        cluster.give_quota("train")
        node = next(iter(master.booked))
        made = gated_pod(0, PAIR, **{KUEUE_WORKLOAD: "job-train"})
        made["spec"] |= {"schedulingGates": [], "nodeName": node}
        cluster.api.add(PODS, "p-0", **made, status={"phase": "Running"})
        await asyncio.sleep(1)
        cluster.request()
        await asyncio.sleep(10)
        assert "Provisioned" in cluster.true(REQUEST)
        assert booked(master) == 32


async def test_what_is_booked_for_another_job_is_not_taken_over() -> None:
    cluster = BothWays(free=1)
    async with cluster.master() as master:
        cluster.queue("other", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("other") == "")
        cluster.queue("train", 2)
        cluster.give_quota("train")
        await asyncio.sleep(1)
        cluster.request()
        await asyncio.sleep(30)
        assert cluster.true(REQUEST) == ["Accepted"]
        assert booked(master) == 16


@pytest.mark.parametrize(("pods", "size", "free"), [(2, "8", 1), (4, "16", 2), (4, "16", 1)])
async def test_a_request_for_more_than_was_booked_gets_that_or_leaves_the_booking_alone(
    pods: int, size: str, free: int
) -> None:
    cluster = BothWays(free=free)
    async with cluster.master() as master:
        cluster.queue("train", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("train") == "")
        cluster.give_quota("train")
        await asyncio.sleep(1)
        cluster.request(pods, size)
        await asyncio.sleep(10)
        has_room = pods <= 2 * free
        assert ("Provisioned" in cluster.true(REQUEST)) == has_room
        assert booked(master) == (8 * pods if has_room else 16)
