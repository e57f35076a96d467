"""Gang labels on nodes: one write per node, tracked until the watch shows the labels.

A write names the version of the node that the decision was based on. The API server so refuses a
late write of a dead leader to a node whose label was changed since; with that label opened pods
could be bound where the next leader did not plan them. If another write of this leader to the same
node is pending, the write names no version, since the earlier write changes it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from master.controllers.nomination.index import GangIndex
from master.controllers.nomination.writing import gang_writes
from master.kube.objects import NodeObject
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.kube.writing.writes import WriteTarget
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.events import WriteRefused
from topo.gangs.machine.gang import GangId, Selection
from topo.model.ids import NodeName


class NodeLabels:
    """Labels nodes for gangs; a write keeps what other gangs want on the node. Mutable."""

    def __init__(
        self, index: GangIndex, nodes: Store[NodeObject], writer: Writer, keys: AnnotationKeys
    ) -> None:
        self._index, self._nodes = index, nodes
        self._writer, self._keys = writer, keys
        self._wanted: dict[NodeName, dict[GangId, Selection | None]] = {}

    def write(
        self, gang_id: GangId, wanted: Mapping[NodeName, Selection | None]
    ) -> Iterator[WriteRefused]:
        """Write a gang's labels; None removes one. Yield the nodes that do not exist."""
        writes = []
        for name, value in wanted.items():
            node = self._nodes.objects.get(("", name))
            if node is None:
                yield WriteRefused(gang_id, name, "the node is not there")
                continue
            changes = self._wanted.setdefault(name, {})
            version = "" if changes else node.metadata.resource_version
            changes[gang_id] = value
            patch = gang_writes.node_label_patch(name, node.metadata.uid, changes, self._keys)
            writes.append(replace(patch, version=version))
        self._writer.put(*writes)

    def confirm(self, names: Iterable[NodeName]) -> None:
        """Drop the wanted labels of these nodes that the watch has shown."""
        for name in names:
            there, wanted = self._index.labels(name), self._wanted.pop(name, {})
            left = {each: value for each, value in wanted.items() if there.get(each) != value}
            if left:
                self._wanted[name] = left

    def refused(self, target: WriteTarget, why: str) -> Iterator[WriteRefused]:
        """Yield a refusal for each gang whose labels a refused write was to set."""
        name = NodeName(target.name)
        for gang_id in self._wanted.pop(name, {}):
            yield WriteRefused(gang_id, name, why)
