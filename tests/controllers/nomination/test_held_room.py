"""CPUs that a planned gang will take are not planned twice, before any of its pods is opened."""

from dataclasses import replace

import prometheus_client as prom

from master.booking.metrics import PlacementMetrics
from master.booking.placements import Placements
from master.controllers.nomination.placement_answers import PlacementAnswers
from tests.publish.forests import VENDOR
from topo.gangs.machine.events import Planned, Refused
from topo.gangs.machine.gang import Binding, Gang, GangId, Member, PodUid
from topo.gangs.machine.instructions import Check, Place
from topo.model.cluster import ClusterNode
from topo.model.forest import Snapshot
from topo.model.ids import Generation, NodeName
from topo.model.pod_requests import Amounts
from topo.placement.booking.holds import Limits
from topo.placement.job.policy import Policy
from topo.placement.job.request import Request

NAMES = tuple(NodeName(f"node-{number}") for number in range(1, 9))
HALF = Request(pods=2, gpus_per_pod=4, group_size=8)
TAKES = (("cpu", 40_000), ("pods", 1_000))
"""Two pods of 4 GPUs have the GPUs of one node and the CPUs of none."""


def answers() -> PlacementAnswers:
    """The vendor's example of eight nodes, of 8 GPUs and 64 CPUs each."""
    metrics = PlacementMetrics(prom.CollectorRegistry())
    state = Placements(Policy(), Limits(), metrics, lambda: 0.0).state
    gpus = (("metax-tech.com/gpu", 8),)
    state.follow_cluster([ClusterNode(name=name, allocatable=gpus) for name in NAMES])
    state.follow(Snapshot(Generation(1), VENDOR))
    for name in NAMES:
        state.room.set_node(name, {"cpu": 64_000, "pods": 110_000}, 8)
    return PlacementAnswers(state, 60.0)


def pair(name: str, members: tuple[Member, ...], request: Request, takes: Amounts = ()) -> Gang:
    """A gang of two pods that Volcano binds together."""
    return Gang(
        id=GangId(name),
        namespace="jobs",
        name=name,
        kind="Job",
        binding=Binding.WHOLE,
        request=request,
        at_least=2,
        priority=0,
        created_s=0.0,
        members=members,
        takes=takes,
        labelled={},
    )


def place(made: PlacementAnswers, name: str) -> Planned | Refused:
    """Place a gang of two pods, which is known from then on."""
    wanted = tuple(
        Member(uid=PodUid(f"{name}-{rank}"), name=f"{name}-{rank}", rank=rank, version="1")
        for rank in range(2)
    )
    gang = pair(name, wanted, HALF, TAKES)
    made.known = {**made.known, gang.id: gang}
    asked = Place(id=gang.id, ask=1, request=HALF, wanted=wanted, takes=TAKES)
    return made.place(asked, tuple)


def test_no_node_is_planned_for_more_cpus_than_it_has() -> None:
    """Eight nodes take eight such pods: four gangs of two, each pod on a node of its own."""
    made = answers()
    planned = [place(made, name) for name in "abcd"]
    nodes = [node for each in planned if isinstance(each, Planned) for node in each.nodes]
    assert sorted(nodes) == sorted(NAMES)
    refused = place(made, "e")
    assert isinstance(refused, Refused)
    assert "of 8 nodes with free GPUs for a pod 8 lack cpu (a pod takes 40)" in refused.text
    made.release(planned[0].hold)  # type: ignore[union-attr]
    again = place(made, "e")
    assert isinstance(again, Planned)
    assert sorted(again.nodes) == sorted(planned[0].nodes)  # type: ignore[union-attr]


def lost(made: PlacementAnswers, name: str, plan: Planned, over: int | None = None) -> set[str]:
    """The nodes that a check of the plan of a gang finds short."""
    pods = made.known[GangId(name)].members
    check = Check(
        id=GangId(name),
        ask=2,
        request=HALF,
        waiting=tuple(zip(pods, plan.nodes, strict=True)),
        bound=(),
        holds=(plan.hold,),
        takes=TAKES,
        over=over,
    )
    return {node for node, _ in made.check(check, "", ()).lost}


def test_a_plan_whose_cpus_somebody_took_is_found_before_its_gates_are_opened() -> None:
    """Its own pods and its own hold take nothing from it, once they are counted on their nodes."""
    made = answers()
    plan = place(made, "a")
    assert isinstance(plan, Planned)
    assert lost(made, "a", plan) == set()
    made._state.room.set_pod("a-0", plan.nodes[0], TAKES)
    assert lost(made, "a", plan) == set()
    made._state.room.set_pod("neighbour", plan.nodes[1], (("cpu", 25_000),))
    assert lost(made, "a", plan) == {plan.nodes[1]}
    assert lost(made, "a", plan, over=9) == set(), "evictions are counted in GPUs alone"


def test_a_plan_has_no_room_that_the_hold_of_another_gang_keeps() -> None:
    """The other one's pods are not opened, so that no pod takes these CPUs yet."""
    made = answers()
    plan, other = place(made, "a"), place(made, "b")
    assert isinstance(plan, Planned)
    assert isinstance(other, Planned)
    moved = replace(plan, nodes=(plan.nodes[0], other.nodes[1]))
    assert lost(made, "a", moved) == {other.nodes[1]}
