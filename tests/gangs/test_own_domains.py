"""Jobs whose parts each need a domain of their own: placed beside a search through all ways."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.jobs import Job
from tests.gangs.leader import Leader
from tests.gangs.test_evicting import asked
from tests.gangs.world import Cluster
from tests.support.capacity import capacity_of, host, take
from topo.gangs.decisions import own_domains
from topo.gangs.decisions.check import lost_nodes
from topo.gangs.decisions.matching import matched
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.decisions.small_gangs import Budget
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import Binding, GangId
from topo.gangs.machine.instructions import Check, Occupied
from topo.model.cluster import ClusterNode
from topo.model.ids import SWITCHBOX, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.request import Eligibility, Kin, OwnDomains, Request

KIN = Kin("group-key", "default")


def racks(*flies: int, dragonflies_a_box: int = 2) -> Capacity:
    """The vendor's shape: for each number a rack of so many dragonflies of two nodes."""
    hosts = []
    homes = [rack for rack, count in enumerate(flies) for _ in range(count)]
    for fly, rack in enumerate(homes):
        path = (f"s{fly // dragonflies_a_box}", f"d{fly}")
        labels = (("rack", f"r{rack}"),)
        hosts += [host(f"n{rack}-{fly}-{at}", path, labels=labels) for at in (1, 2)]
    return capacity_of(hosts)


def job(*parts: int, label: str = "rack", free: int = 0, **more: object) -> Request:
    """Parts of so many pods of 8 GPUs in pairs, then `free` pods that need no domain."""
    runs = [OwnDomains(1, pods, label) for pods in parts]
    runs += [OwnDomains(1, free, "")] if free else []
    known = {"group_size": 16, "own_domains": tuple(runs), "kins": (KIN,)}
    return Request(pods=sum(parts) + free, gpus_per_pod=8, **(known | more))  # type: ignore[arg-type]


def placed(capacity: Capacity, wish: Request, **more: object) -> Placed | Refused:
    return answer_place(capacity, asked(wish.pods, 16, request=wish, **more), ())


def racks_of(found: Placed, *parts: int) -> list[set[str]]:
    """The racks of each part, by the names of its nodes."""
    nodes = iter(found.nodes)
    return [{next(nodes).split("-")[0] for _ in range(pods)} for pods in parts]


def test_the_example_of_the_module() -> None:
    capacity = racks(2, 3)
    found = placed(capacity, job(4, 4))
    assert isinstance(found, Placed)
    assert racks_of(found, 4, 4) == [{"n0"}, {"n1"}]
    refused = placed(capacity, job(4, 4), occupied=(Occupied(NodeName("n1-4-1")),))
    assert isinstance(refused, Refused)
    assert "of 2 there is 1 with pods of other parts or jobs, and 1 with room" in refused.text


def test_a_part_takes_the_tightest_domain_and_the_job_stays_in_one_switchbox() -> None:
    """Six racks of a dragonfly each, two of them a switchbox: the second box has room in both."""
    capacity = racks(1, 1, 1, 1, 1, 1)
    take(capacity, "n0-0-1")
    found = placed(capacity, job(2, 2))
    assert isinstance(found, Placed)
    assert racks_of(found, 2, 2) == [{"n2"}, {"n3"}]
    tight = racks(2, 1)
    small = placed(tight, job(2))
    assert isinstance(small, Placed)
    assert racks_of(small, 2) == [{"n1"}]


def test_pods_that_need_no_domain_are_in_none_of_the_others() -> None:
    found = placed(racks(2, 2), job(2, free=2))
    assert isinstance(found, Placed)
    one, other = racks_of(found, 2, 2)
    assert one.isdisjoint(other)
    assert isinstance(placed(racks(4), job(2, free=2)), Refused)


def test_a_domain_of_another_job_is_out_for_all_of_its_kin() -> None:
    """Also for a job that needs no domains: the pods there keep it out."""
    capacity = racks(1, 1)
    plain = replace(job(2), own_domains=())
    by = (Occupied(NodeName("n0-0-1"), "rack"),)
    found = placed(capacity, plain, occupied=by)
    assert isinstance(found, Placed)
    assert racks_of(found, 2) == [{"n1"}]
    refused = placed(capacity, replace(plain, pods=4), occupied=by)
    assert isinstance(refused, Refused)
    assert "2 nodes in domains that other jobs have for themselves" in refused.text


