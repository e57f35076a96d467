"""What is wrong with a cluster, from the master's documents: pure, each finding with a next step.

The reason and conflict codes are those that `topo.discovery` gives; a code that is not in the
table is shown with the general step, so a newer master loses nothing but advice.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from topo.model.rest.topology import NodeDocument, TopologyDocument, walk

_SOURCE_OLD_S = 120.0
"""Four polls of the cluster manager (30 s each): an answer this old is worth a look."""
_NAMED = 8


class Severity(StrEnum):
    """`wrong` makes the doctor's exit code 1, `note` does not."""

    WRONG = "wrong"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be: where, what, and the next step."""

    severity: Severity
    code: str
    subject: str
    what: str
    next_step: str


_STEPS: Mapping[str, str] = {
    "worker-stale": "is topo-worker running on NODE? its log says why it cannot report",
    "manager": "ask the cluster manager what is wrong with the machine",
    "gpus-missing": "compare with `mx-smi -L` or `nvidia-smi -L` on the node; --gpus-per-node",
    "gpu-unhealthy": "`topo node NODE` shows the GPU; look at the driver's log (dmesg) there",
    "port-down": "`topo node NODE` lists the port; check its cable and its transceiver",
    "link-down": "check the cable between the two nodes; `topo node NODE` shows both ends",
    "fabric-unhealthy": "`topo node NODE` shows the fabric; look at the Fabric Manager's log",
    "incomplete": "a member is missing or not wired: `topo node` of the members shows their peers",
    "oversize": "more nodes are wired together than --node-number says: fix the cables or it",
    "child-not-ready": "look at the children that are not Ready",
    "config": "the config file says so: edit nodegroup.yaml",
    "no-peer": "`topo node NODE` shows whom it sees; check its cables to its neighbours",
    "not-managed": "add the machine to the cluster manager, or give it a name that joins",
    "no-fabric": "`topo node NODE` shows state and status; look at the Fabric Manager's log",
    "not-in-config": "add the node to nodegroup.yaml",
    "no-group-in-config": "put the node into a group of nodegroup.yaml",
    "no-worker": "start topo-worker on NODE, or see why its pod does not run there",
    "unknown": "start topo-worker on this node, or check --mode",
}
_GENERAL_STEP = "`topo node NODE` shows what is known"
_SOURCE_STEPS: Mapping[str, str] = {
    "cluster-manager": "check --cluster-manager-address, its CA file and /secret; see its log",
    "config-file": "mend the file: the trouble above names the place",
    "workers": "are topo-workers running? their --server-address must be this master's port 10001",
}
_CONSEQUENCES = {"child-not-ready"}
"""Reasons that only repeat what a child already says."""


def examine(document: TopologyDocument) -> list[Finding]:
    """Every finding of one `/v1/topology` answer, sources first. O(vertices)."""
    return [
        *_restored(document),
        *_sources(document),
        *_reasons(document),
        *_unplaced(document),
        *_conflicts(document),
        *_unjoined(document),
        *_emptiness(document),
    ]


def service(path: str, status: int, detail: str) -> Iterator[Finding]:
    """The finding about a `/health` or `/ready` that does not answer 200."""
    if status != 200:
        what = f"GET {path} answers {status}: {detail}".removesuffix(": ")
        step = "look at the master's log"
        yield Finding(Severity.WRONG, path.strip("/"), "master", what, step)


def _restored(document: TopologyDocument) -> Iterator[Finding]:
    if (age_s := document.restored_age_s) is not None:
        what = f"the tree comes from the state file and is {age_s:.0f} s old"
        step = "no source has spoken since the master started: see the findings on sources"
        yield Finding(Severity.WRONG, "restored", "master", what, step)


def _sources(document: TopologyDocument) -> Iterator[Finding]:
    """Trouble with the sources; in config mode a tree without any worker is what was asked for."""
    for source in document.sources:
        name, state, age_s = source.source, source.state, source.age_s
        step = _SOURCE_STEPS.get(name, "look at the master's log")
        if state == "waiting":
            if name == "workers" and document.mode == "config":
                continue
            yield Finding(Severity.WRONG, "source-waiting", name, "has not spoken yet", step)
        elif state != "ok":
            since = source.failing_s or 0.0
            what = f"failing for {since:.0f} s: {source.trouble or state}"
            yield Finding(Severity.WRONG, "source-failing", name, what, step)
        elif age_s is not None and age_s > _SOURCE_OLD_S and name != "config-file":
            what = f"its last good answer is {age_s:.0f} s old"
            yield Finding(Severity.WRONG, "source-old", name, what, step)


def _reasons(document: TopologyDocument) -> Iterator[Finding]:
    """One finding per reason of a group, one per reason code over all nodes that share it."""
    by_code: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, vertex in walk(document.groups):
        for reason in vertex.reasons:
            if isinstance(vertex, NodeDocument):
                by_code[reason.code].append((vertex.name, reason.text))
            elif reason.code not in _CONSEQUENCES:
                step = _STEPS.get(reason.code, "`topo tree` shows its children")
                name = "/".join(path)
                yield Finding(Severity.WRONG, reason.code, name, reason.text, step)
    for entry in document.unplaced:
        for reason in entry.reasons:
            if reason.code != entry.reason.code:
                by_code[reason.code].append((entry.name, reason.text))
    yield from _grouped(by_code)


def _unplaced(document: TopologyDocument) -> Iterator[Finding]:
    by_code: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for entry in document.unplaced:
        by_code[entry.reason.code].append((entry.name, entry.reason.text))
    yield from _grouped(by_code)


def _grouped(by_code: Mapping[str, Sequence[tuple[str, str]]]) -> Iterator[Finding]:
    for code, cases in by_code.items():
        names = list(dict.fromkeys(name for name, _ in cases))
        texts = list(dict.fromkeys(text for _, text in cases))
        what = texts[0] if len(texts) == 1 else f"{texts[0]} (and {len(texts) - 1} more)"
        step = _STEPS.get(code, _GENERAL_STEP).replace("NODE", names[0])
        yield Finding(Severity.WRONG, code, _listed(names), what, step)


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _conflicts(document: TopologyDocument) -> Iterator[Finding]:
    for entry in document.conflicts:
        step = entry.fix or "decide which of the two holds, and mend the other"
        subject = _listed(entry.subjects)
        yield Finding(Severity.WRONG, entry.code, subject, entry.text, step)


def _unjoined(document: TopologyDocument) -> Iterator[Finding]:
    for entry in document.unjoined:
        what = entry.text or "the cluster manager lists it, no node joins it"
        step = "give the machine a name that joins (host name, address, system UUID), or remove it"
        yield Finding(Severity.WRONG, "unjoined", entry.id, what, step)


def _emptiness(document: TopologyDocument) -> Iterator[Finding]:
    if not document.groups and not document.unplaced:
        step = "start topo-workers, or write nodegroup.yaml (--mode config)"
        yield Finding(Severity.WRONG, "empty", "the tree", "no node is known", step)
