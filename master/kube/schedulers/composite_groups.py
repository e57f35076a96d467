"""CompositePodGroup of Kubernetes (1.37, alpha): groups of PodGroups that are bound all or none.

It is served only where `scheduling.k8s.io/v1alpha3` and the gate CompositePodGroup are switched on.
Each group names its parent, so the trees are kept here by parent: a pod that is created asks for
the whole tree of its PodGroup. Source: `k8s.io/api/scheduling/v1alpha3/types.go` of v0.37.

Cost: O(1) for a group that changes; for a tree O(its groups).
"""

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Generic, TypeVar

from master.kube.objects import Key, KubeObject, Metadata, Resource
from master.kube.reflector import Changed, Listed, StoreEvent
from master.kube.schedulers.scheduling_groups import (
    GroupSpec,
    SchedulingGroupObject,
    SchedulingGroupStatus,
)
from master.kube.schema.slim import slim
from master.kube.store import Store
from topo.gangs.group_tree import MAX_DEPTH, GroupTree, TreeGroup, group_tree
from topo.model.errors import Refusal

T = TypeVar("T", bound=KubeObject)


@slim
class CompositeGangPolicy:
    """All or none: at least `min_group_count` of the child groups are bound together."""

    min_group_count: int = 1


@slim
class CompositePolicy:
    """How the child groups are bound; without `gang` each for itself."""

    gang: CompositeGangPolicy | None = None


@slim
class CompositeGroupSpec(GroupSpec):
    """The spec of a group of groups, with its policy."""

    scheduling_policy: CompositePolicy = field(default_factory=CompositePolicy)


@slim
class CompositeGroupObject:
    """A CompositePodGroup."""

    metadata: Metadata
    spec: CompositeGroupSpec = field(default_factory=CompositeGroupSpec)
    status: SchedulingGroupStatus = field(default_factory=SchedulingGroupStatus)

    @property
    def is_gang(self) -> bool:
        """Whether its child groups are bound all or none."""
        return self.spec.scheduling_policy.gang is not None


COMPOSITE_GROUPS = Resource(
    "scheduling.k8s.io/v1alpha3", "CompositePodGroup", "compositepodgroups", CompositeGroupObject
)


class GroupTrees:
    """PodGroups and CompositePodGroups by parent. Mutable; it follows both stores."""

    def __init__(
        self, groups: Store[SchedulingGroupObject], composites: Store[CompositeGroupObject]
    ) -> None:
        self._groups, self._composites = groups, composites
        self._leaves = _ByParent[SchedulingGroupObject](_parent_of)
        self._between = _ByParent[CompositeGroupObject](_parent_of)
        groups.subscribe(self._leaves.follow)
        composites.subscribe(self._between.follow)

    def root_of(self, namespace: str, parent: str) -> CompositeGroupObject | None:
        """Return the root above a group with this parent; None while a group is not there.

        None as well for more levels than there may be, as where a group is its own ancestor.
        """
        for _ in range(MAX_DEPTH):
            found = self._composites.objects.get((namespace, parent))
            if found is None or not found.spec.parent_composite_pod_group_name:
                return found
            parent = found.spec.parent_composite_pod_group_name
        return None

    def tree(self, namespace: str, root: CompositeGroupObject) -> GroupTree | Refusal | None:
        """Return the tree below a root; None while a group that it needs is not there."""
        children: dict[str, list[TreeGroup]] = {}
        names = [root.metadata.name]
        while names:
            name = names.pop()
            between = [self._composites.objects[key] for key in self._between.of(namespace, name)]
            leaves = [self._groups.objects[key] for key in self._leaves.of(namespace, name)]
            children[name] = [*map(_composite, between), *map(_leaf, leaves)]
            names += [each.metadata.name for each in between if each.metadata.name not in children]
        return group_tree(_composite(root), children)


class _ByParent(Generic[T]):
    """The keys of objects by the name of their parent, in each namespace."""

    def __init__(self, parent_of: Callable[[T], str]) -> None:
        self._parent_of = parent_of
        self._children: dict[Key, dict[Key, None]] = {}
        self._parents: dict[Key, Key] = {}

    def of(self, namespace: str, parent: str) -> Iterable[Key]:
        """Return the keys of the children of a parent."""
        return tuple(self._children.get((namespace, parent), ()))

    def follow(self, event: StoreEvent[T]) -> None:
        """Take up what a reflector tells."""
        if isinstance(event, Listed):
            self._children, self._parents = {}, {}
            for key, found in event.objects.items():
                self._put(key, found)
        else:
            self._drop(event.key)
            if isinstance(event, Changed):
                self._put(event.key, event.object)

    def _put(self, key: Key, found: T) -> None:
        if parent := self._parent_of(found):
            self._parents[key] = key[0], parent
            self._children.setdefault((key[0], parent), {})[key] = None

    def _drop(self, key: Key) -> None:
        if (parent := self._parents.pop(key, None)) is not None:
            children = self._children[parent]
            del children[key]
            if not children:
                del self._children[parent]


def _parent_of(found: SchedulingGroupObject | CompositeGroupObject) -> str:
    return found.spec.parent_composite_pod_group_name


def _leaf(found: SchedulingGroupObject) -> TreeGroup:
    return TreeGroup(
        name=found.metadata.name,
        is_leaf=True,
        least=found.min_count,
        is_gang=found.is_gang,
        topology_key=found.spec.topology_key,
        created_s=found.metadata.created_s,
    )


def _composite(found: CompositeGroupObject) -> TreeGroup:
    gang = found.spec.scheduling_policy.gang
    return TreeGroup(
        name=found.metadata.name,
        is_leaf=False,
        least=gang.min_group_count if gang is not None else 1,
        is_gang=gang is not None,
        topology_key=found.spec.topology_key,
        created_s=found.metadata.created_s,
    )
