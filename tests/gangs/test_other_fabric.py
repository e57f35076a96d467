"""Gangs inside one leaf of another fabric: placed, replaced, checked, reserved and planned over."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.gangs.jobs import Job
from tests.gangs.leader import Leader
from tests.gangs.test_evicting import asked, full
from tests.gangs.world import Cluster
from tests.placement.test_other_fabric import LEAF, on, pairs
from tests.support.capacity import take
from topo.gangs.decisions.check import apart_groups, settled_groups
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.decisions.reservation import reservation
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import GangId
from topo.gangs.machine.instructions import Check, Nominate, Open
from topo.gangs.note_codec import decode, encode_note
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.job.request import Eligibility, PlacementMode, Request


def wish(pods: int, size: int = 16, **more: object) -> Request:
    return Request(pods=pods, gpus_per_pod=8, group_size=size, within=LEAF, **more)  # type: ignore[arg-type]


def leaves(capacity: CapacityView, nodes: Iterable[NodeName]) -> set[str]:
    hosts = (capacity.host(node) for node in nodes)
    return {host.elsewhere[-1].path[-1] if host else "" for host in hosts}


def check(request: Request, *bound: str, waiting: tuple[str, ...] = ()) -> Check:
    member = asked(request.pods).wanted
    ran = tuple((rank, NodeName(node)) for rank, node in enumerate(bound))
    waits = tuple(zip(member[len(bound) :], map(NodeName, waiting), strict=False))
    return Check(id=GangId("a"), ask=1, request=request, waiting=waits, bound=ran, holds=())


def test_a_gang_gets_whole_dragonflies_of_one_leaf() -> None:
    capacity = pairs(8)
    found = answer_place(capacity, asked(4, request=wish(4)), ())
    assert isinstance(found, Placed)
    assert leaves(capacity, found.nodes) == {"a"}
    refused = answer_place(capacity, asked(6, request=wish(6)), ())
    assert isinstance(refused, Refused)
    assert "no leaf can take all 6 pods in their groups now" in refused.text
    assert refused.never is True, "a leaf has two whole dragonflies, however idle it is"


def test_a_plan_names_its_leaf_in_the_notes_of_its_pods_and_while_it_is_prepared() -> None:
    cluster = Cluster(pairs(8))
    leader = Leader.over(cluster)
    cluster.submit(Job(GangId("a"), wish(4)))
    leader.settle()
    leaf = "leaf spine/a of scale-out"
    notes = {each.note.inside for each in leader.given if isinstance(each, Nominate)}
    assert notes == {leaf}
    texts = [each.text for each in leader.said if each.state is GangState.PLACED]
    assert texts == [f"its nodes are being prepared, all of them inside {leaf}"]
    note = next(each.note for each in leader.given if isinstance(each, Open))
    assert decode(GangId("a"), encode_note(GangId("a"), note)) == (note, "")


def test_a_replacement_goes_inside_the_leaf_of_the_pods_that_stay() -> None:
    capacity, request = pairs(8), wish(3, 8)
    stays = ((0, NodeName("n2x")), (1, NodeName("n2y")))
    wanted = asked(3).wanted[2:]
    question = asked(3, request=request, wanted=wanted, kept=stays)
    found = answer_place(capacity, question, ())
    assert isinstance(found, Placed)
    assert leaves(capacity, found.nodes) == {"b"}
    for host in capacity.hosts():
        if "b" in leaves(capacity, [host.name]):
            take(capacity, host.name)
    assert isinstance(answer_place(capacity, question, ()), Refused), "leaf a has room, and is out"


def test_a_running_gang_that_lost_its_leaf_says_so() -> None:
    capacity, request = pairs(4), wish(4)
    ran = check(request, "n0x", "n0y", "n0x", "n0y")
    assert settled_groups(capacity, ran) == ()
    host = capacity.host(NodeName("n0y"))
    assert host is not None
    apart = check(request, "n0x", "n0y", "n2x", "n2y")
    assert apart_groups(capacity, apart) == (1,)
    capacity.upsert(replace(host, elsewhere=on("b")))
    assert apart_groups(capacity, check(request, "n0x", "n0x", "n0x", "n0y")) == (1,)
    capacity.upsert(replace(host, elsewhere=()))
    assert apart_groups(capacity, check(request, "n0x", "n0x", "n0x", "n0y")) == (1,)
    waits = check(request, "n0x", "n0x", waiting=("n2x", "n2y"))
    assert apart_groups(capacity, waits) == (1,), "the running pods say where it is"


def test_nodes_are_reserved_inside_the_leaf_that_lacks_least() -> None:
    capacity = pairs(8)
    for name in ("n0x", "n0y", "n4x", "n4y", "n2x"):
        take(capacity, name)
    assert set(reservation(capacity, wish(4))) == {"n2x", "n2y", "n6x", "n6y"}
    assert reservation(capacity, wish(6)) == ()
    loose = wish(7, mode=PlacementMode.PREFERRED)
    assert leaves(capacity, reservation(capacity, loose)) == {"b"}


def test_a_gang_is_planned_over_pods_of_one_leaf_alone() -> None:
    capacity = pairs(4)
    cheap = [(node, 0, node) for node in ("n1x", "n1y", "n3x", "n3y")]
    evictable = full(capacity, ("n0x", 5, "j"), ("n0y", 5, "j"), ("n2x", 1, "k"), *cheap)
    found = answer_place(capacity, asked(2, request=wish(2)), (), lambda: evictable)
    assert isinstance(found, Placed)
    # n2y is free; no cheaper dragonfly is whole inside a leaf.
    assert set(found.nodes) == {"n2x", "n2y"}
    assert [pod.node for pod in found.evicted] == ["n2x"]


@pytest.mark.parametrize("size", [8, 16])
def test_pods_that_may_use_different_nodes_share_one_leaf(size: int) -> None:
    capacity = pairs(8)
    for name in ("n0x", "n4y"):  # no dragonfly is whole on leaf a
        take(capacity, name)
    out = Eligibility(exclude=frozenset({NodeName("n2x")}))
    request = wish(4, size, by_rank=((1, out), (3, Eligibility())))
    found = answer_place(capacity, asked(4, request=request), ())
    assert isinstance(found, Placed)
    assert len(leaves(capacity, found.nodes)) == 1
    assert found.nodes[0] != "n2x"
    halves = wish(2, 16, by_rank=((1, Eligibility(exclude=out.exclude)), (1, Eligibility())))
    for name in ("n2y", "n6x"):
        take(capacity, name)
    refused = answer_place(capacity, asked(2, request=halves), ())
    assert isinstance(refused, Refused), "d1 is whole, and lies across two leaves"
