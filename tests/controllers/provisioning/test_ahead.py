"""What is booked for requests and queued jobs is bounded by the budget of their namespace."""

import asyncio

import pytest

from master.kube.objects import QUOTAS
from tests.controllers.nomination.masters import FLIES, until
from tests.controllers.nomination.objects import GPU, WORDS
from tests.controllers.provisioning.request_world import RequestCluster, RequestMaster
from tests.controllers.provisioning.test_workloads import KueueCluster

pytestmark = pytest.mark.virtual_time
SHARE = 0.25


def quota(cluster: RequestCluster, hard: int) -> None:
    amounts = {f"requests.{GPU}": str(hard)}
    cluster.api.add(
        QUOTAS,
        "gpus",
        metadata={"namespace": "jobs"},
        spec={"hard": amounts},
        status={"hard": amounts, "used": dict.fromkeys(amounts, "0")},
    )


def kept(master: RequestMaster) -> int:
    return sum(each.gpus for each in master.leader.ahead.list_kept("jobs"))


async def test_requests_of_a_namespace_get_no_more_than_its_share_and_say_so():
    cluster = RequestCluster()
    async with cluster.master(ahead_share=SHARE) as master:
        cluster.template()
        cluster.ask("first", 2, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("first"))
        cluster.ask("second", 2, **{"gpu-group-size": "16"})
        await asyncio.sleep(15)
        assert cluster.true("second") == ["Accepted"]
        assert kept(master) == 16
        message = cluster.conditions("second")["Provisioned"]["message"]
        assert message.startswith(
            "namespace jobs keeps 16 of 64 GPUs ahead of its pods and may keep 16 (--ahead-share"
            " 0.25 of 64 GPUs): this job would keep 16 more for 2 pods that are not there yet"
        )
        cluster.delete("first")
        await until(lambda: "Provisioned" in cluster.true("second"))
        assert kept(master) == 16


async def test_what_its_resource_quota_leaves_is_the_limit_of_requests():
    cluster = RequestCluster()
    quota(cluster, 48)
    async with cluster.master(ahead_share=0) as master:
        cluster.template()
        cluster.ask("most", 6, **{"gpu-group-size": "16"})
        await until(lambda: "Provisioned" in cluster.true("most"))
        cluster.ask("more", 2, **{"gpu-group-size": "16"})
        await asyncio.sleep(15)
        assert kept(master) == 48
        assert "ResourceQuota jobs/gpus" in cluster.conditions("more")["Provisioned"]["message"]


async def test_a_request_that_lasts_too_long_over_the_budget_fails_and_one_that_has_its_own_stays():
    cluster = RequestCluster()
    async with cluster.master(ahead_share=SHARE) as master:
        cluster.template()
        cluster.ask("first", 2, **{"gpu-group-size": "16"}, BookingSeconds="3000")
        await asyncio.sleep(2)
        cluster.ask("second", 2, **{"gpu-group-size": "16"})
        await until(lambda: "Failed" in cluster.true("second"), 700)
        assert cluster.true("first") == ["Accepted", "Provisioned"]
        memory = master.leader.placements.state.persistent_state()
    async with cluster.master(kept=memory, ahead_share=0) as master:
        await asyncio.sleep(5)
        assert cluster.true("first") == ["Accepted", "Provisioned"], "it keeps what it was promised"
        assert kept(master) == 16


async def test_a_workload_with_its_queues_quota_is_bounded_by_that_and_not_by_the_share():
    cluster = KueueCluster()
    async with cluster.master(ahead_share=SHARE) as master:
        cluster.queue("large", 8)
        cluster.give_quota("large", "topo")
        await until(lambda: cluster.check("large").get("state") == "Ready")
        assert kept(master) == 64
        (row,) = master.leader.ahead.shown()
        assert (row.gpus, row.counted) == (64, 0)


async def test_jobs_that_are_held_before_their_quota_count_against_the_share():
    cluster = KueueCluster()
    async with cluster.master(ahead_share=SHARE) as master:
        cluster.queue("large", 4, WORDS.whole_groups)
        cluster.queue("small", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("small") == "")
        await asyncio.sleep(15)
        assert cluster.gates("large") == WORDS.whole_groups
        assert master.booked == dict.fromkeys(FLIES[0], 8)
        record = next(
            each for each in master.controller.machine.records() if each.request.name == "job-large"
        )
        assert record.refused is not None
        assert record.refused.text.startswith("namespace jobs keeps 16 of 64 GPUs")
        # With quota in its queue the job is bounded by that.
        cluster.give_quota("small")
        await asyncio.sleep(2)
        assert kept(master) == 16
        assert [(row.gpus, row.counted) for row in master.leader.ahead.shown()] == [(16, 0)]
