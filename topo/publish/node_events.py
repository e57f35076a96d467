"""Kubernetes Events for operators, from the difference between one forest and the next.

On a Node: a link that was cut or is up again, the node's way into, between and out of groups, and
faults of its wiring. On the service itself: a source that was lost or answers again.

Levels are compared, not changes counted: what came and went between two calls is not reported. Nor
is the state at the first call, so that a restart repeats nothing; its later recovery is.

Cost: O(what differs): subtrees that nothing touched are the same objects and are skipped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from topo.model.conditions.gang_states import EventType
from topo.model.conditions.tree import ConflictCondition
from topo.model.forest import Conflict, Forest, Group, LinkState, Node, Snapshot, SourceState, Wire
from topo.model.ids import NodeName, ServerUuid, SourceName

WIRING_FAULTS: Mapping[str, str] = {
    ConflictCondition.CLONED_SERVER_UUID: "ClonedServerUuid",
    ConflictCondition.GPUS_DISAGREE: "GpusDisagree",
    ConflictCondition.LINK_DEGRADED: "LinkDegraded",
    ConflictCondition.OVERSIZE_GROUP: "OversizeGroup",
}
"""Conflicts that are reported on their nodes, and the Event's reason. The others come and go while
nodes start (`one-sided-link`), or are about files and managers."""


ACTION = "DiscoverTopology"


REASONS: Mapping[str, EventType] = {
    "LinkDown": "Warning",
    "LinkUp": "Normal",
    "LinkReplaced": "Normal",
    "LeftGroup": "Warning",
    "MovedGroup": "Normal",
    "RejoinedGroup": "Normal",
    **dict.fromkeys(WIRING_FAULTS.values(), "Warning"),
    **dict.fromkeys((f"{reason}Gone" for reason in WIRING_FAULTS.values()), "Normal"),
    "SourceLost": "Warning",
    "SourceRecovered": "Normal",
}
"""Every reason that there is; docs/kubernetes.md says what each means."""


_Cable = tuple[NodeName, ServerUuid, int]
"""A node, the server at the other end, and which of the cables between them."""


class EventContent(NamedTuple):
    """What happened to an object: `reason` in a word, `note` in a sentence; equal ones repeat.

    `action` is what this program was doing.
    """

    reason: str
    note: str
    type: EventType
    action: str


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One thing to report; `reason` is one of `REASONS`, `note` a sentence for people.

    `node` is None where it is about the service itself.
    """

    node: NodeName | None
    reason: str
    note: str

    @property
    def content(self) -> EventContent:
        """What the Event says."""
        return EventContent(self.reason, self.note, REASONS[self.reason], ACTION)


