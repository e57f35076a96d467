"""Nodes of Kubernetes as the API server writes them."""

from typing import Any

GPU = "metax-tech.com/gpu"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


def node_status(gpus: int = 8, **devices: str) -> dict[str, Any]:
    """The status of a node that is Ready and gives pods these devices; also its CPUs as `cpu`."""
    return {"allocatable": {GPU: str(gpus), **devices}, "conditions": [READY]}


def node_manifest(name: str, gpus: int = 8, **parts: dict[str, Any]) -> dict[str, Any]:
    """A node that is Ready; `metadata`, `spec` and `status` are added to its own."""
    own = {"metadata": {"name": name, "labels": {}}, "spec": {}, "status": node_status(gpus)}
    return {part: {**fields, **parts.get(part, {})} for part, fields in own.items()}
