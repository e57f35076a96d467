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
from functools import partial

from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key
from master.kube.reflector import StoreEvent
from master.kube.schedulers.composite_groups import CompositeGroupObject, GroupTrees
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from master.kube.store import Grouped, Store, updates
from master.object_errors import ObjectErrors, ObjectKind
from topo.gangs.group_tree import GroupTree


@dataclass(kw_only=True)
class CompositeReports:
    """The CompositePodGroups that pods of gangs are below. Mutable; one owner."""

    groups: Store[SchedulingGroupObject]
    composites: Store[CompositeGroupObject]
    pods: Store[ClusterPod]
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects whose comparison raised an error."""
    _pods: Grouped[Key, None] = field(default_factory=Grouped, init=False)
    """The pods below each group."""
    _unheeded_s: dict[Key, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._trees = GroupTrees(self.groups, self.composites)
        self._errors = self.errors.scope(ObjectKind.OBJECT, "CompositePodGroup")
        self.pods.subscribe(self._follow_pods)

    def look(self, now_s: float) -> None:
        """Note the groups of which fewer PodGroups than they need were scheduled, yet some."""
        self._errors.retain({"/".join(key) for key in self._pods})
        for key in self._pods:
            if self._errors.run("/".join(key), partial(self._is_in_part, key)) is True:
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
        for key, pod in updates(event, self._pods.keys):
            before = self._pods.group_of(key)
            now = pod.composite_group if isinstance(pod, GangPod) else None
            if now is not None:
                self._pods.put(key, now, None)
            else:
                self._pods.drop(key)
            if before is not None and before not in self._pods:
                self._unheeded_s.pop(before, None)
