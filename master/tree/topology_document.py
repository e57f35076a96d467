"""The document of `GET /v1/topology`: its content, its bytes, and when it differs.

Its types are in `topo.model.rest.topology`. 10,000 nodes are too many to be validated for every
reader: plain dictionaries, which mypy checks, are given to orjson.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from master.tree.capacity_counts import SubtreeCounts, capacity_document
from master.tree.selection import Selected, Vertex
from master.tree.status_times import Times
from topo.discovery.tree.fabric_forests import FabricSummary, forests_beside, summaries
from topo.model.forest import ROOT, Conflict, Forest, Group, Node, Reason, Snapshot, SourceState
from topo.model.ids import FabricName, GroupPath, NodeName
from topo.model.rest.topology import (
    AmountDocument,
    CardDocument,
    ConflictDocument,
    FabricDocument,
    GroupDocument,
    NodeDocument,
    NodeReasonDocument,
    SharedCardsDocument,
    SharedCardsOfNode,
    SourceDocument,
    SourceWarningDocument,
    TopologyDocument,
    WarningDocument,
    WireDocument,
)
from topo.placement.capacity.node_usage import NO_COUNTS, NodeUsage, SharedCards
from topo.publish.wires import wires_of
from topo.shared_cards.cards import NO_CARDS, Amount, CardsSnapshot, CardUsage

FRESH_S = 1.0
"""Ages in it move without a generation; a document that is served again is at most this old."""
_PROCESS = secrets.token_hex(4)
"""Generations of two processes are not comparable, so their tags must differ."""


@dataclass(frozen=True, slots=True)
class TopologyView:
    """The values that a document is made of: the forest, the bookings, the times of changes.

    `times` are on the clock of the snapshot's sources. `warnings` are about the master itself.
    `fabric`: of which one the forest is, where that was asked for. `beside` returns the forests of
    the other fabrics, for threads. O(nodes), and once for the newest forest of a master.
    """

    snapshot: Snapshot
    usage: NodeUsage = field(default_factory=NodeUsage)
    cards: CardsSnapshot = NO_CARDS
    times: Times = field(default_factory=Times)
    warnings: tuple[WarningDocument, ...] = ()
    fabric: str = ""
    beside: Callable[[Forest], Mapping[FabricName, Forest]] = forests_beside

    @property
    def version(self) -> object:
        """The version of its documents, see `version`."""
        booked = self.usage.version, self.cards.version
        return version(self.snapshot, booked, self.warnings)

    @property
    def capacity_version(self) -> int:
        """A number that grows with every change of what is free, whole GPUs or shared cards."""
        return self.usage.version + self.cards.version

    def shared_cards(self) -> dict[NodeName, SharedCardsOfNode]:
        """Return the nodes with shared cards, and what is said of these."""
        found: dict[NodeName, SharedCardsOfNode] = {}
        for name, resources in self.usage.shared.items():
            found[name] = {"shared": [_resource(each) for each in resources]}
        for name, cards in self.cards.nodes.items():
            each = [card_document(cards.family, card) for card in cards.cards]
            found.setdefault(name, {})["cards"] = each
        return found


@dataclass(frozen=True, slots=True)
class TreePart:
    """The part of the tree to show: `groups` instead of all roots, cut below `depth` levels.

    With a `path` from a root down to a node only its vertices. The counts of a group are always of
    all of it; wires are those of the nodes shown.
    """

    groups: tuple[Selected, ...] | None = None
    path: tuple[Vertex, ...] | None = None
    depth: int | None = None


ALL = TreePart()


def version(
    snapshot: Snapshot, capacity: tuple[int, int], warnings: Sequence[WarningDocument]
) -> object:
    """Return what tells two documents apart, apart from their ages.

    `capacity` are the versions of the bookings and of the shared cards.

    A hold is no change of the forest, so the generation does not count it, and a tag does.
    """
    states = tuple(
        (
            s.source,
            s.last_good_at_s is None,
            s.failing_since_s is None,
            s.trouble,
            s.fix,
            tuple((warning.code, warning.text) for warning in s.warnings),
            s.detail,
        )
        for s in snapshot.sources
    )
    warned = tuple((warning.code, warning.text) for warning in warnings)
    return snapshot.generation, snapshot.restored_at_s is not None, states, capacity, warned


def entity_tag(of_version: object, query: str = "") -> str:
    """Return the opaque part of an entity tag, one for each version and each query."""
    text = repr((_PROCESS, of_version, query))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def body(view: TopologyView, mode: str, now_s: float, run: str) -> bytes:
    """Return the bytes of the whole document; `now_s` is on the clock of the sources."""
    return serialize(document(view, mode, now_s, run=run))


def serialize(answer: TopologyDocument) -> bytes:
    """Return a document's bytes."""
    return orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)