def test_what_comes_later_goes_beside_what_stays_and_what_moves_goes_where_nobody_is() -> None:
    capacity = racks(2, 2, 2)
    question = asked(8, request=job(4, 4))
    kept = ((0, NodeName("n1-2-1")), (1, NodeName("n1-2-2")))
    for rank, node in kept:
        take(capacity, node)
        assert rank < 4
    found = answer_place(capacity, replace(question, wanted=question.wanted[2:], kept=kept), ())
    assert isinstance(found, Placed)
    assert racks_of(found, 2, 4) == [{"n1"}, {"n0"}]


def test_pods_that_select_a_domain_already_are_placed_in_it() -> None:
    """As workers whose leader is lost with its node."""
    capacity = racks(1, 2)
    in_the_other = Eligibility(selector=(("rack", "r1"),))
    wish = job(2, by_rank=((1, Eligibility()), (1, in_the_other)))
    found = placed(capacity, wish)
    assert isinstance(found, Placed)
    assert racks_of(found, 2) == [{"n1"}]
    assert isinstance(placed(capacity, job(2, 2, by_rank=((4, in_the_other),))), Refused)


def test_all_parts_are_in_one_group_of_the_kind_that_the_job_has_to_share() -> None:
    capacity = racks(1, 2, 1)
    found = placed(capacity, job(2, 2, within=SWITCHBOX))
    assert isinstance(found, Placed)
    assert len({capacity.host(node).path[0] for node in found.nodes}) == 1  # type: ignore[union-attr]
    assert isinstance(placed(capacity, job(2, 2, 2, within=SWITCHBOX)), Refused)


def test_a_label_that_no_node_has_is_refused_with_those_that_part_nodes() -> None:
    found = placed(racks(1, 1), job(2, label="rakc"))
    assert isinstance(found, Refused)
    assert found.never
    assert "did you mean rack?" in found.text
    other = placed(racks(1, 1), job(2, label="cloud.google.com/gke-nodepool"))
    assert isinstance(other, Refused)
    assert "those that part nodes are rack" in other.text


def test_a_job_that_waits_has_nodes_kept_that_it_would_get_if_nothing_ran() -> None:
    capacity = racks(2, 2)
    for node in ("n0-0-1", "n1-2-1"):
        take(capacity, node)
    found = placed(capacity, job(4, 4), reserve=True)
    assert isinstance(found, Refused)
    assert not found.never
    assert len(found.reservation) == 8
    never = placed(capacity, job(6), reserve=True)
    assert isinstance(never, Refused)
    assert never.never


def test_nobody_is_evicted_for_a_job_with_domains_of_its_own() -> None:
    """Whether its domain becomes free of its kin, too, is not known before."""
    capacity = racks(1)
    take(capacity, "n0-0-1")
    question = asked(2, request=job(2), over=9)
    assert isinstance(answer_place(capacity, question, (), lambda: pytest.fail("asked")), Refused)


def ways(free: Sequence[Sequence[int]], parts: Sequence[int], used: set[int]) -> bool:
    """Whether any assignment of racks to parts has a pair of free nodes for each pair of pods."""
    for chosen in permutations(sorted(set(range(len(free))) - used), len(parts)):
        if all(
            sum(nodes // 2 for nodes in free[rack]) >= pods // 2
            for rack, pods in zip(chosen, parts, strict=True)
        ):
            return True
    return False


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=5),
    st.lists(st.sampled_from((2, 4, 6)), min_size=1, max_size=4),
    st.sets(st.integers(0, 4), max_size=2),
    st.integers(1, 3),
)
def test_there_is_a_place_exactly_where_looking_at_every_way_finds_one(
    free: list[list[int]], parts: list[int], used: set[int], a_box: int
) -> None:
    capacity = racks(*map(len, free), dragonflies_a_box=a_box)
    names: dict[tuple[int, int], list[str]] = {}
    for each in capacity.hosts():
        rack, fly, _ = each.name.removeprefix("n").split("-")
        names.setdefault((int(rack), int(fly)), []).append(each.name)
    flies = [nodes for rack in free for nodes in rack]
    for at, (_, nodes) in enumerate(sorted(names.items(), key=lambda item: item[0][1])):
        for name in nodes[flies[at] :]:
            take(capacity, name)
    busy = tuple(Occupied(NodeName(nodes[0])) for (rack, _), nodes in names.items() if rack in used)
    found = placed(capacity, job(*parts), occupied=busy)
    assert isinstance(found, Placed) == ways(free, parts, used)
    if isinstance(found, Placed):
        homes = racks_of(found, *parts)
        assert all(len(home) == 1 for home in homes)
        assert len({*map(str, homes)}) == len(parts)
        assert not {f"n{rack}" for rack in used} & {name for home in homes for name in home}
        pairs = [found.nodes[at : at + 2] for at in range(0, len(found.nodes), 2)]
        assert all(len({node.rsplit("-", 1)[0] for node in pair}) == 1 for pair in pairs)
        assert len({*found.nodes}) == len(found.nodes)


