"""Conditions of nodes and groups: codes of their `reasons`, and of `conflicts` between sources."""

from topo.model.conditions.condition import Condition, Row, Severity

_DMESG = "look at the driver's log (dmesg) there"
_MATRIX = f"`topo node NODE` shows the matrix; {_DMESG}"
_FABRIC_MANAGER = "`topo node NODE` shows the fabric; look at the Fabric Manager's log"
_CORRECT_NAMES = "make the names unique, or choose other --join-keys"
_CORRECT_INVENTORY = "correct the cluster manager's inventory, or check the cables"


class NodeCondition(Condition):
    """Why a node is NotReady or in no group."""

    WORKER_STALE = Row(
        "worker-stale",
        "its worker is stale: no report within three beats (30 s)",
        "is topo-worker running on NODE? its log says why it cannot report; "
        "`topo node NODE` says since when",
    )
    REPORT_UNUSABLE = Row(
        "report-unusable",
        "using its last report raised an error of the master; what was known before stays",
        "the log of the leading master has the traceback: report it, since it is a defect; the "
        "node counts again once its worker reports something else",
    )
    NO_WORKER = Row(
        "no-worker",
        "the cluster lists this node and no worker has reported from it; start the worker there",
        "start topo-worker on NODE, or see why its pod does not run there",
    )
    NODE_NOT_READY = Row(
        "node-not-ready",
        "Kubernetes says that the node is not Ready, or has not heard from its kubelet",
        "`kubectl describe node NODE` has its conditions; see the log of its kubelet",
    )
    NOT_IN_CLUSTER = Row(
        "not-in-cluster",
        "the cluster lists no node of this name, so no job can start there",
        "`kubectl get nodes`: is NODE gone, or does it have another name there? the worker's "
        "--node-name is the name of its Node",
    )
    OVERBOOKED = Row(
        "overbooked",
        "pods and holds take more GPUs than the node has",
        "`kubectl describe node NODE` lists its pods, `topo holds` the holds: delete or release "
        "what does not belong there; while a scheduler evicts pods for others, wait",
    )
    MANAGER = Row(
        "manager",
        "the cluster manager says NotReady",
        "ask the cluster manager what is wrong with the machine",
    )
    CONFIG = Row(
        "config",
        "the config file says NotReady",
        "the config file says so: edit nodegroup.yaml",
    )
    GPUS_MISSING = Row(
        "gpus-missing",
        "fewer GPUs than `--gpus-per-node`, or than the node has shown",
        "compare with `mx-smi -L` or `nvidia-smi -L` on the node; --gpus-per-node",
    )
    GPUS_FEWER = Row(
        "gpus-fewer",
        "fewer GPUs than most nodes of its GPU type in its dragonfly or NVLink clique",
        "compare `topo node NODE` with another node of its group; dmesg on NODE",
    )
    NO_GPUS = Row(
        "no-gpus",
        "no GPU, and no source says how many there should be",
        "`topo node NODE`: no worker there? start it, or the master with --gpus-per-node; "
        "else see its probes: driver, vendor's tool, the container's access to devices",
    )
    NO_GPUS_SEEN = Row(
        "no-gpus-seen",
        "no GPU, although its kind has some",
        "`topo node NODE` lists its probes: is the driver loaded, the vendor's tool "
        "there, and does the container of topo-worker see both and the devices?",
    )
    PORTS_MISSING = Row(
        "ports-missing",
        "a GPU has fewer link ports than it has shown: they are `unused`, or not reported",
        "`topo node NODE` lists the ports and which probe fails; dmesg on NODE",
    )
    LINKS_MISSING = Row(
        "links-missing", "a GPU has fast links to fewer GPUs of its node than it has shown", _MATRIX
    )
    GPU_CUT_OFF = Row(
        "gpu-cut-off",
        "a GPU has no fast link to the others of its node, all of which have several",
        _MATRIX,
    )
    NICS_MISSING = Row(
        "nics-missing",
        "fewer InfiniBand or RoCE ports than the node has shown, virtual functions not counted",
        "lspci on NODE; if pods have them on purpose, --missed-hardware=gpus,ports,links",
    )
    UPLINKS_DOWN = Row(
        "uplinks-down",
        "no port of InfiniBand or RoCE that joins the node to the fabric is up, and one was",
        "look at the switch at the other end before the cables of NODE; `topo node NODE` lists its "
        "ports; if they are out on purpose, --missed-hardware=gpus,ports,links",
    )
    GPU_UNHEALTHY = Row(
        "gpu-unhealthy",
        "the driver calls a GPU unhealthy",
        f"`topo node NODE` shows the GPU; {_DMESG}",
    )
    PORT_DOWN = Row(
        "port-down",
        "a link port of a GPU is down",
        "`topo node NODE` lists the port; check its cable and its transceiver",
    )
    LINK_DOWN = Row(
        "link-down",
        "a server at the other end is no longer seen, or named and not connected",
        "check the cable and its transceivers at both ends; `topo node NODE` shows it",
    )
    FABRIC_LOST = Row(
        "fabric-lost",
        "a GPU is outside the NVLink domain or super pod of its node, or states that it could not "
        "join",
        "`nvidia-smi -q` on NODE shows Fabric (of NPUs `npu-smi info -t spod-info`); reset that "
        "GPU, then reboot NODE",
    )
    FABRIC_UNHEALTHY = Row(
        "fabric-unhealthy",
        "a GPU is in its NVLink domain, and the fabric reports bad health",
        _FABRIC_MANAGER,
    )
    DOMAIN_LOST = Row(
        "domain-lost",
        "no GPU is in the NVLink domain of its node any more; the node keeps its place for a day",
        _FABRIC_MANAGER,
    )
    NO_PEER = Row(
        "no-peer",
        "its links lead to no known node, so it is in no dragonfly",
        "`topo node NODE` shows which servers it sees; check its cables to its neighbours",
    )
    UNKNOWN_PEER = Row(
        "unknown-peer",
        "it sees a server from which no worker reports",
        "start topo-worker on the servers at the other ends; `topo node NODE` has their UUIDs",
    )
    NO_FABRIC = Row(
        "no-fabric",
        "its GPUs belong to no multi-node NVLink domain, its NPUs to no super pod",
        "`topo node NODE` shows state and status; look at the Fabric Manager's log",
    )
    OTHER_FABRIC = Row(
        "other-fabric",
        "its links are of a kind that `--mode` does not look at (NVLink beside MetaXLink)",
        "start the master with the mode of its nodes, or with `auto`",
    )
    NOT_MANAGED = Row(
        "not-managed",
        "the cluster manager lists no machine for this node",
        "add the machine to the cluster manager, or give it a name that joins",
    )
    NOT_IN_CONFIG = Row(
        "not-in-config",
        "the config file does not list this node",
        "add the node to nodegroup.yaml",
    )
    NO_GROUP_IN_CONFIG = Row(
        "no-group-in-config",
        "the config file lists this node in no group",
        "put the node into a group of nodegroup.yaml",
    )
    NO_GROUP_LABEL = Row(
        "no-group-label",
        "no label of its Node object names a group",
        "`kubectl describe node NODE` lists its labels: label it as its neighbours are, or name "
        "the keys in --group-labels",
    )
    GROUP_LABEL_MISSING = Row(
        "group-label-missing",
        "a label of an inner level names a group, and one of an outer level says nothing",
        "`kubectl describe node NODE` lists its labels: add the one that the text names; equal "
        "inner names under two outer ones are two groups",
    )
    NOT_IN_FABRIC = Row(
        "not-in-fabric",
        "no dump of the fabric has an adapter of this node in one group",
        "`ibstat` on NODE: is a port Active? is there a dump of its subnet in --fabric-dir? An "
        "adapter without a host name joins by the GUIDs of a worker alone",
    )
    UNKNOWN = Row(
        "unknown",
        "no source says where this node belongs",
        "start topo-worker on this node, or check --mode",
    )


