"""What the search for the best places of a small gang keeps to, and what it says of itself."""

from dataclasses import replace
from functools import partial

import pytest

from tests.gangs.test_evicting import asked
from tests.gangs.test_unlike_pods import ON, pinned, placed, racks, request
from tests.support.capacity import capacity_of, host, take
from topo.gangs.decisions import place, small_gangs
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.decisions.small_gangs import Budget
from topo.gangs.machine.events import Refused
from topo.model.ids import SWITCHBOX, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, Request

ANY = Eligibility()


def beside(capacity: Capacity, wish: Request, *kept: str) -> Placed | Refused:
    """The answer for the later pods of a job of which the first ones run."""
    question = asked(wish.pods, request=wish)
    stay = tuple((rank, NodeName(node)) for rank, node in enumerate(kept))
    wanted = question.wanted[len(kept) :]
    return answer_place(capacity, replace(question, wanted=wanted, kept=stay), ())


def test_the_example_of_the_module() -> None:
    """Each pod is a group: steps put the first one in a, and then need b, too."""
    capacity = capacity_of(host(f"{fly}{at}", ("s", fly)) for fly in "abc" for at in (1, 2))
    every = {each.name for each in capacity.hosts()}
    runs = tuple(
        (1, Eligibility(exclude=frozenset(name for name in every if name[0] not in able)))
        for able in ("ab", "bc")
    )
    found = placed(capacity, Request(pods=2, gpus_per_pod=8, group_size=8, by_rank=runs))
    assert isinstance(found, Placed)
    assert {node[0] for node in found.nodes} == {"b"}
    assert found.certified


def test_pods_that_run_decide_the_gpu_type_and_the_switchbox() -> None:
    """There is room elsewhere, of another type and in another switchbox."""
    for more in ({"gpu_type": "B"}, {}):
        inside = None if more else SWITCHBOX
        hosts = [host("a-1", ("s0", "d0")), host("a-2", ("s0", "d0"))]
        hosts += [host(f"b-{at}", ("s1", "d1"), **more) for at in (1, 2)]
        capacity = capacity_of(hosts)
        take(capacity, "a-1")
        every = frozenset(each.name for each in hosts)
        ties = [Eligibility(exclude=every - {NodeName(name)}) for name in ("a-1", "b-1")]
        runs = ((1, ties[0]), (1, ties[1]))
        wish = Request(pods=2, gpus_per_pod=8, group_size=8, by_rank=runs, within=inside)
        assert isinstance(beside(capacity, wish, "a-1"), Refused)
        free = replace(wish, by_rank=((1, ties[0]), (1, ANY)))
        found = beside(capacity, free, "a-1")
        assert isinstance(found, Placed)
        assert found.nodes == ("a-2",)


@pytest.mark.parametrize("steps", [1, 93])
def test_a_search_that_was_cut_off_certifies_nothing(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = pinned("", "b-1-1", "a-0-1", "")
    found = placed(racks(2, 2), wish)
    assert isinstance(found, Placed)
    assert found.certified
    monkeypatch.setattr(place, "Budget", partial(Budget, left=steps))
    found = placed(racks(2, 2), wish)
    assert isinstance(found, Placed)
    assert not found.certified


def test_where_domains_are_kept_free_a_plan_of_steps_stands() -> None:
    """Fewer dragonflies would take the one that the operator keeps for others."""
    paths = {fly: ("s", fly) for fly in "abc"}
    hosts = [host(f"{fly}{at}", paths[fly]) for fly in "abc" for at in (1, 2)]
    every = {each.name for each in hosts}
    runs = tuple(
        (1, Eligibility(exclude=frozenset(name for name in every if name[0] not in able)))
        for able in ("ab", "bc")
    )
    wish = Request(pods=2, gpus_per_pod=8, group_size=8, by_rank=runs)
    reserved = capacity_of(hosts, Policy(reserves=((hosts[2].path, 1),)))
    found = placed(reserved, wish)
    assert isinstance(found, Placed)
    assert not found.certified


@pytest.mark.parametrize("pods", [32, 0])
def test_steps_alone_place_what_no_two_steps_want(
    monkeypatch: pytest.MonkeyPatch, pods: int
) -> None:
    """As for a gang that is not small: groups are whole, and each pod is where it may be."""
    monkeypatch.setattr(small_gangs, "MOST_PODS", pods)
    found = placed(racks(2, 2), pinned("b-1-1", "", "a-1-2", "a-1-1"))
    assert isinstance(found, Placed)
    assert found.nodes == ("b-1-1", "b-1-2", "a-1-2", "a-1-1")
    assert isinstance(placed(racks(3, 2), request((2, "a"), (1, "b"))), Placed)
    assert isinstance(placed(racks(1, 1), request((2, "a"))), Refused)
    wide = Request(pods=3, gpus_per_pod=4, group_size=16, by_rank=((2, ANY), (1, ON["b"])))
    crowded = racks(1, 1)
    take(crowded, "b-0-1", 4)
    found = placed(crowded, wide)
    assert isinstance(found, Placed)
    assert {node[0] for node in found.nodes} == {"b"}
