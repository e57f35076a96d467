"""`topo doctor` on thousands of nodes: a cause is one finding."""

import orjson
import pytest

from master.tree import findings, topology_document
from master.tree.findings import Examined
from master.tree.topology_document import TopologyView
from tests import builders
from tests.builders import discovery
from tests.discovery.fabrics import dumped
from tests.discovery.groups.test_fabrics import CROSSING, FLIES, wired
from tests.discovery.labels import labelled
from topo.cli.client import decoding
from topo.diagnosis import diagnosis
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.ids import NodeName
from topo.model.observation import (
    FABRIC,
    ClusterNodeSeen,
    ListedNode,
    ManagerReported,
    SourceFailed,
    Ticked,
    WorkerBeat,
)
from topo.model.rest.topology import TopologyDocument

pytestmark = pytest.mark.virtual_time


def examined_state(state: Discovery, mode: str) -> list[tuple[str, str]]:
    """Code and subject of every finding about a state, without a master around it."""
    view = TopologyView(state.snapshot)
    document = topology_document.document(view, mode, 0.0)
    received = decoding.decode(TopologyDocument, orjson.loads(orjson.dumps(document)))
    found = diagnosis.examine(received)
    assert found == findings.findings(Examined(view), mode, 0.0), "the master judges otherwise"
    return [(finding.code, finding.subject) for finding in found]


def test_thousands_of_machines_without_workers_are_one_finding() -> None:
    """Switchboxes of two dragonflies of two nodes; of each dragonfly one worker runs."""
    boxes = {f"s{box}": [f"n{4 * box + at}" for at in range(4)] for box in range(1000)}
    state = discovery(Mode.SWITCHBOX)
    heard = [
        builders.report(name, [names[at + 1]])
        for names in boxes.values()
        for at, name in enumerate(names)
        if at % 2 == 0
    ]
    state.advance(0.0, ManagerReported(builders.managed(boxes)), *heard)
    (finding,) = examined_state(state, "switchbox")
    assert finding[0] == "unjoined"
    assert finding[1].endswith("and 1992 more")


def test_a_machine_that_is_down_is_one_finding_of_the_cluster_and_none_of_its_worker() -> None:
    """Its worker is silent because it is down; that of another node is silent for itself."""
    state = discovery(Mode.DRAGONFLY)
    state.advance(0.0, *builders.ring(["a", "b"]), *builders.ring(["c", "d"]))
    down = [ClusterNodeSeen(ListedNode(NodeName(name), "its kubelet is silent")) for name in "ax"]
    beats = [WorkerBeat(NodeName(name)) for name in "bd"]
    state.advance(29.0, *down, *beats)
    state.advance(40.0, Ticked())
    found = examined_state(state, "dragonfly")
    assert sorted(found) == [("node-not-ready", "a, x"), ("worker-stale", "c")]


def test_nodes_that_others_of_a_fabric_beside_the_tree_leave_out_are_one_note() -> None:
    """One that is ill besides is told for that alone, and one without GPUs not at all."""
    flies = [*FLIES, ("x", "y"), ("v", "w")]
    state = discovery(precedence=(FABRIC,))
    alone = [report for fly in flies[3:] for report in builders.ring(list(fly))]
    state.advance(0.0, dumped(CROSSING.text()), *wired(CROSSING, FLIES), *alone)
    down = ClusterNodeSeen(ListedNode(NodeName("y"), "its kubelet is silent"))
    state.advance(1.0, down, SourceFailed(FABRIC, "no file is left"))
    found = diagnosis.examine(
        topology_document.document(TopologyView(state.snapshot), "dragonfly", 2.0)
    )
    told = {finding.code: finding for finding in found}
    assert told.keys() == {"source-failing", "node-not-ready", "fabric-unplaced"}
    assert told["source-failing"].what.endswith("; scale-out is as it said last")
    note = told["fabric-unplaced"]
    assert (note.severity, note.subjects) == ("note", ("v", "w", "x"))
    assert note.what.startswith("3 nodes with GPUs in no group of scale-out, which has 6: no dump")
    assert note.next_step.startswith(
        "`topo tree --fabric scale-out` lists them last, `topo node v`"
    )
    assert ("fabric-unplaced", "v, w, x") in examined_state(state, "dragonfly")


def test_nodes_of_kubernetes_that_cannot_be_followed_are_one_finding() -> None:
    """The source fails, and the master warns of what it cannot follow; pods are another matter."""
    warnings = [{"code": f"kubernetes-{of}", "text": "403"} for of in ("nodes", "pods")]
    source = {"source": "cluster-nodes", "state": "failing", "trouble": "403"}
    document = {"generation": 1, "groups": [], "sources": [source], "warnings": warnings}
    found = diagnosis.examine(decoding.decode(TopologyDocument, document))
    assert [finding.code for finding in found] == ["source-failing", "kubernetes-pods"]


def test_a_thousand_cloned_uuids_are_one_finding() -> None:
    """A board maker's firmware gives pairs of boards one UUID; what is wired to them is alone."""
    state = discovery()
    events = []
    for number in range(1000):
        a, b, c = (f"{letter}{number}" for letter in "abc")
        events += [builders.report(a, [c]), builders.report(c, [a])]
        events += [builders.report(b, [c], local=builders.server(a))]
    state.advance(0.0, *events)
    (finding,) = examined_state(state, "dragonfly")
    assert finding == ("cloned-server-uuid", "a0, b0, a1, b1, a2, b2, a3, b3 and 1992 more")


def test_a_node_without_gpus_and_without_group_labels_is_no_finding() -> None:
    """The doctor names a GPU node without a label, and no CPU node or control plane."""
    state = labelled({"a": "row-1/rack-1", "b": "-"})
    state.advance(1.0, ClusterNodeSeen(ListedNode(NodeName("cpu-1"))))
    assert examined_state(state, "labels") == [("no-group-label", "b")]
