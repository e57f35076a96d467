"""What a gang keeps for pods that are not made yet is bounded by the budget of its namespace."""

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from master.controllers.nomination.gangs.members import AHEAD_S
from master.kube.objects import NODES, PODS, QUOTAS
from master.kube.schema.timestamps import timestamp
from tests.controllers.nomination.masters import NODE_NAMES, Leader, leading, until
from tests.controllers.nomination.objects import CREATED_S, GPU, WORDS, gated_pod
from tests.kube.api_model import ApiModel
from tests.support.kubernetes import node_status
from topo.gangs.stamp import Stamp
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.placement.booking.holds import HoldsMemory

pytestmark = pytest.mark.virtual_time
SHARE = 0.25
"""Of 64 GPUs: 16, one dragonfly of the vendor."""


@dataclass
class Tenants:
    """Four dragonflies of two nodes of 8 GPUs, and namespaces with jobs whose pods come late."""

    api: ApiModel = field(default_factory=lambda: ApiModel(delay_s=0.005))
    made: dict[tuple[str, str, int], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in NODE_NAMES:
            self.api.add(NODES, name, metadata={"labels": {}}, spec={}, status=node_status())

    def pod(
        self, namespace: str, job: str, rank: int, pods: int, *, late: bool = True, **more: Any
    ) -> None:
        """A gated pod of a job of so many, of which the others are made once it runs."""
        asked = {WORDS.is_late: "true"} if late else {}
        made = gated_pod(rank, Stamp(pods, 0, 2), uid=f"{namespace}-{job}", **asked)
        owner = made["metadata"]["ownerReferences"][0]
        made["metadata"] |= {
            "namespace": namespace,
            "ownerReferences": [{**owner, "name": job}],
            "creationTimestamp": timestamp(now_s()),
        }
        made["spec"] |= copy.deepcopy(more)
        name = f"{job}-{rank}"
        self.made[namespace, job, rank] = self.api.add(
            PODS, name, **made, status={"phase": "Pending"}
        )

    def node_is_closed(self, name: str) -> None:
        """A node on which no new pod may start."""
        node = self.api.objects["/api/v1/nodes", name]
        node.document["spec"]["unschedulable"] = True
        self.api.touch("/api/v1/nodes", name)

    def quota(self, namespace: str, hard: int, used: int) -> None:
        status = {"hard": {f"requests.{GPU}": str(hard)}, "used": {f"requests.{GPU}": str(used)}}
        self.api.add(
            QUOTAS,
            "gpus",
            metadata={"namespace": namespace},
            spec={"hard": status["hard"]},
            status=status,
        )

    def bind(self) -> None:
        """The scheduler binds each pod whose gate is off where it is nominated to."""
        for (namespace, job, rank), pod in self.made.items():
            spec, status = pod.document["spec"], pod.document["status"]
            if not spec["schedulingGates"] and "nodeName" not in spec:
                spec["nodeName"] = status.pop("nominatedNodeName")
                status["phase"] = "Running"
                self.api.touch(f"/api/v1/namespaces/{namespace}/pods", f"{job}-{rank}")

    def end(self, namespace: str, job: str) -> None:
        for key in [each for each in self.made if each[:2] == (namespace, job)]:
            del self.made[key]
            self.api.remove(PODS, f"{job}-{key[2]}", namespace)

    def node(self, namespace: str, job: str, rank: int) -> str:
        return str(self.made[namespace, job, rank].document["spec"].get("nodeName", ""))

    @asynccontextmanager
    async def master(self, kept: HoldsMemory | None = None) -> AsyncIterator[Leader]:
        async with leading(
            self.api,
            self.api,
            kept=kept,
            in_volcano=False,
            ahead_share=SHARE,
            server_now=now_s,
        ) as leader:
            yield leader


def now_s() -> float:
    """The clock of the API server."""
    return CREATED_S + asyncio.get_running_loop().time()


def status(leader: Leader, job: str) -> GangStatus:
    """The status of the gang of this job, of whatever namespace."""
    return next(s for gang, s in leader.nomination.view.all() if gang.name == job)


def state(leader: Leader, job: str) -> GangState | None:
    """The state of the same; None while it is not known."""
    found = (s.state for gang, s in leader.nomination.view.all() if gang.name == job)
    return next(found, None)


def kept(leader: Leader) -> dict[str, int]:
    """The GPUs that each namespace keeps ahead."""
    found: dict[str, int] = {}
    for each in leader.ahead.list_kept():
        found[each.namespace] = found.get(each.namespace, 0) + each.gpus
    return found


async def test_one_pod_that_states_seven_others_holds_no_place_and_says_what_it_may_hold():
    tenants = Tenants()
    async with tenants.master() as leader:
        tenants.pod("evil", "all", 0, 8)
        await asyncio.sleep(5)
        assert leader.holds == 0
        found = status(leader, "all")
        assert found.state is GangState.QUEUE
        assert found.text == (
            "namespace evil keeps 0 of 64 GPUs ahead of its pods and may keep 16 (--ahead-share"
            " 0.25 of 64 GPUs): this job would keep 56 more for 7 pods that are not there yet; "
            "have all of its pods made at once, or ask the operator for a ResourceQuota on "
            "requests.metax-tech.com/gpu (--ahead-share)"
        )
        for rank in range(8):
            tenants.pod("jobs", "train", rank, 8, late=False)
        await until(lambda: state(leader, "train") is GangState.OPENED)


async def test_pods_that_may_not_be_kept_are_no_members_whatever_one_pod_states():
    """The budget of a namespace may be large, and each gang within it: members are memory."""
    tenants = Tenants()
    async with tenants.master() as leader:
        tenants.quota("rich", 1_000_000, 0)
        for number in range(4):  # no node is free for them, so that all wait for their turn
            for at in NODE_NAMES:
                tenants.node_is_closed(at)
            tenants.pod("rich", f"many-{number}", 0, 4000)
            tenants.pod("evil", f"huge-{number}", 0, 10_000)
        await asyncio.sleep(10)
        members = {gang.name: len(gang.members) for gang, _ in leader.nomination.view.all()}
        assert {members[f"huge-{number}"] for number in range(4)} == {1}
        assert sorted(members[f"many-{number}"] for number in range(4)) == [1, 1, 4000, 4000]
        waits = [status(leader, f"many-{number}") for number in range(4)]
        assert sum("lack 7998 pods, this one 3999 more" in each.text for each in waits) == 2
        tenants.end("rich", next(n for n, size in members.items() if size == 4000))
        await asyncio.sleep(10)
        members = {gang.name: len(gang.members) for gang, _ in leader.nomination.view.all()}
        assert sorted(members[n] for n in members if n.startswith("many")) == [1, 4000, 4000]


async def test_a_late_gang_within_the_share_starts_and_its_places_are_kept():
    tenants = Tenants()
    async with tenants.master() as leader:
        tenants.pod("jobs", "late", 0, 3)
        await until(lambda: state(leader, "late") is GangState.OPENED)
        tenants.bind()
        await asyncio.sleep(1)
        assert kept(leader) == {"jobs": 16}
        for rank in range(7):
            tenants.pod("others", "train", rank, 7, late=False)
        await asyncio.sleep(2)
        assert state(leader, "train") is GangState.NO_ROOM
        for rank in (1, 2):
            tenants.pod("jobs", "late", rank, 3)
        await asyncio.sleep(2)
        tenants.bind()
        await asyncio.sleep(1)
        assert kept(leader) == {}
        assert all(tenants.node("jobs", "late", rank) for rank in range(3))


async def test_what_a_resource_quota_leaves_is_the_limit_whatever_the_share_is():
    tenants = Tenants()
    async with tenants.master() as leader:
        tenants.quota("large", 64, 8)
        tenants.pod("large", "all", 0, 8)
        await until(lambda: state(leader, "all") is GangState.OPENED)
        assert kept(leader) == {"large": 56}
        tenants.end("large", "all")
        tenants.quota("small", 16, 8)
        tenants.pod("small", "three", 0, 3)
        await asyncio.sleep(3)
        found = status(leader, "three")
        assert found.state is GangState.QUEUE
        assert found.text == (
            "namespace small keeps 0 of 64 GPUs ahead of its pods and may keep 8 (ResourceQuota"
            f" small/gpus: requests.{GPU} 8 of 16 used): this job would keep 16 more for 2 pods"
            " that are not there yet; raise that quota, or end what keeps the others (topo gangs)"
        )


async def test_all_late_gangs_of_a_namespace_share_its_budget_and_the_next_has_it_when_one_ends():
    tenants = Tenants()
    async with tenants.master() as leader:
        for job in ("a", "b", "c"):
            tenants.pod("evil", job, 0, 2)
            await asyncio.sleep(1)
        states = [state(leader, job) for job in ("a", "b", "c")]
        assert states == [GangState.OPENED, GangState.OPENED, GangState.QUEUE]
        assert kept(leader) == {"evil": 16}
        tenants.pod("good", "d", 0, 3)
        await until(lambda: state(leader, "d") is GangState.OPENED)
        tenants.end("evil", "a")
        await until(lambda: state(leader, "c") is GangState.OPENED)
        assert kept(leader) == {"evil": 16, "good": 16}


async def test_gangs_that_come_in_one_moment_get_no_more_than_the_budget_together():
    tenants = Tenants()
    async with tenants.master() as leader:
        for number in range(8):
            tenants.pod("evil", f"j{number}", 0, 2)
        for _ in range(100):
            await asyncio.sleep(0.02)
            assert kept(leader).get("evil", 0) <= 16
        assert kept(leader) == {"evil": 16}
        for rank in range(2):
            tenants.pod("good", "pair", rank, 2, late=False)
        await until(lambda: state(leader, "pair") is GangState.OPENED)


async def test_a_refusal_by_budget_delays_no_gang_of_another_namespace_that_asks_the_same():
    tenants = Tenants()
    async with tenants.master() as leader:
        for number in range(3):
            tenants.pod("evil", f"j{number}", 0, 2)
            tenants.pod("good", f"k{number}", 0, 2)
        await asyncio.sleep(3)
        assert kept(leader) == {"evil": 16, "good": 16}


async def test_places_end_an_hour_after_the_newest_pod_and_what_runs_stays():
    tenants = Tenants()
    async with tenants.master() as leader:
        tenants.pod("jobs", "late", 0, 3)
        await until(lambda: state(leader, "late") is GangState.OPENED)
        tenants.bind()
        await asyncio.sleep(AHEAD_S - 60)
        assert kept(leader) == {"jobs": 16}
        await asyncio.sleep(120)
        assert leader.holds == 0
        assert tenants.node("jobs", "late", 0)
        assert state(leader, "late") is GangState.PODS_MISSING


async def test_a_pod_that_its_scheduler_never_binds_keeps_no_places_for_ever():
    tenants = Tenants()
    async with tenants.master() as leader:
        tenants.pod("evil", "never", 0, 3)
        await until(lambda: state(leader, "never") is GangState.OPENED)
        await asyncio.sleep(2 * AHEAD_S)
        assert leader.placements.state.holds() == []


async def test_a_gang_that_waits_for_room_longer_than_places_are_kept_starts_when_there_is_room():
    tenants = Tenants()
    async with tenants.master() as leader:
        for rank in range(8):
            tenants.pod("others", "full", rank, 8, late=False)
        await until(lambda: state(leader, "full") is GangState.OPENED)
        tenants.bind()
        tenants.pod("jobs", "late", 0, 3)
        await asyncio.sleep(2 * AHEAD_S)
        assert state(leader, "late") is GangState.NO_ROOM
        tenants.end("others", "full")
        await until(lambda: state(leader, "late") is GangState.OPENED)
        await asyncio.sleep(AHEAD_S / 2)
        assert kept(leader) == {"jobs": 16}


@pytest.mark.parametrize("is_kept", [True, False])
async def test_the_next_leader_lets_a_gang_keep_what_it_has_and_no_other_more(
    *, is_kept: bool
) -> None:
    tenants = Tenants()
    async with tenants.master() as leader:
        tenants.pod("evil", "a", 0, 3)
        await until(lambda: state(leader, "a") is GangState.OPENED)
        tenants.bind()
        tenants.pod("evil", "b", 0, 2)
        await asyncio.sleep(2)
        memory = leader.placements.state.persistent_state()
    async with tenants.master(memory if is_kept else None) as leader:
        await asyncio.sleep(5)
        assert kept(leader) == {"evil": 16}
        assert state(leader, "a") is GangState.PODS_MISSING
        assert state(leader, "b") is GangState.QUEUE


async def test_a_gang_that_has_begun_keeps_what_it_has_when_the_quota_falls_and_gets_no_more():
    tenants = Tenants()
    async with tenants.master() as leader:
        tenants.quota("jobs", 64, 8)
        tenants.pod("jobs", "late", 0, 5)
        await until(lambda: state(leader, "late") is GangState.OPENED)
        tenants.bind()
        tenants.api.remove(QUOTAS, "gpus", "jobs")
        tenants.quota("jobs", 8, 8)
        await asyncio.sleep(400)  # it is read again meanwhile
        assert kept(leader) == {"jobs": 32}
        tenants.pod("jobs", "next", 0, 2)
        await asyncio.sleep(3)
        assert state(leader, "next") is GangState.QUEUE
    async with tenants.master() as leader:  # what it had is not known any more
        await asyncio.sleep(3)
        assert kept(leader) == {}
        found = status(leader, "late")
        assert found.state is GangState.PODS_MISSING
        assert "may keep 0 (ResourceQuota jobs/gpus" in found.text
        tenants.pod("jobs", "late", 1, 5)
        await asyncio.sleep(3)
        tenants.bind()
        assert tenants.node("jobs", "late", 1), "a pod that exists is placed beside it"


async def test_the_places_of_deleted_pods_are_given_up_and_those_of_others_stay():
    tenants = Tenants()
    async with tenants.master() as leader:
        for rank in range(8):
            tenants.pod("evil", "all", rank, 8, late=False)
        await until(lambda: state(leader, "all") is GangState.OPENED)
        assert kept(leader) == {}
        for rank in range(1, 8):
            del tenants.made["evil", "all", rank]
            tenants.api.remove(PODS, f"all-{rank}", "evil")
        await asyncio.sleep(3)
        assert kept(leader) == {}
        for rank in range(4):
            tenants.pod("good", "train", rank, 4, late=False)
        await until(lambda: state(leader, "train") is GangState.OPENED)
        tenants.bind()
        assert tenants.node("evil", "all", 0), "the pod that is there has its node"
