"""How many devices of each class nodes have left, and how many a pod's claims take.

Result: for a node the free devices of each class, for a pod those that its claims take, both as
amounts of a resource `device class NAME`, so that they are counted as every other resource is. A
class that names an extended resource gives its devices to nodes that do not state that resource.

Why it is right: the scheduler gives a claim devices that no other claim has, that its class
chooses, and that are on the pod's node. So a pod fits only where as many such devices are free as
its claims ask for of each class. That is a lower bound: selectors of a request, constraints between
devices, and parts of one device may need more, and are not judged. A plan that could be bound is
never refused. Nothing is counted of

- classes with an expression that is not read (`master.kube.dra.selectors`);
- classes that choose a device which is of no one node, or which several claims may have;
- requests for all devices, for the first of several kinds, or with tolerations;
- claims that pods name themselves, since several pods may share one.

A pod's claims count from its plan on until they have devices; from then on the devices do. Nothing
is counted before slices, classes, templates and claims were all listed.

Cost: O(devices of the node x classes) for a node that changes, O(1) for a pod.

Example: a node with 4 devices of `nics`, one of which a claim has. It has 3 of `device class nics`;
of pods whose template asks for two of them one fits.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from master.kube.dra.claims import ClaimTemplate, DeviceClaim, DeviceClass, DeviceId
from master.kube.dra.slices import DeviceSlice, PublishedDevice, newest
from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key
from master.kube.reflector import Changed, Listed, Removed, StoreEvent
from master.kube.store import Store
from topo.model.ids import NodeName
from topo.model.pod_requests import DEVICE_CLASS, Amounts

_IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""With the name of a class behind it, the extended resource by which pods may name any class."""
_UNIT = 1000
Changes = Callable[[Iterable[NodeName], Iterable[Key] | None], None]
"""Takes the nodes of which other devices are free, and the pods of such claims, None for all."""


IsBooked = Callable[[Key, NodeName], bool]
"""Returns whether the devices that a pod claims are booked as GPUs of a node."""


def _never(_pod: Key, _node: NodeName) -> bool:
    return False


class NodeDevices(NamedTuple):
    """Devices of a node by class, in thousandths: all of them, and those that claims have."""

    there: Mapping[str, int]
    taken: Amounts


