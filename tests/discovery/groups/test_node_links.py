"""The links of one node: each names the other end, also while its cable is out."""

from tests.builders import discovery, facts, report, ring, server
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.forest import LinkState
from topo.model.ids import NodeName
from topo.model.observation import WorkerReported


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
