"""What is suggested to be given back or given up is the least that suffices, by trying all."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from tests.placement.asked import refused
from tests.support.capacity import capacity_of, host, take
from topo.model.ids import SWITCHBOX, NodeName
from topo.placement.advice import repairs
from topo.placement.advice.cheapest_sets import Trials, cheapest_set
from topo.placement.advice.repairs import RepairCandidate, slots_of
from topo.placement.advice.suggestion import RefusedJob, Suggestion
from topo.placement.advice.suggestion import SuggestionKind as Kind
from topo.placement.advice.suggestions import find_suggestions
from topo.placement.booking.events import job_name
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import fits, place
from topo.placement.job.plan import NoFit
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, PlacementMode, Request

WORLDS = 600


def world(choice: random.Random) -> tuple[Capacity, Request]:
    """One or two switchboxes of mostly dragonflies of two nodes, which several owners share."""
    number = 0
    capacity = Capacity(Policy(canonical_gpus=choice.choice((16, 32, 64))))
    for s in range(choice.randint(1, 2)):
        for d in range(choice.randint(1, 3)):
            for _ in range(choice.choice((1, 2, 2, 2, 4))):
                number += 1
                zone = (("zone", choice.choice("ab")),)
                capacity.upsert(host(f"n{number}", (f"s{s}", f"s{s}d{d}"), labels=zone))
    names = [each.name for each in capacity.hosts()]
    for owner in range(choice.randint(1, 6)):
        some = choice.sample(names, min(len(names), choice.choice((1, 1, 2, 3))))
        gpus = {name: min(capacity.free(name), choice.choice((1, 2, 4, 8, 8))) for name in some}
        capacity.book(f"o{owner}", {name: count for name, count in gpus.items() if count})
    size, gpus_per_pod = choice.choice((None, 1, 2, 3, 4)), choice.choice((8, 8, 4, 2))
    request = Request(
        pods=choice.randint(1, 8),
        gpus_per_pod=gpus_per_pod,
        group_size=None if size is None else size * gpus_per_pod,
        mode=choice.choice((PlacementMode.REQUIRED, *PlacementMode)),
        within=choice.choice((None, None, None, SWITCHBOX)),
    )
    return capacity, request


def suggestion(capacity: Capacity, request: Request, kind: Kind) -> Suggestion | None:
    told = {one.kind: one for one in find_suggestions(capacity, refused(capacity, request))}
    return told.get(kind)


def subsets(items: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for number in range(1, len(items) + 1):
        yield from combinations(items, number)


def test_the_owners_to_release_have_the_fewest_gpus_of_all_sets_of_owners() -> None:
    compared = 0
    for seed in range(WORLDS):
        capacity, request = world(random.Random(seed))  # noqa: S311
        if not isinstance(place(capacity, request), NoFit):
            continue
        booked = capacity.bookings()
        costs = [
            sum(sum(booked[owner].values()) for owner in owners)
            for owners in subsets(sorted(booked))
            if fits(capacity.with_changes(released=owners), request)
        ]
        told = suggestion(capacity, request, Kind.RELEASE)
        assert (told.numbers["gpus"] if told else None) == min(costs, default=None), seed
        compared += bool(costs)
    assert compared > WORLDS // 5


def test_two_owners_that_share_the_node_a_pod_needs_are_found_before_one_of_a_whole_node() -> None:
    capacity = capacity_of(host(f"n{n}", ("s1", f"d{n // 2}")) for n in range(4))
    for name in ("n2", "n3"):
        take(capacity, name)
    capacity.book("a", {NodeName("n1"): 1})
    capacity.book("b", {NodeName("n1"): 1})
    told = suggestion(capacity, Request(pods=2, gpus_per_pod=8, group_size=16), Kind.RELEASE)
    assert told is not None
    assert told.text == "The job fits once a and b give back 2 GPUs."


@pytest.mark.parametrize(
    ("selector", "exclude", "words"),
    [
        ("a", ("n0",), "without leaving out 1 node"),
        ("b", ("n3",), "without the selector of 1 label"),
        ("b", ("n0",), "without the selector of 1 label and leaving out 1 node"),
    ],
)
def test_of_selector_and_exclusions_only_what_is_in_the_way_is_given_up(selector, exclude, words):
    capacity = capacity_of(
        host(f"n{n}", ("s1", f"d{n // 2}"), labels=(("zone", "a" if n < 2 else "b"),))
        for n in range(4)
    )
    take(capacity, "n2")
    wish = Eligibility(selector=(("zone", selector),), exclude=frozenset(map(NodeName, exclude)))
    request = Request(pods=2, gpus_per_pod=8, group_size=16, eligible=wish)
    told = suggestion(capacity, request, Kind.ANY_NODE)
    assert told is not None
    assert f"fit {words}:" in told.text


def test_no_smaller_set_of_conditions_would_do_where_several_are_given_up() -> None:
    compared = 0
    for seed in range(WORLDS):
        choice = random.Random(seed)  # noqa: S311
        capacity, request = world(choice)
        wish = Eligibility(
            gpu_type=choice.choice((None, "A", "B")),
            selector=choice.choice(((), (("zone", "a"),), (("zone", "c"),))),
            exclude=frozenset(map(NodeName, choice.choice(((), ("n1",), ("n1", "n2"))))),
        )
        request = replace(request, eligible=wish, pods=choice.randint(1, 4))
        if not isinstance(place(capacity, request), NoFit):
            continue
        told = suggestion(capacity, request, Kind.SEVERAL_CHANGES)
        if told is None or told.request is None:
            continue
        compared += 1
        # The type is found with the plan: given up means that any type would do.
        loosest: dict[str, object] = {
            "eligible.gpu_type": None,
            "eligible.selector": (),
            "eligible.exclude": frozenset(),
            "within": None,
            "mode": PlacementMode.PREFERRED,
        }
        found = told.request
        given_up = [name for name in loosest if _value(found, name) != _value(request, name)]
        asked = replace(request, pods=found.pods, gpus_per_pod=found.gpus_per_pod)
        for number in range(len(given_up)):
            for names in combinations(loosest, number):
                looser = asked
                for name in names:
                    looser = _with(looser, name, loosest[name])
                assert not fits(capacity, looser), (seed, told.text, names)
    assert compared > WORLDS // 50


def _value(request: Request, name: str) -> object:
    field = name.removeprefix("eligible.")
    return getattr(request if field == name else request.eligible, field)


def _with(request: Request, name: str, value: object) -> Request:
    field = name.removeprefix("eligible.")
    if field == name:
        return replace(request, **{field: value})  # type: ignore[arg-type]
    return replace(request, eligible=replace(request.eligible, **{field: value}))  # type: ignore[arg-type]


def test_sets_are_tried_in_the_order_of_their_cost_each_once() -> None:
    changes = [RepairCandidate(name, cost, {}) for name, cost in (("c", 4), ("a", 1), ("b", 2))]
    tried: list[str] = []

    def enough(some: Sequence[RepairCandidate]) -> bool:
        tried.append("".join(one.name for one in some))
        return False

    assert cheapest_set(changes, enough, Trials(100)) is None
    assert tried == ["a", "b", "ab", "c", "ac", "bc", "abc"]
    tried.clear()
    cheapest_set(changes, enough, Trials(100), below=4)
    assert tried == ["a", "b", "ab"]
    trials = Trials(5)
    cheapest_set(changes, enough, trials.some(2))
    assert trials.left == 3
    cheapest_set(changes, enough, trials.some(2).some(1))
    assert trials.left == 2
    few = Trials(9, trials)
    cheapest_set(changes, enough, few)
    assert (trials.left, few.left) == (0, 7)


def half_ready(nodes: int) -> Capacity:
    """Dragonflies of two nodes, of which the second is not ready."""
    return capacity_of(
        host(f"n{n}", (f"s{n // 40}", f"d{n // 2}"), ready=n % 2 == 0) for n in range(nodes)
    )


@pytest.mark.parametrize("mode", [PlacementMode.PREFERRED, PlacementMode.REQUIRED])
@pytest.mark.parametrize("group_size", [16, 320])
def test_a_refusal_of_a_large_cluster_tries_no_more_sets_than_it_may(mode, group_size, monkeypatch):
    looks = 0

    def counted(free_gpus: int, job: RefusedJob) -> int:
        nonlocal looks
        looks += 1
        return slots_of(free_gpus, job)

    monkeypatch.setattr(repairs, "slots_of", counted)
    nodes = 2_000
    request = Request(pods=nodes * 9 // 10, gpus_per_pod=8, group_size=group_size, mode=mode)
    assert suggestion(half_ready(nodes), request, Kind.OPEN_NODES) is None
    # Two looks at a node that a change is made on, and two where it is taken back.
    assert looks < 4 * (repairs.MOST_CHANGES * repairs.MOST_TRIALS + nodes)


@pytest.mark.parametrize(("missing", "told"), [(1, 1), (20, 20), (32, 32), (33, None)])
def test_the_nodes_to_open_are_as_many_as_are_missing_up_to_the_most_in_one_repair(missing, told):
    request = Request(
        pods=500 + missing, gpus_per_pod=8, group_size=16, mode=PlacementMode.PREFERRED
    )
    found = suggestion(half_ready(1_000), request, Kind.OPEN_NODES)
    assert (found.numbers["nodes"] if found else None) == told


def test_an_owner_that_gives_enough_is_found_behind_hundreds_that_give_too_little() -> None:
    capacity = capacity_of(host(f"n{n}", ("s1", f"d{n // 2}")) for n in range(220))
    for n in range(200):
        capacity.book(f"small-{n}", {NodeName(f"n{n}"): 1})
        capacity.book(f"rest-{n}", {NodeName(f"n{n}"): 7})
    capacity.book("large", {NodeName(f"n{n}"): 8 for n in range(200, 220)})
    request = Request(pods=12, gpus_per_pod=8, group_size=16, mode=PlacementMode.PREFERRED)
    found = suggestion(capacity, request, Kind.RELEASE)
    assert found is not None
    assert found.numbers["gpus"] <= 160


def test_a_job_that_runs_as_a_whole_is_named_with_all_that_it_gives_back() -> None:
    """Two of its four pods would be enough, and the other two end with them."""
    capacity = capacity_of(host(f"n{n}", ("s1", f"d{n // 2}")) for n in range(4))
    owners = [f"pod/jobs/p{n}/uid-{n}" for n in range(4)]
    for number, owner in enumerate(owners):
        capacity.book(owner, {NodeName(f"n{number}"): 8})
    request = Request(pods=2, gpus_per_pod=8, group_size=16)
    owned = dict.fromkeys(owners, job_name("jobs", "train", "uid"))
    nofit = refused(capacity, request)
    found = {one.kind: one for one in find_suggestions(capacity, nofit, owned)}[Kind.RELEASE]
    assert found.text == "The job fits once job jobs/train gives back 32 GPUs."
    assert (found.owners, found.numbers) == (tuple(owners), {"owners": 1, "gpus": 32})
    del owned[owners[2]], owned[owners[3]]
    found = {one.kind: one for one in find_suggestions(capacity, nofit, owned)}[Kind.RELEASE]
    assert found.numbers["gpus"] == 16, "two pods of no such job cost as much as that one"
    capacity.book("far", {NodeName("n9"): 8})
    owned["far"] = owned[owners[0]]
    found = {one.kind: one for one in find_suggestions(capacity, nofit, owned)}[Kind.RELEASE]
    assert found.text.startswith("The job fits once pod jobs/p2 and pod jobs/p3 give back 16 GPUs")