class DeviceCounts:
    """Devices by node, and who has them. Mutable; one owner."""

    def __init__(
        self,
        slices: Store[DeviceSlice],
        classes: Store[DeviceClass],
        templates: Store[ClaimTemplate],
        claims: Store[DeviceClaim],
    ) -> None:
        self._slices, self._classes, self._claims = slices, classes, claims
        self.templates = templates
        self._by_node: dict[NodeName, dict[Key, DeviceSlice]] = {}
        self._nodes: dict[Key, NodeName] = {}
        self._of_pool: dict[tuple[str, str], NodeName] = {}
        """The node of each pool."""
        self._open: dict[Key, DeviceSlice] = {}
        """Slices with devices that are of no one node, or that several claims may have."""
        self._taken: dict[DeviceId, DeviceClaim] = {}
        self._kept: dict[Key, DeviceClaim] = {}
        self._counted: dict[str, bool] = {}
        self.on_change: list[Changes] = []
        self.on_classes: list[Callable[[], None]] = []
        """Called when another class or template may count: pods may take other amounts."""
        slices.subscribe(self._follow_slices)
        claims.subscribe(self._follow_claims)
        classes.subscribe(self._follow_classes)
        templates.subscribe(self._follow_templates)

    @property
    def classes(self) -> Mapping[Key, DeviceClass]:
        """All classes of devices."""
        return self._classes.objects

    @property
    def claims(self) -> Mapping[Key, DeviceClaim]:
        """All claims."""
        return self._claims.objects

    @property
    def is_known(self) -> bool:
        """Whether devices are counted."""
        stores = (self._slices, self._classes, self.templates, self._claims)
        return all(each.synced for each in stores)

    def of_node(self, node: NodeName) -> NodeDevices:
        """Return the devices of a node by class, and those that claims have."""
        slices = self._slices_of(node)
        there: dict[str, int] = {}
        taken: dict[str, int] = {}
        for found in self._counted_classes() if slices else ():
            resource = f"{DEVICE_CLASS}{found.metadata.name}"
            devices = list(_devices(slices, found))
            there[resource] = _UNIT * len(devices)
            taken[resource] = _UNIT * sum(device in self._taken for device in devices)
        return NodeDevices(there, tuple(sorted(each for each in taken.items() if each[1])))

    def extended(
        self, node: NodeName, stated: Container[str], is_booked: IsBooked = _never
    ) -> dict[str, str]:
        """Return the extended resources beside the stated ones that classes give a node.

        A device that a claim for such a resource has is not free, and the pod takes the resource:
        so it is among those that the node has. So is that of a claim whose pod `is_booked` with it
        on that node. O(devices x classes).
        """
        slices = self._slices_of(node)
        found: dict[str, str] = {}
        for each in self._counted_classes() if slices else ():
            new = [name for name in resources_of(each) if name not in stated]
            devices = _devices(slices, each) if new else ()
            number = sum(self._is_booked(device, node, is_booked) for device in devices)
            found |= dict.fromkeys(new, str(number))
        return found

    def asked(self, pod: ClusterPod) -> Amounts:
        """Return the devices that the pod's claims take at least; sorted by their names."""
        return self._sum(pod, [template for template, _ in device_claims_of(pod)])

    def unallocated(self, pod: ClusterPod) -> Amounts:
        """Return the devices of `asked` of those claims that have none yet."""
        namespace = pod.metadata.namespace
        waiting = []
        for template, name in device_claims_of(pod):
            claim = self._claims.objects.get((namespace, name)) if name else None
            if claim is None or not claim.devices:
                waiting.append(template)
        return self._sum(pod, waiting)

    def _sum(self, pod: ClusterPod, templates: Sequence[str]) -> Amounts:
        if not (templates and self.is_known):
            return ()
        found: dict[str, int] = {}
        for name in templates:
            template = self.templates.objects.get((pod.metadata.namespace, name))
            for of_class, count in template.devices if template is not None else ():
                known = self._classes.objects.get(("", of_class))
                if known is not None and self.is_counted(known):
                    resource = f"{DEVICE_CLASS}{of_class}"
                    found[resource] = found.get(resource, 0) + _UNIT * count
        return tuple(sorted(found.items()))

    def _slices_of(self, node: NodeName) -> tuple[DeviceSlice, ...]:
        """Return the slices of a node that count; none before all is known."""
        slices = self._by_node.get(node)
        return tuple(newest(slices.values())) if slices and self.is_known else ()

    def _counted_classes(self) -> Iterator[DeviceClass]:
        return (each for each in self._classes.objects.values() if self.is_counted(each))

    def is_counted(self, found: DeviceClass) -> bool:
        """Return whether the devices of a class are counted by node."""
        name = found.metadata.name
        if name not in self._counted:
            self._counted[name] = found.selection is not None and not any(
                _is_open(each, device) and found.selection.has(each.driver, device.facts)
                for each in newest(self._open.values())
                for device in each.devices
            )
        return self._counted[name]

    def _is_booked(self, device: DeviceId, node: NodeName, is_booked: IsBooked) -> bool:
        """Return whether a device is free, or its pod takes it as a resource of the node."""
        claim = self._taken.get(device)
        if claim is None or claim.is_of_resources:
            return True
        return any(is_booked(pod, node) for pod in claim.pods)

    # What the reflectors tell

    def _follow_slices(self, event: StoreEvent[DeviceSlice]) -> None:
        if isinstance(event, Listed):
            before = [*self._by_node]
            self._by_node, self._nodes, self._open, self._of_pool = {}, {}, {}, {}
            for key, found in event.objects.items():
                self._add(key, found)
            self._change_all(before)
            return
        nodes = {self._nodes.get(event.key)}
        was_open = self._open.pop(event.key, None) is not None
        self._remove(event.key, event.object)
        if isinstance(event, Changed):
            self._add(event.key, event.object)
        nodes.add(self._nodes.get(event.key))
        if was_open or event.key in self._open:
            self._change_all(nodes)
        else:
            self._change(nodes, ())

    def _remove(self, key: Key, found: DeviceSlice) -> None:
        """Forget a slice, and where its pool was if no other slice of it is there."""
        node = self._nodes.pop(key, None)
        if node is None:
            return
        left, pool = self._by_node[node], (found.driver, found.pool)
        del left[key]
        if self._of_pool.get(pool) == node and pool not in map(_pool, left.values()):
            del self._of_pool[pool]
        if not left:
            del self._by_node[node]

    def _add(self, key: Key, found: DeviceSlice) -> None:
        if any(_is_open(found, device) for device in found.devices):
            self._open[key] = found
        if found.node:
            self._nodes[key] = found.node
            self._by_node.setdefault(found.node, {})[key] = found
            self._of_pool[_pool(found)] = found.node

    def _follow_claims(self, event: StoreEvent[DeviceClaim]) -> None:
        if isinstance(event, Listed):
            self._taken, self._kept = {}, {}
            for key, found in event.objects.items():
                self._take(key, found)
            self._change_all()
            return
        before = self._kept.pop(event.key, None)
        for device in before.devices if before is not None else ():
            if self._taken.get(device) is before:
                del self._taken[device]
        now = None if isinstance(event, Removed) else event.object
        if now is not None:
            self._take(event.key, now)
        both = [each for each in (before, now) if each is not None]
        nodes = {self._of_pool.get(device[:2]) for each in both for device in each.devices}
        self._change(nodes, {pod for each in both for pod in each.pods})

    def _take(self, key: Key, found: DeviceClaim) -> None:
        if found.devices:
            self._kept[key] = found
            self._taken |= dict.fromkeys(found.devices, found)

    def _follow_classes(self, _event: StoreEvent[DeviceClass]) -> None:
        self._change_all()

    def _follow_templates(self, event: StoreEvent[ClaimTemplate]) -> None:
        if isinstance(event, Listed):
            self._change_all()

    def _change_all(self, more: Iterable[NodeName | None] = ()) -> None:
        """Tell that all nodes with devices may have others, and `more`, which had some."""
        self._counted = {}
        self._change({*self._by_node, *more}, None)
        for listener in self.on_classes:
            listener()

    def _change(self, nodes: Iterable[NodeName | None], pods: Iterable[Key] | None) -> None:
        named = [each for each in nodes if each is not None]
        for listener in self.on_change:
            listener(named, pods)


