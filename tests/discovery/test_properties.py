"""What holds for every world and every order of events."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import (
    declared,
    discovery,
    facts,
    groups,
    managed,
    nodes,
    not_ready,
    report,
    ring,
    shape,
    together,
)
from topo.discovery.modes import Mode
from topo.model.ids import NodeName, natural_key
from topo.model.machine import Peer, ServerPeers
from topo.model.observation import (
    CLUSTER_MANAGER,
    ConfigLoaded,
    Event,
    ManagerReported,
    NodeRemoved,
    SourceFailed,
    WorkerBeat,
    WorkerReported,
)
from topo.publish.nodegroup import render

NAMES = [f"node-{i}" for i in range(12)]

cables = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda c: c[0] != c[1]),
    max_size=20,
)
"""Directed: (a, b) says that a sees b. Both directions together are a cable."""


def reports_of(seen: list[tuple[str, str]]) -> list[WorkerReported]:
    """Every node of the world reports once what it sees."""
    views: dict[str, list[str]] = {name: [] for name in NAMES}
    for a, b in seen:
        if b not in views[a]:
            views[a].append(b)
    return [report(name, peers) for name, peers in views.items()]


def confirmed(seen: list[tuple[str, str]]) -> set[frozenset[str]]:
    """The components over cables that both ends see: the plain model of a dragonfly."""
    both = {frozenset(c) for c in seen if (c[1], c[0]) in seen}
    parts = [{n} for n in NAMES]
    for a, b in (tuple(c) for c in both):
        one, other = (next(p for p in parts if n in p) for n in (a, b))
        if one is not other:
            parts.remove(other)
            one |= other
    return {frozenset(p) for p in parts if len(p) > 1}


switchbox_of = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(["box-1", "box-2", "box-10"]), max_size=12
)


def boxes(assigned: dict[str, str]) -> dict[str, list[str]]:
    """Nodes by switchbox."""
    found: dict[str, list[str]] = {}
    for node, box in assigned.items():
        found.setdefault(box, []).append(node)
    return found


@given(cables, switchbox_of, st.randoms(use_true_random=False), st.sampled_from([2, 4]))
def test_any_order_of_the_same_facts_gives_the_same_bytes(seen, assigned, random, number):
    """Reports and the manager's answer in two orders, one by one: byte-identical documents."""
    events: list[Event] = [*reports_of(seen), ManagerReported(managed(boxes(assigned)))]
    documents = set()
    for _ in range(2):
        random.shuffle(events)
        state = discovery(Mode.SWITCHBOX, node_number=number)
        for event in events:
            state.advance(1.0, event)
        documents.add(render(state.snapshot.forest))
    assert len(documents) == 1


@given(cables, switchbox_of, st.sampled_from(list(Mode)), st.integers(0, 11))
def test_no_node_is_lost_and_none_stands_twice(seen, assigned, mode, listed):
    """Every known node is in the forest or in `unplaced`, exactly once."""
    state = discovery(mode)
    written = {"box": {"fly": NAMES[:listed]}} if listed else {}
    state.advance(
        1.0,
        ConfigLoaded(declared(written)),
        ManagerReported(managed(boxes(assigned))),
        *reports_of(seen),
    )
    everywhere = [n for members in shape(state).values() for n in members]
    assert sorted(everywhere, key=natural_key) == sorted(NAMES, key=natural_key)
    assert [*state.known] == sorted(NAMES, key=natural_key)


@given(cables, st.sampled_from([2, 3, 4]))
def test_two_nodes_share_a_dragonfly_only_over_links_seen_from_both_sides(seen, number):
    """The groups are exactly the components of the plain model: nothing more, nothing less."""
    state = discovery(Mode.DRAGONFLY, node_number=number)
    state.advance(1.0, *reports_of(seen))
    assert together(state) == confirmed(seen)


@given(cables, switchbox_of)
def test_nodes_of_two_switchboxes_never_share_a_group(seen, assigned):
    """What the manager parts stays apart, whatever the workers see."""
    state = discovery(Mode.SWITCHBOX)
    state.advance(1.0, ManagerReported(managed(boxes(assigned))), *reports_of(seen))
    for path, members in shape(state).items():
        named = {assigned[n] for n in members if n in assigned}
        assert not path or len(named) <= 1


