"""All names that gangs use on Kubernetes objects, derived from one domain.

A user writes `gpu-group-size` and related annotations on a job or on any of its pod templates. The
admission webhook stamps `gang-*` on every template and marks each pod; the controller writes the
chosen nodes. Names of other systems that are read here: Volcano v1.14 (`pkg/controllers/apis`,
`volcano.sh/apis/pkg/apis/batch/v1alpha1/labels.go`) and Kubernetes v1.36 (`batch/v1`).
"""

from collections.abc import Mapping
from functools import cached_property

TASK_INDEX = "volcano.sh/task-index"
"""Label and annotation of a Volcano Job's pod: which pod of its task it is, from 0."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of an Indexed batch Job's pod: its rank, from 0."""
POD_INDEX = "apps.kubernetes.io/pod-index"
"""Label of a StatefulSet's pod: its ordinal, from 0."""
POD_GROUP = "scheduling.k8s.io/group-name"
"""Annotation of a pod of Volcano: its PodGroup. Source: `KubeGroupNameAnnotationKey` in
volcano.sh/apis."""
PREEMPTABLE = "volcano.sh/preemptable"
"""Annotation or label of a pod of Volcano; `false`: it may not be evicted for others."""
HOSTNAME = "kubernetes.io/hostname"
"""A pod that selects one has its node: the gate keeper that opened its last gate chose it."""
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of a job that Kueue admits: its LocalQueue."""
KUEUE_WORKLOAD = "kueue.x-k8s.io/workload"
"""Annotation of a pod that Kueue admitted: its Workload. Source: `getPodSetsInfoFromStatus` in
Kueue v0.19.2, pkg/controller/jobframework/reconciler.go."""
ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
"""Annotation of a job, names between commas: Kueue gives it no quota while one is left. Source:
Kueue v0.19.2, pkg/constants/constants.go."""
ONE_BY_ONE = "one-by-one"
"""Value of `AnnotationKeys.is_late`: each pod waits for the one before it."""
MOST_GATE_CHARS = 63
"""Such a name is at most so long (pkg/util/webhook/validation_admissiongatedby.go)."""
HELD_KINDS = {
    ("batch/v1", "Job"): "jobs",
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): "jobsets",
    ("ray.io/v1", "RayCluster"): "rayclusters",
}
"""The kinds that are held before their quota, with their plurals: of each Kueue makes one Workload
of the templates that were stamped. Of a TrainJob it makes one of those of its runtime, of a
LeaderWorkerSet one for each group (`PodSets` of their integrations in v0.19.2)."""
OF_KUEUE = frozenset({"kueue.x-k8s.io/podset", KUEUE_QUEUE})
"""Labels of pods whose job Kueue admits. Source: Kueue v0.19, `apis/kueue/v1beta2`."""
CONSUMES = (
    (
        "autoscaling.x-k8s.io/consume-provisioning-request",
        "autoscaling.x-k8s.io/provisioning-class-name",
    ),
    (
        "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
        "cluster-autoscaler.kubernetes.io/provisioning-class-name",
    ),
)
"""Annotations of a pod that takes what a ProvisioningRequest has booked: its name, and its class.
Source: k8s.io/autoscaler/cluster-autoscaler/apis, `ProvisioningRequestPodAnnotationKey`; the second
pair is that of versions before v1."""
CLASS_PREFIX = "whole-group."
CONDITION = "Placed"
"""End of the type of `AnnotationKeys.condition`, whatever the domain is."""
BY_LINKS = "enabled"
"""Value of `AnnotationKeys.by_links` as a label of a namespace."""
OPTED_OUT = "disabled"
"""Value of `AnnotationKeys.placement` as a label of a namespace whose jobs are left alone."""
SP_BLOCK = "sp-block"
"""Annotation of a job for Ascend's scheduler: NPUs of each logical super pod, which is inside one
super pod. Source: mind-cluster, `ascend-for-volcano`, `ascend910a3/superpod`."""
ASCEND_RESOURCES = "huawei.com/"
"""How the resources of Ascend's device plugin begin."""