def with_devices(takes: Amounts, devices: Amounts) -> Amounts:
    """Return what a pod takes, with the devices of its claims."""
    return tuple(sorted((*takes, *devices))) if devices else takes


def device_claims_of(pod: ClusterPod) -> tuple[tuple[str, str], ...]:
    """Return the template and the claim of each claim of devices of a pod."""
    return pod.device_claims if isinstance(pod, GangPod) else ()


def resources_of(found: DeviceClass) -> tuple[str, ...]:
    """Return the extended resources by which pods may name devices of a class."""
    implicit = f"{_IMPLICIT}{found.metadata.name}"
    return (implicit, found.extended_resource) if found.extended_resource else (implicit,)


def _devices(slices: Iterable[DeviceSlice], of_class: DeviceClass) -> Iterator[DeviceId]:
    """Yield the devices of a class in these slices that its driver lets claims have."""
    selection = of_class.selection
    if selection is None:
        return
    for each in slices:
        for device in each.devices:
            if not device.is_tainted and selection.has(each.driver, device.facts):
                yield each.driver, each.pool, device.name


def _pool(found: DeviceSlice) -> tuple[str, str]:
    return found.driver, found.pool


def _is_open(found: DeviceSlice, device: PublishedDevice) -> bool:
    """Return whether a device is of no one node, or several claims may have it."""
    return not found.node or device.is_shared
