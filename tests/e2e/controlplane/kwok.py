"""Kwok plays the kubelets: nodes that are Ready and pods that run, without a container."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.core import LOOPBACK, Files
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.programs import TOOLS, module_folder

HOLD = "e2e/hold"
"""Annotation of a node that kwok must not make Ready again."""
COMPLETE = "e2e/complete"
"""Annotation of a pod that shall end well: its value is `true`."""
REAL_PREFIX = "real-"
"""Pods of namespaces that begin so are left to `tests.e2e.controlplane.kubelet`."""
LEASE_S = 40
_POD_ADDRESSES = "10.200.0.0/16"
_KEPT = {"key": f'.metadata.annotations["{HOLD}"]', "operator": "DoesNotExist"}
_OURS = f'if (.metadata.namespace | startswith("{REAL_PREFIX}")) then "yes" else "no" end'
_NOT_REAL = {"key": _OURS, "operator": "In", "values": ["no"]}
_ASKED = {"key": f'.metadata.annotations["{COMPLETE}"]', "operator": "In", "values": ["true"]}
_OWNER = ".metadata.ownerReferences.[].kind"


def kwok(files: Files, *, lease_s: int = LEASE_S) -> Program:
    """Kwok with its own stages, changed so that tests have a say; more nodes need longer leases."""
    stages = files.home / "stages.yaml"
    stages.write_text(yaml.safe_dump_all(_stages()))
    flags = (
        f"--kubeconfig={files.kubeconfig}",
        f"--config={stages}",
        "--manage-all-nodes=true",
        f"--node-ip={LOOPBACK}",
        f"--node-lease-duration-seconds={lease_s}",
        f"--cidr={_POD_ADDRESSES}",
    )
    return Program("kwok", (str(TOOLS.program("kwok")), *flags), files.log("kwok"))


def _stages() -> Iterator[Any]:
    """Kwok's stages as its module has them, each with our condition.

    The stock `pod-complete` ends every pod of a Job at once; here a pod ends when a test says so.
    """
    folder = module_folder(TOOLS, "sigs.k8s.io/kwok") / "kustomize" / "stage"
    yield _read(folder / "node" / "heartbeat-with-lease" / "node-heartbeat-with-lease.yaml")
    yield _with(_read(folder / "node" / "fast" / "node-initialize.yaml"), _KEPT)
    for name in ("pod-ready", "pod-delete"):
        yield _with(_read(folder / "pod" / "fast" / f"{name}.yaml"), _NOT_REAL)
    yield _with(_read(folder / "pod" / "fast" / "pod-complete.yaml"), _ASKED, instead_of=_OWNER)


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def _with(stage: Any, condition: dict[str, Any], *, instead_of: str | None = None) -> Any:
    selector = stage["spec"]["selector"]
    kept = [each for each in selector["matchExpressions"] if each["key"] != instead_of]
    selector["matchExpressions"] = [*kept, condition]
    return stage