@given(st.integers(2, 6), st.integers(1, 5))
def test_joining_two_half_seen_components_never_splits_a_confirmed_one(size, split):
    """While reports of a chain arrive, nodes once together stay together."""
    names = NAMES[: size + 1]
    split = min(split, size - 1)
    sides = zip(["", *names[:-1]], [*names[1:], ""], strict=True)
    chain = [[n for n in pair if n] for pair in sides]
    events = [report(n, peers) for n, peers in zip(names, chain, strict=True)]
    state = discovery(Mode.DRAGONFLY, node_number=len(names))
    before: set[frozenset[str]] = set()
    for event in [*events[:split], *events[split + 1 :], events[split]]:
        state.advance(1.0, event)
        for old in before:
            assert any(old <= new for new in together(state))
        before = together(state)
    assert together(state) == {frozenset(names)}


@given(st.lists(st.booleans(), max_size=40), st.integers(2, 3), st.integers(2, 4))
def test_a_flapping_link_settles(readings, bad, good):
    """The status changes at most once per full run of bad or good readings, never per flap."""
    state = discovery(Mode.DRAGONFLY, bad_readings=bad, good_readings=good)
    state.advance(0.0, *ring(["a", "b"]))
    down, run, last = False, 0, True
    for up in readings:
        state.advance(1.0, report("a", ["b"] if up else []))
        run = run + 1 if up == last else 1
        last = up
        if not up and run >= bad:
            down = True
        if up and run >= good:
            down = False
        assert ("a" in not_ready(state)) == down
    assert together(state) == {frozenset({"a", "b"})}


@given(st.sampled_from(NAMES[:8]))
def test_removing_a_node_and_adding_it_back_is_identity(node):
    """The same document, to the byte, once the node reports again."""
    state = discovery(Mode.DRAGONFLY, node_number=4)
    events = [*ring(NAMES[:4]), *ring(NAMES[4:8])]
    state.advance(1.0, *events)
    before = render(state.snapshot.forest)
    state.advance(2.0, NodeRemoved(NodeName(node)))
    assert render(state.snapshot.forest) != before
    state.advance(3.0, *(e for e in events if e.facts.identity.name == node))
    assert render(state.snapshot.forest) == before


@given(st.lists(st.sampled_from(["empty", "failed", "half"]), max_size=5))
def test_an_empty_or_failing_manager_never_empties_the_forest(faults):
    """Whatever the manager stops saying, the places stay as last said."""
    world = {"box-1": NAMES[:4], "box-2": NAMES[4:8]}
    state = discovery(Mode.SWITCHBOX)
    pairs = [ring(NAMES[i : i + 2]) for i in range(0, 8, 2)]
    state.advance(1.0, ManagerReported(managed(world)), *(e for p in pairs for e in p))
    before = shape(state)
    for fault in faults:
        answers: dict[str, Event] = {
            "empty": ManagerReported(managed({})),
            "failed": SourceFailed(CLUSTER_MANAGER, "500"),
            "half": ManagerReported(managed({"box-1": NAMES[:4]})),
        }
        state.advance(2.0, answers[fault])
        assert shape(state) == before


@given(cables, st.lists(st.integers(0, 11), max_size=12))
def test_the_generation_grows_by_one_on_change_and_never_otherwise(seen, order):
    """An equal reading gives no changes and no new generation; a new one gives both."""
    state = discovery(Mode.DRAGONFLY)
    events = reports_of(seen)
    for index in order:
        before = state.snapshot
        changes = state.advance(1.0, events[index])
        after = state.snapshot
        same = after.forest == before.forest
        assert after.generation == before.generation + (0 if same else 1)
        assert bool(changes) != same
        assert state.advance(1.0, events[index]) == ()


