"""What is free in a cluster, counted from its objects by whoever knows nothing of the product.

Objects are the JSON of the API. Rules are those of Kubernetes: which pods hold devices and how many
(scheduler), which nodes take pods (Ready, not cordoned, taints).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Document = Mapping[str, Any]
GPUS = ("metax-tech.com/gpu", "nvidia.com/gpu")
SHARED = ("metax-tech.com/sgpu", "volcano.sh/vgpu-number", "tencent.com/vcuda-core")
_FACTORS = {"k": Fraction(1000), "m": Fraction(1, 1000), "Ki": Fraction(1024)}


@dataclass(frozen=True)
class Counted:
    """A node: whole GPUs that pods take which are bound, that wait for pods which are nominated,
    and that a pod without tolerations could get.
    """

    used: int
    held: int
    free: int
    gpu_type: str
    is_tainted: bool
    shared: dict[str, tuple[int, int]]

    def slots(self, gpus: int) -> int:
        """Pods of that size that could start here."""
        return 0 if self.is_tainted else self.free // gpus


def counted(nodes: Iterable[Document], pods: Iterable[Document]) -> dict[str, Counted]:
    """Every node that the cluster lists."""
    bound: Counter[str] = Counter()
    nominated: Counter[str] = Counter()
    parts: dict[str, Counter[str]] = {}
    for pod in pods:
        if (node := _node_of(pod)) is not None:
            whole = bound if pod["spec"].get("nodeName") else nominated
            whole[node] += sum(_taken(pod["spec"], gpu) for gpu in GPUS)
            for resource in SHARED:
                parts.setdefault(node, Counter())[resource] += _taken(pod["spec"], resource)
    return {
        (name := node["metadata"]["name"]): _counted(
            node, (bound[name], nominated[name]), parts.get(name, Counter())
        )
        for node in nodes
    }


def _counted(node: Document, taken: tuple[int, int], parts: Counter[str]) -> Counted:
    allocatable = node["status"].get("allocatable", {})
    shared = {name: _number(allocatable[name]) for name in SHARED if name in allocatable}
    shared = {name: number for name, number in shared.items() if number}
    resource = next((gpu for gpu in GPUS if gpu in allocatable), "")
    gpus = 0 if shared or not resource else _number(allocatable[resource])
    spec = node.get("spec", {})
    is_ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", [])
    )
    is_open = is_ready and not spec.get("unschedulable", False)
    names = {*shared, *(name for name, number in parts.items() if number)}
    used, held = taken
    return Counted(
        used=used,
        held=held,
        free=max(0, gpus - used - held) if is_open else 0,
        gpu_type=node["metadata"].get("labels", {}).get(f"{resource}.product", ""),
        is_tainted=any(t["effect"] != "PreferNoSchedule" for t in spec.get("taints", [])),
        shared={name: (shared.get(name, 0), parts[name]) for name in names},
    )


def _node_of(pod: Document) -> str | None:
    """Where a pod holds what it asks for."""
    status, spec = pod.get("status", {}), pod["spec"]
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    if "deletionTimestamp" in pod["metadata"] or spec.get("schedulingGates"):
        return None
    return status.get("nominatedNodeName") or None


def _taken(spec: Document, resource: str) -> int:
    """All moments in the life of a pod, and the dearest of them."""
    moments, running = [0], 0
    for container in spec.get("initContainers", []):
        asked = _asked(container, resource)
        moments.append(running + asked)
        if container.get("restartPolicy") == "Always":
            running += asked
    moments.append(running + sum(_asked(each, resource) for each in spec["containers"]))
    return max(moments) + _number(spec.get("overhead", {}).get(resource, "0"))


def _asked(container: Document, resource: str) -> int:
    resources = container.get("resources", {})
    limits = resources.get("limits", {})
    return _number(resources.get("requests", {}).get(resource, limits.get(resource, "0")))


def _number(text: str) -> int:
    for suffix, factor in _FACTORS.items():
        if text.endswith(suffix):
            return -int(-(Fraction(text.removesuffix(suffix)) * factor) // 1)
    return -int(-Fraction(text) // 1)
