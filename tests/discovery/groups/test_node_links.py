"""The links of one node: each names the other end, also while its cable is out."""

from dataclasses import replace

import pytest

from tests.builders import discovery, facts, report, ring, server
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.forest import LinkState, Node, Status
from topo.model.ids import NodeName
from topo.model.machine import Peer, ServerPeers
from topo.model.observation import WorkerReported
from topo.publish.wires import wires_of


def placed(state: Discovery) -> dict[NodeName, Node]:
    return {node.name: node for node in state.snapshot.forest.nodes()}


def links(state: Discovery, node: str) -> list[tuple[int, tuple[str, ...], str]]:
    """Slot, who should be there, and the state."""
    detail = state.detail(NodeName(node))
    assert detail is not None
    return [(link.slot, link.nodes, link.state) for link in detail.links]


def test_a_cut_cable_keeps_its_slot_and_the_node_that_belongs_there():
    """Neither end shows anything of it any more."""
    state = discovery()
    state.advance(0.0, *ring(["a", "b"]))
    assert links(state, "a") == [(1, ("b",), LinkState.UP)]
    for now_s in (1.0, 2.0):
        state.advance(now_s, report("a"), report("b"))
    assert links(state, "a") == [(1, ("b",), LinkState.DOWN)]
    assert links(state, "b") == [(1, ("a",), LinkState.DOWN)]
    state.advance(3.0, *ring(["a", "b"]), *ring(["a", "b"]), *ring(["a", "b"]))
    assert links(state, "a") == [(1, ("b",), LinkState.UP)]


def test_a_ring_names_the_cut_side_alone():
    state = discovery(Mode.DRAGONFLY, node_number=4)
    nodes = ["a", "b", "c", "d"]
    state.advance(0.0, *ring(nodes))
    cut = facts("a", ["d", "b"], unplugged=["b"])
    state.advance(1.0, WorkerReported(cut), WorkerReported(cut))
    assert links(state, "a") == [(1, ("d",), LinkState.UP), (2, ("b",), LinkState.DOWN)]


def test_a_link_that_joins_nothing_says_why():
    """Nobody reports that server; its worker does not return the claim; several state its UUID."""
    state = discovery()
    clone = report("y", local=server("x"))
    state.advance(0.0, report("a", ["nobody", "b", "x"]), report("b"), report("x"), clone)
    detail = state.detail(NodeName("a"))
    assert detail is not None
    assert links(state, "a") == [
        (1, (), LinkState.UNCONFIRMED),
        (2, ("b",), LinkState.UNCONFIRMED),
        (3, ("x", "y"), LinkState.UNCONFIRMED),
    ]
    assert [link.text for link in detail.links] == [
        "no worker has reported from that server",
        "the other end does not state this link",
        "several nodes state that server UUID",
    ]


def test_one_of_two_cables_between_two_nodes_that_is_lost_is_a_degraded_link():
    state = discovery()
    state.advance(0.0, report("a", ["b", "b"]), report("b", ["a", "a"]))
    assert links(state, "a") == [(1, ("b",), LinkState.UP), (2, ("b",), LinkState.UP)]
    for now_s in (1.0, 2.0):
        state.advance(now_s, *ring(["a", "b"]))
    assert links(state, "a") == [(1, ("b",), LinkState.UP), (2, ("b",), LinkState.DOWN)]
    degraded = [c for c in state.snapshot.forest.conflicts if c.code == "link-degraded"]
    assert [conflict.subjects for conflict in degraded] == [("a", "b")]
    assert degraded[0].text.endswith("on a and b: not all of the cables between them are there")
    assert {node.status for node in state.snapshot.forest.nodes()} == {Status.READY}
    (up, down) = wires_of(state.snapshot.forest.nodes(), placed(state))
    assert (up.slot, up.peer_slot, up.state) == (1, 1, LinkState.UP)
    assert (down.slot, down.peer_slot, down.state) == (2, 2, LinkState.DOWN)
    state.validate()


def test_a_restart_remembers_the_second_cable_and_a_day_forgets_it():
    state = discovery()
    both = report("a", ["b", "b"]), report("b", ["a", "a"])
    state.advance(0.0, *both)
    for now_s in (1.0, 2.0):
        state.advance(now_s, *ring(["a", "b"]))
    later = state.fresh()
    later.restore(state.persistent_state(), 0.0, 3.0)
    assert links(later, "a") == [(1, ("b",), LinkState.UP), (2, ("b",), LinkState.DOWN)]
    for now_s in (4.0, 5.0, 86_400.0 + 6, 86_400.0 + 7):
        later.advance(now_s, *ring(["a", "b"]))
    assert links(later, "a") == [(1, ("b",), LinkState.UP)]
    assert not later.snapshot.forest.conflicts
    for now_s in range(3):
        later.advance(86_400.0 + 10 + now_s, *both)
    assert links(later, "a") == [(1, ("b",), LinkState.UP), (2, ("b",), LinkState.UP)]
    later.validate()


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param(["b", "d"], [(1, "b"), (2, "d")], id="it leads to another server"),
        pytest.param([None, None, "b", "b"], [(3, "b"), (4, "b")], id="slots are numbered anew"),
    ],
)
def test_a_slot_that_leads_elsewhere_is_no_lost_cable(shown, expected):
    state = discovery(Mode.DRAGONFLY, node_number=4)
    state.advance(0.0, report("a", ["b", "b"]), report("b", ["a", "a"]), report("d", ["a"]))
    moved = facts("a")
    remotes = tuple(Peer(at, server(name)) for at, name in enumerate(shown, 1) if name)
    moved = replace(moved, peers=ServerPeers(server("a"), remotes))
    for now_s in (1.0, 2.0, 3.0):
        state.advance(now_s, WorkerReported(moved))
    assert [(slot, *nodes) for slot, nodes, _ in links(state, "a")] == expected
    assert {link_state for _, _, link_state in links(state, "a")} == {LinkState.UP}
    assert all(c.code != "link-degraded" for c in state.snapshot.forest.conflicts)
    state.validate()
