"""What kube-apiserver checks when a pod is created, changed, bound or nominated.

Only the rules that placement meets: gates are removed and never added, a selector of a gated pod
only grows, all else of a pod's spec but its tolerations stays, and a gated pod is not bound.
Source: `ValidatePodUpdate` and `assignPod` of Kubernetes v1.36 (`pkg/apis/core/validation`,
`pkg/registry/core/pod/storage`); the messages are theirs in short.
"""

from collections.abc import Mapping
from typing import Any

from topo.sim.kubernetes.apiserver.statuses import conflict, invalid

_MAY_CHANGE = frozenset({"schedulingGates", "nodeSelector", "tolerations", "affinity"})


def prepare_pod(pod: dict[str, Any]) -> None:
    """Set what the API server sets on a new pod; a status that came with it is dropped."""
    spec = pod.setdefault("spec", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if not spec.get("containers"):
        raise invalid("spec.containers: Required value")
    pod["status"] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        gated["message"] = "Scheduling is blocked due to non-empty scheduling gates"
        pod["status"]["conditions"] = [gated]


def check_pod(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise `RefusedError` where a change of a pod breaks a rule."""
    before, after = old.get("spec", {}), new.get("spec", {})
    for name in (before.keys() | after.keys()) - _MAY_CHANGE:
        if before.get(name) != after.get(name):
            raise invalid(f"spec.{name}: Forbidden: pod updates may not change this field")
    gates = _gates(before)
    if added := _gates(after) - gates:
        what = f"only deletion is allowed, but found new scheduling gate '{min(added)}'"
        raise invalid(f"spec.schedulingGates: Forbidden: {what}")
    _check_selector(before, after, is_gated=bool(gates))
    nominated = new.get("status", {}).get("nominatedNodeName")
    if nominated and after.get("nodeName") and nominated != _nominated(old):
        raise invalid("status.nominatedNodeName: Forbidden: may not be changed: the pod is bound")


def bind(pod: dict[str, Any], binding: Mapping[str, Any], now: str) -> None:
    """Bind a pod to the node of a `Binding`. Raises `RefusedError`."""
    metadata, spec = pod["metadata"], pod["spec"]
    node = (binding.get("target") or {}).get("name")
    if not node:
        raise invalid("target.name: Required value")
    if "deletionTimestamp" in metadata:
        raise conflict(f"pod {metadata['name']} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict(f"pod {metadata['name']} is already assigned to node {spec['nodeName']!r}")
    if spec.get("schedulingGates"):
        raise conflict(f"pod {metadata['name']} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    others = [each for each in status.get("conditions", ()) if each["type"] != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    status["conditions"] = [*others, scheduled]


def _check_selector(before: Mapping[str, Any], after: Mapping[str, Any], *, is_gated: bool) -> None:
    old, new = before.get("nodeSelector") or {}, after.get("nodeSelector") or {}
    if old == new:
        return
    if not is_gated:
        raise invalid("spec.nodeSelector: Forbidden: pod updates may not change this field")
    if not old.items() <= new.items():
        what = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        raise invalid(f"spec.nodeSelector: Invalid value: {what}")


def _gates(spec: Mapping[str, Any]) -> set[str]:
    return {each["name"] for each in spec.get("schedulingGates") or ()}


def _nominated(pod: Mapping[str, Any]) -> str | None:
    found: str | None = pod.get("status", {}).get("nominatedNodeName")
    return found