def document(
    view: TopologyView, mode: str, now_s: float, part: TreePart = ALL, *, run: str = ""
) -> TopologyDocument:
    """Return the document; of the tree only the part. `run` counts its generation.

    `now_s` is on the clock of the snapshot's sources (monotonic seconds); ages are in seconds.
    """
    snapshot, forest = view.snapshot, view.snapshot.forest
    writer = _Writer(view, part.path, now_s)
    groups = [writer.group(group, above, part.depth) for above, group in _shown(view, part)]
    answer: TopologyDocument = {
        "generation": snapshot.generation,
        "run": run,
        "capacity_version": view.capacity_version,
        "mode": mode,
        "restored_age_s": _age_s(snapshot.restored_at_s, now_s),
        "groups": groups,
        "unplaced": [
            {**writer.node(entry.node), "reason": entry.reason} for entry in forest.unplaced
        ],
        "wires": _wires(forest, writer.shown, part),
        "conflicts": tuple([_conflict(each, view.times, now_s) for each in forest.conflicts]),
        "unjoined": [
            {
                "id": machine.id,
                "names": dict(machine.names),
                "group": machine.group,
                "text": machine.text,
            }
            for machine in forest.unjoined
        ],
        "sources": [_source(state, now_s) for state in snapshot.sources],
        "warnings": list(view.warnings),
    }
    if view.fabric:
        answer["fabric"] = view.fabric
    elif part is not ALL or any(node.elsewhere for node in writer.shown):
        _add_fabrics(answer, summaries(forest, mode))
    return answer


def _add_fabrics(answer: TopologyDocument, fabrics: Sequence[FabricSummary]) -> None:
    if fabrics:
        answer["fabrics"] = [_fabric(each) for each in fabrics]


def _fabric(found: FabricSummary) -> FabricDocument:
    return {
        "fabric": found.fabric,
        "kinds": found.kinds,
        "groups": found.groups,
        "nodes": found.nodes,
        "source": found.source,
        "unplaced": found.unplaced,
        "reason": found.reason,
    }


def _shown(view: TopologyView, part: TreePart) -> tuple[Selected, ...]:
    if part.path is not None:
        return tuple((ROOT, root) for root in part.path[:1] if isinstance(root, Group))
    if part.groups is not None:
        return part.groups
    return tuple((ROOT, root) for root in view.snapshot.forest.roots)


