"""What is wrong with a cluster, from the master's documents: pure, each finding with a next step.

Sources come first, then what explains much (`causes`), then every case that is left, those of one
code as one finding.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from topo.diagnosis.cases import Cases, subjects
from topo.diagnosis.causes import ALONE, causes
from topo.diagnosis.finding import Case, Finding, listed, longest_s, number
from topo.diagnosis.steps import (
    CONFLICT_STEP,
    FAILING,
    GENERAL_SOURCE_STEP,
    WAITING,
    severity,
    source_step,
    step,
)
from topo.model.conditions.condition import Severity
from topo.model.conditions.doctor import ServiceCondition
from topo.model.conditions.master import MasterCondition
from topo.model.conditions.sources import SourceCondition
from topo.model.conditions.tree import GroupCondition, NodeCondition
from topo.model.forest import Reason
from topo.model.observation import CLUSTER_NODES, CONFIG_FILE, FABRIC, WORKERS
from topo.model.rest.topology import (
    WITHOUT_WORKERS,
    FabricDocument,
    NodeDocument,
    NodeReasonDocument,
    SourceDocument,
    TopologyDocument,
    UnplacedDocument,
    is_group,
    walk,
)

_SOURCE_OLD_S = 120.0
"""Four polls of the cluster manager (30 s each): an answer this old is worth a look."""
_REPEATED: Mapping[str, str] = {MasterCondition.KUBERNETES_NODES: CLUSTER_NODES}
"""Warnings that repeat what a failing source says itself."""


def examine(document: TopologyDocument) -> list[Finding]:
    """Return every finding of one `/v1/topology` answer, causes before what is left.
    O(vertices).
    """
    cases = Cases(_cases(document))
    explained = list(causes(document, cases))
    return [
        *_sources(document),
        *explained,
        *_restored(document),
        *_grouped(cases.left, document),
        *_emptiness(document),
        *_warnings(document),
    ]


def service_findings(path: str, status: int, detail: str, fix: str = "") -> Iterator[Finding]:
    """Return the finding about a `/health` or `/ready` that does not answer 200.

    `fix` is the answer's own step; a `/ready` that waits has always the same one.
    """
    if status == 200:
        return
    what = f"GET {path} answers {status}: {detail}".removesuffix(": ")
    if path == "/ready":
        yield Finding.of(ServiceCondition.READY, "master", what)
    else:
        yield Finding.of(ServiceCondition.HEALTH, "master", what, fix)


def is_of_source(finding: Finding) -> bool:
    """Return whether a finding is about a source that does not answer.

    A tree that is not shown follows from it.
    """
    is_waited_for = finding.code in {SourceCondition.WAITING, SourceCondition.FAILING}
    return is_waited_for or finding.subject == WORKERS


def _restored(document: TopologyDocument) -> Iterator[Finding]:
    if (age_s := document["restored_age_s"]) is not None:
        what = "the tree stands as the state file had it"
        yield Finding.of(ServiceCondition.RESTORED, "master", what, since_s=age_s)


def _sources(document: TopologyDocument) -> Iterator[Finding]:
    """Report trouble with the sources, each with its own fix where it states one.

    `causes` reports workers that never spoke, since much follows from them.
    """
    for source in document["sources"]:
        name = source["source"]
        if source["state"] == "waiting":
            if name != WORKERS:
                next_step = WAITING.get(name, GENERAL_SOURCE_STEP)
                yield Finding.of(SourceCondition.WAITING, name, "has not spoken yet", next_step)
        elif source["state"] != "ok":
            trouble = source["trouble"] or source["state"]
            next_step = source["fix"] or FAILING.get(name, GENERAL_SOURCE_STEP)
            since_s = source["failing_s"]
            what = f"failing: {trouble}"
            for fabric in _beside(document):
                if fabric["source"] == name:
                    what += f"; {fabric['fabric']} is as it said last"
            yield Finding.of(SourceCondition.FAILING, name, what, next_step, since_s=since_s)
        elif _is_old(source):
            what, since_s = "no good answer has come", source["age_s"]
            next_step = (WAITING if name == WORKERS else FAILING).get(name, GENERAL_SOURCE_STEP)
            yield Finding.of(SourceCondition.OLD, name, what, next_step, since_s=since_s)


def _beside(document: TopologyDocument) -> list[FabricDocument]:
    """Return the fabrics beside the tree."""
    return document.get("fabrics", [])[1:]


def _is_old(source: SourceDocument) -> bool:
    is_file = source["source"] in {CONFIG_FILE, FABRIC}
    return source["age_s"] is not None and source["age_s"] > _SOURCE_OLD_S and not is_file


def _cases(document: TopologyDocument) -> Iterator[Case]:
    """Return everything that the document says is not well, but for the state of the sources."""
    for source in document["sources"]:
        for warning in source["warnings"]:
            subjects, fix = (source["source"],), source_step(warning.code)
            yield Case(warning.code, subjects, warning.text, fix, warning.since_s)
    for conflict in document["conflicts"]:
        fix = conflict.fix or CONFLICT_STEP
        yield Case(conflict.code, conflict.subjects, conflict.text, fix, conflict.since_s)
    yield from _reasons(document)
    yield from _overbooked(document)
    yield from _unmanaged(document)
    yield from _outside_of_fabrics(document)
    twice = {name for conflict in document["conflicts"] for name in conflict.subjects}
    for machine in document["unjoined"]:
        if machine["id"] not in twice:
            name = (
                machine["names"].get("hostname")
                or machine["names"].get("node_name")
                or machine["id"]
            )
            yield Case(ServiceCondition.UNJOINED, (name,), machine["text"])


def _reasons(document: TopologyDocument) -> Iterator[Case]:
    conflicts = {(conflict.code, conflict.text) for conflict in document["conflicts"]}
    for path, vertex in walk(document["groups"]):
        if not is_group(vertex):
            yield from _of_node(vertex, vertex["reasons"])
            continue
        for reason in vertex["reasons"]:
            is_told = (reason.code, reason.text) in conflicts  # with its nodes
            if reason.code != GroupCondition.CHILD_NOT_READY and not is_told:  # its child says so
                yield Case(reason.code, ("/".join(path),), reason.text)
    for entry in document["unplaced"]:
        own = {reason.code for reason in entry["reasons"]}
        if (why := entry["reason"]).code not in own and not _is_no_loss(why, entry):
            yield Case(why.code, (entry["name"],), why.text, since_s=entry["since_s"])
        yield from _of_node(entry, (r for r in entry["reasons"] if not _is_no_loss(r, entry)))


def _is_no_loss(reason: Reason, entry: UnplacedDocument) -> bool:
    """Return whether no job misses it: nobody labels a node without GPUs."""
    return reason.code == NodeCondition.NO_GROUP_LABEL and not entry["gpus"]


def _of_node(node: NodeDocument, reasons: Iterable[NodeReasonDocument]) -> Iterator[Case]:
    for reason in reasons:
        yield Case(reason.code, (node["name"],), reason.text, since_s=reason.since_s)


def _overbooked(document: TopologyDocument) -> Iterator[Case]:
    """Return the nodes on which pods and holds take more GPUs than there are."""
    leaves = (vertex for _, vertex in walk(document["groups"]) if not is_group(vertex))
    for node in (*leaves, *document["unplaced"]):
        used, held, gpus = node["used_gpus"], node["held_gpus"], node["gpus"]
        if used + held > gpus:
            text = f"{used} GPUs used by pods and {held} held, of {gpus}"
            yield Case(NodeCondition.OVERBOOKED, (node["name"],), text)


def _unmanaged(document: TopologyDocument) -> Iterator[Case]:
    """Return nodes that are placed by their wiring alone, outside the manager's groups."""
    if document["mode"] != "switchbox":
        return
    for _, vertex in walk(root for root in document["groups"] if root["source"] == WORKERS):
        if not is_group(vertex):
            code = NodeCondition.NOT_MANAGED
            yield Case(code, (vertex["name"],), code.cause)


