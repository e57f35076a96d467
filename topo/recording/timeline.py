"""Faults of simulated hosts, in sentences: `at 5s: remote 1 of node-3 vanishes`.

A timeline is text, one sentence a line, `#` begins a comment. A sentence begins a fault or ends
one, and `apply` changes a host's facts as its faults demand. It changes facts and not raw texts, so
that the same sentences work on every format and on recordings of real hosts.

| begins | ends |
|---|---|
| `remote 1 of node-3 vanishes` | `remote 1 of node-3 returns` |
| `gpu 2 of node-1 fails` | `gpu 2 of node-1 heals` |
| `link 3 of gpu 2 of node-1 goes down` | `link 3 of gpu 2 of node-1 comes up` |
| `link 3 of gpu 2 of node-1 slows down` | `link 3 of gpu 2 of node-1 speeds up` |
| `link 3 of gpu 2 of node-1 counts errors` | `link 3 of gpu 2 of node-1 counts none` |
| `fabric of gpu 2 of node-1 breaks` | `fabric of gpu 2 of node-1 heals` |
| `fabric of gpu 2 of node-1 degrades` | `fabric of gpu 2 of node-1 recovers` |
| `super pod 7 of node-1 is stated` | `super pod 7 of node-1 is forgotten` |
| `super pod size 48 of node-1 is stated` | `super pod size 48 of node-1 is forgotten` |
| `server index 0 of node-1 is stated` | `server index 0 of node-1 is forgotten` |
| `node-1 falls silent` | `node-1 speaks` |

Remotes count from 1 as the vendor's slots do; GPUs and links from 0 as the libraries do.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeVar

from topo.model.durations import parse_duration
from topo.model.errors import Refusal
from topo.model.ids import SUPER_POD, NodeName
from topo.model.machine import (
    MAX_SERVERS,
    FabricKind,
    Gpu,
    GpuFabric,
    LinkKind,
    LinkPort,
    NodeFacts,
    PortState,
)
from topo.model.nearest import nearest

MAX_LINES = 10_000
TROUBLE = "simulated fault"
T = TypeVar("T", Gpu, LinkPort, GpuFabric)


class FaultKind(StrEnum):
    """What can be wrong with a simulated host."""

    REMOTE_GONE = "remote"
    GPU_FAILED = "gpu"
    LINK_DOWN = "link"
    LINK_SLOW = "link-slow"
    LINK_ERRORS = "link-errors"
    FABRIC_BROKEN = "fabric-broken"
    FABRIC_DEGRADED = "fabric-degraded"
    SUPER_POD_STATED = "super-pod"
    SUPER_POD_SIZE_STATED = "super-pod-size"
    SERVER_INDEX_STATED = "server-index"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One standing fault. `gpu` and `index` (slot, port or what is stated) are 0 where the kind has
    none.
    """

    kind: FaultKind
    node: NodeName
    gpu: int = 0
    index: int = 0


@dataclass(frozen=True, slots=True)
class Sentence:
    """A fault that begins or ends, `at_s` seconds after the start of the replay."""

    fault: Fault
    begins: bool
    at_s: float = 0.0

    def __str__(self) -> str:
        """Return the sentence without its time."""
        form = next(form for form in _FORMS if form.kind is self.fault.kind)
        verb = form.begins if self.begins else form.ends
        fields = {"index": self.fault.index, "gpu": self.fault.gpu, "node": self.fault.node}
        return f"{form.subject.format_map(fields)} {verb}"


@dataclass(frozen=True, slots=True)
class _Form:
    kind: FaultKind
    subject: str
    begins: str
    ends: str

    @property
    def pattern(self) -> re.Pattern[str]:
        subject = self.subject.format_map(
            {
                "index": r"(?P<index>\d{1,4})",
                "gpu": r"(?P<gpu>\d{1,3})",
                "node": r"(?P<node>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)",
            }
        )
        return re.compile(f"{subject} (?P<verb>{self.begins}|{self.ends})", re.ASCII)


