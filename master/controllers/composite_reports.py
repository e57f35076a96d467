"""Whether kube-scheduler binds the PodGroups below a CompositePodGroup together.

Where the API server serves CompositePodGroups and the scheduler has the gate of that name off, it
binds each PodGroup for itself. It reports on PodGroups alone (v1.37.2 writes no condition on the
group above them), so what shows it is a tree in part: some PodGroups were scheduled, and for a
while fewer of them than the root needs at least. With the gate on the reports of a whole tree come
from one cycle. Trees with levels in between are not judged.

Cost: O(1) for a pod, O(groups of the trees with pods of gangs) a second.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key
from master.kube.reflector import Changed, Listed, StoreEvent
from master.kube.schedulers.composite_groups import CompositeGroupObject, GroupTrees
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from master.kube.store import Store
from topo.gangs.group_tree import GroupTree


@dataclass(kw_only=True)
class CompositeReports:
    """The CompositePodGroups that pods of gangs are below. Mutable; one owner."""

    groups: Store[SchedulingGroupObject]
    composites: Store[CompositeGroupObject]
    pods: Store[ClusterPod]
    _pods: dict[Key, dict[Key, None]] = field(default_factory=dict, init=False)
    """The pods below each group."""
    _of_pod: dict[Key, Key] = field(default_factory=dict, init=False)
    _unheeded_s: dict[Key, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._trees = GroupTrees(self.groups, self.composites)
        self.pods.subscribe(self._follow_pods)

    def look(self, now_s: float) -> None:
        """Note the groups of which fewer PodGroups than they need were scheduled, yet some."""
        for key in self._pods:
            if self._is_in_part(key):
                self._unheeded_s.setdefault(key, now_s)
            else:
                self._unheeded_s.pop(key, None)

    def unheeded(self, now_s: float, patience_s: float) -> Iterator[Key]:
        """Yield the groups that were so for so long."""
        return (key for key, at_s in self._unheeded_s.items() if now_s - at_s >= patience_s)

    def _is_in_part(self, key: Key) -> bool:
        root = self.composites.objects.get(key)
        tree = self._trees.tree(key[0], root) if root is not None and root.is_gang else None
        if not isinstance(tree, GroupTree) or tree.between:
            return False
        known = self.groups.objects
        scheduled = sum(known[key[0], each.name].is_scheduled for each in tree.leaves)
        return 0 < scheduled < tree.root.least

    def _follow_pods(self, event: StoreEvent[ClusterPod]) -> None:
        if isinstance(event, Listed):
            self._pods, self._of_pod = {}, {}
            for key, pod in event.objects.items():
                self._put(key, pod)
            return
        self._drop(event.key)
        if isinstance(event, Changed):
            self._put(event.key, event.object)

    def _put(self, key: Key, pod: ClusterPod) -> None:
        if isinstance(pod, GangPod) and pod.composite_group is not None:
            self._of_pod[key] = pod.composite_group
            self._pods.setdefault(pod.composite_group, {})[key] = None

    def _drop(self, key: Key) -> None:
        group = self._of_pod.pop(key, None)
        if group is None:
            return
        del self._pods[group][key]
        if not self._pods[group]:
            del self._pods[group]
            self._unheeded_s.pop(group, None)
