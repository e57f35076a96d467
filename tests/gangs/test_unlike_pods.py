"""Pods of one gang that may use different nodes: each on one of its own, all groups whole."""

import itertools
import random
import tracemalloc
from collections import Counter
from dataclasses import replace

import pytest

from tests.gangs.test_evicting import asked, full
from tests.support.capacity import capacity_of, host
from topo.gangs.decisions.check import lost_nodes
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import GangId
from topo.gangs.machine.instructions import Check
from topo.model.ids import SWITCHBOX, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.request import Eligibility, Request

RACKS = ("a", "b", "c")
ON = {rack: Eligibility(selector=(("rack", rack),)) for rack in RACKS}


def racks(*dragonflies: int, per_box: int = 0) -> Capacity:
    """For each number a rack of so many dragonflies of two nodes, each rack a switchbox.

    With `per_box` so many dragonflies are a switchbox, whatever their rack.
    """
    hosts = []
    at = 0
    for rack, count in zip(RACKS, dragonflies, strict=False):
        for fly in range(count):
            box = f"s{at // per_box}" if per_box else f"s-{rack}"
            at += 1
            for node in (1, 2):
                name, path = f"{rack}-{fly}-{node}", (box, f"d-{rack}-{fly}")
                hosts.append(host(name, path, labels=(("rack", rack),)))
    return capacity_of(hosts)


def request(*runs: tuple[int, str], **more: object) -> Request:
    """Pairs of pods of 8 GPUs: so many groups for each rack."""
    by_rank = tuple((2 * groups, ON[rack]) for groups, rack in runs)
    pods = 2 * sum(groups for groups, _ in runs)
    return Request(pods=pods, gpus_per_pod=8, group_size=16, by_rank=by_rank, **more)  # type: ignore[arg-type]


def placed(capacity: Capacity, wish: Request) -> Placed | Refused:
    return answer_place(capacity, asked(wish.pods, request=wish), ())


def test_each_group_goes_to_the_nodes_that_its_pods_select() -> None:
    found = placed(racks(3, 2), request((2, "a"), (1, "b")))
    assert isinstance(found, Placed)
    assert [node[0] for node in found.nodes] == ["a", "a", "a", "a", "b", "b"]
    assert sum(pods for group in found.groups for _, pods in group.pods) == 6
    assert found.request.pods == 6


def test_a_pod_that_states_a_rank_of_a_million_is_placed_without_a_list_of_all_ranks() -> None:
    """Anybody may write an index on a pod, and each answer would hold the loop for it."""
    pods, capacity = 1_000_000, racks(1, 1)
    wish = Request(pods=pods, gpus_per_pod=8, group_size=16, by_rank=((pods - 2, ON["a"]),))
    ask = asked(2, request=replace(wish, eligible=ON["b"]))
    wanted = [replace(pod, rank=pods - 2 + at) for at, pod in enumerate(ask.wanted)]
    tracemalloc.start()
    found = answer_place(capacity, replace(ask, wanted=tuple(wanted)), ())
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(found, Placed)
    assert {node[0] for node in found.nodes} == {"b"}
    assert most_bytes < pods, "a byte of each rank"


def test_groups_that_no_node_takes_are_refused_although_others_are_idle() -> None:
    found = placed(racks(3, 1), request((1, "a"), (2, "b")))
    assert isinstance(found, Refused)
    assert "4" in found.text or "32 GPUs" in found.text


def test_a_job_that_would_not_fit_on_an_empty_cluster_keeps_no_nodes_from_others() -> None:
    """Of the pods of a group one selects a rack and the other another one: no domain has both."""
    capacity = racks(2, 2)
    any_rack = Eligibility()
    for run, never in (((ON["a"], ON["b"]), True), ((ON["a"], any_rack), False)):
        wish = Request(
            pods=2, gpus_per_pod=8, group_size=16, by_rank=tuple((1, each) for each in run)
        )
        full(capacity, *((host.name, 1, host.name) for host in capacity.hosts()))
        found = answer_place(capacity, replace(asked(2, request=wish), reserve=True), ())
        assert isinstance(found, Refused)
        assert (found.never, bool(found.reservation)) == (never, not never)
        assert {node[0] for node in found.reservation} <= {"a"}


