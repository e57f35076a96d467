"""Conditions of a master and of the gangs that it places: codes of its `warnings`."""

from topo.model.conditions.condition import Condition, Row, Severity

_NOTE = Severity.NOTE
_NAME_PROXY = "; where a proxy ends TLS before it, name that in --tls-proxies"
_OF_WARNING = "the warning has the next step"


class MasterCondition(Condition):
    """What is wrong with how a master is run."""

    WORKER_TOKEN_IN_CLEAR = Row(
        "worker-token-in-clear",
        "a worker's token came over plain HTTP",
        "give the master --tls-cert and --tls-key, and its workers --server-tls, then new tokens"
        + _NAME_PROXY,
        _NOTE,
    )
    API_TOKEN_IN_CLEAR = Row(
        "api-token-in-clear",
        "a token for writing came over plain HTTP",
        "give the master --tls-cert and --tls-key with --tls-scope=all, then a new token"
        + _NAME_PROXY,
        _NOTE,
    )
    MANAGER_LOGIN_IN_CLEAR = Row(
        "manager-login-in-clear",
        "the password goes to the manager over plain HTTP",
        "give an https:// address, and leave --cluster-manager-insecure away",
        _NOTE,
    )
    MANAGER_UNVERIFIED = Row(
        "manager-unverified",
        "the password goes to a manager whose certificate is not verified",
        "give its authority as --cluster-manager-ca-file instead of --cluster-manager-insecure",
        _NOTE,
    )
    WORKER_TOKEN_FILE = Row(
        "worker-token-file",
        "the file of the workers' tokens cannot be read, or has faults; good lines count",
        "the warning names line and fault",
    )
    API_TOKEN_FILE = Row(
        "api-token-file",
        "the file of the tokens for writing cannot be read, or has faults; good lines count",
        "the warning names line and fault",
    )
    WIRING_PLAN_FILE = Row(
        "wiring-plan-file",
        "the plan of the cables cannot be read or compared; the one before stays",
        "the warning names the line, or what the plan contradicts",
    )
    CABLES_DIFFER = Row(
        "cables-differ-from-plan",
        "cables that are seen are not those of `--wiring-plan`",
        "`topo wiring check --cost` lists them by rack, with the plugs to move and what each costs",
    )
    TLS_FILES = Row(
        "tls-files",
        "the certificate was not renewed, the old one stays",
        "give a matching pair of PEM files",
    )
    EXTENDER_TLS_FILES = Row(
        "extender-tls-files",
        "certificate and authority of the port that schedulers ask were not renewed, the old ones "
        "stay",
        "give a matching pair of PEM files, and an authority of clients with a certificate in it",
    )
    EXTENDER_OPEN = Row(
        "extender-open",
        "schedulers are asked for no certificate: whoever reaches the port of the extender can ask "
        "which nodes are kept for the group of a pod and how the quota of a namespace stands, and "
        "gives the master work ([TLS](extenders.md#tls))",
        "give --extender-client-ca, and kube-scheduler a tlsConfig; with the chart extender.tls, "
        "beside topoDiscovery.networkPolicy.controlPlane, which closes the port to others",
        _NOTE,
    )
    STATE_COPY = Row(
        "state-copy",
        "a follower that heard of no leader since its start shows the copy of its own disk; the "
        "warning says as of when, and why",
        "bring the API server back; until a master leads, reports and holds are refused",
        _NOTE,
    )
    STATE_COPY_FILE = Row(
        "state-copy-file",
        "that copy cannot be written or taken up; a restart while the API server is away would "
        "show nothing",
        "give --state-file a folder of this master alone, with room, that it can write to",
    )
    LEADER_SILENT = Row(
        "leader-silent",
        "a follower hears from no leader; what it shows is old",
        "see the logs of the masters, and who holds the lease: kubectl describe lease topo-master",
        _NOTE,
    )
    KUBERNETES_NODES = Row(
        "kubernetes-nodes",
        "the nodes of the cluster cannot be followed; what was known stays",
        _OF_WARNING,
        _NOTE,
    )
    KUBERNETES_PODS = Row(
        "kubernetes-pods",
        "the pods of the cluster cannot be followed; used GPUs may be wrong",
        _OF_WARNING,
        _NOTE,
    )
    OBJECT_SET_ASIDE = Row(
        "object-set-aside",
        "handling single objects raised an error: each is left out until it changes, others go on "
        "([which](#objects-that-are-set-aside))",
        "change or delete the object that the warning names; the log of the leading master has the "
        "traceback: report it, since it is a defect",
    )
    HYPERNODE_CONFLICT = Row(
        "hypernode-conflict",
        "a HyperNode of another owner has the name of a group, or a node of it at the same tier; "
        "ours is published without it",
        "remove it, or take these nodes out of it, so that Volcano has one tree",
        _NOTE,
    )
    TOPOLOGY_CONFLICT = Row(
        "topology-conflict",
        "a topology or flavor of another owner has the name of ours, which is not published",
        "delete it, or rename it: ours is made at once ([names](kueue.md#what-is-published))",
        _NOTE,
    )
    TOPOLOGY_OUTDATED = Row(
        "topology-outdated",
        "a ClusterQueue names a flavor whose tiers no node has any more: nothing is admitted there",
        "hold the queue (`stopPolicy: Hold`) until its jobs have ended, and name the flavor of the "
        "warning in it: Kueue counts each flavor for itself; the old one goes then",
        _NOTE,
    )
    KUEUE_CHOOSES_NODES = Row(
        "kueue-chooses-nodes",
        "jobs with groups are nominated, and a ClusterQueue names a flavor with a topology: Kueue "
        "chooses the nodes of its jobs one by one, and their groups may be split "
        "([why](kueue.md#who-chooses-the-nodes))",
        "write `<domain>/placement-mode: native` on jobs with groups in that queue, or name a "
        "flavor without `topologyName` in it",
        _NOTE,
    )
    NODE_FEATURES_UNSERVED = Row(
        "node-features-unserved",
        "NodeFeatures are to be written for NFD, and the API server has none: nodes get no labels "
        "of groups by them, for which native jobs of Kueue and kube-scheduler wait "
        "([why](kubernetes.md#nodefeatures))",
        "install Node Feature Discovery, or put `labels` in the place of `node-features` in "
        "--controllers",
    )
    NODE_FEATURE_CONFLICT = Row(
        "node-feature-conflict",
        "a NodeFeature of another owner has the name of ours, which is not written",
        "delete it: ours is made at once. Those of `topo export` go by `kubectl delete "
        "nodefeatures -l app.kubernetes.io/managed-by=topo-export`",
        _NOTE,
    )
    ADMISSION_CERTIFICATE = Row(
        "admission-certificate",
        "the admission webhook has no certificate, one that API servers do not trust, or one that "
        "ends soon and was not renewed: jobs run without groups then",
        _OF_WARNING,
        _NOTE,
    )
    GPU_QUOTA = Row(
        "gpu-quota",
        "the ConfigMap of GPU quotas cannot be read; what was read last stays in force",
        "mend what the warning names: `kubectl edit configmap -n kube-system gpuquota`",
    )
    VOLCANO_IGNORES_GROUPS = Row(
        "volcano-ignores-groups",
        "Volcano's scheduler is configured without its plugin `network-topology-aware`, and jobs "
        "are native: it may split their groups without a message "
        "([why](volcano.md#native-volcano-chooses))",
        "run the command of the warning, which adds the plugin",
    )
    VOLCANO_EVICTS_NOBODY = Row(
        "volcano-evicts-nobody",
        "`--preempt-after` is set, and Volcano's scheduler is configured without its action "
        "`preempt`: a gang is opened over pods that are never evicted",
        "run the command of the warning, which also mends `volcano-ignores-groups` where that is "
        "there; `gang` needs `enablePreemptable: false`, too "
        "([why](how-placement-reaches-the-scheduler.md#over-pods-of-lower-priority))",
        _NOTE,
    )
    VOLCANO_CONFIGURATION = Row(
        "volcano-configuration",
        "whether Volcano heeds the groups of native jobs is not known: its ConfigMap is not there, "
        "cannot be read or is not understood",
        f"{_OF_WARNING}, mostly `--volcano-config-map`",
        _NOTE,
    )
    POD_GROUPS_UNSERVED = Row(
        "pod-groups-unserved",
        "gangs of kube-scheduler are to have PodGroups of Kubernetes, and the API server has none: "
        "their pods are bound one by one ([why](podgroups.md))",
        "switch the gate GenericWorkload on in API server, scheduler and controller manager, and"
        " --runtime-config=scheduling.k8s.io/v1beta1=true in the API server; or take pod-groups out"
        " of --controllers",
        _NOTE,
    )
    PROVISIONING_UNSERVED = Row(
        "provisioning-unserved",
        "ProvisioningRequests are to be answered, and the API server has none "
        "([why](provisioning.md#what-it-needs))",
        "install the definition of their kind, or take provisioning out of --controllers",
        _NOTE,
    )
    REQUESTS_AWAITED = Row(
        "requests-awaited",
        "a new leader places nothing, for 90 s at most, before requests for capacity that may have "
        "been promised something are written anew ([why](provisioning.md#what-it-needs))",
        "the log of the leader has the words of the API server: a right of the master, or a webhook"
        " of another product that fails",
    )
    KUEUE_UNSERVED = Row(
        "kueue-unserved",
        "workloads of Kueue are to be answered, and the API server has none "
        "([why](kueue.md#whole-groups-before-a-job-starts))",
        "install Kueue 0.19 or newer, or take kueue-workloads out of --controllers",
        _NOTE,
    )
    KEPT_AHEAD = Row(
        "kept-ahead",
        "GPUs are kept idle, for more than a minute, for pods that a job states and that are not "
        "made yet ([limits](ahead.md#how-much-a-namespace-may-keep))",
        "`topo gangs` lists by namespace which jobs keep them; see why their controllers make no "
        "pods, or delete the jobs. A ResourceQuota on GPUs, or --ahead-share, bounds a namespace",
        _NOTE,
    )
    POD_GROUPS_UNHEEDED = Row(
        "pod-groups-unheeded",
        "kube-scheduler binds the pods of PodGroups one by one ([why](podgroups.md))",
        "switch the gate GenericWorkload on in kube-scheduler and in the controller manager, too",
        _NOTE,
    )
    COMPOSITE_POD_GROUPS_UNHEEDED = Row(
        "composite-pod-groups-unheeded",
        "kube-scheduler bound a CompositePodGroup in part: each PodGroup for itself "
        "([why](podgroups.md#a-compositepodgroup))",
        "switch the gate CompositePodGroup on in kube-scheduler, too",
        _NOTE,
    )
    POD_GROUPS_UNCONSTRAINED = Row(
        "pod-groups-unconstrained",
        "native gangs of kube-scheduler may be split: PodGroups keep no topology constraint "
        "([why](podgroups.md#native-kube-scheduler-chooses))",
        "switch the gate TopologyAwareWorkloadScheduling on in API server and scheduler, or place "
        "those jobs by nomination",
    )