def _outside_of_fabrics(document: TopologyDocument) -> Iterator[Case]:
    """Return the nodes that are well, and in no group of a fabric beside the tree.

    What else is wrong with a node may be why; then that is told.
    """
    well = {
        node["name"]
        for _, node in walk(document["groups"])
        if not is_group(node) and node["status"] == "Ready"
    }
    for fabric in _beside(document):
        names = tuple(name for name in fabric["unplaced"] if name in well)
        if names and (why := fabric["reason"]) is not None:
            text = f"{number(names, 'node')} with GPUs in no group of {fabric['fabric']}, which "
            text += f"has {fabric['nodes']}: {why.text}"
            named = f"--fabric {fabric['fabric']}"
            fix = step(ServiceCondition.FABRIC_UNPLACED, names[0], document["mode"])
            fix = fix.replace("--fabric", named)
            yield Case(ServiceCondition.FABRIC_UNPLACED, names, text, fix)


def _grouped(cases: Iterable[Case], document: TopologyDocument) -> Iterator[Finding]:
    """Return one finding for the cases of one code; a few conflicts each stand alone."""
    by_code: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_code[case.code].append(case)
    for code, alike in by_code.items():
        parts = [[case] for case in alike] if alike[0].fix and len(alike) <= ALONE else [alike]
        for part in parts:
            names, texts = subjects(part), list(dict.fromkeys(case.text for case in part))
            what = texts[0] if len(texts) == 1 else f"{texts[0]} (and {len(texts) - 1} more)"
            next_step = part[0].fix or step(code, names[0], document["mode"])
            grade = severity(code, of_unknown=Severity.WRONG)
            since_s = longest_s(part)
            yield Finding(grade, code, listed(names), what, next_step, tuple(names), since_s)


def _warnings(document: TopologyDocument) -> Iterator[Finding]:
    """Return what is wrong with how the master is run."""
    failing = {source["source"] for source in document["sources"] if source["state"] == "failing"}
    for warning in document["warnings"]:
        if _REPEATED.get(warning.code) not in failing:
            grade = severity(warning.code, of_unknown=Severity.NOTE)
            yield Finding(grade, warning.code, "master", warning.text, warning.fix)


_NODES_STEP = "start topo-workers, or name nodes in nodegroup.yaml (--mode config)"
_NODES_STEPS = {
    "labels": "`kubectl get nodes` lists none: does the cluster have nodes?",
    "fabric": "start topo-workers, or let the master read Kubernetes (--kubernetes): dumps join "
    "nodes that one of these names",
}


def _emptiness(document: TopologyDocument) -> Iterator[Finding]:
    without = document["mode"] in WITHOUT_WORKERS
    needed = (s for s in document["sources"] if s["source"] != WORKERS or not without)
    heard = all(source["state"] == "ok" for source in needed)
    if not document["groups"] and not document["unplaced"] and heard:
        next_step = _NODES_STEPS.get(document["mode"], _NODES_STEP)
        yield Finding.of(GroupCondition.EMPTY, "the tree", "no node is known", next_step)
