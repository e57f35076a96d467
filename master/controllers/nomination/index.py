"""Which pods, labels and PodGroups belong to which gang, kept as the cluster tells them.

What changed only marks a gang: it is read whole when its turn comes.
"""

from collections.abc import Iterable, Iterator, Mapping

from master.controllers.nomination.gang_builder import POD_GROUP, gang_of, has_slipped, id_of
from master.kube.objects import Key, NodeObject, PodObject, key_of
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId, Selection
from topo.gangs.terms import Way
from topo.model.ids import NodeName


class GangIndex:
    """Pods by gang, the labels of gangs on nodes, and which gangs changed. Mutable; one owner."""

    def __init__(self, keys: AnnotationKeys, way: Way) -> None:
        self._keys, self._way = keys, way
        self._prefix = keys.node_label("")
        self._gang_of: dict[Key, GangId] = {}
        self._pods: dict[GangId, dict[Key, PodObject]] = {}
        self._labels: dict[NodeName, dict[GangId, Selection]] = {}
        self._nodes: dict[GangId, dict[NodeName, Selection]] = {}
        self._by_group: dict[Key, GangId] = {}
        self._marked: dict[GangId, None] = {}
        self.slipped: dict[Key, PodObject] = {}
        """Pods that name a group size and were made without a gate, until they are gone."""
        self._ungrouped: dict[Key, PodObject] = {}
        """Pods that say why they get no groups, until they are gone."""
        self._came: dict[Key, PodObject] = {}
        """Of these, and those that got a place since, the ones that nobody took up yet."""

    # What there is

    def pods(self, gang_id: GangId) -> tuple[Key, ...]:
        """The pods of a gang, by their keys: their versions are those of the store, which tells
        nobody of a change that decides nothing.
        """
        return tuple(self._pods.get(gang_id, ()))

    def labelled(self, gang_id: GangId) -> Mapping[NodeName, Selection]:
        """The nodes with the gang's label, and its value there."""
        return dict(self._nodes.get(gang_id, {}))

    def labels(self, node: NodeName) -> Mapping[GangId, Selection]:
        """The labels of all gangs on a node."""
        return dict(self._labels.get(node, {}))

    def gangs(self) -> Iterator[GangId]:
        """All gangs that have pods, or labels on nodes."""
        yield from dict.fromkeys((*self._pods, *self._nodes))

    def namespace(self, gang_id: GangId) -> str:
        """The namespace of a gang's pods; empty where it has none."""
        return next((key[0] for key in self._pods.get(gang_id, {})), "")

    # What the cluster tells

    def pod(self, key: Key, pod: PodObject | None) -> None:
        """A pod came or changed, or is gone (None); one of its name may have taken its place."""
        before = self._gang_of.pop(key, None)
        now = gang_of(pod, self._keys, self._way) if pod is not None else None
        if before is not None:
            self._drop(before, key, anew=now == before)
        if pod is not None and now is not None:
            self._gang_of[key] = now
            self._pods.setdefault(now, {})[key] = pod
            if group := pod.metadata.annotations.get(POD_GROUP):
                self._by_group[key[0], group] = now
            self.mark(now)
        self._look_for_gate(key, pod)

    def all_pods(self, pods: Mapping[Key, PodObject]) -> None:
        """All pods there are: others are gone."""
        for key in [*self._gang_of, *self.slipped, *self._ungrouped]:
            if key not in pods:
                self.pod(key, None)
        for key, pod in pods.items():
            self.pod(key, pod)

    def node(self, name: NodeName, node: NodeObject | None) -> None:
        """A node came or changed, or is gone (None)."""
        labels = node.metadata.labels if node is not None else {}
        found = {
            GangId(label.removeprefix(self._prefix)): Selection(value)
            for label, value in labels.items()
            if label.startswith(self._prefix)
        }
        before = self._labels.pop(name, {})
        if found:
            self._labels[name] = found
        for gang_id in before.keys() | found.keys():
            if before.get(gang_id) != found.get(gang_id):
                self._label(gang_id, name, found.get(gang_id))

    def all_nodes(self, nodes: Iterable[NodeObject]) -> None:
        """All nodes there are: others are gone."""
        there = {NodeName(node.metadata.name): node for node in nodes}
        for name in [each for each in self._labels if each not in there]:
            self.node(name, None)
        for name, node in there.items():
            self.node(name, node)

    def pod_group(self, key: Key) -> None:
        """A PodGroup came, changed or went."""
        if (gang_id := self._by_group.get(key)) is not None:
            self.mark(gang_id)

    def mark(self, gang_id: GangId) -> None:
        """The gang is to be read anew."""
        self._marked[gang_id] = None

    def mark_all(self) -> None:
        """All gangs are."""
        self._marked.update(dict.fromkeys(self.gangs()))

    def take_slipped(self) -> tuple[PodObject, ...]:
        """The pods that came without a gate since the last time and are there, placed or not.

        One beside gated pods is planned with them within moments, and is none of `slipped` then.
        """
        came, self._came = tuple(self._came.values()), {}
        return came

    def ungrouped(self) -> Mapping[GangId, tuple[PodObject, str]]:
        """A pod of each job that gets no groups, and why; O(such pods)."""
        name = self._keys.ungrouped
        found = self._ungrouped.values()
        return {id_of(pod): (pod, pod.metadata.annotations[name]) for pod in found}

    def take(self) -> tuple[GangId, ...]:
        """The gangs that were marked since the last time, in that order."""
        marked, self._marked = tuple(self._marked), {}
        return marked

    def _look_for_gate(self, key: Key, pod: PodObject | None) -> None:
        """Keeps whether the pod was made without a gate."""
        known = self.slipped.pop(key, None)
        self._ungrouped.pop(key, None)
        if pod is None:
            self._came.pop(key, None)
        elif self._keys.ungrouped in pod.metadata.annotations:
            self._ungrouped[key] = pod
        elif has_slipped(pod, self._keys, self._way):
            self.slipped[key] = pod
            if known is None or known.metadata.uid != pod.metadata.uid:
                self._came[key] = pod

    def _drop(self, gang_id: GangId, key: Key, *, anew: bool) -> None:
        pods = self._pods[gang_id]
        pod = pods.pop(key)
        if not pods:
            del self._pods[gang_id]
            if not anew and (group := pod.metadata.annotations.get(POD_GROUP)):
                self._by_group.pop((key_of(pod.metadata)[0], group), None)
        self.mark(gang_id)

    def _label(self, gang_id: GangId, name: NodeName, value: Selection | None) -> None:
        nodes = self._nodes.setdefault(gang_id, {})
        if value is None:
            nodes.pop(name, None)
        else:
            nodes[name] = value
        if not nodes:
            del self._nodes[gang_id]
        self.mark(gang_id)