class AnnotationKeys:
    """The names under one domain, such as `metax-tech.com`. Immutable by convention."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.size = f"{domain}/gpu-group-size"
        """The user's annotation: GPUs of each group."""
        self.mode = f"{domain}/gpu-group-mode"
        """The user's: `required` or `preferred`."""
        self.within = f"{domain}/gpu-group-within"
        """The user's: a kind of group that all of the job must share one of, such as switchbox."""
        self.wait = f"{domain}/gpu-group-wait"
        """The user's: how long groups are required before they are preferred, such as 10m."""
        self.way = f"{domain}/placement-mode"
        """The user's: `nomination` or `native`, who chooses the nodes."""
        self.pods = f"{domain}/gang-pods"
        """Stamped annotation, the user's on pods without a job: pods of the gang."""
        self.rank_offset = f"{domain}/gang-rank-offset"
        """Stamped annotation: rank of the first pod of this template."""
        self.pods_per_group = f"{domain}/gang-pods-per-group"
        """Stamped annotation: pods of a whole group."""
        self.claimed_gpus = f"{domain}/gang-claimed-gpus"
        """Stamped annotation: the GPUs that a pod has by claims of devices."""
        self.kind = f"{domain}/gang-kind"
        """Stamped annotation: the kind of job (`JobKind.name`) whose labels say the gang."""
        self.pods_of_repeat = f"{domain}/gang-pods-of-repeat"
        """Stamped annotation: pods of one repetition of this template; absent where it has one."""
        self.is_late = f"{domain}/gang-late"
        """Stamped annotation where some pods are made only once others of them run: `true`, or
        `ONE_BY_ONE`."""
        self.pod_group = f"{domain}/gang-pod-group"
        """Stamped annotation: the PodGroup of Kubernetes that is made for the gang."""
        self.topology_key = f"{domain}/gang-topology-key"
        """Stamped annotation: the node label of which all pods of that PodGroup need one value, or
        those of each group, where Kueue chooses the nodes."""
        self.of_pod_group = f"{domain}/gang-of-pod-group"
        """Stamped annotation: the PodGroup of Kubernetes whose pods are the gang."""
        self.ungrouped = f"{domain}/gang-ungrouped"
        """Stamped annotation: why pods that ask for groups get none."""
        self.gate = f"{domain}/placement"
        """The scheduling gate of a pod that waits for its place."""
        self.group = f"{domain}/gpu-group"
        """Label of a pod: its group, counted from 0 in the order of ranks."""
        self.rank = f"{domain}/gang-rank"
        """Annotation of a pod: its rank in the gang, from 0."""
        self.placement = f"{domain}/placement"
        """Annotation of a placed pod: its plan. Label of a namespace: `OPTED_OUT`."""
        self.hold = f"{domain}/hold"
        """Annotation of a placed pod: the hold that was made for it (`Policy.hold_key`)."""
        self.provisioning_class = f"{CLASS_PREFIX}{domain}"
        """The class of ProvisioningRequests that are answered here."""
        self.condition = f"{domain}/{CONDITION}"
        """Condition of the first pod: whether the gang has its nodes, and why not."""
        self.node_label_prefix = f"gang.{domain}/"
        """The node label of a gang is this and the gang's id; its pods select its value
        (`Selection`)."""

    def consumes(self, annotations: Mapping[str, object]) -> str:
        """Return what a pod takes its node from: a request, or its `of_workload`; empty for none.

        A workload need not have booked anything.
        """
        workload = annotations.get(KUEUE_WORKLOAD)
        return self.consumed(annotations) or (of_workload(str(workload)) if workload else "")

    def consumed(self, annotations: Mapping[str, object]) -> str:
        """Return the ProvisioningRequest of our class that a pod consumes; empty for none."""
        for name, of_class in CONSUMES:
            if annotations.get(of_class) == self.provisioning_class and annotations.get(name):
                return str(annotations[name])
        return ""

    @cached_property
    def booking(self) -> str:
        """Annotation of the pods of a Workload of Kueue: the hold that they were let go with."""
        return f"{self.domain}/booking"

    @cached_property
    def whole_groups(self) -> str:
        """The name under which AdmissionChecks of Kueue are answered and jobs are held."""
        return f"{self.domain}/whole-groups"

    @cached_property
    def gang_name(self) -> str:
        """The user's, on pods without a job: which gang they are of."""
        return f"{self.domain}/gang-name"

    @cached_property
    def first_index(self) -> str:
        """Stamped annotation: the index of the first pod of this template; absent for 0."""
        return f"{self.domain}/gang-first-index"

    @cached_property
    def own_domains(self) -> str:
        """Stamped annotation where parts of the gang need domains of their own: all of its ranks
        (`encode_own_domains`).
        """
        return f"{self.domain}/gang-own-domains"

    @cached_property
    def asked(self) -> tuple[str, ...]:
        """All of the user's on a job."""
        return (self.size, self.mode, self.within, self.wait, self.way)

    @cached_property
    def by_links(self) -> str:
        """Label of a namespace (`BY_LINKS`), and stamped annotation of its pods without a group:
        they get their nodes by the links between the GPUs. The name is that of the vendor's plugin.
        """
        return f"{self.domain}/gpu-aware"

    @cached_property
    def of_composite(self) -> str:
        """Stamped annotation: the CompositePodGroup of Kubernetes whose pods are the gang."""
        return f"{self.domain}/gang-of-composite-pod-group"

    @cached_property
    def of_template(self) -> tuple[str, ...]:
        """All annotations that pods of one template have in common, but for what is read apart."""
        apart = {self.kind, self.is_late, self.claimed_gpus}
        return (
            *self.asked,
            *(key for key in self.of_stamp if key not in apart),
        )

    @cached_property
    def of_stamp(self) -> tuple[str, ...]:
        """All of the stamp."""
        more = (self.claimed_gpus, *self.of_some_stamps)
        return (self.pods, self.rank_offset, self.pods_per_group, *more)

    @cached_property
    def of_some_stamps(self) -> tuple[str, ...]:
        """What the stamp of a template may lack."""
        return (self.kind, self.is_late, self.pods_of_repeat, self.first_index, self.own_domains)


def of_workload(name: str) -> str:
    """Return what a Workload of Kueue is called among requests, whose names have no slash."""
    return f"{_WORKLOAD}{name}"


def holders(annotations: Mapping[str, object]) -> list[str]:
    """Return who holds a job before its quota, in the order of the annotation."""
    names = str(annotations.get(ADMISSION_GATED_BY) or "").split(",")
    return [name for each in names if (name := each.strip())]


def is_workload(name: str) -> bool:
    """Return whether that is the name of a Workload of Kueue."""
    return name.startswith(_WORKLOAD)


_WORKLOAD = "workload/"