_FORMS = (
    _Form(FaultKind.REMOTE_GONE, "remote {index} of {node}", "vanishes", "returns"),
    _Form(FaultKind.LINK_DOWN, "link {index} of gpu {gpu} of {node}", "goes down", "comes up"),
    _Form(FaultKind.LINK_SLOW, "link {index} of gpu {gpu} of {node}", "slows down", "speeds up"),
    _Form(
        FaultKind.LINK_ERRORS, "link {index} of gpu {gpu} of {node}", "counts errors", "counts none"
    ),
    _Form(FaultKind.FABRIC_BROKEN, "fabric of gpu {gpu} of {node}", "breaks", "heals"),
    _Form(FaultKind.FABRIC_DEGRADED, "fabric of gpu {gpu} of {node}", "degrades", "recovers"),
    _Form(FaultKind.GPU_FAILED, "gpu {gpu} of {node}", "fails", "heals"),
    _Form(FaultKind.SUPER_POD_STATED, "super pod {index} of {node}", "is stated", "is forgotten"),
    _Form(
        FaultKind.SUPER_POD_SIZE_STATED,
        "super pod size {index} of {node}",
        "is stated",
        "is forgotten",
    ),
    _Form(
        FaultKind.SERVER_INDEX_STATED, "server index {index} of {node}", "is stated", "is forgotten"
    ),
    _Form(FaultKind.SILENT, "{node}", "falls silent", "speaks"),
)
OF_SUPER_POD: Mapping[FaultKind, tuple[str, range]] = {
    FaultKind.SUPER_POD_STATED: ("cluster_uuid", range(10_000)),
    FaultKind.SUPER_POD_SIZE_STATED: ("size", range(1, 10_000)),
    FaultKind.SERVER_INDEX_STATED: ("server", range(MAX_SERVERS + 1)),
}
"""What a host can state of its super pod: the field of `GpuFabric`, and the numbers."""
_PATTERNS = tuple((form, form.pattern) for form in _FORMS)
_AT = re.compile(r"at (?P<time>[^:]+): *(?P<rest>.*)")
_BEGINS, _ENDS = (
    tuple(
        f"{form.subject.format_map({'index': 1, 'gpu': 2, 'node': 'NODE'})} {verb(form)}"
        for form in _FORMS
    )
    for verb in (attrgetter("begins"), attrgetter("ends"))
)
_VERBS_OF_ENDS = frozenset(sentence.rpartition(" ")[2] for sentence in _ENDS)
_VERBS = tuple(sentence.rpartition(" ")[2] for sentence in (*_BEGINS, *_ENDS))


@dataclass(frozen=True, slots=True)
class Timeline:
    """Sentences in the order of their times; equal times keep the order of the text."""

    sentences: tuple[Sentence, ...] = ()

    def faults_at(self, elapsed_s: float) -> frozenset[Fault]:
        """Return the faults that stand so many seconds after the start. O(sentences)."""
        return active_faults(s for s in self.sentences if s.at_s <= elapsed_s)


def active_faults(sentences: Iterable[Sentence]) -> frozenset[Fault]:
    """Return the faults that stand after applying the sentences in order."""
    faults: set[Fault] = set()
    for sentence in sentences:
        if sentence.begins:
            faults.add(sentence.fault)
        else:
            faults.discard(sentence.fault)
    return frozenset(faults)


def parse_timeline(text: str) -> Timeline | Refusal:
    """A timeline from lines `at 5s: SENTENCE` (`parse_duration` has the units), or a refusal."""
    sentences = _parse(text, timed=True)
    if isinstance(sentences, Refusal):
        return sentences
    return Timeline(tuple(sorted(sentences, key=lambda sentence: sentence.at_s)))


def parse_faults(text: str) -> frozenset[Fault] | Refusal:
    """Return the faults that stand after lines `SENTENCE` without times, or the first bad line."""
    sentences = _parse(text, timed=False)
    return sentences if isinstance(sentences, Refusal) else active_faults(sentences)


def apply(faults: frozenset[Fault], facts: NodeFacts) -> NodeFacts:
    """The facts as the host would report them under these faults; other hosts' faults are skipped.

    Falling silent changes no fact, see `is_silent`, nor do errors, see `counting`. A fault on
    something that the host does not have changes nothing. O(faults x facts).
    """
    for fault in sorted(faults):
        if fault.node == facts.identity.name:
            facts = _with_fault(fault, facts)
    return facts


def is_silent(faults: frozenset[Fault], node: NodeName) -> bool:
    """Return whether the node's worker must send nothing at all."""
    return Fault(FaultKind.SILENT, node) in faults


def counting(faults: frozenset[Fault], node: NodeName) -> frozenset[tuple[int, int]]:
    """Return the links (GPU, number) of the node on which errors are counted."""
    return frozenset(
        (fault.gpu, fault.index)
        for fault in faults
        if fault.kind is FaultKind.LINK_ERRORS and fault.node == node
    )


