"""DeviceTaintRules: taints of devices that their driver did not set.

Source: `k8s.io/api/resource/v1/types.go` of v0.37.
"""

from dataclasses import field

from master.kube.dra.slices import DRA_VERSION
from master.kube.objects import Metadata, Resource
from master.kube.schema.slim import slim


@slim
class DeviceSelector:
    """The one device that a rule of ours is about."""

    driver: str = ""
    pool: str = ""
    device: str = ""


@slim
class DeviceTaint:
    """A taint; `effect` is None, NoSchedule or NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""


@slim
class DeviceTaintRuleSpec:
    """Which devices have which taint."""

    device_selector: DeviceSelector = field(default_factory=DeviceSelector)
    taint: DeviceTaint = field(default_factory=DeviceTaint)


@slim
class DeviceTaintRuleObject:
    """A taint of devices that their driver did not set."""

    metadata: Metadata
    spec: DeviceTaintRuleSpec = field(default_factory=DeviceTaintRuleSpec)


DEVICE_TAINT_RULES = Resource(
    DRA_VERSION, "DeviceTaintRule", "devicetaintrules", DeviceTaintRuleObject, namespaced=False
)
