"""Placement inside one group of another fabric: beside looking at every way, and as cables move."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement.asked import job
from tests.placement.booking.test_holds_log import again, header
from tests.support.capacity import capacity_of, host, take
from topo.model.forest import Forest, Group, Node, PathGroup, Status
from topo.model.ids import DRAGONFLY, SCALE_OUT, GroupName, GroupPath, Kind, NodeName
from topo.model.observation import FABRIC
from topo.placement.advice.explain import explain
from topo.placement.advice.refusal_reasons import reasons
from topo.placement.advice.suggestions import find_suggestions, largest_possible_pods
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.confirm import confirm_groups
from topo.placement.booking.events import HoldAsked
from topo.placement.booking.holds import HoldId, HoldRequest, Limits
from topo.placement.booking.log import Advanced, line_of, state_json
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.forest_hosts import host_differences, hosts_of
from topo.placement.capacity.host import Host
from topo.placement.capacity.host_follower import HostFollower
from topo.placement.engine import fits, place
from topo.placement.job.plan import Allocation, NoFit, Plan, objective_names
from topo.placement.job.policy import Policy
from topo.placement.job.request import OtherGroup, PlacementMode, Request
from topo.placement.quality.measure import effect_of, key_of
from topo.placement.view import view_of

LEAF, SPINE = Kind("leaf"), Kind("spine")


def on(leaf: str) -> tuple[OtherGroup, ...]:
    """The groups of a host on a leaf below the one spine; none for an empty name."""
    if not leaf:
        return ()
    spine, name = GroupName("spine"), GroupName(leaf)
    return (
        OtherGroup(SCALE_OUT, SPINE, GroupPath((spine,))),
        OtherGroup(SCALE_OUT, LEAF, GroupPath((spine, name))),
    )


@st.composite
def worlds(draw: st.DrawFn) -> Capacity:
    """Switchboxes of dragonflies of two, or of other shapes; leaves that do not follow them."""
    sizes = draw(st.sampled_from(((2,), (2,), (1, 2, 3), (4,))))
    capacity = Capacity(Policy(canonical_gpus=draw(st.sampled_from((8, 16)))))
    leaves = draw(st.sampled_from((("a", "b"), ("a", "b", "c", ""))))
    for box in range(draw(st.integers(1, 2))):
        for fly in range(draw(st.integers(1, 3))):
            for side in range(draw(st.sampled_from(sizes))):
                name = f"n{box}-{fly}-{side}"
                path = draw(st.sampled_from(((f"s{box}", f"d{fly}"),) * 9 + ((),)))
                capacity.upsert(
                    host(
                        name,
                        path,
                        elsewhere=on(draw(st.sampled_from(leaves))),
                        cordoned=draw(st.integers(0, 9)) == 0,
                        penalty=draw(st.sampled_from((0, 0, 0, 2))),
                    )
                )
                if taken := draw(st.sampled_from((0, 0, 0, 4, 8))):
                    capacity.book(f"on-{name}", {NodeName(name): taken})
    return capacity


@st.composite
def wishes(draw: st.DrawFn) -> Request:
    gpus = draw(st.sampled_from((4, 8)))
    return Request(
        pods=draw(st.integers(1, 5)),
        gpus_per_pod=gpus,
        group_size=draw(st.sampled_from((None, 8, 16, 16, 24))),
        mode=draw(st.sampled_from((PlacementMode.REQUIRED,) * 3 + (PlacementMode.PREFERRED,))),
        within=draw(st.sampled_from((LEAF, LEAF, SPINE))),
    )


def domain(each: Host, tier: int) -> tuple[str, ...]:
    """The domain of a host: its group of the tier or of the next lower one, else itself."""
    return each.path[: len(each.path) + 1 - tier] if each.path else (each.name,)


def group_tier(capacity: CapacityView, request: Request) -> int | None:
    """The lowest tier of which a domain could hold a group when empty, else the tail alone."""
    k, m = request.pods_per_group, request.whole_groups
    for pods in (k,) if m else (k, request.tail):
        for tier in range(1, capacity.tiers + 1):
            rooms: Counter[tuple[str, ...]] = Counter()
            for each in capacity.hosts():
                rooms[domain(each, tier)] += each.gpus // request.gpus_per_pod
            if max(rooms.values(), default=0) >= pods:
                return tier
    return None


def ways(capacity: CapacityView, request: Request) -> Iterator[Mapping[NodeName, int]]:
    """Every way to hand out the pods inside one group of the kind with whole groups whole."""
    depth = (SPINE, LEAF).index(request.within or LEAF)
    tier = group_tier(capacity, request)
    if tier is None and request.mode is PlacementMode.REQUIRED:
        return
    for leaf in sorted({each.elsewhere[depth] for each in capacity.hosts() if each.elsewhere}):
        inside = [each for each in capacity.hosts() if leaf in each.elsewhere and each.is_open]
        rooms = [capacity.free(each.name) // request.gpus_per_pod for each in inside]
        for pods in product(*(range(room + 1) for room in rooms)):
            if sum(pods) != request.pods:
                continue
            by_domain: Counter[tuple[str, ...]] = Counter()
            for each, some in zip(inside, pods, strict=True):
                by_domain[domain(each, tier or 1)] += some
            rest = [some % request.pods_per_group for some in by_domain.values()]
            left = [some for some in rest if some]
            is_whole = left == ([request.tail] if request.tail else [])
            if is_whole or request.mode is PlacementMode.PREFERRED:
                there = zip(inside, pods, strict=True)
                yield {each.name: some for each, some in there if some}


def pods_of(plan: Plan) -> Counter[NodeName]:
    """The pods of a plan by node."""
    pods: Counter[NodeName] = Counter()
    for group in plan.groups:
        for node, some in group.pods:
            pods[node] += some
    return pods


def sharing(capacity: CapacityView, plan: Plan, kind: Kind | None) -> set[OtherGroup]:
    """The groups of a kind of the other fabric that any node of a plan is in."""
    hosts = (capacity.host(node) for node in pods_of(plan))
    return {each for host in hosts if host for each in host.elsewhere if each.kind == kind}


def numbers(capacity: CapacityView, request: Request, pods: Mapping[NodeName, int]) -> list[object]:
    """The objective of pods whose groups are whole: the spans, then number by number."""
    taken: Counter[int] = Counter()
    for name, some in pods.items():
        taken[capacity.domain_of(name)] += some
    span, *others, _, _ = key_of(
        effect_of(view_of(capacity, request, "A"), taken), Allocation((), taken)
    )
    return [*span, *others, capacity.penalty(pods.items())]


@settings(max_examples=40, deadline=None)
@given(worlds(), wishes())
def test_a_job_goes_inside_one_leaf_where_looking_at_every_way_finds_one_and_as_well(
    capacity: Capacity, request_: Request
) -> None:
    found = place(capacity, request_)
    assert fits(capacity, request_) is isinstance(found, Plan)
    every = [*ways(capacity, request_)]
    if isinstance(found, NoFit):
        assert not every
        assert found.shortfall["needed"] > found.shortfall["available"]
        return
    assert pods_of(found) in every
    if found.mode is PlacementMode.REQUIRED:
        whole = replace(request_, mode=PlacementMode.REQUIRED)
        every = every if whole == request_ else [*ways(capacity, whole)]
        best = min(numbers(capacity, whole, each) for each in every)
        # No more than four leaves: all are tried, so that what is best is found, and what is
        # certified is true.
        assert numbers(capacity, whole, pods_of(found)) == best
        least = found.bounds["top_groups"], found.bounds["tier1_groups"]
        assert least <= (found.objective.span[0], found.objective.span[-1])
    where, *aims = explain(capacity, found)
    assert len(aims) == len(objective_names(len(found.objective.span)))
    (inside,) = sharing(capacity, found, request_.within)
    assert f"inside {request_.within} {'/'.join(inside.path)} of scale-out" in where


@settings(max_examples=15, deadline=None)
@given(worlds(), wishes(), st.data())
def test_a_capacity_follows_recabled_nodes_and_what_if_as_one_that_is_made_anew(
    capacity: Capacity, request_: Request, data: st.DataObject
) -> None:
    for _ in range(4):
        place(capacity, request_)
        each = data.draw(st.sampled_from(capacity.hosts()))
        changed = data.draw(
            st.sampled_from(
                (
                    replace(each, elsewhere=on("a")),
                    replace(each, elsewhere=()),
                    replace(each, elsewhere=on("b"), path=GroupPath(()), kinds=(), tiers=()),
                    replace(each, cordoned=not each.cordoned),
                )
            )
        )
        if data.draw(st.booleans()):
            capacity.upsert(changed)
        elif changed.place == each.place and changed.elsewhere == each.elsewhere:
            assumed = capacity.with_changes(hosts=[changed], released=[f"on-{each.name}"])
            real = capacity.copy()
            real.upsert(changed)
            real.release(f"on-{each.name}")
            assert place(assumed, request_) == place(real, request_)
        anew = capacity_of(capacity.hosts(), capacity.policy)
        for owner, gpus in capacity.bookings().items():
            anew.book(owner, gpus)
        assert place(capacity, request_) == place(anew, request_)


def pairs(count: int, **more: object) -> Capacity:
    """Dragonflies of two nodes in one switchbox; of every second one a node is on each leaf."""
    sides = {0: ("a", "a"), 1: ("a", "b"), 2: ("b", "b"), 3: ("a", "b")}
    return capacity_of(
        host(f"n{fly}{side}", ("s0", f"d{fly}"), elsewhere=on(sides[fly % 4][at]), **more)
        for fly in range(count)
        for at, side in enumerate("xy")
    )


def test_groups_stay_whole_in_dragonflies_and_the_job_in_a_leaf() -> None:
    capacity = pairs(8)
    wish = replace(job(4, group_size=16), within=LEAF)
    found = place(capacity, wish)
    assert isinstance(found, Plan)
    assert [group.pods for group in found.groups] == [
        ((NodeName("n0x"), 1), (NodeName("n0y"), 1)),
        ((NodeName("n4x"), 1), (NodeName("n4y"), 1)),
    ]
    # Four more nodes are on each leaf, and each is half of a dragonfly.
    larger = place(capacity, replace(wish, pods=6))
    assert isinstance(larger, NoFit)
    text = "no leaf can take all 6 pods in their groups now; the one with most room has 8 slots"
    assert larger.text == text
    said = reasons(capacity, larger)[-1]
    assert said.startswith("The leaves with most room have it: spine/a for 2 whole groups or 8 pod")
    advice = find_suggestions(capacity, larger)
    assert advice[0].text.startswith("All 6 pods fit if not in one leaf")
    assert "5 of the 6 pods fit now" in [each.text for each in advice][-1]
    assert largest_possible_pods(capacity, larger.request) == 5, "a tail of 1 goes anywhere"
    assert largest_possible_pods(capacity, wish) is None


def test_what_nobody_tells_of_leaves_is_said_in_a_refusal() -> None:
    capacity = pairs(8)
    for name in ("n4x", "n4y"):  # the only other whole dragonfly of leaf a
        known = capacity.host(NodeName(name))
        assert known is not None
        capacity.upsert(replace(known, elsewhere=()))
    wish = replace(job(4, group_size=16), within=LEAF)
    for name in ("n2x", "n6x"):
        take(capacity, name)
    refused = place(capacity, wish)
    assert isinstance(refused, NoFit)
    assert refused.text.endswith(
        "most room has 6 slots, and nobody says in which leaf 2 more slots are"
    )
    bare = capacity_of(replace(each, elsewhere=()) for each in capacity.hosts())
    untold = place(bare, wish)
    assert isinstance(untold, NoFit)
    assert untold.text == (
        "there are 0 groups of kind leaf; the kinds there are: dragonfly, switchbox; nobody tells"
        " groups of scale-out, where it would be: dumps and LLDP tell them, with fabric in"
        " --precedence"
    )


def test_of_a_leaf_nodes_are_taken_whose_dragonfly_is_broken_already() -> None:
    capacity = pairs(4)
    take(capacity, "n3y")
    found = place(capacity, replace(job(1), within=LEAF))
    assert isinstance(found, Plan)
    assert pods_of(found) == {"n3x": 1}, "its other half is on another leaf, and in use"
    assert found.objective.newly_broken == 0


def test_what_frees_a_leaf_is_suggested() -> None:
    capacity = pairs(4)
    for name in ("n0x", "n2x"):
        take(capacity, name)
    refused = place(capacity, replace(job(2, group_size=16), within=LEAF))
    assert isinstance(refused, NoFit)
    owners = [each.owners for each in find_suggestions(capacity, refused) if each.owners]
    assert owners == [("on-n0x",)]
    closed = pairs(2, cordoned=True)
    shut = place(closed, replace(job(2, group_size=16), within=LEAF))
    assert isinstance(shut, NoFit)
    opened = [each.assume for each in find_suggestions(closed, shut) if each.assume]
    assert [each.free for each in opened] == [("n0x", "n0y")]


def test_a_kind_of_no_fabric_is_refused_with_those_there_are_and_the_tree_comes_first() -> None:
    unknown = place(pairs(2), replace(job(1), within=Kind("rack")))
    assert isinstance(unknown, NoFit)
    assert unknown.text == (
        "there are 0 groups of kind rack; the kinds there are: dragonfly, switchbox; of another "
        "fabric: leaf, spine"
    )
    # Where the tree has leaves, those of another fabric do not count.
    hosts = [replace(each, kinds=(SPINE, LEAF)) for each in pairs(2).hosts()]
    inside = place(capacity_of(hosts), replace(job(2, group_size=8), within=LEAF))
    assert isinstance(inside, Plan)
    assert pods_of(inside) == {"n0x": 1, "n0y": 1}
    assert isinstance(place(capacity_of(hosts), replace(job(4), within=LEAF)), NoFit)


def test_a_fabric_that_vanishes_is_a_refusal_and_comes_back_in_place() -> None:
    followed, wish = Capacity(), replace(job(2, group_size=8), within=LEAF)
    follower = HostFollower(followed)
    for has_leaves in (False, True, False, True):
        now = forest(3, has_leaves=has_leaves)
        follower.follow(now)
        assert {each.name: each for each in followed.hosts()} == hosts_of(now)
        assert host_differences(followed, now, {}) == ()
        assert followed.recount() == ()
        found = place(followed, wish)
        assert isinstance(found, Plan) == has_leaves
        for pods in range(1, 7):
            asked = job(pods, group_size=16)
            bare = capacity_of(hosts_of(forest(3, has_leaves=False)).values())
            assert place(followed, asked) == place(bare, asked), "another fabric decides no plan"


def forest(pairs: int, *, has_leaves: bool) -> Forest:
    """Dragonflies of two nodes, each across two leaves."""

    def node(pair: int, side: str) -> Node:
        leaf = PathGroup(LEAF, side, GroupName(f"leaf-{side}"), FABRIC)
        elsewhere = ((SCALE_OUT, (leaf,)),) if has_leaves else ()
        return Node(NodeName(f"n{pair}{side}"), Status.READY, (), 8, "A", elsewhere=elsewhere)

    return Forest(
        tuple(
            Group(
                GroupName(f"d{pair}"),
                DRAGONFLY,
                1,
                Status.READY,
                (node(pair, "a"), node(pair, "b")),
            )
            for pair in range(1, pairs + 1)
        )
    )


def test_groups_that_the_caller_chose_are_confirmed_inside_one_leaf_alone() -> None:
    capacity = pairs(4)
    wish = replace(job(2, group_size=8), within=LEAF)
    one = [((NodeName("n0x"), 1),), ((NodeName("n1x"), 1),)]
    assert isinstance(confirm_groups(capacity, wish, one, None), Plan)
    two = [((NodeName("n0x"), 1),), ((NodeName("n1y"), 1),)]
    assert "2 groups of kind leaf" in str(confirm_groups(capacity, wish, two, None))


def test_a_hold_inside_a_leaf_replays_from_its_log() -> None:
    capacity = pairs(4)
    bookings = Bookings(capacity, Limits(holds=5))
    first = line_of(header(capacity, bookings))
    wish = HoldRequest(replace(job(2, group_size=16), within=LEAF), 60, "key")
    plan = place(capacity, wish.request)
    assert isinstance(plan, Plan)
    asked = HoldAsked.of(wish, plan, HoldId("h"), 3)
    lines = [first, line_of(Advanced.of(1.0, (asked,), bookings.advance(1.0, asked)))]
    found = again(lines)
    assert (found.difference, found.other_choices) == ("", [])
    assert found.capacity.hosts() == capacity.hosts()
    assert state_json(found.bookings.state()) == state_json(bookings.state())
