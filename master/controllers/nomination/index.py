"""Which pods, labels and PodGroups belong to which gang, kept as the cluster reports them.

A change only marks a gang: the whole gang is built when its turn comes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key, NodeObject
from master.kube.store import Grouped
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId, Selection
from topo.model.ids import NodeName


class GangIndex:
    """Pods by gang, gang labels by node, and the changed gangs. Mutable; one owner."""

    def __init__(self, keys: AnnotationKeys) -> None:
        self._prefix = keys.node_label_prefix
        self._placed: dict[Key, GangPod] = {}
        self._pods: dict[GangId, dict[Key, None]] = {}
        self._labels: dict[NodeName, dict[GangId, Selection]] = {}
        self._nodes: dict[GangId, dict[NodeName, Selection]] = {}
        self._selecting: Grouped[GangId, NodeName] = Grouped()
        """Nodes of bound pods that select the label of another gang than theirs, by that gang."""
        self._named = _NamedObjects()
        self._marked: dict[GangId, None] = {}
        self.is_read = True
        """Whether somebody takes the marks: a follower would collect those of weeks."""
        self.bypassed: dict[Key, GangPod] = {}
        """Pods that ask for groups and were made without a gate, until they are gone."""
        self._ungrouped: dict[Key, GangPod] = {}
        """Pods that say why they get no groups, until they are gone."""
        self._new_bypassed: dict[Key, GangPod] = {}
        """Pods of `bypassed` that were not taken yet, also those that got a place since."""

    # What there is

    def pods(self, gang_id: GangId) -> tuple[Key, ...]:
        """Return the keys of a gang's pods. Read the pods from the store.

        The index is not notified when only a pod's version changes.
        """
        return tuple(self._pods.get(gang_id, ()))

    def any_pod(self, gang_id: GangId) -> Key | None:
        """Return the key of one pod of a gang; None if it has none. O(1)."""
        return next(iter(self._pods.get(gang_id, ())), None)

    def labelled(self, gang_id: GangId) -> Mapping[NodeName, Selection]:
        """Return the nodes with the gang's label, and its value there."""
        return dict(self._nodes.get(gang_id, {}))

    def superfluous_labels(self, gang_id: GangId) -> tuple[NodeName, ...]:
        """Return the nodes that have the label of a gang without pods for nothing.

        On the node of a bound pod that selects it, as of a job that an earlier release knew by
        another id, the label stays: a kubelet that restarts fails pods whose node lacks it.
        """
        selected = self._selecting.values(gang_id).values()
        return tuple(sorted(self._nodes.get(gang_id, {}).keys() - set(selected)))

    def labels(self, node: NodeName) -> Mapping[GangId, Selection]:
        """Return the labels of all gangs on a node."""
        return dict(self._labels.get(node, {}))

    def gangs(self) -> Iterator[GangId]:
        """Return all gangs that have pods or node labels."""
        yield from dict.fromkeys((*self._pods, *self._nodes))

    def namespace(self, gang_id: GangId) -> str:
        """Return the namespace of a gang's pods; empty where it has none."""
        return next((key[0] for key in self._pods.get(gang_id, {})), "")

    def ungrouped(self) -> Mapping[GangId, GangPod]:
        """Return one pod of each job that asks for groups and gets none; O(such pods)."""
        return {pod.gang_id: pod for pod in self._ungrouped.values()}

    # What the cluster reports

    def pod(self, key: Key, pod: ClusterPod | None) -> None:
        """Update for a pod that is new or changed, or deleted (None)."""
        found = pod if isinstance(pod, GangPod) else None
        if found is None and not self._knows(key):
            return
        self._follow_selection(key, found)
        before = self._placed.pop(key, None)
        if before is not None:
            self._named.remove(before.gang_id, before.named)
        now = found if found is not None and found.is_placed_here else None
        if before is not None and (now is None or now.gang_id != before.gang_id):
            self._drop(key, before)
        if now is not None:
            self._placed[key] = now
            self._pods.setdefault(now.gang_id, {})[key] = None
            self._named.add(now.gang_id, now.named)
            self.mark(now.gang_id)
        self._follow_ungated(key, found)

    def all_pods(self, pods: Mapping[Key, ClusterPod]) -> None:
        """Replace all pods by those of a complete list."""
        for key in [*self._placed, *self.bypassed, *self._ungrouped, *self._selecting.keys]:
            if key not in pods:
                self.pod(key, None)
        for key, pod in pods.items():
            self.pod(key, pod)

    def node(self, name: NodeName, node: NodeObject | None) -> None:
        """Update for a node that is new or changed, or deleted (None)."""
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
        """Replace all nodes by those of a complete list."""
        there = {NodeName(node.metadata.name): node for node in nodes}
        for name in [each for each in self._labels if each not in there]:
            self.node(name, None)
        for name, node in there.items():
            self.node(name, node)

    def named(self, key: Key) -> None:
        """Mark the gangs whose pods name an object that was created, changed or deleted."""
        for gang_id in self._named.gangs(key):
            self.mark(gang_id)

    # What changed

    def mark(self, gang_id: GangId) -> None:
        """Mark a gang to be built again."""
        if self.is_read:
            self._marked[gang_id] = None

    def mark_known(self, gang_id: GangId) -> None:
        """Mark a gang to be built again if it has pods."""
        if gang_id in self._pods:
            self.mark(gang_id)

    def mark_all(self) -> None:
        """Mark all gangs to be built again."""
        for gang_id in self.gangs():
            self.mark(gang_id)

    def take(self) -> tuple[GangId, ...]:
        """Return and clear the marked gangs, in the order in which they were marked."""
        marked, self._marked = tuple(self._marked), {}
        return marked

    def take_bypassed(self) -> tuple[GangPod, ...]:
        """Return and clear the existing pods that were created without a gate, bound or not.

        A pod with gated siblings gets a plan with them within moments and then leaves `bypassed`.
        """
        came, self._new_bypassed = tuple(self._new_bypassed.values()), {}
        return came

    def _knows(self, key: Key) -> bool:
        known = (self._placed, self.bypassed, self._ungrouped, self._selecting.keys)
        return any(key in each for each in known)

    def _follow_selection(self, key: Key, pod: GangPod | None) -> None:
        before = self._selecting.drop(key)
        gang_id = pod.other_gang if pod is not None and not pod.finished else None
        if pod is not None and pod.node is not None and gang_id is not None:
            self._selecting.put(key, gang_id, pod.node)
        if before is not None and before != self._selecting.group_of(key):
            self.mark(before)

    def _follow_ungated(self, key: Key, pod: GangPod | None) -> None:
        known = self.bypassed.pop(key, None)
        self._ungrouped.pop(key, None)
        if pod is None:
            self._new_bypassed.pop(key, None)
        elif pod.ungrouped is not None:
            self._ungrouped[key] = pod
        elif pod.bypassed_webhook:
            self.bypassed[key] = pod
            if known is None or known.metadata.uid != pod.metadata.uid:
                self._new_bypassed[key] = pod

    def _drop(self, key: Key, pod: GangPod) -> None:
        """Remove a pod from its gang."""
        gang_id = pod.gang_id
        pods = self._pods[gang_id]
        del pods[key]
        if not pods:
            del self._pods[gang_id]
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


class _NamedObjects:
    """Objects that pods name, with the gangs of these pods, each as often as they name it.

    Objects of one key count as one, whatever their kind: then a gang is built once too often.
    """

    def __init__(self) -> None:
        self._gangs: dict[Key, Counter[GangId]] = {}

    def __len__(self) -> int:
        return len(self._gangs)

    def add(self, gang_id: GangId, keys: Iterable[Key]) -> None:
        for key in keys:
            self._gangs.setdefault(key, Counter())[gang_id] += 1

    def gangs(self, key: Key) -> Iterable[GangId]:
        return self._gangs.get(key, ())

    def remove(self, gang_id: GangId, keys: Iterable[Key]) -> None:
        """Forget what a pod named that changed or went."""
        for key in keys:
            gangs = self._gangs[key]
            gangs[gang_id] -= 1
            if not gangs[gang_id]:
                del gangs[gang_id]
            if not gangs:
                del self._gangs[key]
