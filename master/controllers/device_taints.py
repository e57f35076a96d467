"""DeviceTaintRules for GPUs that are judged broken, so that no claim of a pod gets one of them.

The judgement is that of the tree, with its hysteresis (`topo/discovery/node/health`). A broken GPU
is found among the devices that drivers publish by its UUID, else by its PCI address; a part of a
GPU goes with it. The rule is withdrawn when the GPU is judged well, when its driver publishes no
such device any more, or with its node. It stays while nothing is known of its GPU, as after a
restart, or where a worker no longer sees the GPU: silence heals nothing. Slices are read and never
written: they belong to their drivers.

Cost: O(GPUs + rules) for a comparison, after a change of the forest, of slices or of rules.

Example: node n1, GPU 3 unhealthy, UUID GPU-3; driver gpu.nvidia.com publishes device gpu-3 of it.
    judged broken       → rule for (gpu.nvidia.com, n1, gpu-3), effect as the setting says
    the master restarts → the rule is ours by its label, and stays until the worker speaks
    judged well         → the rule is deleted
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, NamedTuple

import prometheus_client as prom

from master.controllers.controller import ChangedNames
from master.controllers.hypernodes import PRODUCT, managed_by
from master.kube.dra.slices import DeviceSlice, PublishedDevice, newest
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES, DeviceTaintRuleObject
from master.kube.objects import NodeObject
from master.kube.reflector import StoreEvent
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, Delete, WriteTarget
from master.object_errors import ObjectErrors, ObjectKind
from topo.discovery.node.record import JudgedGpu
from topo.kit.metrics import gauge
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError
from topo.model.machine import Gpu

MANAGER = f"{MANAGER_PREFIX}device-taints"
_NAME_CHARS = 16
AT_ONCE = 500
"""Nodes that are looked at before other tasks of the event loop run: about 2 ms."""
MOST_RULES = 1000
"""Rules at once. So many broken GPUs are rather a fault of what judges them."""

JudgedGpus = Callable[[NodeName], tuple[JudgedGpu, ...] | None]
"""Returns the GPUs that a node's worker sees; None while nothing is known of the node."""


class PublishedAs(NamedTuple):
    """How a driver calls a device; no two have one of these."""

    driver: str
    pool: str
    device: str


Published = dict[NodeName, dict[PublishedAs, PublishedDevice]]
"""The devices that drivers publish now, by node."""