def _with_fault(fault: Fault, facts: NodeFacts) -> NodeFacts:
    def is_gpu(gpu: Gpu) -> bool:
        return gpu.index == fault.gpu

    def of_gpu(item: LinkPort | GpuFabric) -> bool:
        return item.gpu == fault.gpu

    change: dict[str, Any] = {}
    match fault.kind:
        case FaultKind.REMOTE_GONE if facts.peers is not None:
            left = tuple(peer for peer in facts.peers.remotes if peer.slot != fault.index)
            change["peers"] = replace(facts.peers, remotes=left)
        case FaultKind.GPU_FAILED:
            change["gpus"] = _changed(facts.gpus, is_gpu, healthy=False, trouble=TROUBLE)
        case FaultKind.LINK_DOWN | FaultKind.LINK_SLOW:
            change["ports"] = _with_bad_link(fault, facts)
        case FaultKind.FABRIC_BROKEN if has_super_pod(facts):  # as its driver's -1 is read
            gone = dict.fromkeys(name for name, _ in OF_SUPER_POD.values())
            change["fabrics"] = _changed(facts.fabrics, of_gpu, state="N/A", status="", **gone)
        case FaultKind.FABRIC_BROKEN:  # as Azure's bad GB200 nodes print it
            fields = {"status": "Insufficient Resources", "cluster_uuid": None, "clique": 0}
            change["fabrics"] = _changed(facts.fabrics, of_gpu, **fields)
        case FaultKind.FABRIC_DEGRADED:  # a member with an unhealthy link
            change["fabrics"] = _changed(facts.fabrics, of_gpu, healthy=False, trouble=TROUBLE)
        case kind if kind in OF_SUPER_POD and fault.index in OF_SUPER_POD[kind][1]:
            name, _ = OF_SUPER_POD[kind]
            is_number = kind is not FaultKind.SUPER_POD_STATED
            said = fault.index if is_number else f"{SUPER_POD}-{fault.index}"
            change["fabrics"] = _changed(facts.fabrics, _is_in_super_pod, **{name: said})
    return replace(facts, **change)


def has_super_pod(facts: NodeFacts) -> bool:
    """Return whether the host states a super pod."""
    return any(map(_is_in_super_pod, facts.fabrics))


def _is_in_super_pod(fabric: GpuFabric) -> bool:
    return fabric.kind is FabricKind.SUPER_POD and fabric.member_of is not None


def _with_bad_link(fault: Fault, facts: NodeFacts) -> tuple[LinkPort, ...]:
    """Return a link that is down, or up as one that lost lanes."""

    def is_link(port: LinkPort) -> bool:
        return port.gpu == fault.gpu and port.port == fault.index

    if fault.kind is FaultKind.LINK_DOWN:
        return _changed(facts.ports, is_link, state=PortState.DOWN, trouble=TROUBLE)
    if not has_nvlink(facts):
        return facts.ports
    slow = f"degraded: {TROUBLE}"
    return _changed(facts.ports, lambda p: is_link(p) and p.state is PortState.UP, trouble=slow)


def has_nvlink(facts: NodeFacts) -> bool:
    """Return whether a link can be slow and up there: a port of MetaX at a wrong speed is down."""
    rows = () if facts.matrix is None else facts.matrix.links
    return any(link.kind is LinkKind.NVLINK for row in rows for link in row)


def _changed(items: tuple[T, ...], hit: Callable[[T], bool], **fields: Any) -> tuple[T, ...]:
    """Return the items, with these fields in those that are hit."""
    return tuple(replace(item, **fields) if hit(item) else item for item in items)


def _parse(text: str, *, timed: bool) -> list[Sentence] | Refusal:
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        return Refusal(f"more than {MAX_LINES} lines", f"line {MAX_LINES + 1}", "shorten it")
    sentences: list[Sentence] = []
    for number, line in enumerate(lines, start=1):
        words = " ".join(line.partition("#")[0].split())
        if words:
            found = _timed_sentence(words) if timed else _sentence(words, 0.0)
            if isinstance(found, str):
                return Refusal(f"not a sentence I know: {words[:80]!r}", f"line {number}", found)
            sentences.append(found)
    return sentences


def _timed_sentence(words: str) -> Sentence | str:
    match = _AT.fullmatch(words)
    at_s = None if match is None else parse_duration(match["time"])
    if match is None or not isinstance(at_s, float):
        return "begin with a time: `at 5s: remote 1 of node-3 vanishes`"
    return _sentence(match["rest"], at_s)


def _sentence(words: str, at_s: float) -> Sentence | str:
    """Return the sentence, or how to mend it."""
    if words.startswith("at "):
        return "leave the time out here: a sentence holds as long as it stands in this file"
    for form, pattern in _PATTERNS:
        match = pattern.fullmatch(words)
        if match is not None:
            groups = match.groupdict()
            fault = Fault(
                form.kind,
                NodeName(match["node"]),
                gpu=int(groups.get("gpu") or 0),
                index=int(groups.get("index") or 0),
            )
            return Sentence(fault, begins=match["verb"] == form.begins, at_s=at_s)
    close = nearest(words, _meant(words), likeness=0.5)
    return f"did you mean `{close}`?" if close else f"say one of: {'; '.join((*_BEGINS, *_ENDS))}"


def _meant(words: str) -> Sequence[str]:
    """The sentences that may be meant: of that subject, and an end only where its verb is one.

    `gpu 2 of NODE heals` looks most like `gpu 2 of node-3 vanishes`, and is its contrary.
    """
    subject, verb = words.partition(" ")[0], nearest(words.rpartition(" ")[2], _VERBS)
    known = _ENDS if verb in _VERBS_OF_ENDS else _BEGINS
    return [sentence for sentence in known if sentence.startswith(f"{subject} ")] or known
