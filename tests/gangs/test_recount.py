"""A count that shares nothing with the engine finds room only where the engine does, too."""

import random
from dataclasses import replace

import pytest

from tests.publish.forests import VENDOR
from topo.gangs.decisions.capacity_recount import Seen, certainly_fits
from topo.model.cluster import ClusterNode, Taint
from topo.model.forest import Forest, Snapshot
from topo.model.ids import Generation, Kind, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host_follower import HostFollower
from topo.placement.engine import place
from topo.placement.job.plan import Plan
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, PlacementMode, Request

GPU = "metax-tech.com/gpu"
NODES = [NodeName(f"node-{number}") for number in range(1, 9)]
"""Four dragonflies of two."""


def stated(name: NodeName, **more: object) -> ClusterNode:
    return ClusterNode(name=name, allocatable=((GPU, 8),), **more)  # type: ignore[arg-type]


def seen(used: dict[NodeName, int], *others: ClusterNode, forest: Forest = VENDOR) -> Seen:
    cluster = {name: stated(name) for name in NODES} | {each.name: each for each in others}
    return Seen(forest=forest, cluster=cluster, used=used, policy=Policy())


def pairs(pods: int, **more: object) -> Request:
    return Request(pods=pods, gpus_per_pod=8, group_size=16, **more)  # type: ignore[arg-type]


HALF = {NODES[0]: 8, NODES[2]: 8, NODES[4]: 8}
"""The last dragonfly is free, of the others one node each."""


@pytest.mark.parametrize(("pods", "expected"), [(1, True), (2, True), (3, False), (4, False)])
def test_groups_are_counted_whole_and_a_smaller_last_one_as_one(pods: int, expected: bool):  # noqa: FBT001
    assert certainly_fits(pairs(pods), seen(HALF)) is expected


@pytest.mark.parametrize(
    "closed",
    [
        stated(NODES[7], ready=False),
        stated(NODES[7], unschedulable=True),
        stated(NODES[7], taints=(Taint("other"),)),
        stated(NODES[7], pool="inference"),
        stated(NODES[7], shared=(("metax-tech.com/sgpu", 4),)),
        ClusterNode(name=NODES[7]),
    ],
)
def test_a_node_in_doubt_is_no_room(closed: ClusterNode):
    assert not certainly_fits(pairs(2), seen(HALF, closed))


@pytest.mark.parametrize(
    "request_",
    [
        pairs(2, mode=PlacementMode.PREFERRED),
        pairs(2, within=Kind("switchbox")),
        pairs(2, eligible=Eligibility(selector=(("a", "b"),))),
        pairs(2, eligible=Eligibility(exclude=frozenset({NODES[7]}))),
        pairs(2, eligible=Eligibility(gpu_type="another")),
    ],
)
def test_what_it_does_not_judge_it_claims_nothing_of(request_: Request):
    assert not certainly_fits(request_, seen(HALF))


def test_no_groups_are_no_room():
    assert not certainly_fits(pairs(2), seen({}, forest=Forest()))


def test_whatever_is_used_room_that_it_finds_the_engine_finds_too():
    draw = random.Random(12)
    found = 0
    for _ in range(300):
        used = {name: draw.choice((0, 0, 4, 8)) for name in NODES}
        size = draw.choice((8, 16, 32))
        gpus = draw.choice((4, 8))
        request = Request(pods=draw.randint(1, 8), gpus_per_pod=gpus, group_size=size)
        capacity = Capacity(Policy())
        follower = HostFollower(capacity)
        follower.follow(Snapshot(Generation(1), VENDOR).forest)
        follower.follow_cluster([stated(name) for name in NODES])
        for name, taken in used.items():
            if taken:
                capacity.book(f"pod/{name}", {name: taken})
        fits = isinstance(place(capacity, request), Plan)
        claimed = certainly_fits(request, replace(seen(used)))
        assert fits or not claimed, (request, used)
        found += claimed
    assert found > 60, "it finds room often, so it would tell"
