"""Node labels: the groups of every node."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

import structlog

from master.controllers.controller import ChangedNames
from master.controllers.retention_grace import RetentionGrace
from master.kube.objects import NODES, NodeObject
from master.kube.store import Store
from master.kube.writing.writer import Settled, Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, WriteTarget
from master.object_errors import ObjectErrors, ObjectKind
from topo.kit.threads import off_loop
from topo.model.forest import Forest
from topo.model.ids import Kind, NodeName
from topo.model.machine import NodeFacts
from topo.publish.node_labels import Labels, every_key

MANAGER = f"{MANAGER_PREFIX}labels"
AT_ONCE = 500
"""Nodes that are compared before other tasks of the event loop run: about 5 ms."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KeptLabels:
    """What a node keeps of its labels although nobody says it, as in `RetentionGrace`.

    All, without any report of the node; those of fabrics beside the tree while its worker has said
    nothing (`facts`).
    """

    keys: Mapping[Kind, str]
    facts: Callable[[NodeName], NodeFacts | None]
    grace: RetentionGrace

    def of(self, forest: Forest, name: NodeName, present: Labels) -> Labels:
        """Return those of its `present` labels of our keys that stay. O(kinds)."""
        if self.grace.covers(forest, name):
            return present
        if self.grace.is_on and self.facts(name) is None:
            of_tree = frozenset(self.keys.values())
            return {key: value for key, value in present.items() if key not in of_tree}
        return {}


@dataclass(eq=False)
class LabelComparer:
    """Requests a write for each node whose labels of our keys differ from the forest.

    `labels` returns those of every node, for threads. `keys` has the label of each kind of group.

    Server-side apply removes what this manager wrote once and no longer writes, so no history is
    needed after a restart. A label of ours that another program gave to a node in no group stays
    and is logged once.
    """

    nodes: Store[NodeObject]
    writer: Writer
    forest: Callable[[], Forest]
    _: KW_ONLY
    labels: Callable[[Forest], Mapping[NodeName, Labels]]
    keys: Mapping[Kind, str]
    kept: KeptLabels
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects whose comparison raised an error."""
    _wanted: tuple[Forest | None, Mapping[NodeName, Labels]] = (None, {})
    _foreign: dict[str, Labels] = field(default_factory=dict)
    """By uid of the node: labels that stayed although they were not applied."""

    def __post_init__(self) -> None:
        self._ours = every_key(self.keys)
        self._errors = self.errors.scope(ObjectKind.WRITE, "labels of node")

    async def compare(self, names: ChangedNames) -> None:
        """Request the writes of what differs. O(names), and O(nodes) after a change
        of the forest.
        """
        forest = self.forest()
        if forest is not self._wanted[0]:
            self._wanted = forest, await off_loop(partial(self.labels, forest))
        wanted = self._wanted[1]
        present = self.nodes.objects
        if names is None:
            uids = {node.metadata.uid for node in present.values()}
            self._foreign = {uid: left for uid, left in self._foreign.items() if uid in uids}
            self._errors.retain({name for _, name in present})
        chosen = [name for _, name in present] if names is None else list(names)
        for number, name in enumerate(chosen, 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            node, labels = present.get(("", name)), wanted.get(NodeName(name))
            if node is not None and labels is not None:
                self._errors.run(name, partial(self._compare, forest, node, labels))

    def settled(self, settled: Settled) -> None:
        """Remember the labels that an apply left: they belong to another manager."""
        write, metadata = settled.write, settled.metadata
        if not isinstance(write, Apply) or metadata is None:
            return
        applied = write.fields.get("metadata", {}).get("labels", {})
        left = {k: v for k, v in self._labels(metadata.labels).items() if k not in applied}
        if left and left != self._foreign.get(write.uid):
            text = "a node in no such group has a label that somebody else gave it; it stays"
            _log.warning(text, node=write.target.name, labels=left)
        if left:
            self._foreign[write.uid] = left
        else:
            self._foreign.pop(write.uid, None)

    def _compare(self, forest: Forest, node: NodeObject, labels: Labels) -> None:
        name, stated = NodeName(node.metadata.name), self._labels(node.metadata.labels)
        wanted = {**self.kept.of(forest, name, stated), **labels}
        target = WriteTarget(NODES, node.metadata.name)
        present, uid = self._labels(node.metadata.labels), node.metadata.uid
        foreign = self._foreign.get(uid, {})
        others = {k: v for k, v in foreign.items() if k not in wanted and present.get(k) == v}
        if present == {**others, **wanted}:
            self.writer.withdraw(target, MANAGER)
        else:
            fields = {"metadata": {"labels": wanted}}
            self.writer.put(Apply(target=target, manager=MANAGER, uid=uid, fields=fields))

    def _labels(self, labels: Labels) -> dict[str, str]:
        return {key: labels[key] for key in self._ours if key in labels}
