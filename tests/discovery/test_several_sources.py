"""Several sources of groups: the one that is followed, disagreements, and confirmations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    declared,
    discovery,
    fabric_facts,
    managed,
    nodes,
    report,
    ring,
    shape,
)
from tests.discovery.labels import RACKS, labelled, listed, seen
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.forest import Status
from topo.model.ids import DRAGONFLY, GroupName, NodeName, SourceName
from topo.model.observation import (
    CLUSTER_MANAGER,
    CLUSTER_NODES,
    CONFIG_FILE,
    WORKERS,
    ClusterNodesListed,
    ConfigLoaded,
    Event,
    ManagedGroup,
    ManagedTopology,
    ManagerReported,
    SourceFailed,
    WorkerReported,
)

FILE = {"box": {"fly-1": ["a", "b"], "fly-2": ["c", "d"]}}
"""The vendor's shape: two dragonflies of two nodes in a switchbox."""
ALIKE = {"a": "r/1", "b": "r/1", "c": "r/2", "d": "r/2"}
CROSSED = {"a": "r/1", "c": "r/1", "b": "r/2", "d": "r/2"}


def conflicts(state: Discovery) -> list[tuple[str, tuple[str, ...], str]]:
    """Code, nodes and text of each."""
    return [(each.code, each.subjects, each.text) for each in state.snapshot.forest.conflicts]


def confirmed(state: Discovery) -> dict[str, tuple[str, ...]]:
    """By group who confirms it."""
    return {"/".join(path): by for path, by in state.snapshot.forest.confirmed.items()}


def test_the_order_of_the_sources_decides_and_the_other_side_stays_a_conflict():
    """The file first by default; labels first where the operator says so."""
    state = labelled(CROSSED, Mode.CONFIG)
    state.advance(1.0, ConfigLoaded(declared(FILE)))
    assert shape(state) == {"box/fly-1": ["a", "b"], "box/fly-2": ["c", "d"]}
    first, second = conflicts(state)
    assert first[:2] == ("sources-differ", ("a", "b"))
    assert first[2] == (
        "the config file puts a and b into box/fly-1, the labels put them into room-1/r/1 and "
        "room-1/r/2 with nodes of other groups; the config file is followed"
    )
    assert second[:2] == ("sources-differ", ("c", "d"))
    assert "--precedence" in state.snapshot.forest.conflicts[0].fix
    other = labelled(CROSSED, Mode.CONFIG, precedence=(CLUSTER_NODES, CONFIG_FILE))
    other.advance(1.0, ConfigLoaded(declared(FILE)))
    assert shape(other) == {"room-1/r/1": ["a", "c"], "room-1/r/2": ["b", "d"]}
    assert {code for code, _, text in conflicts(other) if "labels are followed" in text} == {
        "sources-differ"
    }


def test_a_disagreement_ends_with_its_cause_and_agreement_is_shown():
    """One label is corrected after the other; then each dragonfly is confirmed, and the box."""
    state = labelled(CROSSED, Mode.CONFIG)
    state.advance(1.0, ConfigLoaded(declared(FILE)))
    assert confirmed(state) == {"box": (CLUSTER_NODES,)}
    state.advance(2.0, seen("b", "r/1"), seen("c", "r/2"))
    state.validate()
    assert conflicts(state) == []
    assert confirmed(state) == dict.fromkeys(("box", "box/fly-1", "box/fly-2"), (CLUSTER_NODES,))


def test_cables_confirm_what_is_written_and_the_manager_confirms_cables():
    """In mode config workers are heard as well; a manager states dragonflies of its own."""
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared(FILE)), *ring(["a", "b"]))
    assert confirmed(state) == {"box/fly-1": (WORKERS,)}
    boxes = discovery(Mode.SWITCHBOX, labels=RACKS)
    inventory = managed({"box-1": ["a", "b"], "box-2": ["c", "d"]})
    fly = ManagedGroup("f", GroupName("f"), DRAGONFLY, "id-box-1")
    machines = [replace(m, group_id="f") for m in inventory.machines if m.group_id == "id-box-1"]
    inventory = ManagedTopology((*inventory.groups, fly), (*machines, *inventory.machines[2:]))
    boxes.advance(0.0, *ring(["a", "b"]), *ring(["c", "d"]), listed(ALIKE))
    boxes.advance(1.0, ManagerReported(inventory))
    boxes.validate()
    found = {
        "/".join(path.split("/")[:1]): by for path, by in confirmed(boxes).items() if "/" in path
    }
    assert found == {"box-1": (CLUSTER_MANAGER, CLUSTER_NODES), "box-2": (CLUSTER_NODES,)}
    assert confirmed(boxes)["box-1"] == (CLUSTER_NODES,)


def test_the_manager_and_labels_that_part_its_boxes_are_a_conflict():
    """Three of four agree: the fourth is told, with both places."""
    state = discovery(Mode.SWITCHBOX, labels=RACKS)
    state.advance(0.0, *(report(name) for name in "abcdefgh"))
    state.advance(1.0, ManagerReported(managed({"box-1": list("abcd"), "box-2": list("efgh")})))
    world = {name: "r/1" if name in "abc" else "r/2" for name in "abcdefgh"}
    state.advance(2.0, listed(world))
    state.validate()
    ((code, subjects, text),) = conflicts(state)
    assert (code, subjects) == ("sources-differ", ("d",))
    assert text == (
        "the cluster manager puts d into box-1, the labels put it into room-1/r/2 with nodes of "
        "other groups; the cluster manager is followed"
    )