def all_ways(able: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    return (way for way in product(*able) if len({*way}) == len(way))


@given(st.lists(st.lists(st.integers(0, 4), max_size=4, unique=True), max_size=5))
def test_a_matching_is_found_exactly_where_there_is_one(able: list[list[int]]) -> None:
    found = matched(able)
    assert (found is not None) == any(True for _ in all_ways(able))
    if found is not None:
        assert all(seat in seats for seat, seats in zip(found, able, strict=True))
        assert all(one != other for one, other in combinations(found, 2))


@pytest.mark.parametrize("order", [(1, 3, 4, 5, 6, 7), (7, 6, 5, 4, 3, 1), (5, 1, 7, 3, 4, 6)])
@pytest.mark.parametrize("changes", [(), (1, 2, 4)])
def test_workers_go_beside_their_leaders_in_whatever_order_they_come(
    order: tuple[int, ...], changes: tuple[int, ...]
) -> None:
    """As JobSet makes them: the first pod of each part at once, the others once that is bound.

    Another leader takes over at some steps.
    """
    cluster = Cluster(racks(2, 2, 2))
    gang = GangId("a")
    cluster.jobs[gang] = Job(gang, job(2, 2, 4), Binding.PIECEMEAL, is_late=True)
    for rank in (0, 2):
        cluster.create(gang, rank)
    leader = Leader.over(cluster)
    leader.settle()
    for step, rank in enumerate(order):
        cluster.create(gang, rank)
        if step in changes:
            leader = Leader.over(cluster)
        leader.settle()
    bound = cluster.bound(gang)
    homes = [{bound[rank].split("-")[0] for rank in part} for part in ((0, 1), (2, 3), range(4, 8))]
    assert [len(home) for home in homes] == [1, 1, 1]
    assert len({*map(str, homes)}) == 3
    assert all(len(found) == 1 for found in cluster.groups(gang).values())


def test_nodes_are_in_the_domains_of_the_labels_that_schedulers_see() -> None:
    """The tree may know another group of a node before its label is written."""
    capacity = racks(1, 1)
    for each in capacity.hosts():
        seen = ClusterNode(name=each.name, labels=(("rack", "r1"),))
        capacity.upsert(replace(each, cluster=seen))
    found = placed(capacity, job(2))
    assert isinstance(found, Placed)
    assert racks_of(found, 2) == [{"n1"}], "the others are to be moved from r1"
    assert isinstance(placed(capacity, job(2, 2)), Refused)


def test_a_leader_that_is_tied_to_a_node_has_its_workers_beside_it() -> None:
    """As by a volume on the node's disk: its workers may use any node, and it only that one."""
    capacity = racks(1, 1)
    others = {host.name for host in capacity.hosts()} - {NodeName("n1-1-2")}
    tied = Eligibility(exclude=frozenset(others))
    for by_rank in (((1, tied), (1, Eligibility())), ((1, Eligibility()), (1, tied))):
        found = placed(capacity, job(2, by_rank=by_rank))
        assert isinstance(found, Placed)
        assert racks_of(found, 2) == [{"n1"}]
        assert found.nodes[0 if by_rank[0][1] is tied else 1] == "n1-1-2"
    take(capacity, "n1-1-1")
    refused = placed(capacity, job(2, by_rank=((1, tied), (1, Eligibility()))))
    assert isinstance(refused, Refused)


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=2), min_size=2, max_size=4),
    st.lists(st.lists(st.integers(0, 15), max_size=3), min_size=1, max_size=2),
)
def test_parts_with_tied_leaders_have_places_exactly_where_there_are_some(
    free: list[list[int]], ties: list[list[int]]
) -> None:
    """Each part is a leader, tied to some nodes or to none, and a worker that is tied to none."""
    capacity = racks(*map(len, free))
    names = [host.name for host in capacity.hosts()]
    flies = [nodes for rack in free for nodes in rack]
    for number, name in enumerate(names):
        if number % 2 >= flies[number // 2]:
            take(capacity, name)
    able = [{names[at % len(names)] for at in each} or {*names} for each in ties]
    runs = [Eligibility(exclude=frozenset({*names} - each)) for each in able]
    wish = job(*(2 for _ in ties), by_rank=tuple((1, e) for r in runs for e in (r, Eligibility())))
    found = placed(capacity, wish)
    pairs = [names[at : at + 2] for at in range(0, len(names), 2)]
    idle = [pair for pair in pairs if all(capacity.free(name) for name in pair)]
    chosen = permutations(idle, len(ties))
    exists = any(
        all(each & {*pair} for each, pair in zip(able, way, strict=True))
        and len({pair[0].split("-")[0] for pair in way}) == len(way)
        for way in chosen
    )
    assert isinstance(found, Placed) == exists


def lost(capacity: Capacity, wish: Request, nodes: Sequence[str], **more: object) -> set[str]:
    """The nodes that a check of these places names; `bound`: the ranks that run."""
    ran = more.pop("bound", ())
    pods = asked(wish.pods, 16, request=wish).wanted
    seats = [(pod, NodeName(node)) for pod, node in zip(pods, nodes, strict=True)]
    known = {"id": GangId("a"), "ask": 1, "request": wish, "holds": ()}
    check = Check(
        waiting=tuple(seat for seat in seats if seat[0].rank not in ran),  # type: ignore[operator]
        bound=tuple((pod.rank, node) for pod, node in seats if pod.rank in ran),  # type: ignore[operator]
        **(known | more),  # type: ignore[arg-type]
    )
    return {node for node, _ in lost_nodes(capacity, check, ())}


def test_a_plan_is_lost_where_its_parts_have_no_domain_of_their_own_any_more() -> None:
    """The labels of nodes, or where others are, may have changed since it was made."""
    capacity, wish = racks(1, 1), job(2, 2)
    first, second = ["n0-0-1", "n0-0-2"], ["n1-1-1", "n1-1-2"]
    plan = [*first, *second]
    assert lost(capacity, wish, plan) == set()
    for label in ("", "rack"):
        busy = (Occupied(NodeName("n1-1-1"), label),)
        assert lost(capacity, wish, plan, occupied=busy) == {*second}
    assert lost(capacity, job(2, free=2), plan, occupied=(Occupied(NodeName("n1-1-1")),)) == set()
    for name, labels, gone in (
        ("n1-1-2", "r7", {"n1-1-2"}),
        ("n1-1-1", "r7", {"n1-1-2"}),
        ("n1-1-2", "r0", {"n1-1-2"}),
    ):
        moved = racks(1, 1)
        known = moved.host(NodeName(name))
        assert known is not None
        moved.upsert(replace(known, labels=(("rack", labels),)))
        assert lost(moved, wish, plan) == gone, "the first one decides"
    both = racks(2)
    shared = ["n0-0-1", "n0-0-2", "n0-1-1", "n0-1-2"]
    assert lost(both, wish, shared) == {*shared[2:]}, "the first part has the rack"
    assert lost(both, wish, shared, bound={2, 3}) == {*shared[:2]}, "who runs has it"


def test_pods_of_a_part_that_runs_go_beside_them_alone() -> None:
    capacity, wish = racks(2, 2), job(2, 2)
    plan = ["n0-0-1", "n0-0-2", "n1-2-1", "n0-1-1"]
    assert lost(capacity, wish, plan, bound={0, 1, 2}) == {"n0-1-1"}
    assert lost(capacity, wish, [*plan[:3], "n1-2-2"], bound={0, 1, 2}) == set()


@pytest.mark.parametrize(("ended", "tied"), [((1,), (0, 2)), ((1, 3), (0,)), ((2,), ())])
def test_a_part_of_which_pods_have_ended_gets_the_groups_of_the_ranks_that_are_left(
    ended: tuple[int, ...], tied: tuple[int, ...]
) -> None:
    """Ranks 0, 2 and 3 of pairs are one pod of a pair and another pair, not the other way round."""
    capacity = racks(2)
    names = [host.name for host in capacity.hosts()]
    each = [
        Eligibility(exclude=frozenset({*names} - {names[rank]} if rank in tied else ()))
        for rank in range(4)
    ]
    wish = job(4, by_rank=tuple((1, eligible) for eligible in each))
    question = asked(4, 16, request=wish)
    left = tuple(pod for pod in question.wanted if pod.rank not in ended)
    found = answer_place(capacity, replace(question, wanted=left), ())
    assert isinstance(found, Placed)
    at = dict(zip((pod.rank for pod in left), found.nodes, strict=True))
    assert all(at[rank] == names[rank] for rank in tied)
    flies = {rank: node.split("-")[1] for rank, node in at.items()}
    assert len({flies[rank] for rank in flies if rank >= 2}) == 1, "a pair is whole"


def test_pods_of_two_groups_that_others_have_left_need_no_dragonfly_with_room_for_both() -> None:
    capacity = racks(2)
    take(capacity, "n0-0-1")
    take(capacity, "n0-1-1")
    question = asked(4, 16, request=job(4))
    left = tuple(pod for pod in question.wanted if pod.rank in (0, 2))
    found = answer_place(capacity, replace(question, wanted=left), ())
    assert isinstance(found, Placed)
    assert {*found.nodes} == {"n0-0-2", "n0-1-2"}


def test_a_job_with_own_domains_is_never_certified_as_domains_are_not_compared() -> None:
    """Rack r0 is the tightest one with room; in r1 the job would be in one dragonfly."""
    capacity = racks(2, 2)
    for node in ("n0-0-1", "n0-1-1", "n1-3-1"):
        take(capacity, node)
    found = placed(capacity, job(2, group_size=8))
    assert isinstance(found, Placed)
    assert len({node.split("-")[1] for node in found.nodes}) == 2
    assert not found.certified


@pytest.mark.parametrize(("steps", "never"), [(10_000, True), (0, False)])
def test_domains_that_the_budget_does_not_judge_are_tried_and_their_refusal_is_not_for_ever(
    steps: int, *, never: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods of a pair are tied to nodes of two dragonflies; no steps: nobody can know."""
    monkeypatch.setattr("topo.gangs.decisions.place.Budget", lambda: Budget(steps))
    capacity = racks(2)
    names = [host.name for host in capacity.hosts()]
    tied = [Eligibility(exclude=frozenset({*names} - {name})) for name in ("n0-0-1", "n0-1-1")]
    refused = placed(capacity, job(2, by_rank=tuple((1, each) for each in tied)))
    assert isinstance(refused, Refused)
    assert refused.never == never
    near = [tied[0], Eligibility(exclude=frozenset({*names} - {"n0-0-2"}))]
    assert isinstance(placed(capacity, job(2, by_rank=tuple((1, e) for e in near))), Placed)


@pytest.mark.parametrize("limit", ["MOST_TRIES", "_MOST_SEATED", "MOST_STEPS"])
def test_a_refusal_for_want_of_tries_is_not_for_ever(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods of a pair are tied to two dragonflies, or pods beside the part have no room."""
    capacity = racks(2)
    names = [host.name for host in capacity.hosts()]
    tied = [Eligibility(exclude=frozenset({*names} - {name})) for name in ("n0-0-1", "n0-1-1")]
    wish = job(2, by_rank=tuple((1, each) for each in tied))
    if limit == "MOST_TRIES":
        wish = job(2, free=4)
    never = placed(capacity, wish)
    assert isinstance(never, Refused)
    assert never.never
    monkeypatch.setattr(own_domains, limit, 0)
    unknown = placed(capacity, wish)
    assert isinstance(unknown, Refused)
    assert not unknown.never


def test_groups_of_a_part_that_begins_inside_a_group_are_those_of_its_ranks() -> None:
    """Of ranks 3, 4 and 5 the last two are a pair; the first one's neighbour has ended."""
    capacity = racks(2)
    names = [host.name for host in capacity.hosts()]
    on = [Eligibility(exclude=frozenset({*names} - {name})) for name in ("n0-0-1", "n0-1-1")]
    wish = job(3, 3, by_rank=((3, Eligibility()), (1, on[0]), (1, on[1]), (1, Eligibility())))
    question = asked(6, 16, request=wish)
    found = answer_place(capacity, replace(question, wanted=question.wanted[3:]), ())
    assert isinstance(found, Placed)
    assert found.nodes == ("n0-0-1", "n0-1-1", "n0-1-2")
