"""A model of a cluster with devices, and what is counted of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from master.kube.dra.claims import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    claim_template,
    device_claim,
    device_class,
)
from master.kube.dra.counts import DeviceCounts
from master.kube.dra.slices import RESOURCE_SLICES, device_slice
from master.kube.objects import parsed
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore

DRIVER = "nic.example.com"


def counts(api: ApiModel, *, synced: bool = True, delay_s: float = 0.0) -> DeviceCounts:
    """The devices of a model; they are all listed, or the server lacks templates."""
    return DeviceCounts(
        ModelStore(api, parsed(RESOURCE_SLICES, device_slice), delay_s=delay_s),
        ModelStore(api, parsed(DEVICE_CLASSES, device_class), delay_s=delay_s),
        ModelStore(api, parsed(CLAIM_TEMPLATES, claim_template), delay_s=delay_s, synced=synced),
        ModelStore(api, parsed(RESOURCE_CLAIMS, device_claim), delay_s=delay_s),
    )


def nic(name: str, kind: str = "cx7", **more: Any) -> dict[str, Any]:
    """A device of a kind."""
    attributes = {"kind": {"string": kind}, "mac": {"string": f"02:{name}"}}
    return {"name": name, "attributes": attributes, **more}


def exactly(of_class: str, count: int = 1, **more: Any) -> dict[str, Any]:
    """A request of a claim."""
    return {"name": "r", "exactly": {"deviceClassName": of_class, "count": count, **more}}


@dataclass
class DeviceWorld:
    """Drivers, administrators, users and a scheduler, who write to the model."""

    api: ApiModel = field(default_factory=ApiModel)

    def publish(
        self, node: str, devices: Sequence[Any], *, generation: int = 1, name: str = ""
    ) -> None:
        """The driver publishes devices of a node, or of none where that is empty."""
        pool = {"name": node or "fabric", "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": list(devices)}
        self._put(RESOURCE_SLICES, name or f"slice-{node}-{generation}", spec=spec)

    def withdraw(self, node: str, generation: int = 1) -> None:
        """The driver removes a slice."""
        self.api.remove(RESOURCE_SLICES, f"slice-{node}-{generation}")

    def define(self, name: str, *expressions: str, resource: str = "") -> None:
        """A class of devices."""
        chosen = [{"cel": {"expression": each}} for each in expressions]
        spec = {"selectors": chosen, "extendedResourceName": resource}
        self._put(DEVICE_CLASSES, name, spec=spec)

    def template(self, name: str, *requests: Any) -> None:
        """A template of claims."""
        spec = {"spec": {"devices": {"requests": list(requests)}}}
        self._put(CLAIM_TEMPLATES, name, "jobs", spec=spec)

    def allocate(
        self, claim: str, node: str, devices: Iterable[str], pod: str = "", **more: Any
    ) -> None:
        """The scheduler gives a claim devices of a node."""
        results = [{"driver": DRIVER, "pool": node, "device": each, **more} for each in devices]
        used_by = [{"resource": "pods", "name": pod, "uid": pod}] if pod else []
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": used_by}
        self._put(RESOURCE_CLAIMS, claim, "jobs", status=status)

    def deallocate(self, claim: str) -> None:
        """The claim is deleted."""
        self.api.remove(RESOURCE_CLAIMS, claim, "jobs")

    def _put(self, resource: Any, name: str, namespace: str = "", **parts: Any) -> None:
        self.api.add(resource, name, metadata={"namespace": namespace}, **parts)