def test_a_file_beside_workers_stands_above_their_dragonflies_and_parts_none():
    """Named in the precedence it places what the manager does not list; its names give way."""
    order = (CLUSTER_MANAGER, CONFIG_FILE)
    state = discovery(Mode.SWITCHBOX, precedence=order)
    state.advance(0.0, *ring(["a", "b"]), *ring(["c", "d"]), *ring(["e", "f"]))
    state.advance(1.0, ManagerReported(managed({"box": ["a", "b"]})))
    state.advance(2.0, ConfigLoaded(declared({"box": {"x": ["a", "c"]}, "row": {"y": ["e"]}})))
    state.validate()
    assert {tuple(path.split("/")[:-1]): names for path, names in shape(state).items()} == {
        ("box",): ["a", "b"],
        ("box~config", "x"): ["c", "d"],
        ("row", "y"): ["e", "f"],
    }
    assert {each.status for each in nodes(state).values()} == {Status.READY}


def test_members_of_one_nvlink_domain_with_different_labels_are_told():
    """The domain stays whole, as a dragonfly does."""
    state = discovery(Mode.NVLINK, labels=RACKS)
    state.advance(0.0, listed({"a": "r/1", "b": "r/2"}))
    state.advance(1.0, *(WorkerReported(fabric_facts(name, "c1")) for name in "ab"))
    state.validate()
    ((code, subjects, _),) = conflicts(state)
    assert (code, subjects) == ("wiring-differs-from-labels", ("a", "b"))


NAMES = "abcdef"
ORDERS = [
    (Mode.CONFIG, (CONFIG_FILE, CLUSTER_NODES)),
    (Mode.CONFIG, (CLUSTER_NODES, CONFIG_FILE)),
    (Mode.CONFIG, (CONFIG_FILE,)),
    (Mode.LABELS, (CLUSTER_NODES, CONFIG_FILE)),
    (Mode.SWITCHBOX, (CLUSTER_MANAGER, CLUSTER_NODES, CONFIG_FILE)),
    (Mode.SWITCHBOX, (CONFIG_FILE, CLUSTER_MANAGER)),
    (Mode.SWITCHBOX, (CLUSTER_NODES, CONFIG_FILE, CLUSTER_MANAGER)),
]
Places = Mapping[str, str]
places = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("xyz"), min_size=1)
statements = st.lists(
    st.tuples(st.sampled_from([CONFIG_FILE, CLUSTER_NODES, CLUSTER_MANAGER]), st.none() | places),
    max_size=12,
)
"""What sources say one after the other; None: they fail."""


def stated(source: SourceName, groups_of: Places) -> Event:
    """The event of a source that puts these nodes into these groups, and lists all nodes."""
    inside = {group: [n for n, of in groups_of.items() if of == group] for group in "xyz"}
    if source == CONFIG_FILE:
        return ConfigLoaded(declared({g: {f"{g}{g}": n} for g, n in inside.items() if n}))
    if source == CLUSTER_MANAGER:
        return ManagerReported(managed({group: names for group, names in inside.items() if names}))
    world = {n: {"example.com/room": groups_of[n]} if n in groups_of else "-" for n in NAMES}
    found = listed(world)
    assert isinstance(found, ClusterNodesListed)
    return found


def told(mode: Mode, order: Sequence[SourceName], events: Sequence[Event]) -> Discovery:
    """A state of a mode that heard all of this; every node reports, none sees a peer."""
    state = discovery(mode, labels=RACKS, precedence=tuple(order))
    state.advance(0.0, *(report(name) for name in NAMES))
    for event in events:
        state.advance(1.0, event)
    state.validate()
    return state


def outermost(state: Discovery) -> dict[str, str]:
    """By node the name of its outermost group, without what parts equal names of two sources."""
    found = {n: path for path, names in shape(state).items() for n in names}
    return {n: path.split("/")[0].split("~")[0] for n, path in found.items()}


@pytest.mark.parametrize(("mode", "order"), ORDERS)
@given(said=statements)
def test_each_node_stands_where_the_first_source_that_knows_it_puts_it(mode, order, said):
    """Sources fail, lie and come back; no node is lost, and none gets a neighbour by a lie of a
    source that stands behind another which knows it.
    """
    known: dict[SourceName, dict[str, str]] = {source: {} for source in order}
    events: list[Event] = []
    for source, groups_of in said:
        if source not in order:
            continue
        if groups_of is None:
            events.append(SourceFailed(source, "it fails"))
            continue
        events.append(stated(source, groups_of))
        # What the file leaves out is gone; labels and machines are kept for a while.
        known[source] = {**({} if source == CONFIG_FILE else known[source]), **groups_of}
    state = told(mode, order, events)
    expected = {
        name: next((known[source][name] for source in order if name in known[source]), "")
        for name in NAMES
    }
    assert outermost(state) == expected


@pytest.mark.parametrize(("mode", "order"), ORDERS)
@given(world=st.fixed_dictionaries(dict.fromkeys(ORDERS[4][1], places)), random=st.randoms())
def test_the_order_in_which_sources_speak_does_not_matter(mode, order, world, random):
    """Tree, conflicts and confirmations are the same."""
    events = [stated(source, world[source]) for source in order]
    one = told(mode, order, events).snapshot.forest
    random.shuffle(events)
    assert told(mode, order, events).snapshot.forest == one


def test_a_kept_state_shows_the_same_conflicts_and_confirmations_after_a_restart():
    state = labelled(CROSSED | {"e": "r/3", "f": "r/3"}, Mode.CONFIG)
    file = {"box": {**FILE["box"], "fly-3": ["e", "f"]}}
    state.advance(1.0, ConfigLoaded(declared(file)))
    fresh = state.fresh()
    fresh.restore(state.persistent_state(), 1.0, 2.0)
    fresh.validate()
    assert conflicts(fresh) == conflicts(state)
    assert confirmed(fresh) == confirmed(state) != {}
    assert NodeName("e") in fresh.known