def test_pods_that_differ_are_planned_over_pods_of_lower_priority_where_all_of_them_may_be() -> (
    None
):
    capacity = racks(1, 1)
    nodes = [host.name for host in capacity.hosts()]
    evictable = full(capacity, *((node, 1, node) for node in nodes))
    any_rack = Eligibility()
    for run, planned in (((ON["a"], any_rack), True), ((ON["a"], ON["b"]), False)):
        by_rank = tuple((1, each) for each in run)
        wish = Request(pods=2, gpus_per_pod=8, group_size=16, by_rank=by_rank)
        found = answer_place(capacity, asked(2, request=wish), (), lambda: evictable)
        assert isinstance(found, Placed) == planned
        if isinstance(found, Placed):
            assert {*found.nodes} == {"a-0-1", "a-0-2"}
            assert len(found.evicted) == 2


def test_all_share_one_switchbox_where_the_job_has_to() -> None:
    """Of the first switchboxes only the last one has dragonflies of both racks."""
    capacity = racks(3, 3, per_box=2)
    found = placed(capacity, request((1, "a"), (1, "b"), within=SWITCHBOX))
    assert isinstance(found, Placed)
    boxes = {capacity.host(node).path[0] for node in found.nodes if capacity.host(node)}  # type: ignore[union-attr]
    assert boxes == {"s1"}


def test_all_are_of_one_gpu_type() -> None:
    """Rack a has both types, rack b one alone."""
    capacity = racks(2, 1)
    for node in ("b-0-1", "b-0-2", "a-1-1", "a-1-2"):
        known = capacity.host(NodeName(node))
        assert known is not None
        capacity.upsert(replace(known, gpu_type="B"))
    found = placed(capacity, request((1, "a"), (1, "b")))
    assert isinstance(found, Placed)
    assert {*found.nodes} == {"a-1-1", "a-1-2", "b-0-1", "b-0-2"}


def test_a_pod_that_lost_its_node_stays_beside_its_group_on_nodes_that_it_selects() -> None:
    capacity = racks(2, 2)
    wish = request((1, "a"), (1, "b"))
    whole = placed(capacity, wish)
    assert isinstance(whole, Placed)
    question = asked(4, request=wish)
    kept = tuple((rank, whole.nodes[rank]) for rank in (0, 1))
    found = answer_place(capacity, replace(question, wanted=question.wanted[2:], kept=kept), ())
    assert isinstance(found, Placed)
    assert [node[0] for node in found.nodes] == ["b", "b"]


def test_a_planned_node_that_a_groups_pods_do_not_select_is_lost() -> None:
    capacity, wish = racks(2, 2), request((1, "a"), (1, "b"))
    pods = asked(4, request=wish).wanted
    nodes = [NodeName(name) for name in ("a-0-1", "a-0-2", "a-1-1", "a-1-2")]
    waiting = tuple(zip(pods, nodes, strict=True))
    check = Check(id=GangId("g"), ask=1, request=wish, waiting=waiting, bound=(), holds=())
    lost = dict(lost_nodes(capacity, check, ()))
    assert {*lost} == {"a-1-1", "a-1-2"}


@pytest.mark.parametrize("seed", range(60))
def test_of_random_racks_groups_are_placed_exactly_where_each_rack_has_room(seed: int) -> None:
    """Racks share no node, so a job fits if each rack has enough whole dragonflies."""
    rng = random.Random(seed)
    capacity = racks(*(rng.randint(1, 4) for _ in RACKS))
    free: Counter[str] = Counter()
    flies = sorted({each.name.rpartition("-")[0] for each in capacity.hosts()})
    for fly in flies:
        taken = rng.random() < 0.3
        free[fly[0]] += not taken
        if taken:
            capacity.book(f"on-{fly}", {NodeName(f"{fly}-{rng.randint(1, 2)}"): 8})
    runs = [(rng.randint(1, 2), rack) for rack in rng.choices(RACKS, k=3)]
    wants = Counter[str]()
    for groups, rack in runs:
        wants[rack] += groups
    found = placed(capacity, request(*runs))
    assert isinstance(found, Placed) == all(free[rack] >= wants[rack] for rack in wants)
    if isinstance(found, Placed):
        racks_of = [rack for groups, rack in runs for _ in range(2 * groups)]
        assert [node[0] for node in found.nodes] == racks_of
        assert len({*found.nodes}) == len(found.nodes)
        assert all(capacity.free(node) == 8 for node in found.nodes)
        pairs = zip(found.nodes[::2], found.nodes[1::2], strict=True)
        assert all(one.rpartition("-")[0] == two.rpartition("-")[0] for one, two in pairs)


def pinned(*names: str, size: int = 16, gpus: int = 8) -> Request:
    """Pods that are each tied to one node, as by a local disk; an empty name is tied to none."""
    capacity = racks(2, 2)
    every = frozenset(each.name for each in capacity.hosts())
    runs = tuple(
        (1, Eligibility(exclude=every - {NodeName(name)} if name else frozenset()))
        for name in names
    )
    return Request(pods=len(names), gpus_per_pod=gpus, group_size=size, by_rank=runs)


