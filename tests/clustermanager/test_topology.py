"""Answers and events as pure values: what is read, what is refused, and why."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.discovery.manager import contract
from topo.discovery.manager.contract import ManagerAnswer, checked, read_topology
from topo.discovery.manager.events import EventPage, apply_events, read_events
from topo.model.errors import Refusal
from topo.model.forest import Status
from topo.model.ids import GroupName, Kind
from topo.model.observation import ManagedGroup, ManagedMachine, ManagedTopology
from topo.sim.clustermanager.inventory import Inventory, difference, topology_document

ANSWER: dict[str, Any] = {
    "cursor": "c-1",
    "groups": [
        {"id": "g1", "name": "row-1", "kind": "row"},
        {"id": "g2", "name": "switchbox-1", "kind": "switchbox", "parent_id": "g1"},
    ],
    "machines": [
        {"id": "m2", "names": {"hostname": "n2", "node_name": "", "serial": None}},
        {"id": "m1", "names": {"hostname": "n1"}, "group_id": "g2", "status": "Ready"},
    ],
}


def altered(*path: str | int, value: Any) -> dict[str, Any]:
    """The answer with one value replaced; `...` removes the key."""
    document = copy.deepcopy(ANSWER)
    target: Any = document
    for step in path[:-1]:
        target = target[step]
    if value is ...:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return document


def test_an_answer_is_read_in_the_order_of_ids_without_empty_names() -> None:
    answer = read_topology({**ANSWER, "unknown": 1})
    assert answer == ManagerAnswer(
        ManagedTopology(
            groups=(
                ManagedGroup("g1", GroupName("row-1"), Kind("row")),
                ManagedGroup("g2", GroupName("switchbox-1"), Kind("switchbox"), "g1"),
            ),
            machines=(
                ManagedMachine("m1", (("hostname", "n1"),), "g2", Status.READY),
                ManagedMachine("m2", (("hostname", "n2"),)),
            ),
        ),
        "c-1",
    )


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "should be a valid dictionary"),
        ("text", "at the document"),
        (
            {**altered("machines", value=...), "machine": []},
            "the nearest key that is there is 'mach",
        ),
        (altered("machines", 1, "id", value=...), "at machines[1].id"),
        (altered("machines", 1, "status", value="ready"), "did you mean 'Ready'?"),
        (altered("machines", 1, "status", value="bogus"), "docs/cluster-manager.openapi.yaml"),
        (altered("machines", 1, "id", value=7), "should be a valid string"),
        (altered("machines", 1, "names", "hostname", value="a\nb"), "names.hostname"),
        (altered("machines", 1, "names", "hostname", value="a\u202eb"), "names.hostname"),
        (altered("machines", 1, "id", value="a\x9b2Jb"), "machines[1].id"),
        (altered("groups", 0, "name", value="a\u200bb"), "groups[0].name"),
        (altered("groups", 0, "kind", value="node"), "may not be of the kind 'node'"),
        (altered("groups", 0, "kind", value="Switch Box"), "groups[0].kind"),
        (altered("groups", 0, "id", value="g2"), "the id 'g2' occurs 2 times"),
        (altered("machines", 0, "id", value="m1"), "the id 'm1' occurs 2 times"),
        (altered("machines", 1, "group_id", value="g3"), "the nearest is 'g2'"),
        (altered("machines", 1, "group_id", value="zz"), "the id of no group"),
        (altered("groups", 0, "parent_id", value="g2"), "in a circle"),
        (altered("groups", 0, "parent_id", value="g1"), "g1 -> g1"),
        (altered("machines", value=[]), "no machine at all"),
        (altered("cursor", value="a b"), "at cursor"),
    ],
)
def test_an_unsound_answer_is_refused_with_the_place(document: object, words: str) -> None:
    refusal = read_topology(document)
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)


def test_several_findings_are_counted() -> None:
    refusal = read_topology({"groups": 1, "machines": 2})
    assert isinstance(refusal, Refusal)
    assert "and 1 more findings" in refusal.what


def test_a_mistake_in_every_row_is_one_finding() -> None:
    refusal = read_topology({"groups": [], "machines": [{"ID": n} for n in range(1000)]})
    assert isinstance(refusal, Refusal)
    assert refusal.what == "Field required"
    assert refusal.where == "machines[0].id"
    assert "'ID'" in refusal.fix


def test_two_siblings_of_one_name_are_refused_but_cousins_are_not() -> None:
    cousins = [
        {"id": "a", "name": "row-a", "kind": "row"},
        {"id": "b", "name": "row-b", "kind": "row"},
        {"id": "a1", "name": "rack", "kind": "switchbox", "parent_id": "a"},
        {"id": "b1", "name": "rack", "kind": "switchbox", "parent_id": "b"},
    ]
    assert isinstance(read_topology({**ANSWER, **_of(cousins)}), ManagerAnswer)
    cousins[3]["parent_id"] = "a"
    refusal = read_topology({**ANSWER, **_of(cousins)})
    assert isinstance(refusal, Refusal)
    assert "have one name, 'rack'" in refusal.what


def _of(groups: list[dict[str, str]]) -> dict[str, Any]:
    return {"groups": groups, "machines": [{"id": "m"}]}


def test_a_tower_of_groups_is_refused() -> None:
    tower = [{"id": "0", "name": "0", "kind": "row"}] + [
        {"id": str(n), "name": str(n), "kind": "row", "parent_id": str(n - 1)}
        for n in range(1, contract.MAX_DEPTH + 1)
    ]
    assert isinstance(read_topology(_of(tower[:-1])), ManagerAnswer)
    refusal = read_topology(_of(tower))
    assert isinstance(refusal, Refusal)
    assert "above each other" in refusal.what


def test_more_machines_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events must not grow a topology beyond what an answer may hold."""
    monkeypatch.setattr(contract, "MAX_MACHINES", 2)
    machines = tuple(ManagedMachine(str(n), ()) for n in range(3))
    refusal = checked(ManagedTopology(machines=machines))
    assert isinstance(refusal, Refusal)
    assert "3 machines" in refusal.what


