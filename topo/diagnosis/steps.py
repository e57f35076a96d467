"""The next step for every code that a master gives.

Codes are those of `topo.discovery` and of the sources; one that is not here is shown with the
general step, so a newer master loses nothing but advice. NODE stands for the first node concerned.
"""

from collections.abc import Mapping

STEPS: Mapping[str, str] = {
    "worker-stale": "is topo-worker running on NODE? its log says why it cannot report; "
    "`topo node NODE` says since when",
    "node-not-ready": "`kubectl describe node NODE` has its conditions; see the log of its kubelet",
    "not-in-cluster": "`kubectl get nodes`: is NODE gone, or called otherwise there? the worker's "
    "--node-name is the name of its Node",
    "manager": "ask the cluster manager what is wrong with the machine",
    "gpus-missing": "compare with `mx-smi -L` or `nvidia-smi -L` on the node; --gpus-per-node",
    "gpus-fewer": "compare `topo node NODE` with another node of its group; dmesg on NODE",
    "no-gpus": "`topo node NODE`: no worker there? start it, or the master with --gpus-per-node; "
    "else see its probes: driver, vendor's tool, the container's access to devices",
    "no-gpus-seen": "`topo node NODE` lists its probes: is the driver loaded, the vendor's tool "
    "there, and does the container of topo-worker see both and the devices?",
    "ports-missing": "`topo node NODE` lists the ports and which probe fails; dmesg on NODE",
    "links-missing": "`topo node NODE` shows the matrix; look at the driver's log (dmesg) there",
    "gpu-cut-off": "`topo node NODE` shows the matrix; look at the driver's log (dmesg) there",
    "nics-missing": "lspci on NODE; in pods on purpose? then --missed-hardware=gpus,ports,links",
    "gpu-unhealthy": "`topo node NODE` shows the GPU; look at the driver's log (dmesg) there",
    "port-down": "`topo node NODE` lists the port; check its cable and its transceiver",
    "link-down": "check the cable and its transceivers at both ends; `topo node NODE` shows it",
    "fabric-lost": "`nvidia-smi -q` on NODE shows Fabric; reset that GPU, then reboot NODE",
    "fabric-unhealthy": "`topo node NODE` shows the fabric; look at the Fabric Manager's log",
    "domain-lost": "`topo node NODE` shows the fabric; look at the Fabric Manager's log",
    "incomplete": "a member is missing or not wired: `topo node` of the members shows their peers",
    "empty": "start topo-worker on its nodes, or take it out of the inventory",
    "oversize": "more nodes are wired together than --node-number says: fix the cables or it",
    "config": "the config file says so: edit nodegroup.yaml",
    "no-peer": "`topo node NODE` shows whom it sees; check its cables to its neighbours",
    "not-managed": "add the machine to the cluster manager, or give it a name that joins",
    "no-fabric": "`topo node NODE` shows state and status; look at the Fabric Manager's log",
    "not-in-config": "add the node to nodegroup.yaml",
    "no-group-in-config": "put the node into a group of nodegroup.yaml",
    "no-worker": "start topo-worker on NODE, or see why its pod does not run there",
    "unknown": "start topo-worker on this node, or check --mode",
    "unknown-peer": "start topo-worker on the servers at the other ends; "
    "`topo node NODE` has their UUIDs",
    "unknown-worker-token": "give each worker, in its --token-file, a token of the master's "
    "--worker-token-file; both files are read again when they change",
    "no-worker-tokens": "start the master with --worker-token-file: a line per node, its name "
    "and its token",
    "no-service-account": "project the token of the pod's service account (audience "
    "topo-master), or give the worker one of --worker-token-file",
    "wrong-audience": "project the worker's token with the audience topo-master",
    "wrong-service-account": "run the workers as the account that the text names, or name "
    "theirs in --worker-service-account",
    "token-without-node": "Kubernetes 1.30 and later put the node into it; with an older one "
    "use --worker-token-file",
    "token-refused": "see whether the pod is gone, its token has expired, or it is of another "
    "cluster",
    "too-many-refused-tokens": "mend or stop what sends wrong tokens from there",
    "token-not-reviewed": "see the text: the API server has to answer, and the master may "
    "create tokenreviews",
    "malformed-report": "run workers of the master's release",
    "too-many-nodes": "raise --max-nodes of the master",
    "bad-node-name": "give the worker a --node-name of letters, digits, dots and dashes",
    "doubtful-object": "correct what it names: a label, a taint or a quantity",
    "doubtful-config": "if it is a slip, correct nodegroup.yaml; it is read again at once",
    "doubtful-inventory": "if it is a slip, correct the cluster manager, or map the kind in "
    "--cluster-manager-mapping-file",
}
DOUBTS = frozenset({"doubtful-config", "doubtful-inventory", "doubtful-object"})
"""What may be meant as it stands: a note, that ends no script."""
FILES = frozenset({"worker-token-file", "api-token-file", "tls-files", "state-copy-file"})
"""Warnings of the master about files that it cannot use as they are."""
GANGS = frozenset({"gang-split", "gang-hopeless", "gang-stuck", "gang-not-bound"}) | {
    "gang-write-refused",
    "gang-no-groups",
    "gang-passed-by",
}
GRAVE = FILES | GANGS | {"volcano-ignores-groups"}
"""Warnings of the master by which something is wrong already."""
GENERAL_STEP = "`topo node NODE` shows what is known"
CONFLICT_STEP = "decide which of the two holds, and mend the other"

_OTHER_MODE = "start the master with --mode=nvlink; `auto` follows what each node has"
OTHER_MODE: Mapping[str, str] = {
    "nvlink": "start the master with --mode=dragonfly (switchbox beside a cluster manager); "
    "`auto` follows what each node has",
}
"""By the mode that the master runs in now; the others wait for MetaXLink."""

WAITING: Mapping[str, str] = {
    "cluster-manager": "it is being asked: its answer, or what is wrong with it, comes in seconds",
    "config-file": "it is being read: ask again in a moment",
    "cluster-nodes": "Kubernetes is being asked: may the master's service account list and watch "
    "nodes and pods? its log says what is wrong",
    "workers": "start topo-worker on every node; the port of its --server-address is the master's "
    "--rpc-server-port (10001 unless set)",
}
FAILING: Mapping[str, str] = {
    "cluster-manager": "check --cluster-manager-address, its CA file and /secret; see its log",
    "config-file": "mend the file: the trouble above names the place",
    "cluster-nodes": "does the API server answer, and may the master's service account list and "
    "watch nodes and pods? what was known stays until then",
}
GENERAL_SOURCE_STEP = "look at the master's log"


def step(code: str, node: str, mode: str) -> str:
    """The next step for a code in a mode; `node` is the first that it concerns."""
    if code == "other-fabric":
        return OTHER_MODE.get(mode, _OTHER_MODE)
    return STEPS.get(code, GENERAL_STEP).replace("NODE", node)
