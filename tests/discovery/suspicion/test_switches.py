"""A switch that fails is one finding with its name and its nodes, whatever groups they are in."""

from collections.abc import Collection
from dataclasses import dataclass

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import discovery, managed
from tests.discovery.fabrics import dumped, spoken
from tests.discovery.suspicion.nodes import DAY_S
from tests.support.fabric import Built, Fabric, rails
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.observation import CLUSTER_MANAGER, FABRIC, ManagerReported, Ticked

NODES = [f"n{number:02}" for number in range(32)]
BOXES = {f"box-{at // 8}": NODES[at : at + 8] for at in range(0, 32, 8)}
CROSSING = [[*NODES[at::4]] for at in range(4)]
"""Each leaf has one node of every second dragonfly of two, so of each switchbox a quarter."""
RAILS = [NODES[:16], NODES[16:]]


def known(built: Built, mode: Mode, boxes: dict[str, list[str]] | None) -> Discovery:
    """A state that knows its nodes for long enough to listen, at time 0."""
    order = (CLUSTER_MANAGER, FABRIC) if boxes else (FABRIC,)
    state = discovery(mode, precedence=order, beat_s=100 * DAY_S)
    if boxes:
        state.advance(-DAY_S, ManagerReported(managed(boxes)))
    for at_s in (-DAY_S, -1.0):
        state.advance(at_s, dumped(built.text()), *(spoken(*e) for e in built.adapters.items()))
    return state


Told = set[tuple[str, frozenset[str]]]


def fail(state: Discovery, built: Built, down: Collection[str]) -> Told:
    """What is told, with its switches and nodes, after these adapters have lost their cables."""
    events = [spoken(host, guids, down=down) for host, guids in built.adapters.items()]
    state.advance(0.0, *events)
    state.advance(10.0, Ticked())
    state.validate()
    return told(state)


def told(state: Discovery) -> Told:
    found = state.snapshot.forest.conflicts
    return {(each.code, frozenset(each.subjects)) for each in found if "suspected" in each.code}


def at(built: Built, *leaves: str) -> set[str]:
    """The adapters with a cable to these leaves."""
    guids = {built.leaves[leaf] for leaf in leaves}
    every = {guid for of_host in built.adapters.values() for guid in of_host}
    return {one for (one, _), (far, _, _) in built.fabric.ends.items() if far in guids} & every


TOGETHER = "links-suspected-together"


@pytest.mark.parametrize(
    ("units", "width", "leaf"),
    [(CROSSING, 1, "ib-su2-leaf-01"), (RAILS, 4, "ib-su2-leaf-03"), (RAILS, 8, "ib-su1-leaf-08")],
)
@pytest.mark.parametrize("mode", [Mode.SWITCHBOX, Mode.DRAGONFLY, Mode.FABRIC])
def test_a_leaf_that_dies_is_named_whatever_its_groups_are(
    units: list[list[str]], width: int, leaf: str, mode: Mode
) -> None:
    """In the vendor's shape first; and when the next dump does not have the leaf any more."""
    built = rails(units, width)
    state = known(built, mode, BOXES if mode is Mode.SWITCHBOX else None)
    unit = units[1 if "su2" in leaf else 0]
    down = at(built, leaf)
    assert fail(state, built, down) == {(TOGETHER, frozenset((leaf, *unit)))}
    text = state.snapshot.forest.conflicts[0].text
    assert text.startswith(f"{len(unit)} of {len(unit)} nodes at {leaf} have links there")
    for guid in down:
        built.fabric.cut(guid)
    state.advance(20.0, dumped(built.text()))
    state.validate()
    assert told(state) == {(TOGETHER, frozenset((leaf, *unit)))}
    assert text in {each.text for each in state.snapshot.forest.conflicts}


