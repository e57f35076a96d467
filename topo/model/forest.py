"""The published forest: groups over nodes, and what could not be placed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from topo.model.conditions.condition import Condition
from topo.model.ids import (
    FabricName,
    Generation,
    GroupName,
    GroupPath,
    Kind,
    NodeName,
    ServerUuid,
    SourceName,
)

ROOT = GroupPath(())
"""The path above every root."""


class Status(StrEnum):
    """The two words of the vendor's document."""

    READY = "Ready"
    NOT_READY = "NotReady"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is not as it should be: a stable code for machines, a sentence for people."""

    code: str
    text: str

    @classmethod
    def of(cls, condition: Condition) -> Self:
        """Return the reason of a condition; its cause is the sentence for people."""
        return cls(condition, condition.cause)


class LinkState(StrEnum):
    """An inter-node link: `unconfirmed` is one that only this end states, and joins nothing."""

    UP = "up"
    DOWN = "down"
    UNCONFIRMED = "unconfirmed"


class Wire(NamedTuple):
    """An inter-node link as the node at this end sees it: its slot, the server behind it.

    `peer` is that server's node, None while no link is confirmed.
    """

    slot: int
    server: ServerUuid
    peer: NodeName | None
    state: LinkState


@dataclass(frozen=True, slots=True)
class NodeSuspicion:
    """The suspicion of a node, whatever its status: links that cannot be trusted, a quarantine.

    `links` are their names within the node, each with its evidence in words; the name of the node
    itself is empty. `quarantine` is the operator's reason, None where there is no quarantine.
    """

    links: tuple[tuple[str, str], ...] = ()
    quarantine: str | None = None


class PathGroup(NamedTuple):
    """One group on a node's path. `key` is its identity below its parent, `name` what people read.

    `expected` is the number of nodes that make the group complete, `exact` whether more is a fault.
    `troubles` are reasons of the group's own. `generated`: the name is made by discovery.
    """

    kind: Kind
    key: str
    name: GroupName
    source: SourceName
    expected: int | None = None
    exact: bool = False
    troubles: tuple[Reason, ...] = ()
    generated: bool = False


Path = tuple[PathGroup, ...]
"""Where a node belongs: the groups from the outermost to its own."""


@dataclass(frozen=True, slots=True)
class Node:
    """A leaf. `reasons` is empty if and only if the status is Ready.

    `gpus`: GPUs reported; `gpu_type` their model, "" where nobody says. `wires` by slot.
    `elsewhere`: its groups in each other fabric that has any for it.
    """

    name: NodeName
    status: Status
    reasons: tuple[Reason, ...] = ()
    gpus: int = 0
    gpu_type: str = ""
    wires: tuple[Wire, ...] = ()
    suspicion: NodeSuspicion | None = None
    elsewhere: tuple[tuple[FabricName, Path], ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """An inner vertex: children in natural order, all groups or all nodes or mixed.

    `tier` counts from the leaves (1 = closest to the nodes). `expected` is the number of nodes
    below that make it complete, None where nobody says. `source` stated the membership and calls
    the group `key`. `place` is the name by which it stands among its siblings, "" where that is its
    own: that of its smallest member where nobody gave it a name.
    """

    name: GroupName
    kind: Kind
    tier: int
    status: Status
    children: "tuple[Group | Node, ...]"
    reasons: tuple[Reason, ...] = ()
    expected: int | None = None
    source: SourceName | None = None
    key: str = ""
    place: str = ""

    def walk(self, above: GroupPath = ROOT) -> "Iterator[tuple[GroupPath, Group | Node]]":
        """Yield every vertex of this subtree, parents first, each with the path of its parent."""
        yield above, self
        path = GroupPath((*above, self.name))
        for child in self.children:
            if isinstance(child, Group):
                yield from child.walk(path)
            else:
                yield path, child


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A known node that is in no group, and why."""

    node: Node
    reason: Reason


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two statements that cannot both hold, which one was used, and what to do about it; also what
    costs a Ready node (`link-degraded`).

    `code` is stable (`oversize-group`, `cloned-server-uuid`, …); `subjects` names nodes, groups,
    machines or switches: first what others share, each kind in natural order.
    """

    code: str
    subjects: tuple[str, ...]
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class UnjoinedMachine:
    """A machine of a manager that no join key matches to a node; it is never guessed."""

    id: str
    names: tuple[tuple[str, str], ...]
    group: GroupPath
    text: str


@dataclass(frozen=True, slots=True)
class Forest:
    """All groups and nodes in natural order; a strict tree: no vertex has two parents.

    `confirmed`: by path of a group the other sources that state exactly its nodes.
    """

    roots: tuple[Group, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    unjoined: tuple[UnjoinedMachine, ...] = ()
    confirmed: Mapping[GroupPath, tuple[SourceName, ...]] = field(default_factory=dict)

    def walk(self) -> Iterator[tuple[GroupPath, Group | Node]]:
        """Yield every group and placed node, parents first, each with the path of its parent."""
        for root in self.roots:
            yield from root.walk()

    def groups(self) -> Iterator[tuple[GroupPath, Group]]:
        """Yield every group with its own path, parents first."""
        for above, vertex in self.walk():
            if isinstance(vertex, Group):
                yield GroupPath((*above, vertex.name)), vertex

    def nodes(self) -> Iterator[Node]:
        """Yield every known node, those in groups first."""
        for _, vertex in self.walk():
            if isinstance(vertex, Node):
                yield vertex
        for entry in self.unplaced:
            yield entry.node


@dataclass(frozen=True, slots=True)
class SourceWarning(Reason):
    """A doubt about a source; `since_s` is when it began, monotonic, None if that is unknown."""

    since_s: float | None = None

    @classmethod
    def of_each(cls, condition: Condition, texts: Iterable[str]) -> "tuple[SourceWarning, ...]":
        """Return a warning of the condition for each text, of a time that nobody says."""
        return tuple(cls(condition, text) for text in texts)


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of a source: its last good answer, and what is wrong since.

    `trouble` keeps it from answering, `fix` is the source's own next step. `warnings` are what is
    odd although it may answer: what it refuses, what it reads but doubts. `detail`: what of its
    answers is followed, where there is a choice.
    """

    source: SourceName
    last_good_at_s: float | None
    failing_since_s: float | None = None
    trouble: str = ""
    fix: str = ""
    warnings: tuple[SourceWarning, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The value that readers get: a forest, its generation, and the states of the sources.

    `restored_at_s` is set while the forest still rests on a state file and no source has spoken:
    when that state held, on the clock of the sources. It may lie before the start of that clock.
    """

    generation: Generation
    forest: Forest
    sources: tuple[SourceState, ...] = ()
    restored_at_s: float | None = None


class Change(NamedTuple):
    """One difference between two consecutive generations, and why it came.

    `what` is one of `node-added`, `node-removed`, `node-moved`, `node-status`, `group-added`,
    `group-removed`, `group-status`, `conflict-added`, `conflict-removed`, and of a fabric beside
    the tree `fabric-moved`, `fabric-group-added`, `fabric-group-removed`: its name is `fabric`, and
    their paths are those there. `before` and `after` are a node's path joined with `/`
    (`(unplaced)` in no group), a status, the kind of a group of such a fabric, or a conflict's
    code; an empty one means that the subject was or is not there. `status` is that of a node which
    came or went.
    """

    generation: Generation
    what: str
    subject: str
    before: str = ""
    after: str = ""
    why: str = ""
    status: str = ""
    fabric: str = ""
