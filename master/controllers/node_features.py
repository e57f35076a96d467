"""NodeFeature objects: the groups of every node, for NFD's master to make labels of.

One object for each node of the cluster that is in a group, in the namespace of this master; it is
deleted when its node leaves the cluster or its last group. NFD deletes objects of nodes that the
cluster lacks, so none is made for those that only the forest knows. NFD's own worker has an object
called like the node; ours have a prefix, and one of that name without our label is left alone and
told.

Labels of the object that are wanted no more go by the next apply, since an apply takes away what
its manager alone wrote before. Where somebody else wrote, too, as when an object comes from a
backup, it would stay: such an object is deleted once it is wrong, and made again.

Cost: O(nodes) for a new forest, of it the labels in a thread; O(1) for each changed node or object;
one write for each node whose groups changed.

Example: node-1 moves from dragonfly-1 to dragonfly-2
    → topo-node-1 is applied once, and NFD's master changes the label of the node
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

import structlog

from master.controllers.controller import ChangedNames
from master.controllers.hypernodes import PRODUCT, managed_by
from master.controllers.labels import AT_ONCE, KeptLabels
from master.kube.objects import NodeObject, OwnedMetadata
from master.kube.schedulers.node_features import (
    NODE_FEATURES,
    NodeFeatureObject,
    NodeFeatureSpec,
)
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, Delete, WriteTarget
from master.object_errors import ObjectErrors, ObjectKind
from topo.kit.threads import off_loop
from topo.model.conditions.master import MasterCondition
from topo.model.forest import Forest
from topo.model.ids import Kind, NodeName
from topo.model.rest.topology import WarningDocument
from topo.model.words import counted
from topo.publish.node_features import (
    FEATURE,
    NODE_NAME_LABEL,
    can_name,
    element_names,
    feature_spec,
    node_of,
    object_name,
)
from topo.publish.node_labels import Labels, every_key

MANAGER = f"{MANAGER_PREFIX}node-features"
PATIENCE_S = 10.0
"""After this time in office a leader tells that the API server has no such objects."""

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class NodeFeatureComparer:
    """Keeps the objects; see above. It does nothing where their API is not served.

    `labels` returns those of every node, for threads. `keys` has the label of each kind of group.
    """

    features: Store[NodeFeatureObject]
    nodes: Store[NodeObject]
    writer: Writer
    forest: Callable[[], Forest]
    _: KW_ONLY
    labels: Callable[[Forest], Mapping[NodeName, Labels]]
    keys: Mapping[Kind, str]
    domain: str
    namespace: str
    kept: KeptLabels
    clock: Callable[[], float]
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects whose comparison raised an error."""
    _wanted: tuple[Forest | None, Mapping[NodeName, Labels]] = (None, {})
    _conflicts: set[str] = field(default_factory=set)
    """Names of wanted objects that somebody else has."""
    _began_s: float | None = None

    def __post_init__(self) -> None:
        self._ours, self._names = every_key(self.keys), element_names(self.keys)
        self._errors = self.errors.scope(ObjectKind.WRITE, "NodeFeature of node")

    async def compare(self, names: ChangedNames) -> None:
        """Request the writes of what differs at these nodes. O(names), and O(nodes) after a
        change of the forest.
        """
        self._began_s = self.clock() if self._began_s is None else self._began_s
        if not self.features.synced:
            return  # NFD is not installed; its kinds may come later
        forest = self.forest()
        if forest is not self._wanted[0]:
            self._wanted = forest, await off_loop(partial(self.labels, forest))
        had = bool(self._conflicts)
        if names is None:
            self._conflicts.clear()
            self._errors.retain(set(self._all()))
        for number, name in enumerate(self._all() if names is None else tuple(names), 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            self._errors.run(name, partial(self._compare, forest, NodeName(name)))
        if self._conflicts and not had:
            _log.warning("a NodeFeature of somebody else has the name of ours", what=self._conflict)

    def warnings(self) -> tuple[WarningDocument, ...]:
        """Return that the API server has no such objects, or that some are somebody else's."""
        if not self.features.synced:
            began_s = self._began_s
            if began_s is None or self.clock() - began_s < PATIENCE_S:
                return ()
            text = f"the API server lists no NodeFeatures of {NODE_FEATURES.api_version}"
            return (WarningDocument.of(MasterCondition.NODE_FEATURES_UNSERVED, text),)
        if not self._conflicts:
            return ()
        return (WarningDocument.of(MasterCondition.NODE_FEATURE_CONFLICT, self._conflict),)

    @property
    def _conflict(self) -> str:
        found = counted(len(self._conflicts), "NodeFeature")
        return (
            f"{found} in the namespace {self.namespace}, such as {min(self._conflicts)}, which this"
            " master did not make: the groups of that node are not published by it"
        )

    def _all(self) -> Iterable[str]:
        """Return the nodes of the cluster, and those that have an object."""
        found = dict.fromkeys(name for _, name in self.nodes.objects)
        return found | dict.fromkeys(node_of(name) for _, name in self.features.objects)

    def _compare(self, forest: Forest, node: NodeName) -> None:
        name = object_name(node)
        found = self.features.objects.get((self.namespace, name))
        labels = self._labels(forest, node, found)
        self._conflicts.discard(name)
        if found is not None and found.metadata.labels.get(managed_by(self.domain)) != PRODUCT:
            self._conflicts.update([name] if labels else ())
            return
        target = WriteTarget(NODE_FEATURES, name, self.namespace)
        if found is None:
            if labels:
                self.writer.put(self._apply(target, node, "", labels))
            else:
                self.writer.withdraw(target, MANAGER)
        elif not found.metadata.deletion_timestamp:  # else its end wakes this controller
            self._renew(target, found, node, labels)

    def _renew(
        self, target: WriteTarget, found: NodeFeatureObject, node: NodeName, labels: Labels
    ) -> None:
        """Request what makes an object of ours as it is wanted."""
        metadata = found.metadata
        stated, wanted = _said(found.spec), self._saying(labels)
        if labels and stated == wanted and metadata.labels.get(NODE_NAME_LABEL) == node:
            self.writer.withdraw(target, MANAGER)
        elif not labels or (stated.keys() - wanted.keys() and _has_other_writers(metadata)):
            self.writer.put(Delete(target=target, manager=MANAGER, uid=metadata.uid))
        else:
            self.writer.put(self._apply(target, node, metadata.uid, labels))

    def _labels(self, forest: Forest, node: NodeName, found: NodeFeatureObject | None) -> Labels:
        """Return the labels that the object of a node is to have; empty where there is to be none.

        A node that nobody has spoken of since the start keeps what it had.
        """
        if ("", node) not in self.nodes.objects or not can_name(node):
            return {}
        stated = {} if found is None else found.spec.labels
        present = {key: stated[key] for key in self._ours if key in stated}
        return {**self.kept.of(forest, node, present), **self._wanted[1].get(node, {})}

    def _apply(self, target: WriteTarget, node: NodeName, uid: str, labels: Labels) -> Apply:
        metadata = {"labels": {managed_by(self.domain): PRODUCT, NODE_NAME_LABEL: node}}
        fields = {"metadata": metadata, "spec": feature_spec(labels, self._names)}
        return Apply(target=target, manager=MANAGER, uid=uid, fields=fields, force=True)

    def _saying(self, labels: Labels) -> Mapping[tuple[str, str], str]:
        """Return what an object with these labels says, as `_said` has it."""
        elements = {(FEATURE, self._names[key]): value for key, value in labels.items()}
        return {("", key): value for key, value in labels.items()} | elements


def _said(spec: NodeFeatureSpec) -> Mapping[tuple[str, str], str]:
    """Return what is said of a node: its labels, and the elements by feature and name."""
    said = {("", key): value for key, value in spec.labels.items()}
    for feature, each in spec.features.attributes.items():
        said |= {(feature, name): value for name, value in each.elements.items()}
    return said


def _has_other_writers(metadata: OwnedMetadata) -> bool:
    """Return whether not all in an object is by our applies."""
    return any(
        (each.manager, each.operation) != (MANAGER, "Apply") for each in metadata.managed_fields
    )