@pytest.mark.parametrize(
    ("names", "nodes"),
    [
        (("a-0-2", "a-0-1"), ("a-0-2", "a-0-1")),
        (("", "b-1-1"), ("b-1-2", "b-1-1")),
        (("b-1-1", "", "a-1-2", "a-1-1"), ("b-1-1", "b-1-2", "a-1-2", "a-1-1")),
    ],
)
def test_pods_of_one_group_that_are_tied_to_nodes_of_one_domain_get_them(
    names: tuple[str, ...], nodes: tuple[str, ...]
) -> None:
    found = placed(racks(2, 2), pinned(*names))
    assert isinstance(found, Placed)
    assert found.nodes == nodes


def test_pods_of_one_group_that_are_tied_to_two_domains_are_refused_and_told() -> None:
    found = placed(racks(2, 2), pinned("a-0-1", "a-1-1"))
    assert isinstance(found, Refused)
    assert found.text.startswith("group 0: 2 pods that may use different nodes, and not one domain")


def test_four_pods_of_half_a_node_share_the_nodes_that_they_are_tied_to() -> None:
    wish = pinned("a-0-1", "a-0-2", "a-0-1", "", gpus=4)
    found = placed(racks(2, 2), wish)
    assert isinstance(found, Placed)
    assert found.nodes == ("a-0-1", "a-0-2", "a-0-1", "a-0-2")
    assert found.groups[0].pods == (("a-0-1", 2), ("a-0-2", 2))


def test_a_pod_beside_one_that_stays_goes_to_its_own_node_of_that_domain_or_nowhere() -> None:
    capacity = racks(2, 2)
    question = asked(2, request=pinned("a-0-1", "a-0-2"))
    for node, fits in (("a-0-1", True), ("a-1-1", False)):
        kept = ((0, NodeName(node)),)
        found = answer_place(capacity, replace(question, wanted=question.wanted[1:], kept=kept), ())
        assert isinstance(found, Placed) == fits


@pytest.mark.parametrize("seed", range(40))
def test_of_random_ties_a_group_is_placed_exactly_where_a_domain_has_all_of_its_nodes(
    seed: int,
) -> None:
    """One group of three pods in domains of four nodes, against every assignment."""
    rng = random.Random(seed)
    names = [f"n{fly}-{node}" for fly in range(3) for node in range(4)]
    capacity = capacity_of(host(name, ("s", f"d{name[1]}")) for name in names)
    for name in rng.sample(names, 4):
        capacity.book(f"on-{name}", {NodeName(name): 8})
    able = [set(rng.sample(names, rng.randint(1, 5))) for _ in range(3)]
    every = frozenset(map(NodeName, names))
    runs = tuple((1, Eligibility(exclude=every - {NodeName(n) for n in each})) for each in able)
    found = placed(capacity, Request(pods=3, gpus_per_pod=8, group_size=24, by_rank=runs))
    exists = any(
        all(
            node in each and capacity.free(NodeName(node)) == 8
            for node, each in zip(nodes, able, strict=True)
        )
        for fly in range(3)
        for nodes in itertools.permutations([n for n in names if n[1] == str(fly)], 3)
    )
    assert isinstance(found, Placed) == exists
    if isinstance(found, Placed):
        assert all(node in each for node, each in zip(found.nodes, able, strict=True))
        assert len({*found.nodes}) == 3


@pytest.mark.parametrize("stated", [None, "A"])
@pytest.mark.parametrize("ran", [0, 2])
def test_a_planned_node_that_got_gpus_of_another_type_is_lost(ran: int, stated: str | None) -> None:
    """A job never mixes types; those of the pods that run decide, where there are any."""
    capacity = racks(2)
    pods = asked(4).wanted
    seats = [(pod, NodeName(f"a-{pod.rank // 2}-{pod.rank % 2 + 1}")) for pod in pods]
    wish = Request(pods=4, gpus_per_pod=8, group_size=16, eligible=Eligibility(gpu_type=stated))
    check = Check(
        id=GangId("g"),
        ask=1,
        request=wish,
        waiting=tuple(seats[ran:]),
        bound=tuple((pod.rank, node) for pod, node in seats[:ran]),
        holds=(),
    )
    assert lost_nodes(capacity, check, ()) == ()
    changed = ["a-1-2", "a-1-1"] if ran else ["a-1-2"]
    for name in changed:
        known = capacity.host(NodeName(name))
        assert known is not None
        capacity.upsert(replace(known, gpu_type="B"))
    assert {node for node, _ in lost_nodes(capacity, check, ())} == {*changed}
