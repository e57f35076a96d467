"""Small gangs of pods that may use different nodes: what is proven, and what it may cost."""

from dataclasses import replace

from tests.gangs.test_evicting import asked
from tests.support.capacity import capacity_of, host
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.events import Refused
from topo.model.ids import SWITCHBOX, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.job.request import Eligibility, Request

ANY = Eligibility()
ELSEWHERE = Eligibility(exclude=frozenset({NodeName("x")}))
"""Of another kind than `ANY`, and on the same nodes."""


def boxes(*names: str, flies: int = 3) -> Capacity:
    """Switchboxes of so many dragonflies of two nodes: A0-1 is the first node of the first one."""
    hosts = [
        host(f"{name}{fly}-{at}", (name, f"{name}d{fly}"))
        for name in names
        for fly in range(flies)
        for at in (1, 2)
    ]
    return capacity_of(hosts)


def unlike(pods: int, **more: object) -> Request:
    """Pods of a node each, of two kinds in turn, each a group of its own."""
    by_rank = tuple((1, (ANY, ELSEWHERE)[rank % 2]) for rank in range(pods))
    known = {"group_size": 8, "by_rank": by_rank}
    return Request(pods=pods, gpus_per_pod=8, **(known | more))  # type: ignore[arg-type]


def placed(
    capacity: CapacityView, wish: Request, kept: tuple[str, ...] = (), **more: object
) -> Placed | Refused:
    """The answer to a gang of which the first pods stay on these nodes."""
    question = asked(wish.pods, wish.group_size, request=wish, over=None)
    there = tuple((rank, NodeName(node)) for rank, node in enumerate(kept))
    question = replace(question, wanted=question.wanted[len(kept) :], kept=there)
    return answer_place(capacity, replace(question, **more), ())  # type: ignore[arg-type]


def test_what_comes_beside_pods_in_two_groups_of_the_kind_is_searched_before_it_is_certified() -> (
    None
):
    """Two of the pods find nodes beside those that stay, and the others share a dragonfly."""
    capacity = boxes("A", "B", "C")
    for node in ("A0-1", "B0-1"):
        capacity.book(node, {NodeName(node): 8})
    found = placed(capacity, unlike(6, within=SWITCHBOX), ("A0-1", "B0-1"))
    assert isinstance(found, Placed)
    assert found.certified
    assert {"A0-2", "B0-2"} < {*found.nodes}
    assert len({node[:2] for node in found.nodes}) == 3
