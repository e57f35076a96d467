"""The documented metrics are the metrics, and their numbers are those of the tree."""

import re
from pathlib import Path

from master.app import build_app
from master.metrics import MAX_KINDS, TreeCollector
from master.service import build_service
from tests.master.world import settings
from topo.model.forest import Forest, Group, Node, Reason, Snapshot, Status, Unplaced
from topo.model.ids import Generation, GroupName, Kind, NodeName

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_documented_metrics_are_those_that_exist() -> None:
    address = "--cluster-manager-address=https://127.0.0.1"
    service = build_service(settings("--mode=switchbox", address))
    build_app(service)
    existing = {
        (family.name + "_total" * (family.type == "counter"), family.type)
        for family in service.registry.collect()
        if family.name.startswith("topo_master_")
    }
    text = PAGE.read_text()
    documented = set(re.findall(r"^\| `(topo_master_\w+)` \| (\w+) \|", text, re.MULTILINE))
    assert documented == existing


def _collected(forest: Forest) -> dict[str, dict[tuple[str, ...], float]]:
    snapshot = Snapshot(Generation(3), forest)
    collector = TreeCollector(
        snapshot=lambda: snapshot,
        clock=lambda: 0.0,
        waiting=lambda: 0,
        workers=lambda: 0,
        ready=lambda: True,
        document_sizes=lambda: (0, 0),
    )
    return {
        family.name: {tuple(s.labels.values()): s.value for s in family.samples}
        for family in collector.collect()
    }


def _node(name: str) -> Node:
    return Node(NodeName(name), Status.NOT_READY, (Reason("c", "t"),))


def test_nodes_outside_of_groups_are_counted_too() -> None:
    forest = Forest(unplaced=(Unplaced(_node("n1"), Reason("c", "t")),))
    found = _collected(forest)
    assert found["topo_master_nodes"] == {("NotReady",): 1}
    assert found["topo_master_unplaced_nodes"] == {(): 1}


def test_kinds_of_people_do_not_make_labels_without_end() -> None:
    roots = tuple(
        Group(GroupName(f"g{i}"), Kind(f"kind-{i}"), 1, Status.READY, ()) for i in range(100)
    )
    groups = _collected(Forest(roots))["topo_master_groups"]
    assert len(groups) == MAX_KINDS + 1
    assert groups["other", "Ready"] == 100 - MAX_KINDS