def known() -> ManagedTopology:
    answer = read_topology(ANSWER)
    assert isinstance(answer, ManagerAnswer)
    return answer.topology


def page(*events: dict[str, Any], asked: str = "c-1") -> dict[str, Any]:
    """A page whose events form a chain from the cursor asked."""
    chain, position = [], asked
    for number, event in enumerate(events):
        chain.append({"after": position, "cursor": f"{asked}/{number}", **event})
        position = f"{asked}/{number}"
    return {"cursor": position, "events": chain}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"cursor": "c-1"}, "at events"),
        (page({"type": "machine-exploded"}), "machine-exploded"),
        (page({"type": "machine-remove", "machine_id": "m1"}), "did you mean 'machine-removed'?"),
        (page({"type": "machine-removed"}), "machine_id"),
        (page({"type": "machine-removed", "machine_id": "m1"}, asked="c-0"), "a gap in the events"),
        ({"cursor": "c-2", "events": []}, "a gap in the events"),
        (
            page(
                {"type": "machine-removed", "machine_id": "m1"},
                {"type": "machine-removed", "machine_id": "m2", "after": "c-7"},
            ),
            "at events[1].after",
        ),
    ],
)
def test_a_page_that_is_no_chain_of_known_events_is_refused(document: object, words: str) -> None:
    refusal = read_events(document, "c-1")
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"type": "machine-added", "machine": {"id": "m1"}}, "known already"),
        ({"type": "group-added", "group": ANSWER["groups"][0]}, "known already"),
        ({"type": "machine-updated", "machine": {"id": "m3"}}, "not known"),
        ({"type": "machine-moved", "machine_id": "m3", "group_id": None}, "not known"),
        ({"type": "machine-removed", "machine_id": "m3"}, "not known"),
        ({"type": "group-renamed", "group_id": "g3", "name": "x"}, "not known"),
        ({"type": "group-removed", "group_id": "g3"}, "not known"),
        ({"type": "group-removed", "group_id": "g2"}, "the id of no group"),
        ({"type": "machine-moved", "machine_id": "m1", "group_id": "g9"}, "the id of no group"),
    ],
)
def test_an_event_that_cannot_have_happened_changes_nothing(
    event: dict[str, Any], words: str
) -> None:
    read = read_events(page(event), "c-1")
    assert isinstance(read, EventPage)
    refusal = apply_events(known(), read.events)
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)