class _Writer:
    """Groups and nodes as dictionaries. `path`: the only vertices to show."""

    def __init__(self, view: TopologyView, path: tuple[Vertex, ...] | None, now_s: float) -> None:
        self._counts = SubtreeCounts(view.usage)
        self._hosts, self._shared = view.usage.hosts, view.shared_cards()
        self._times, self._now_s = view.times, now_s
        self._confirmed = view.snapshot.forest.confirmed
        self._only = None if path is None else frozenset(map(id, path))
        self.shown: list[Node] = []

    def group(self, group: Group, above: GroupPath, depth: int | None) -> GroupDocument:
        """Return a group with its children down to `depth` levels (None: all)."""
        path = GroupPath((*above, group.name))
        below = None if depth is None else depth - 1
        children = group.children if below is None or below >= 0 else ()
        if self._only is not None:
            children = tuple(child for child in children if id(child) in self._only)
        return {
            "name": group.name,
            "kind": group.kind,
            "tier": group.tier,
            "path": path,
            "key": group.key,
            "status": group.status,
            "reasons": group.reasons,
            "expected": group.expected,
            "source": group.source,
            "confirmed_by": self._confirmed.get(path, ()),
            "capacity": capacity_document(self._counts.of(group)),
            "child": [
                self.group(child, path, below) if isinstance(child, Group) else self.node(child)
                for child in children
            ],
        }

    def node(self, node: Node) -> NodeDocument:
        """A leaf."""
        self.shown.append(node)
        free, used, held, _, _, is_cordoned, gpus = self._counts.nodes.get(node.name, NO_COUNTS)
        host = self._hosts.get(node.name)
        changed_at_s = self._times.nodes.get(node.name)
        leaf: NodeDocument = {
            "name": node.name,
            "kind": "node",
            "status": node.status,
            "reasons": tuple([self._reason(node, each) for each in node.reasons]),
            "gpus": node.gpus or gpus,
            "gpu_type": node.gpu_type or ("" if host is None else host.gpu_type),
            "free_gpus": free,
            "used_gpus": used,
            "held_gpus": held,
            "cordoned": is_cordoned,
            "since_s": _age_s(changed_at_s, self._now_s),
        }
        if (against := node.suspicion) is not None:
            links = [f"{link or 'several links'}: {text}" for link, text in against.links]
            leaf["suspected"], leaf["quarantine"] = links, against.quarantine
        if host is not None and host.pool:
            leaf["pool"] = host.pool
        shared = self._shared.get(node.name)
        return leaf if shared is None else {**leaf, **shared}

    def _reason(self, node: Node, reason: Reason) -> NodeReasonDocument:
        since_s = _age_s(self._times.of_reason(node.name, reason.code), self._now_s)
        return NodeReasonDocument(reason.code, reason.text, since_s)


def _age_s(at_s: float | None, now_s: float) -> float | None:
    return None if at_s is None else round(now_s - at_s, 1)


def card_document(family: str, usage: CardUsage) -> CardDocument:
    """Return one shared card."""
    card = usage.card
    return {
        "id": card.id,
        "family": family,
        "model": card.model,
        "mode": card.mode,
        "healthy": card.is_healthy,
        "total": amount_document(card.total),
        "used": amount_document(usage.used),
        "free": amount_document(usage.free),
    }


def amount_document(amount: Amount) -> AmountDocument:
    """Return an amount of shared cards."""
    return {"shares": amount.shares, "cores": amount.cores, "memory": amount.memory}


def _resource(cards: SharedCards) -> SharedCardsDocument:
    resource, allocatable, used = cards
    return {"resource": resource, "allocatable": allocatable, "used": used}


def _wires(forest: Forest, shown: list[Node], part: TreePart) -> list[WireDocument]:
    """Return the wires of the nodes shown; the nodes at the other ends may not be shown."""
    known = {node.name: node for node in (shown if part is ALL else forest.nodes())}
    return [
        {
            "node": node,
            "slot": slot,
            "peer": peer,
            "peer_slot": peer_slot,
            "server": server,
            "state": state,
        }
        for node, slot, peer, peer_slot, server, state in wires_of(shown, known)
    ]


def _conflict(conflict: Conflict, times: Times, now_s: float) -> ConflictDocument:
    since_s = _age_s(times.of_conflict(conflict), now_s)
    return ConflictDocument(
        conflict.code, conflict.subjects, conflict.text, conflict.fix, since_s=since_s
    )


def _source(state: SourceState, now_s: float) -> SourceDocument:
    failing = state.failing_since_s
    good = state.last_good_at_s
    word = "failing" if failing is not None else "waiting" if good is None else "ok"
    return {
        "source": state.source,
        "state": word,
        "age_s": _age_s(good, now_s),
        "failing_s": _age_s(failing, now_s),
        "trouble": state.trouble,
        "fix": state.fix,
        "warnings": tuple(
            [
                SourceWarningDocument(w.code, w.text, _age_s(w.since_s, now_s))
                for w in state.warnings
            ]
        ),
        "detail": state.detail,
    }
