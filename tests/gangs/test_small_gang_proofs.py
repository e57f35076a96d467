"""Small gangs of pods that may use different nodes: what is proven, and what it may cost."""

from dataclasses import replace
from functools import partial

import pytest

from tests.gangs.test_evicting import asked
from tests.support.capacity import capacity_of, host
from topo.gangs.decisions import small_gangs
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.decisions.seat_search import Cost, SeatQuestion, Seats, find_seats
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
    question = asked(wish.pods, 8, request=wish, over=None)
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


def apart(groups: int) -> tuple[Capacity, Request]:
    """The example of the module: two dragonflies share all groups, the steps in order find two.

    Dragonflies A0, A1 and A2; the first half of the pods may use A0 and A1, the others A1 and A2.
    """
    capacity = boxes("A")
    names = [each.name for each in capacity.hosts()]
    first, last = (
        Eligibility(exclude=frozenset(name for name in names if name[1] == fly)) for fly in "20"
    )
    return capacity, unlike(2 * groups, by_rank=((groups, first), (groups, last)))


def test_a_small_gang_gets_the_one_dragonfly_that_all_of_its_pods_may_use() -> None:
    found = placed(*apart(1))
    assert isinstance(found, Placed)
    assert {*found.nodes} == {"A1-1", "A1-2"}
    assert found.certified


@pytest.mark.parametrize(
    ("limit", "most"),
    [("MOST_PODS", 1), ("MOST_NODES", 7), ("MOST_STAYING", 0)],
)
def test_a_gang_that_is_not_small_is_placed_in_steps_and_not_certified(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods, the nodes that these may use and those that stay are bounded, each by its limit."""
    capacity, wish = apart(1)
    kept: tuple[str, ...] = ()
    if limit == "MOST_STAYING":
        capacity, wish = boxes("A", "B", "C"), unlike(6)
        kept = ("A0-1", "B0-1")
        for node in kept:
            capacity.book(node, {NodeName(node): 8})
    small = placed(capacity, wish, kept)
    assert isinstance(small, Placed)
    assert small.certified
    monkeypatch.setattr(small_gangs, limit, most)
    large = placed(capacity, wish, kept)
    assert isinstance(large, Placed)
    assert not large.certified
    assert {*large.nodes} != {*small.nodes}


def impossible(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], Capacity, Request]:
    """Pairs that may each be in two switchboxes, and one whose pods may not be in the same one.

    The steps of each search are noted.
    """
    steps: list[int] = []

    def noted(question: SeatQuestion, below: Cost | None, most_steps: int) -> Seats:
        found = find_seats(question, below, most_steps)
        steps.append(found.steps)
        return found

    monkeypatch.setattr(small_gangs, "find_seats", noted)
    capacity = boxes(*"ABCDEF")
    names = [each.name for each in capacity.hosts()]

    def on(*fits: str) -> Eligibility:
        return Eligibility(exclude=frozenset(n for n in names if not n.startswith(fits)))

    pairs = ["AB", "BC", "CD", "DE", "EF", "FA", "AC", "BD"]
    each = [on(*boxes_of) for boxes_of in pairs for _ in (0, 1)]
    by_rank = tuple((1, eligible) for eligible in (*each, on("A", "B", "C"), on("D", "E", "F")))
    return steps, capacity, unlike(len(by_rank), group_size=16, by_rank=by_rank)


def test_all_searches_of_a_question_share_one_budget_and_what_is_cut_short_is_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A refusal asks again for a reservation; the last pair of these pods never fits."""
    steps, capacity, wish = impossible(monkeypatch)
    budget = small_gangs.Budget
    for most, never in ((100_000, True), (20_000, False), (2_400, False), (0, False)):
        monkeypatch.setattr("topo.gangs.decisions.place.Budget", partial(budget, most))
        steps.clear()
        found = placed(capacity, wish)
        assert isinstance(found, Refused)
        assert found.never == never
        assert sum(steps) <= most


def test_of_equal_places_the_healthy_ones_are_taken() -> None:
    """A1 and A2 are alike but for a suspected link."""
    hosts = [
        host(f"A{fly}-{at}", ("A", f"Ad{fly}"), penalty=10 if fly == 1 else 0)
        for fly in range(4)
        for at in (1, 2)
    ]
    capacity = capacity_of(hosts)
    names = [each.name for each in capacity.hosts()]
    first, last = (
        Eligibility(exclude=frozenset(name for name in names if name[1] == fly)) for fly in "30"
    )
    for size in (8, 16):
        wish = unlike(2, group_size=size, by_rank=((1, first), (1, last)))
        found = placed(capacity, wish)
        assert isinstance(found, Placed)
        assert {*found.nodes} == {"A2-1", "A2-2"}
        assert found.certified


@pytest.mark.parametrize("steps", [0, 20, 80])
def test_places_are_not_certified_where_the_search_was_cut_short(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before nodes are read, before the search and in the midst of it."""
    monkeypatch.setattr("topo.gangs.decisions.place.Budget", partial(small_gangs.Budget, steps))
    found = placed(*apart(1))
    assert isinstance(found, Placed)
    assert not found.certified


@pytest.mark.parametrize("kinds", [(ANY, ELSEWHERE), (ANY, ANY)])
def test_pods_are_of_the_gpu_type_of_those_that_stay_although_the_first_nodes_are_gone(
    kinds: tuple[Eligibility, Eligibility],
) -> None:
    capacity = boxes("A", "B", flies=2)
    for fly, at in ((0, 1), (0, 2), (1, 1), (1, 2)):
        known = capacity.host(NodeName(f"B{fly}-{at}"))
        assert known is not None
        capacity.upsert(replace(known, gpu_type="B"))
    for node in ("B0-1", "B0-2", "B1-1"):
        capacity.book(node, {NodeName(node): 8})
    for pods, fits in ((3, True), (4, False)):
        wish = unlike(pods, by_rank=((pods - 1, kinds[0]), (1, kinds[1])))
        found = placed(capacity, wish, ("gone", "B0-1"))
        assert isinstance(found, Placed) == fits
        assert not isinstance(found, Placed) or found.nodes == ("B1-2",)
