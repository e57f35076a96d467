"""Conditions that only `topo doctor` finds: of a master that it asks, and of a cluster."""

from topo.model.conditions.condition import Condition, Row, Severity

_NOTE = Severity.NOTE
_LOGS = "`kubectl -n NAMESPACE logs deployment/topo-master` says why none takes it"


class ServiceCondition(Condition):
    """What is wrong with a master that was asked, or with what it shows."""

    UNREACHABLE = Row("unreachable", "no master answers at the address of --master")
    HEALTH = Row("health", "`GET /health` does not answer 200", "look at the master's log")
    READY = Row("ready", "`GET /ready` does not answer 200", "wait a moment, then ask again")
    RESTORED = Row(
        "restored",
        "the tree comes from the state file, since no source has answered yet",
        "it stands until every source has answered: see the findings on sources",
    )
    UNJOINED = Row(
        "unjoined",
        "no worker reports from a machine of the cluster manager",
        "start topo-worker there; if it runs, its log says why its reports do not arrive",
    )
    FAILED_TOGETHER = Row(
        "nodes-failed-together",
        "at least half of the nodes of a group, three or more, are not Ready",
        "look at what they share (their switch, its power, their rack) before any one of them; "
        "`topo node NODE` has all that is known of one",
    )
    FABRIC_UNPLACED = Row(
        "fabric-unplaced",
        "nodes with GPUs are in no group of a fabric beside the tree that others are in",
        "`topo tree --fabric` lists them last, `topo node NODE` shows what is known of one; do "
        "nothing where they are not meant to be in it",
        _NOTE,
    )
    VERSION = Row(
        "version",
        "the master and this `topo` are of different releases",
        "use the topo of the master's release",
        _NOTE,
    )
    NOT_ASKED = Row(
        "not-asked",
        "its sources, workers and wiring were not looked at: no --master is given",
        "`kubectl port-forward service/topo-master-service 9001` in its namespace, then again "
        "with --master http://127.0.0.1:9001",
        _NOTE,
    )


class ClusterCondition(Condition):
    """What is wrong with the product inside a cluster (`topo doctor --kubeconfig FILE`)."""

    NOT_INSTALLED = Row(
        "not-installed",
        "there is no Deployment topo-master",
        "`helm install`, see docs/install.md; or name another namespace with --namespace",
    )
    NOT_FOUND = Row(
        "not-found",
        "the master was not found",
        "name its namespace with --namespace",
    )
    RIGHTS_DENIED = Row(
        "rights-denied",
        "the service account of the master may not do what a part of it needs",
        "`helm upgrade` puts the chart's roles back; who manages roles apart finds them in "
        "docs/kubernetes.md",
    )
    RIGHTS_UNKNOWN = Row(
        "rights-unknown",
        "whether the role of the master is right was not asked",
        "ask with a user who may create subjectaccessreviews.authorization.k8s.io",
        _NOTE,
    )
    NO_NODES_CHOSEN = Row(
        "no-nodes-chosen",
        "no node is chosen, so no worker runs",
        "`kubectl label node NODE LABEL` for every node with GPUs (the vendor's operator sets "
        "metax-tech.com/gpu.installed=true), or choose nodes by labels that they have: "
        "topoDiscovery.worker.nodeSelector",
    )
    NO_WORKERS = Row(
        "no-workers",
        "there is no DaemonSet topo-worker: no node reports",
        "install the whole chart; in mode config nothing else is needed",
        _NOTE,
    )
    PODS_MISSING = Row(
        "pods-missing",
        "pods of the master or of the workers were not created",
        "`kubectl -n NAMESPACE describe WORKLOAD` has its events",
    )
    PODS_NOT_READY = Row(
        "pods-not-ready",
        "pods of the master or of the workers are not ready",
        "`kubectl -n NAMESPACE describe pod POD`, then its logs",
    )
    VERSION_SKEW = Row(
        "version-skew",
        "pods of several releases run",
        "set both `image.version` alike, or neither, and `helm upgrade`",
        _NOTE,
    )
    NO_LEADER = Row(
        "no-leader",
        "no master leads: nothing is written to the cluster, no report is taken",
        _LOGS,
    )
    LEASE_EXPIRED = Row(
        "lease-expired",
        "the leader has not renewed its lease, and no other master took it",
        _LOGS,
    )
    CLOCK_SKEW = Row(
        "clock-skew",
        "the clocks of the leader and of this machine differ",
        "the lease does not depend on it; set the clock (chrony, NTP) of the machine that is wrong",
        _NOTE,
    )
    HYPERNODE_OVERLAP = Row(
        "hypernode-overlap",
        "a node is in a HyperNode of ours and in one of others; Volcano trusts no tree with such a "
        "node and places no job by topology",
        "stop what writes the other HyperNodes and delete them, or give the master "
        "--controllers without hypernodes",
    )
    FOREIGN_HYPERNODES = Row(
        "foreign-hypernodes",
        "others own HyperNodes",
        "they are left alone; delete them if nobody needs them",
        _NOTE,
    )
    COMPUTE_DOMAIN_SPLIT = Row(
        "compute-domain-split",
        "a ComputeDomain has nodes of several NVLink cliques: its pods reach each other by NVLink "
        "only inside a clique, and nothing tells them",
        "place its job with gpu-group-within: nvlink-clique, or in groups no larger than a clique",
    )
    COMPUTE_DOMAINS_SHARE_CLIQUE = Row(
        "compute-domains-share-clique",
        "several ComputeDomains have nodes of one NVLink clique",
        "that is right for small jobs; a node can be in one ComputeDomain at a time, so give jobs "
        "that wait for nodes of this clique another one",
        _NOTE,
    )
    NOT_READ = Row(
        "not-read",
        "the API server did not answer a question of the doctor",
        "ask with a user who may read this; the rest was looked at",
        _NOTE,
    )
