"""What nodes have left beside GPUs, and where that is less than their GPUs could take.

Result: for pods of one shape (GPUs, and amounts of other resources) the nodes on which fewer of
them can be bound than their GPUs alone could take when idle, each with how many can.

Why it is right: kube-scheduler and Volcano bind a pod to a node if for every resource that it asks
for, allocatable minus the sum over the node's pods is enough (NodeResourcesFit). So floor(left /
asked), least over the resources, is how many more such pods fit. A node that states no cpu, memory,
ephemeral-storage or pods is not judged by it: its kubelet has said nothing yet. It has none of any
other resource that it does not state.

Cost: O(1) for a pod or node that changes, and O(resources) for each shape asked for recently, once
it is asked for again; O(nodes) for a new shape.

Example: 8 GPUs and 64 CPUs, 60 of them taken; pods of 4 GPUs and 8 CPUs. The GPUs could take two,
the CPUs take none: the node is tight with 0. When a pod of 56 CPUs ends, it is tight no more.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from topo.model.errors import require
from topo.model.ids import NodeName
from topo.model.pod_requests import PODS, Amounts

SHAPES = 64
"""Shapes that are kept up to date; the one asked for longest ago gives way to a new one."""
PodId = str | int
"""The uid of a pod, or a hash of its key."""
_OF_KUBELET = frozenset({"cpu", "memory", "ephemeral-storage", PODS})
"""Resources that every kubelet states."""


class Tight(NamedTuple):
    """A node that takes `pods` more of a shape, for want of `resource`; while it is idle `most`."""

    pods: int
    most: int
    resource: str


@dataclass(slots=True)
class _Node:
    """The allocatable of a node, its whole GPUs, and what its pods take of the rest."""

    allocatable: Mapping[str, int] = field(default_factory=dict)
    gpus: int = 0
    used: dict[str, int] = field(default_factory=dict)

    @property
    def is_needed(self) -> bool:
        return bool(self.allocatable or self.used)


@dataclass(slots=True)
class _Shape:
    """The tight nodes of a shape, and those that changed since they were worked out."""

    tight: dict[NodeName, Tight] = field(default_factory=dict)
    changed: dict[NodeName, None] = field(default_factory=dict)


class NodeRoom:
    """Nodes and the pods on them. Mutable; one owner. Amounts are thousandths of a unit."""

    def __init__(self) -> None:
        self._nodes: dict[NodeName, _Node] = {}
        self._pods: dict[PodId, tuple[NodeName, Amounts]] = {}
        self._shapes: OrderedDict[tuple[Amounts, int], _Shape] = OrderedDict()
        self._has_grown = False
        self.on_tight: Callable[[], None] | None = None
        """Called when a tight node of a shape that was asked for changes."""

    def set_node(self, name: NodeName, allocatable: Mapping[str, int], gpus: int) -> None:
        """Set what a node has: all of its resources but cards, and its whole GPUs."""
        node = self._nodes.setdefault(name, _Node())
        node.allocatable, node.gpus = allocatable, gpus
        self._touch(name)

    def remove_node(self, name: NodeName) -> None:
        """Remove a node; what its pods take is kept until they are gone."""
        if name in self._nodes:
            self._nodes[name].allocatable, self._nodes[name].gpus = {}, 0
            self._drop_unneeded(name)
            self._touch(name)

    def set_pod(self, uid: PodId, node: NodeName, amounts: Amounts) -> None:
        """Set what a pod takes of a node."""
        if self._pods.get(uid) == (node, amounts):
            return
        self.remove_pod(uid)
        self._pods[uid] = node, amounts
        used = self._nodes.setdefault(node, _Node()).used
        for resource, amount in amounts:
            used[resource] = used.get(resource, 0) + amount
        self._touch(node)

    def remove_pod(self, uid: PodId) -> None:
        """Remove a pod; an unknown one is ignored."""
        node, amounts = self._pods.pop(uid, (NodeName(""), ()))
        if not amounts:
            return
        used = self._nodes[node].used
        for resource, amount in amounts:
            used[resource] -= amount
            if not used[resource]:
                del used[resource]
        self._drop_unneeded(node)
        self._touch(node)

    def tight(
        self, amounts: Amounts, gpus: int, own: Iterable[str] = ()
    ) -> Mapping[NodeName, Tight]:
        """Return the tight nodes for pods of `gpus` GPUs that take these amounts.

        The pods of `own` (uids) count as gone.
        """
        if not amounts:
            return {}
        shape = self._shape(amounts, gpus)
        self._update(shape, amounts, gpus)
        freed: dict[NodeName, dict[str, int]] = {}
        for uid in own:
            node, taken = self._pods.get(uid, (NodeName(""), ()))
            for resource, amount in taken:
                of_node = freed.setdefault(node, {})
                of_node[resource] = of_node.get(resource, 0) + amount
        found = dict(shape.tight) if freed else shape.tight
        for name, more in freed.items():
            _replace(found, name, self._tightness(name, amounts, gpus, more))
        return found

    def take_growth(self) -> bool:
        """Return whether more pods of a shape asked for fit on a tight node than at the last call.

        O(nodes that changed) for each shape.
        """
        for (amounts, gpus), shape in self._shapes.items():
            self._update(shape, amounts, gpus)
        grown, self._has_grown = self._has_grown, False
        return grown

    def validate(self) -> None:
        """Check that what is used is the sum over the pods, and each shape as counted anew."""
        used: dict[NodeName, dict[str, int]] = {}
        for node, amounts in self._pods.values():
            for resource, amount in amounts:
                of_node = used.setdefault(node, {})
                of_node[resource] = of_node.get(resource, 0) + amount
        kept = {name: node.used for name, node in self._nodes.items() if node.used}
        require(kept == used, "the used amounts of a node are not those of its pods")
        for (amounts, gpus), shape in self._shapes.items():
            self._update(shape, amounts, gpus)
            found = {name: self._tightness(name, amounts, gpus) for name in self._nodes}
            tight = {name: each for name, each in found.items() if each is not None}
            require(shape.tight == tight, "the tight nodes of a shape are not those counted anew")

    def _shape(self, amounts: Amounts, gpus: int) -> _Shape:
        key = amounts, gpus
        if key in self._shapes:
            self._shapes.move_to_end(key)
            return self._shapes[key]
        shape = self._shapes[key] = _Shape(changed=dict.fromkeys(self._nodes))
        if len(self._shapes) > SHAPES:
            self._shapes.popitem(last=False)
        return shape

    def _update(self, shape: _Shape, amounts: Amounts, gpus: int) -> None:
        for name in shape.changed:
            before, now = shape.tight.get(name), self._tightness(name, amounts, gpus)
            self._has_grown |= before is not None and (now is None or now.pods > before.pods)
            _replace(shape.tight, name, now)
        shape.changed.clear()

    def _tightness(
        self,
        name: NodeName,
        amounts: Amounts,
        gpus: int,
        freed: Mapping[str, int] = MappingProxyType({}),
    ) -> Tight | None:
        """Return how many pods fit, None for as many as the GPUs of the idle node could take."""
        node = self._nodes.get(name)
        could = node.gpus // gpus if node is not None else 0
        if node is None or not could:
            return None
        least, most, short = could, could, ""
        for resource, asked in amounts:
            has = node.allocatable.get(resource)
            if has is None:
                if resource in _OF_KUBELET:
                    continue
                has = 0
            left = has - node.used.get(resource, 0) + freed.get(resource, 0)
            most = min(most, has // asked)
            if (fit := max(0, left // asked)) < least:
                least, short = fit, resource
        return Tight(least, most, short) if short else None

    def _touch(self, name: NodeName) -> None:
        is_tight = False
        for shape in self._shapes.values():
            shape.changed[name] = None
            is_tight = is_tight or name in shape.tight
        if is_tight and self.on_tight is not None:
            self.on_tight()

    def _drop_unneeded(self, name: NodeName) -> None:
        if not self._nodes[name].is_needed:
            del self._nodes[name]


def _replace(tight: dict[NodeName, Tight], name: NodeName, now: Tight | None) -> None:
    if now is None:
        tight.pop(name, None)
    else:
        tight[name] = now