def test_removing_the_last_machine_is_refused_like_an_empty_answer() -> None:
    events = [{"type": "machine-removed", "machine_id": f"m{n}"} for n in (1, 2)]
    read = read_events(page(*events), "c-1")
    assert isinstance(read, EventPage)
    assert isinstance(apply_events(known(), read.events), Refusal)


def test_no_events_change_nothing() -> None:
    before = known()
    assert apply_events(before, []) is before


@st.composite
def topologies(draw: st.DrawFn) -> ManagedTopology:
    """Sound topologies over few ids, so that two of them overlap."""
    groups: list[ManagedGroup] = []
    for key in draw(st.lists(st.sampled_from("abcde"), unique=True)):
        above = draw(st.sampled_from([None, *(group.id for group in groups)]))
        name = GroupName(f"{key}{draw(st.integers(0, 2))}")
        groups.append(ManagedGroup(key, name, Kind("rack"), above))
    machines = tuple(
        ManagedMachine(
            key,
            draw(st.sampled_from([(), (("hostname", key),), (("hostname", f"{key}x"),)])),
            draw(st.sampled_from([None, *(group.id for group in groups)])),
            draw(st.sampled_from([None, *Status])),
        )
        for key in draw(st.lists(st.sampled_from("mnopq"), unique=True, min_size=1))
    )
    sound = checked(ManagedTopology(tuple(groups), machines))
    assert isinstance(sound, ManagedTopology)
    return sound


@settings(max_examples=60)
@given(topologies(), topologies())
def test_the_events_between_two_topologies_lead_from_one_to_the_other(
    before: ManagedTopology, after: ManagedTopology
) -> None:
    events = difference(before, after)
    if events is None:
        parents = {g.id: g.parent_id for g in before.groups}
        assert any(parents.get(g.id, g.parent_id) != g.parent_id for g in after.groups)
        return
    read = read_events(page(*events), "c-1")
    assert isinstance(read, EventPage)
    assert apply_events(before, read.events) == after


@settings(max_examples=60)
@given(st.lists(topologies(), min_size=1, max_size=6), st.integers(1, 4))
def test_following_the_events_equals_reading_the_whole(
    course: list[ManagedTopology], limit: int
) -> None:
    """What a client holds after any number of pages is what a full poll would say."""
    inventory = Inventory(course[0])
    held, cursor = inventory.topology, inventory.cursor
    for topology in course[1:]:
        assert inventory.replace(topology) is None
        while True:
            document = inventory.events(cursor, limit)
            read = None if document is None else read_events(document, cursor)
            if read is None:
                held, cursor = inventory.topology, inventory.cursor
                break
            assert isinstance(read, EventPage)
            applied = apply_events(held, read.events)
            if isinstance(applied, Refusal):
                # Two renames that cross, cut by the end of a page: the client reads all.
                held, cursor = inventory.topology, inventory.cursor
                break
            held, cursor = applied, read.cursor
            if len(read.events) < limit:
                break
        full = read_topology({"cursor": cursor, **topology_document(inventory.topology)})
        assert isinstance(full, ManagerAnswer)
        assert held == full.topology


@settings(max_examples=60)
@given(topologies(), st.randoms(use_true_random=False))
def test_the_order_of_an_answer_does_not_matter(topology: ManagedTopology, random: Any) -> None:
    document = topology_document(topology)
    for rows in document.values():
        assert isinstance(rows, list)
        random.shuffle(rows)
    answer = read_topology(document)
    assert isinstance(answer, ManagerAnswer)
    assert answer.topology == topology


def test_the_log_of_events_is_bounded() -> None:
    inventory = Inventory(known(), log_limit=2)
    first = inventory.cursor
    for name in ("x", "y", "z"):
        groups = (ManagedGroup("g1", GroupName(name), Kind("row")), known().groups[1])
        assert inventory.replace(ManagedTopology(groups, known().machines)) is None
    assert inventory.events(first, 10) is None
    assert inventory.events("nonsense", 10) is None
    assert inventory.events(inventory.cursor + "0", 10) is None
    document = inventory.events(inventory.cursor, 10)
    assert document == {"cursor": inventory.cursor, "events": []}


def test_an_unsound_world_is_refused_by_the_inventory() -> None:
    inventory = Inventory(known())
    assert isinstance(inventory.replace(ManagedTopology()), Refusal)
    assert inventory.topology == known()