def test_nodes_that_lost_all_their_ports_have_the_leaves_of_those() -> None:
    """Four ports that fall at once are told as the node; two leaves of one rack are one finding."""
    built = rails(CROSSING, 8)
    state = known(built, Mode.SWITCHBOX, BOXES)
    leaves = [f"ib-su3-leaf-{number:02}" for number in range(1, 9)]
    assert fail(state, built, at(built, *leaves)) == {
        (TOGETHER, frozenset((*leaves, *CROSSING[2])))
    }
    text = state.snapshot.forest.conflicts[0].text
    assert "at ib-su3-leaf-01, ib-su3-leaf-02, ib-su3-leaf-03 and 5 more" in text


def test_a_whole_room_of_leaves_is_one_finding_and_another_fault_stays_its_own() -> None:
    built = rails([NODES[at : at + 4] for at in range(0, 32, 4)], 2)
    state = known(built, Mode.FABRIC, None)
    leaves = [name for name in built.leaves if name.endswith("01") and "su8" not in name]
    assert fail(state, built, at(built, *leaves)) == {
        (TOGETHER, frozenset(("ib-spine-01", *NODES[:28])))
    }
    built = rails(RAILS, 2)
    state = known(built, Mode.FABRIC, None)
    down = at(built, "ib-su1-leaf-01") | {built.adapters[name][1] for name in ("n03", "n20")}
    alone = {("link-suspected", frozenset({name})) for name in ("n03", "n20")}
    assert (
        fail(state, built, down) == {(TOGETHER, frozenset(("ib-su1-leaf-01", *RAILS[0])))} | alone
    )


@dataclass(frozen=True)
class Failing:
    """A fabric of leaves with any hosts, and adapters that lose their cable."""

    built: Built
    down: frozenset[str]


@st.composite
def failing(draw: st.DrawFn) -> Failing:
    fabric, leaves = Fabric(), dict[str, str]()
    top = fabric.switch("top")
    for number in range(draw(st.integers(1, 5))):
        leaf = leaves[f"leaf-{number}"] = fabric.switch(f"leaf-{number}")
        fabric.trunk(leaf, top)
    adapters: dict[str, list[str]] = {}
    for host in NODES[: draw(st.integers(3, 14))]:
        ends = draw(st.lists(st.sampled_from(sorted(leaves)), min_size=1, max_size=3))
        adapters[host] = [fabric.adapter(f"{host} mlx5_{n}") for n in range(len(ends))]
        for guid, leaf in zip(adapters[host], ends, strict=True):
            fabric.plug(guid, leaves[leaf])
    built = Built(fabric, adapters, leaves)
    dead = at(built, *draw(st.sets(st.sampled_from(sorted(leaves)), max_size=3)))
    every = sorted(guid for guids in adapters.values() for guid in guids)
    return Failing(built, frozenset(dead | draw(st.sets(st.sampled_from(every), max_size=3))))


@settings(max_examples=40)
@given(failing())
def test_random_switches_and_ports_that_fail_are_told_as_a_graph_of_them_says(
    world: Failing,
) -> None:
    """In a tree of pairs, of which none has enough nodes to be a cause."""
    built, down = world.built, world.down
    leaf_of = {one: far for (one, _), (far, _, _) in built.fabric.ends.items()}
    graph: nx.Graph[str] = nx.Graph()
    for leaf in built.leaves.values():
        hosts = {h: [g for g in of if leaf_of[g] == leaf] for h, of in built.adapters.items()}
        hit = {host for host, guids in hosts.items() if down.intersection(guids)}
        if len(hit) >= 3 and 2 * len(hit) >= sum(map(bool, hosts.values())):
            graph.add_edges_from((leaf, host) for host in hit)
    names = {guid: name for name, guid in built.leaves.items()}
    parts = [{names.get(each, each) for each in part} for part in nx.connected_components(graph)]
    alone = {
        host
        for host, guids in built.adapters.items()
        if any(guid in down and not graph.has_edge(leaf_of[guid], host) for guid in guids)
    }
    expected = {(TOGETHER, frozenset(part)) for part in parts}
    expected |= {("link-suspected", frozenset({host})) for host in alone}
    pairs = {f"box-{at}": NODES[at : at + 2] for at in range(0, len(built.adapters), 2)}
    assert fail(known(built, Mode.SWITCHBOX, pairs), built, down) == expected
