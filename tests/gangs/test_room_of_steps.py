"""What a gang's own pods take of a node is not there for its others, in whatever step they come."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.test_evicting import asked
from tests.gangs.world import Cluster
from tests.support.capacity import cluster
from topo.gangs.decisions.check import lost_nodes
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import GangId
from topo.gangs.machine.instructions import Check, Place
from topo.model.ids import NodeName
from topo.model.pod_requests import Amounts
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.node_room import NodeRoom
from topo.placement.capacity.pod_room import PodRoom
from topo.placement.job.request import Eligibility, Request

N1, N2 = NodeName("n1-1-1"), NodeName("n1-1-2")
HALF: Amounts = (("cpu", 20_000), ("pods", 1_000))
"""By GPUs two such pods of 4 GPUs are on a node, by 64 CPUs three, by 30 of them one."""
PAIRS = Request(pods=4, gpus_per_pod=4, group_size=8)
"""Two groups of two pods of 4 GPUs: the GPUs of a dragonfly of two nodes."""


def dragonfly(cpus: int) -> tuple[Capacity, NodeRoom]:
    """The vendor's dragonfly of two nodes of eight GPUs, with so many CPUs left on the first."""
    capacity, room = cluster((2,)), NodeRoom()
    capacity.limit_by(room)
    for node, left in ((N1, cpus), (N2, 64)):
        room.set_node(node, {"cpu": 64_000, "pods": 110_000}, 8)
        room.set_pod(f"on-{node}", node, (("cpu", (64 - left) * 1_000),))
    return capacity, room


def answer(
    world: tuple[Capacity, NodeRoom], question: Place, owners: Sequence[str] = ()
) -> Placed | Refused:
    own = [pod.uid for pod in question.wanted]
    room = PodRoom(world[1], HALF, question.request.gpus_per_pod, own)
    return answer_place(world[0], replace(question, takes=HALF), owners, room=room)


def run(world: tuple[Capacity, NodeRoom], rank: int, node: NodeName) -> tuple[int, NodeName]:
    """A pod of the gang runs on the node."""
    world[0].book(f"pod/{rank}", {node: 4})
    world[1].set_pod(f"p{rank}", node, HALF)
    return rank, node


@pytest.mark.parametrize(("cpus", "answered"), [(39, Refused), (40, Placed)])
def test_two_groups_that_lost_pods_rejoin_one_dragonfly_within_its_cpus(
    cpus: int, answered: type
) -> None:
    """One pod of each group runs on the second node; both others need the first one."""
    world = dragonfly(cpus)
    kept = (run(world, 0, N2), run(world, 2, N2))
    ask = asked(4, request=PAIRS)
    question = replace(ask, wanted=(ask.wanted[1], ask.wanted[3]), kept=kept)
    found = answer(world, question)
    assert isinstance(found, answered)
    if isinstance(found, Placed):
        assert found.nodes == (N1, N1)
    else:
        assert "1 have cpu for fewer pods than GPUs (a pod takes 20)" in found.text


@pytest.mark.parametrize(("cpus", "node"), [(39, N2), (40, N1)])
def test_a_place_that_is_kept_keeps_all_that_its_pod_takes(cpus: int, node: NodeName) -> None:
    """A pod without a node joins one whose place the hold books on the first node."""
    world = dragonfly(cpus)
    world[0].book("hold", {N1: 4})
    ask = asked(2, request=replace(PAIRS, pods=2))
    stays, wanted = ask.wanted
    question = replace(ask, wanted=(wanted,), kept=((0, N1),), held=((stays, N1),))
    for _ in range(2):
        found = answer(world, question, ["hold"])
        assert isinstance(found, Placed)
        assert found.nodes == (node,)
        world[1].set_pod(stays.uid, N1, HALF)  # it is opened, and counts on its node by itself


@pytest.mark.parametrize(("cpus", "answered"), [(39, Refused), (40, Placed)])
def test_groups_of_pods_that_differ_share_the_cpus_of_a_node(cpus: int, answered: type) -> None:
    """Each pod is a group, and both are tied to the first node by different rules."""
    world = dragonfly(cpus)
    ties = (
        Eligibility(exclude=frozenset({N2})),
        Eligibility(exclude=frozenset({N2, NodeName("x")})),
    )
    wish = Request(pods=2, gpus_per_pod=4, group_size=4, by_rank=tuple((1, tie) for tie in ties))
    found = answer(world, asked(2, request=wish))
    assert isinstance(found, answered)


def test_a_plan_is_checked_for_all_that_its_pods_take() -> None:
    """Before any gate is opened: what a neighbour takes meanwhile is seen then or never."""
    cluster = Cluster(dragonflies(2))
    cluster.submit(job("a", 2, takes=HALF))
    leader = Leader.over(cluster)
    leader.settle()
    asked_for = [each.takes for each in leader.given if isinstance(each, Place | Check)]
    assert any(isinstance(each, Check) for each in leader.given)
    assert {*asked_for} == {HALF}


def check(*waiting: NodeName, over: int | None = None) -> Check:
    pods = asked(4, request=PAIRS).wanted
    seats = tuple(zip(pods, waiting, strict=False))
    known = {"id": GangId("a"), "ask": 1, "request": PAIRS, "bound": (), "holds": ()}
    return Check(waiting=seats, takes=HALF, over=over, **known)  # type: ignore[arg-type]


def test_a_place_is_lost_once_a_neighbour_has_its_cpus() -> None:
    """The pods' own share of the node is theirs, whether they are counted already or not."""
    world = dragonfly(64)
    asks = check(N1, N1)
    own = [pod.uid for pod, _ in asks.waiting]
    room = PodRoom(world[1], HALF, 4, own)
    assert lost_nodes(world[0], asks, (), room) == ()
    world[1].set_pod(own[0], N1, HALF)
    assert lost_nodes(world[0], asks, (), room) == ()
    world[1].set_pod("neighbour", N1, (("cpu", 24_000),))
    assert lost_nodes(world[0], asks, (), room) == ()
    world[1].set_pod("neighbour", N1, (("cpu", 25_000),))
    assert lost_nodes(world[0], asks, (), room) == ((N1, "node n1-1-1 lacks cpu for 2 pods"),)
    assert lost_nodes(world[0], check(N1, N2), (), room) == ()
