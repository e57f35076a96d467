"""The next step for a code that a master gives: that of the catalogue, or one for a mode or source.

A code of a later release is in no catalogue: it is shown with the general step.
"""

from collections.abc import Mapping

from topo.model.conditions import catalogue
from topo.model.conditions.condition import Severity
from topo.model.conditions.tree import NodeCondition
from topo.model.observation import CLUSTER_MANAGER, CLUSTER_NODES, CONFIG_FILE, FABRIC, WORKERS

GENERAL_STEP = "`topo node NODE` shows what is known"
GENERAL_SOURCE_STEP = "look at the master's log"
CONFLICT_STEP = "decide which of the two holds, and mend the other"

_BY_MODE: Mapping[str, str] = {
    "nvlink": "start the master with --mode=dragonfly (switchbox beside a cluster manager); "
    "`auto` follows what each node has",
}
"""The step of `other-fabric` in the modes that do not wait for MetaXLink."""
_WITHOUT_NVLINK = "start the master with --mode=nvlink; `auto` follows what each node has"

WAITING: Mapping[str, str] = {
    CLUSTER_MANAGER: "it is being asked: its answer, or what is wrong with it, comes in seconds",
    CONFIG_FILE: "it is being read: ask again in a moment",
    FABRIC: "the dumps are being read: ask again in a moment",
    CLUSTER_NODES: "Kubernetes is being asked: may the master's service account list and watch "
    "nodes and pods? its log says what is wrong",
    WORKERS: "start topo-worker on every node; the port of its --server-address is the master's "
    "--rpc-server-port (10001 unless set); in Kubernetes `topo doctor --kubeconfig FILE` says "
    "which label its nodes lack",
}
"""The step while a source has not answered yet, by source."""
FAILING: Mapping[str, str] = {
    CLUSTER_MANAGER: "check --cluster-manager-address, its CA file and /secret; see its log",
    CONFIG_FILE: "mend the file: the trouble above names the place",
    FABRIC: "write the output of `ibnetdiscover` into a file in --fabric-dir, one for each subnet",
    CLUSTER_NODES: "does the API server answer, and may the master's service account list and "
    "watch nodes and pods? what was known stays until then",
}
"""The step while a source fails and names none itself, by source."""


def step(code: str, node: str, mode: str) -> str:
    """Return the next step for a code in a mode; `node` is the first node that it concerns."""
    if code == NodeCondition.OTHER_FABRIC:
        return _BY_MODE.get(mode, _WITHOUT_NVLINK)
    condition = catalogue.CONDITIONS.get(code)
    text = GENERAL_STEP if condition is None else condition.step or GENERAL_STEP
    return text.replace("NODE", node)


def source_step(code: str) -> str:
    """Return the next step for the warning of a source."""
    condition = catalogue.CONDITIONS.get(code)
    return GENERAL_SOURCE_STEP if condition is None else condition.step


def severity(code: str, of_unknown: Severity) -> Severity:
    """Return the severity of a code, `of_unknown` for one of a later release."""
    condition = catalogue.CONDITIONS.get(code)
    return of_unknown if condition is None else condition.severity