class GangCondition(Condition):
    """What a person has to do about gangs; the cause completes "gangs that …"."""

    SPLIT = Row(
        "gang-split",
        "run with a group in several domains although it is required whole",
        "restart the job to have it placed anew; `topo why JOB` says which group, and of a"
        " native job whether Volcano heeds groups at all",
    )
    HOPELESS = Row(
        "gang-hopeless",
        "wait for what never comes",
        "`topo why JOB` has the smallest change; while it waits, its pods count as asked"
        " for in its queue, which takes from the share of others: else delete the job",
    )
    NO_GROUPS = Row(
        "gang-no-groups",
        "wait for groups of nodes, and none are known",
        "name the groups in the file of --config-file (mode config), or see whether topo-worker"
        " runs on the nodes; with the annotation <domain>/gpu-group-wait a job runs ungrouped after"
        " that time",
    )
    NO_LABELS = Row(
        "gang-no-labels",
        "wait for nodes with a label of their groups, and no node has it: Kueue and kube-scheduler"
        " choose the nodes of native jobs by such labels ([why](kubernetes.md#nodefeatures))",
        "put `labels` into --controllers; or where `node-features` is there, install Node Feature"
        " Discovery, and let its master heed the namespace of this one",
    )
    STUCK = Row(
        "gang-stuck",
        "lost planned nodes and find no others",
        "`topo why JOB` names the nodes; free one in the domain of its group, or restart"
        " the job (a batch Job: suspend it and resume it, which counts as no failure)",
    )
    NOT_BOUND = Row(
        "gang-not-bound",
        "had their gates opened more than 60 s ago and are not bound",
        "does their scheduler run? `kubectl describe pod` of one says what it lacks; over"
        " pods of lower priority, Volcano needs the action preempt and a priority class of the job"
        " (`topo why JOB`)",
    )
    WRITE_REFUSED = Row(
        "gang-write-refused",
        "are held up by the API server, which refuses a write",
        "`topo why JOB` has its words: a right of the master, or a webhook of another product",
    )
    UNREADABLE = Row(
        "gang-unreadable",
        "cannot be planned, since a step for them raised an error",
        "`topo why JOB` has the error, and the log of the leader its traceback: report it. Compare"
        " what its pods state (`<domain>/gang-*`) with its job; a job that is deleted and created"
        " again is tried anew, and its gates are opened after --gate-timeout in any case",
    )
    PASSED_BY = Row(
        "gang-passed-by",
        "have pods without a gate, since they bypassed the webhook",
        "does the webhook answer, and cover the namespace? `kubectl get"
        " mutatingwebhookconfigurations`, the label <domain>/placement of the namespace. A job"
        " that was made before is placed once it is deleted and created again",
    )
