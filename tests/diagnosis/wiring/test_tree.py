"""Which nodes were looked at for wires, by the tree that a master shows."""

from typing import Any

from tests.cli import samples
from topo.cli.client.decoding import decode
from topo.diagnosis.wiring.compare import CableComparison, compare
from topo.diagnosis.wiring.tree import seen_by
from topo.facts.plans.plan import CablePlan, End, PlannedCable
from topo.model.rest.topology import TopologyDocument

WIRE = ("node", "slot", "peer", "peer_slot", "server", "state")


def verdicts(document: Any, *rows: str) -> list[str]:
    """What is found of a plan of rows `a port z port`."""
    ends = [row.split() for row in rows]
    plan = CablePlan(
        tuple(PlannedCable(End(a, b), End(c, d), n) for n, (a, b, c, d) in enumerate(ends, 1))
    )
    found = compare(plan, seen_by(decode(TopologyDocument, document), plan))
    assert isinstance(found, CableComparison)
    return [each.verdict for each in found.findings]


def test_a_ready_node_without_any_wire_was_not_looked_at() -> None:
    """It may have no worker, or no such ports: nothing is missing there."""
    document = samples.healthy()
    document["wires"] = []
    assert verdicts(document, "node-1 1 node-2 1") == ["unseen"]
    document["wires"] = [dict(zip(WIRE, ("node-1", 2, "node-2", 2, "s", "down"), strict=True))]
    assert verdicts(document, "node-1 1 node-2 1") == ["missing"]


def test_a_node_whose_worker_sees_no_server_was_looked_at() -> None:
    document = samples.healthy()
    document["wires"] = []
    lone = {"name": "lone", "kind": "node", "status": "NotReady", "gpus": 8}
    why = {"code": "no-peer", "text": "its worker sees no peer", "since_s": None}
    document["unplaced"] = [{**samples_node(document), **lone, "reasons": [why]}]
    assert verdicts(document, "lone 1 node-2 1") == ["missing"]


def samples_node(document: Any) -> dict[str, Any]:
    """A node of the document, for the keys that all have."""
    (first, *_) = document["groups"]
    while "child" in first:
        first = first["child"][0]
    return dict(first) | {"reason": {"code": "no-peer", "text": "", "since_s": None}}


def test_two_cables_between_two_nodes_are_joined_as_the_plan_has_them() -> None:
    """Nobody sees which of the two ends are of one cable."""
    document = samples.healthy()
    ends = (("node-1", 1, "node-2", 1), ("node-1", 2, "node-2", 2))
    document["wires"] = [dict(zip(WIRE, (*each, "s", "up"), strict=True)) for each in ends]
    assert verdicts(document, "node-1 1 node-2 1", "node-1 2 node-2 2") == []
    assert verdicts(document, "node-1 1 node-2 2", "node-1 2 node-2 1") == []
    assert verdicts(document, "node-1 2 node-2 1", "node-1 1 node-3 1") == ["wrong-rail"]


def test_of_two_servers_behind_one_slot_the_planned_one_counts_and_all_others_are_compared() -> (
    None
):
    document = samples.healthy()
    ends = (("node-2", 1, "node-3", 1), ("node-2", 1, None, None), ("node-1", 1, "node-2", 1))
    document["wires"] = [dict(zip(WIRE, (*each, "s", "up"), strict=True)) for each in ends]
    assert verdicts(document, "node-1 1 node-2 1", "node-3 1 node-4 1") == ["missing"]


def test_a_server_without_a_worker_is_the_node_that_a_swap_lacks_unless_that_one_was_seen() -> None:
    """Of two pairs of nodes one has its cable crossed with the other's."""
    document = samples.healthy()
    crossed = [("node-1", 1, "node-4", 1, "s4", "up"), ("node-3", 1, None, None, "s2", "up")]
    document["wires"] = [dict(zip(WIRE, each, strict=True)) for each in crossed]
    plan = ("node-1 1 node-2 1", "node-3 1 node-4 1")
    assert verdicts(document, *plan) == ["swap"]
    document["wires"] += [dict(zip(WIRE, ("node-2", 2, "node-5", 2, "s5", "up"), strict=True))]
    assert "swap" not in verdicts(document, *plan)