@settings(max_examples=30)
@given(cables, st.randoms(use_true_random=False))
def test_built_step_by_step_equals_built_at_once(seen, random):
    """The reused subtrees are what a full build would have made."""
    events = reports_of(seen)
    random.shuffle(events)
    steps, once = discovery(node_number=4), discovery(node_number=4)
    for event in events:
        steps.advance(1.0, event)
    once.advance(1.0, *events)
    assert steps.snapshot.forest == once.snapshot.forest


@given(cables, switchbox_of)
def test_a_restored_state_shows_the_same_tree(seen, assigned):
    """What a state file keeps is enough for the same document."""
    first = discovery(Mode.SWITCHBOX)
    first.advance(1.0, ManagerReported(managed(boxes(assigned))), *reports_of(seen))
    second = discovery(Mode.SWITCHBOX)
    second.restore(first.persistent_state(), age_s=5.0, now_s=100.0)
    assert render(second.snapshot.forest) == render(first.snapshot.forest)
    assert second.snapshot.restored_at_s == 95.0
    assert second.snapshot.generation == first.snapshot.generation + 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=12))
def test_a_master_that_restarts_in_between_never_serves_a_wrong_neighbour(steps):
    """Only a-b and c-d are cabled: no restart, silence or loss ever shows another pair."""
    names = ["a", "b", "c", "d"]
    events = [*ring(["a", "b"]), *ring(["c", "d"])]
    state, now_s = discovery(Mode.DRAGONFLY), 0.0
    for which, what in steps:
        now_s += 20.0
        if what == 0:
            state.advance(now_s, events[which])
        elif what == 1:
            state.advance(now_s, WorkerBeat(NodeName(names[which])))
        elif what == 2:
            state = discovery(Mode.DRAGONFLY)
        elif what == 3:
            state, old = discovery(Mode.DRAGONFLY), state
            state.restore(old.persistent_state(), 1.0, now_s)
        else:
            lost = facts(names[which])
            state.advance(now_s, WorkerReported(lost))
        assert together(state) <= {frozenset("ab"), frozenset("cd")}


@given(st.permutations(NAMES[:4]), st.permutations(NAMES[:4]))
def test_recabling_moves_pairs_without_ever_mixing_them(before, after):
    """Each node reports its new cable twice, in any order: no group of three, no stale pair."""
    state = discovery(Mode.DRAGONFLY)
    old = [ring([*before[:2]]), ring([*before[2:]])]
    new = [ring([*after[:2]]), ring([*after[2:]])]
    state.advance(1.0, *(e for pair in old for e in pair))
    for event in [e for pair in new for e in pair]:
        for _ in range(3):
            state.advance(2.0, event)
            assert all(len(members) == 2 for members in together(state))
    assert together(state) == {frozenset(after[:2]), frozenset(after[2:])}
    assert not not_ready(state)


def test_slots_that_a_driver_compacts_are_not_new_cables():
    """Remote 2 moving to slot 1 when remote 1 goes does not take the ring apart."""
    state = discovery(Mode.DRAGONFLY, node_number=4)
    state.advance(1.0, *ring(["a", "b", "c", "d"]))
    seen = facts("a", ["d", "b"])
    assert seen.peers is not None
    moved = ServerPeers(seen.peers.local, (Peer(1, seen.peers.remotes[1].uuid),))
    reading = WorkerReported(type(seen)(identity=seen.identity, gpus=seen.gpus, peers=moved))
    for _ in range(3):
        state.advance(2.0, reading)
    assert together(state) == {frozenset("abcd")}
    assert not_ready(state) == {"a"}


@given(st.integers(0, 3))
def test_a_generated_name_stays_while_most_members_stay(replaced):
    """One node of four is exchanged for another machine: the group keeps its name."""
    names = NAMES[:4]
    state = discovery(Mode.DRAGONFLY, node_number=4)
    state.advance(1.0, *ring(names))
    (name,) = groups(state)
    renewed = [*names]
    renewed[replaced] = "node-new"
    for _ in range(3):
        state.advance(2.0, *ring(renewed), NodeRemoved(NodeName(names[replaced])))
    assert list(groups(state)) == [name]
    assert together(state) == {frozenset(renewed)}
    assert nodes(state).keys() == set(renewed)