class GroupCondition(Condition):
    """Why a group is NotReady; the config file may say so, too (`NodeCondition.CONFIG`)."""

    INCOMPLETE = Row(
        "incomplete",
        "a group has fewer nodes than it should",
        "a member is missing or not wired: `topo node` of the members shows their peers",
    )
    EMPTY = Row(
        "empty",
        "no node stands in this group",
        "start topo-worker on its nodes, or take it out of the inventory",
    )
    OVERSIZE = Row(
        "oversize",
        "a group has more nodes than it should",
        "more nodes are wired together than --node-number says: fix the cables or it",
    )
    CHILD_NOT_READY = Row(
        "child-not-ready",
        "a group in it is NotReady",
        "see the reasons of that group",
    )


class ConflictCondition(Condition):
    """Two statements that cannot both hold, or what costs a Ready node."""

    CLONED_SERVER_UUID = Row(
        "cloned-server-uuid",
        "several nodes state one server UUID",
        "give each board its own server UUID, then restart the workers there",
    )
    ONE_SIDED_LINK = Row(
        "one-sided-link",
        "a node sees another, which does not confirm it",
        "check the cable at both ends, then `topo node` on both",
    )
    GPUS_DISAGREE = Row(
        "gpus-disagree",
        "GPUs of one node state different NVLink domains or super pods",
        "reset the GPUs or restart Fabric Manager, then look at `nvidia-smi -q`",
    )
    SUPER_POD_DOUBLED = Row(
        "super-pod-doubled",
        "nodes that state one super pod cannot all be of it: two have one server index, their "
        "sizes differ, or they have more NPUs than it",
        "compare `npu-smi info -t spod-info` on the nodes that the text names; in the management, "
        "give two super pods of one number one each, or correct the index or the size",
    )
    SUPER_POD_INCOMPLETE = Row(
        "super-pod-incomplete",
        "a super pod says that it has more NPUs than its nodes here",
        "if its other nodes are elsewhere on purpose, do nothing; else `topo nodes`: on which does "
        "no worker run, or npu-smi not answer?",
        Severity.NOTE,
    )
    OVERSIZE_GROUP = Row(
        "oversize-group",
        "more nodes are wired together than `--node-number`",
        "find the cable that leads outside, or set --node-number",
    )
    LINK_DEGRADED = Row(
        "link-degraded",
        "a link is up and far slower than its siblings, or has lost one of its cables",
        "`topo node NODE` shows it, `nvidia-smi nvlink -s` and `-e` there say more; mend the cable "
        "or reset that GPU, and until then "
        "`topo place --exclude NODE` keeps a job off it",
    )
    LINK_SUSPECTED = Row(
        "link-suspected",
        "a link failed again and again over days, and may fail under a job; placement takes its "
        "node late",
        "`topo node NODE` has the evidence: reseat or exchange the cable, then `topo nodes clear "
        "NODE`; `topo nodes quarantine NODE` keeps jobs off until then",
    )
    SUSPECTED_TOGETHER = Row(
        "links-suspected-together",
        "links of at least half of the nodes of a switch or a group are down, or failed again and "
        "again over days",
        "look at what the nodes share (their switch, its power, their rack) before any cable of "
        "NODE; `topo node NODE` has the evidence",
    )
    QUARANTINED = Row(
        "quarantined",
        "an operator keeps new jobs off a node",
        "`topo nodes clear NODE` when it is repaired",
        Severity.NOTE,
    )
    DIFFERS_FROM_CONFIG = Row(
        "wiring-differs-from-config",
        "cables join what the config file separates",
        "correct the config file, or check the cables",
    )
    DIFFERS_FROM_MANAGER = Row(
        "wiring-differs-from-manager",
        "cables join what the manager separates",
        _CORRECT_INVENTORY,
    )
    NOT_IN_MANAGER = Row(
        "not-in-manager",
        "a wired node is missing in the manager",
        "add the machine to the cluster manager, or check --join-keys",
    )
    DIFFERS_FROM_LABELS = Row(
        "wiring-differs-from-labels",
        "cables join what labels of nodes separate",
        "correct the labels, or check the cables",
    )
    SOURCES_DIFFER = Row(
        "sources-differ",
        "two sources that write groups down put a node among different nodes",
        "`topo node NODE` shows what each says: correct the one that is wrong, or change their "
        "order with --precedence",
    )
    LABELS_VANISHED = Row(
        "group-labels-vanished",
        "labels that name groups vanished from nodes; these keep their place for ten minutes",
        "if they were removed on purpose, do nothing; else see whether their writer runs and what "
        "it says of NODE",
    )
    FABRIC_CABLE_ASTRAY = Row(
        "fabric-cable-astray",
        "a node has cables to leaf switches of several groups",
        "check the cables that the text names, on NODE and at the switch; a server that is "
        "meant to be on several groups can stay so",
    )
    FABRIC_CABLE_MISSING = Row(
        "fabric-cable-missing",
        "an adapter of a node is in no dump, while most nodes of its group have a cable there",
        "`ibstat` on NODE: is the port down, the plug out, the cable bad?",
    )
    FABRIC_CABLE_SLOW = Row(
        "fabric-cable-slow",
        "a cable of a node is slower than most others of its switch, or of its group",
        "reseat or exchange the cable that the text names; `ibstat` on NODE shows its rate",
    )
    SEVERAL_NEIGHBOURS = Row(
        "several-neighbours",
        "an interface of a node sees two devices at the end of its cable; it keeps the one before",
        "`lldpcli show neighbors` on NODE: two minutes after a cable was moved only one is left; "
        "else something between them forwards LLDP",
    )
    NEIGHBOUR_LOST = Row(
        "neighbour-lost",
        "an interface has not shown the switch at the end of its cable for ten minutes; its cable "
        "still counts",
        "`lldpcli show neighbors` on NODE: does lldpd run, is the interface up? else look at the "
        "switch that the text names",
    )
    OFF_RAIL = Row(
        "off-rail",
        "an adapter of a node is on another rail than those beside the same GPUs on most nodes of "
        "its group",
        "move the plugs at the switch ports that the text names; `topo node NODE` lists its "
        "cables, `topo wiring check` says which end a plan calls wrong",
    )
    FABRIC_NODE_VANISHED = Row(
        "fabric-node-vanished",
        "no dump has an adapter of a node that was in the fabric; it keeps its place for a day",
        "`ibstat` on NODE: are its ports Active? is the dump of its subnet still made?",
    )
    ADAPTER_DOUBLED = Row(
        "adapter-doubled",
        "several workers report one adapter, which joins none of their nodes",
        "`topo node NODE` and `cat /sys/class/infiniband/*/node_guid` there: are two workers on "
        "one host, or is a GUID cloned?",
    )
    ADAPTER_AMBIGUOUS = Row(
        "adapter-ambiguous",
        "adapters of the fabric are described alike or by a name of several nodes, and no worker "
        "reports them: they join no node",
        "run a worker on NODE, whose GUIDs decide, or correct what the adapters there are called: "
        "`cat /sys/class/infiniband/*/node_desc`",
    )
    MACHINE_VANISHED = Row(
        "machine-vanished",
        "the manager no longer lists a machine; it is kept for ten minutes",
        "if they were removed on purpose, do nothing; else look at the cluster manager",
    )
    MACHINE_AMBIGUOUS = Row(
        "machine-ambiguous",
        "several nodes answer to one machine of the manager",
        _CORRECT_NAMES,
    )
    MACHINE_JOINED_TWICE = Row(
        "machine-joined-twice",
        "several machines of the manager answer to one node",
        _CORRECT_NAMES,
    )
    DUPLICATE_WORKER = Row(
        "duplicate-worker",
        "two workers report under the name of one node; the first is believed",
        "give each worker the name of its own node (NODE_NAME or --node-name)",
    )
    FOREIGN_REPORT = Row(
        "foreign-report",
        "a worker reports for a node that its token does not belong to",
        "set the worker's node name to HOLDER, or give it the token of REPORTED",
    )