class NodeEventTracker:
    """Remembers what was so at the last call. Mutable; one owner."""

    def __init__(self) -> None:
        self._forest: Forest | None = None
        self._cut: set[_Cable] = set()
        self._left: set[NodeName] = set()
        self._good: set[SourceName] = set()
        self._failing: set[SourceName] = set()

    def advance(self, snapshot: Snapshot) -> tuple[Occurrence, ...]:
        """Return what happened since the last call; nothing at the first one."""
        before, self._forest = self._forest, snapshot.forest
        of_sources = tuple(self._sources(snapshot.sources))
        # The first call only takes note: a restart must not repeat what was reported.
        if before is None:
            self._cut = {
                cable
                for node in snapshot.forest.nodes()
                for cable, wire in _cables(node.name, node.wires).items()
                if wire.state is LinkState.DOWN
            }
            return ()
        return (
            *self._nodes(before, snapshot.forest),
            *_faults(before.conflicts, snapshot.forest.conflicts),
            *of_sources,
        )

    def _nodes(self, before: Forest, after: Forest) -> Iterator[Occurrence]:
        old, new = _placed(before, after), _placed(after, before)
        for name in old.keys() - new.keys():
            self._left.discard(name)
            self._cut -= _cables(name, old[name].node.wires).keys()
        for name, now in new.items():
            was = old.get(name)
            yield from self._links(now.node, () if was is None else was.node.wires)
            if was is not None and was.path != now.path:
                yield from self._moved(name, was, now)

    def _links(self, node: Node, before: tuple[Wire, ...]) -> Iterator[Occurrence]:
        now = _cables(node.name, node.wires)
        for key, wire in _cables(node.name, before).items():
            # The dead link's server is gone from the slots: another cable replaced it.
            if key not in now and key in self._cut:
                self._cut.discard(key)
                if (*key[:2], 0) not in now:
                    yield _link(node, wire, "LinkReplaced")
        for key, wire in now.items():
            if wire.state is LinkState.DOWN and key not in self._cut:
                self._cut.add(key)
                yield _link(node, wire, "LinkDown")
            elif wire.state is LinkState.UP and key in self._cut:
                self._cut.discard(key)
                yield _link(node, wire, "LinkUp")

    def _moved(self, name: NodeName, was: "_Place", now: "_Place") -> Iterator[Occurrence]:
        """Report a node that left, changed or found again its group.

        The first group of a node is not reported: all nodes find one at the start.
        """
        if not now.path:
            self._left.add(name)
            note = f"the node is no longer in {was.path}: {now.why}"
            yield Occurrence(name, "LeftGroup", note)
        elif was.path:
            note = f"the node moved from {was.path} to {now.path}"
            yield Occurrence(name, "MovedGroup", note)
        elif name in self._left:
            self._left.discard(name)
            note = f"the node is in a group again: {now.path}"
            yield Occurrence(name, "RejoinedGroup", note)

    def _sources(self, sources: Sequence[SourceState]) -> Iterator[Occurrence]:
        for state in sources:
            name = state.source
            if state.failing_since_s is None:
                if name in self._failing:
                    self._failing.discard(name)
                    note = f"the source {name} answers again"
                    yield Occurrence(None, "SourceRecovered", note)
                if state.last_good_at_s is not None:
                    self._good.add(name)
            elif name not in self._failing:
                self._failing.add(name)
                if name in self._good:
                    fix = f"; {state.fix}" if state.fix else ""
                    note = f"the source {name} fails, what it said stays: {state.trouble}{fix}"
                    yield Occurrence(None, "SourceLost", note)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands: names joined with `/`, empty in no group, and then why."""

    path: str
    node: Node
    why: str = ""


def _placed(forest: Forest, other: Forest) -> dict[NodeName, _Place]:
    """Return the nodes of a forest, without those of subtrees that the other has in the
    same place.
    """
    found: dict[NodeName, _Place] = {}
    _walk(forest.roots, other.roots, "", found)
    shared = set(map(id, other.unplaced))
    for entry in forest.unplaced:
        if id(entry) not in shared:
            found[entry.node.name] = _Place("", entry.node, entry.reason.text)
    return found


def _walk(
    children: Sequence[Group | Node],
    others: Sequence[Group | Node],
    above: str,
    found: dict[NodeName, _Place],
) -> None:
    # Subtrees that nothing touched are the same objects.
    if children is others:
        return
    shared = set(map(id, others))
    twins = {other.name: other for other in others if isinstance(other, Group)}
    for child in children:
        if id(child) in shared:
            continue
        if isinstance(child, Node):
            found[child.name] = _Place(above, child)
        else:
            twin = twins.get(child.name)
            path = f"{above}/{child.name}" if above else child.name
            _walk(child.children, () if twin is None else twin.children, path, found)


_LINKS: Mapping[str, str] = {
    "LinkDown": "is down",
    "LinkUp": "is up again",
    "LinkReplaced": "is replaced by another",
}


def _cables(node: NodeName, wires: Iterable[Wire]) -> dict[_Cable, Wire]:
    """Return the cables of a node; drivers number slots anew, so the server tells which is which,
    and of several to one server their order.
    """
    found: dict[_Cable, Wire] = {}
    for wire in wires:
        number = 0
        while (node, wire.server, number) in found:
            number += 1
        found[node, wire.server, number] = wire
    return found


def _link(node: Node, wire: Wire, reason: str) -> Occurrence:
    other = wire.peer or f"server {wire.server}"
    note = f"the link in slot {wire.slot} to {other} {_LINKS[reason]}"
    return Occurrence(node.name, reason, note)


def _faults(before: Sequence[Conflict], after: Sequence[Conflict]) -> Iterator[Occurrence]:
    if before is after:
        return
    old, new = _by_node(before), _by_node(after)
    for key in new.keys() - old.keys():
        conflict, (node, code) = new[key], key
        note = f"{conflict.text}; {conflict.fix}" if conflict.fix else conflict.text
        yield Occurrence(node, WIRING_FAULTS[code], note)
    for node, code in old.keys() - new.keys():
        note = f"this no longer holds: {old[node, code].text}"
        yield Occurrence(node, f"{WIRING_FAULTS[code]}Gone", note)


def _by_node(conflicts: Sequence[Conflict]) -> dict[tuple[NodeName, str], Conflict]:
    return {
        (NodeName(subject), conflict.code): conflict
        for conflict in conflicts
        if conflict.code in WIRING_FAULTS
        for subject in conflict.subjects
    }