@dataclass(eq=False)
class DeviceTaintComparer:
    """Keeps one rule for each device that is a broken GPU or a part of one."""

    slices: Store[DeviceSlice]
    rules: Store[DeviceTaintRuleObject]
    nodes: Store[NodeObject]
    writer: Writer
    _: KW_ONLY
    judged: JudgedGpus
    effect: str
    domain: str
    registry: prom.CollectorRegistry
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects whose comparison raised an error."""
    _wanted: Mapping[str, Apply] = field(default_factory=dict)
    _published: Published | None = None
    """Of the slices as they are now; None after a change."""
    _complete: frozenset[tuple[str, str]] = frozenset()
    """The pools of which all slices are there, by driver and name."""

    def __post_init__(self) -> None:
        gauge(self.registry, "topo_master_device_taints", lambda: len(self._wanted))
        self.slices.subscribe(self._forget_published)
        self._errors = self.errors.scope(ObjectKind.WRITE, "device taints of node")
        self._rule_errors = self.errors.scope(ObjectKind.WRITE, "DeviceTaintRule")

    @property
    def _node_key(self) -> str:
        return f"{self.domain}/node"

    async def compare(self, _names: ChangedNames) -> None:
        """Request the writes of what differs."""
        if not (self.slices.synced and self.rules.synced):
            return
        if self._published is None:
            self._published = self._read_published()
        self._wanted = await self._wanted_rules(self._published)
        ours = {
            name: found
            for (_, name), found in self.rules.objects.items()
            if found.metadata.labels.get(managed_by(self.domain)) == PRODUCT
        }
        for name, write in self._wanted.items():
            if name not in ours or not _is_as_wanted(ours[name], write):
                self.writer.put(write)
        for name, found in ours.items():
            if name in self._wanted:
                self._rule_errors.clear(name)
            elif self._rule_errors.run(name, partial(self._is_over, found)) is True:
                target = WriteTarget(DEVICE_TAINT_RULES, name)
                self.writer.put(Delete(target=target, manager=MANAGER, uid=found.metadata.uid))
        self._rule_errors.retain(ours.keys())

    def _forget_published(self, _event: StoreEvent[DeviceSlice]) -> None:
        self._published = None

    def _read_published(self) -> Published:
        """Return the devices by node, from the slices of the newest generation of each pool."""
        found: Published = {}
        slices = tuple(newest(self.slices.objects.values()))
        there = Counter((each.driver, each.pool) for each in slices)
        self._complete = frozenset(
            (each.driver, each.pool)
            for each in slices
            if there[each.driver, each.pool] >= each.slices
        )
        for each in slices:
            if each.node:
                of_node = found.setdefault(each.node, {})
                for device in each.devices:
                    of_node[PublishedAs(each.driver, each.pool, device.name)] = device
        return found

    async def _wanted_rules(self, published: Published) -> Mapping[str, Apply]:
        """Return the rules of broken GPUs by name, at most `MOST_RULES`."""
        found: dict[str, Apply] = {}
        for number, (node, devices) in enumerate(published.items(), 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            rules = self._errors.run(node, partial(self._rules_of, node, devices))
            for name, rule in () if isinstance(rules, ObjectError) else rules.items():
                if len(found) < MOST_RULES:
                    found[name] = rule
        self._errors.retain(published.keys())
        return found

    def _rules_of(
        self, node: NodeName, devices: Mapping[PublishedAs, PublishedDevice]
    ) -> dict[str, Apply]:
        broken = [each.gpu for each in self.judged(node) or () if each.is_broken]
        return {
            _name(key): self._rule(key, node)
            for key, device in (devices.items() if broken else ())
            if any(_is_of(device, gpu) for gpu in broken)
        }

    def _is_over(self, found: DeviceTaintRuleObject) -> bool:
        """Whether a rule that is not wanted is to go."""
        node = NodeName(found.metadata.annotations.get(self._node_key, ""))
        stated = found.spec.device_selector
        devices = (self._published or {}).get(node, {})
        device = devices.get(PublishedAs(stated.driver, stated.pool, stated.device))
        if device is not None:
            gpus = [each for each in self.judged(node) or () if _is_of(device, each.gpu)]
            return bool(gpus) and not any(each.is_broken for each in gpus)
        pool = stated.driver, stated.pool
        is_known = pool in self._complete and any(each[:2] == pool for each in devices)
        return is_known or ("", node) not in self.nodes.objects

    def _rule(self, selector: PublishedAs, node: NodeName) -> Apply:
        fields: dict[str, Any] = {
            "metadata": {
                "labels": {managed_by(self.domain): PRODUCT},
                "annotations": {self._node_key: node},
            },
            "spec": {
                "deviceSelector": selector._asdict(),
                "taint": {"key": f"{self.domain}/gpu-unhealthy", "effect": self.effect},
            },
        }
        target = WriteTarget(DEVICE_TAINT_RULES, _name(selector))
        return Apply(target=target, manager=MANAGER, uid="", fields=fields, force=True)


def _is_as_wanted(found: DeviceTaintRuleObject, write: Apply) -> bool:
    taint, wanted = found.spec.taint, write.fields["spec"]["taint"]
    return (taint.key, taint.effect) == (wanted["key"], wanted["effect"])


def _is_of(device: PublishedDevice, gpu: Gpu) -> bool:
    """Return whether the device is the GPU or a part of it; the UUID decides if both have one."""
    if gpu.uuid and device.uuids:
        return gpu.uuid in device.uuids
    return bool(gpu.bdf) and str(gpu.bdf).lower() in device.addresses


def _name(selector: PublishedAs) -> str:
    """Return the name of the rule of a device, the same under every leader."""
    text = "\0".join(selector)
    return f"topo-{hashlib.sha256(text.encode()).hexdigest()[:_NAME_CHARS]}"
