"""Every call of a master to the API server: the rights that its role needs."""

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import NamedTuple

from master.admission import ADMISSION
from master.kube.dra.claims import CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_CLAIMS
from master.kube.dra.slices import RESOURCE_SLICES
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES
from master.kube.gang_object import GANGS
from master.kube.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    HYPERNODES,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    QUOTAS,
    SECRETS,
    BareObject,
    KubeObject,
    Resource,
)
from master.kube.schedulers.composite_groups import COMPOSITE_GROUPS
from master.kube.schedulers.node_features import NODE_FEATURES
from master.kube.schedulers.provisioning import POD_TEMPLATES, PROVISIONING_REQUESTS
from master.kube.schedulers.scheduling_groups import SCHEDULING_GROUPS
from master.kube.schedulers.topologies import (
    CLUSTER_QUEUES,
    KAI_TOPOLOGIES,
    KOORDINATOR_TOPOLOGIES,
    KUEUE_FLAVORS,
    KUEUE_TOPOLOGIES,
)
from master.kube.schedulers.volcano import POD_GROUPS, QUEUES
from master.kube.schedulers.workloads import ADMISSION_CHECKS, HELD, WORKLOADS
from master.kube.volumes import CLAIMS, STORAGE_CLASSES, VOLUMES


class RightScope(StrEnum):
    """Where a right applies."""

    CLUSTER = "cluster"
    OWN = "own"
    DEFAULT = "default"


class Right(NamedTuple):
    """Verbs on a resource, and the part that needs them; `name` narrows it to one object."""

    resource: Resource[KubeObject]
    verbs: tuple[str, ...]
    scope: RightScope
    used_for: str
    name: str = ""

    @property
    def group(self) -> str:
        """The API group, empty for the core."""
        return self.resource.api_version.rpartition("/")[0]

    def namespace(self, own: str) -> str:
        """Return the namespace in which it is granted, empty for the whole cluster."""
        return {RightScope.CLUSTER: "", RightScope.OWN: own, RightScope.DEFAULT: "default"}[
            self.scope
        ]


_REVIEWS = Resource("authentication.k8s.io/v1", "TokenReview", "tokenreviews", BareObject)
_NODE_STATUS = Resource("v1", "Node", "nodes/status", BareObject, namespaced=False)
_POD_STATUS = Resource("v1", "Pod", "pods/status", BareObject)
_NAME = "topo-master"
_REQUEST_STATUS = Resource(
    PROVISIONING_REQUESTS.api_version,
    PROVISIONING_REQUESTS.kind,
    f"{PROVISIONING_REQUESTS.plural}/status",
    BareObject,
)
_WORKLOAD_STATUS = Resource(
    WORKLOADS.api_version, WORKLOADS.kind, f"{WORKLOADS.plural}/status", BareObject
)
_CHECK_STATUS = Resource(
    ADMISSION_CHECKS.api_version,
    ADMISSION_CHECKS.kind,
    f"{ADMISSION_CHECKS.plural}/status",
    BareObject,
)
NOMINATION, PROVISIONING = "nomination", "provisioning"
KUEUE_WORKLOADS = "kueue-workloads"
SHARED_CARDS = "shared cards"
PLACEMENT, CERTIFICATES = "placement", "its certificates"
VOLCANO_CONFIG = "whether Volcano heeds groups"
GPU_QUOTA = "the quota of GPUs"
DEVICE_CONFIG_MAP = "metax-device-config"
VOLCANO_CONFIG_MAP = "volcano-scheduler-configmap"
_OWN_OBJECTS = ("list", "watch", "create", "patch", "delete")
QUOTA_CONFIG_MAP = "gpuquota"

RIGHTS = (
    Right(NODES, ("list", "watch"), RightScope.CLUSTER, "capacity"),
    Right(PODS, ("list", "watch"), RightScope.CLUSTER, "capacity"),
    Right(CONFIG_MAPS, ("list", "watch"), RightScope.OWN, SHARED_CARDS, DEVICE_CONFIG_MAP),
    Right(_REVIEWS, ("create",), RightScope.CLUSTER, "the identity of workers and masters"),
    Right(LEASES, ("create",), RightScope.OWN, "leading"),
    Right(LEASES, ("get", "update"), RightScope.OWN, "leading", _NAME),
    Right(CONFIG_MAPS, ("list", "create", "patch", "delete"), RightScope.OWN, "the kept state"),
    Right(NODES, ("patch",), RightScope.CLUSTER, "labels"),
    Right(NODES, ("patch",), RightScope.CLUSTER, "annotations"),
    Right(
        HYPERNODES,
        ("list", "watch", "create", "patch", "delete"),
        RightScope.CLUSTER,
        "hypernodes",
    ),
    Right(EVENTS, ("create", "patch"), RightScope.DEFAULT, "events"),
    Right(EVENTS, ("create", "patch"), RightScope.OWN, "events"),
    Right(DEPLOYMENTS, ("get",), RightScope.OWN, "events", _NAME),
    Right(SECRETS, ("get",), RightScope.OWN, PLACEMENT, ADMISSION),
    Right(SECRETS, ("patch",), RightScope.OWN, CERTIFICATES, ADMISSION),
    Right(MUTATING_WEBHOOKS, ("get", "patch"), RightScope.CLUSTER, CERTIFICATES, ADMISSION),
    Right(CONFIG_MAPS, ("get",), RightScope.CLUSTER, VOLCANO_CONFIG, VOLCANO_CONFIG_MAP),
    Right(CONFIG_MAPS, ("list", "watch"), RightScope.CLUSTER, GPU_QUOTA, QUOTA_CONFIG_MAP),
    Right(NODES, ("patch",), RightScope.CLUSTER, NOMINATION),
    Right(PODS, ("patch",), RightScope.CLUSTER, NOMINATION),
    Right(_POD_STATUS, ("patch",), RightScope.CLUSTER, NOMINATION),
    Right(POD_GROUPS, ("list", "watch"), RightScope.CLUSTER, NOMINATION),
    Right(QUEUES, ("list", "watch"), RightScope.CLUSTER, NOMINATION),
    Right(QUOTAS, ("list", "watch"), RightScope.CLUSTER, NOMINATION),
    Right(CLAIMS, ("list", "watch"), RightScope.CLUSTER, NOMINATION),
    Right(VOLUMES, ("list", "watch"), RightScope.CLUSTER, NOMINATION),
    Right(STORAGE_CLASSES, ("list", "watch"), RightScope.CLUSTER, NOMINATION),
    Right(RESOURCE_SLICES, ("list", "watch"), RightScope.CLUSTER, NOMINATION),
    Right(DEVICE_CLASSES, ("list", "watch"), RightScope.CLUSTER, NOMINATION),
    Right(CLAIM_TEMPLATES, ("list", "watch"), RightScope.CLUSTER, NOMINATION),
    Right(RESOURCE_CLAIMS, ("list", "watch"), RightScope.CLUSTER, NOMINATION),
    Right(EVENTS, ("create", "patch"), RightScope.CLUSTER, NOMINATION),
    Right(
        GANGS,
        ("list", "watch", "create", "patch", "delete"),
        RightScope.CLUSTER,
        "gang-objects",
    ),
    Right(RESOURCE_SLICES, ("list", "watch"), RightScope.CLUSTER, "device-taints"),
    Right(
        DEVICE_TAINT_RULES,
        ("list", "watch", "create", "patch", "delete"),
        RightScope.CLUSTER,
        "device-taints",
    ),
    Right(NODES, ("patch",), RightScope.CLUSTER, "node-taints"),
    Right(_NODE_STATUS, ("patch",), RightScope.CLUSTER, "node-conditions"),
    Right(
        SCHEDULING_GROUPS, ("list", "watch", "create", "patch"), RightScope.CLUSTER, "pod-groups"
    ),
    Right(KUEUE_TOPOLOGIES, _OWN_OBJECTS, RightScope.CLUSTER, "kueue-topologies"),
    Right(KUEUE_FLAVORS, _OWN_OBJECTS, RightScope.CLUSTER, "kueue-topologies"),
    Right(CLUSTER_QUEUES, ("list", "watch"), RightScope.CLUSTER, "kueue-topologies"),
    Right(KAI_TOPOLOGIES, _OWN_OBJECTS, RightScope.CLUSTER, "kai-topologies"),
    Right(KOORDINATOR_TOPOLOGIES, _OWN_OBJECTS, RightScope.CLUSTER, "koordinator-topologies"),
    Right(NODE_FEATURES, _OWN_OBJECTS, RightScope.OWN, "node-features"),
    Right(PROVISIONING_REQUESTS, ("list", "watch"), RightScope.CLUSTER, PROVISIONING),
    Right(_REQUEST_STATUS, ("patch",), RightScope.CLUSTER, PROVISIONING),
    Right(POD_TEMPLATES, ("list", "watch"), RightScope.CLUSTER, PROVISIONING),
    Right(EVENTS, ("create", "patch"), RightScope.CLUSTER, PROVISIONING),
    Right(WORKLOADS, ("list", "watch"), RightScope.CLUSTER, KUEUE_WORKLOADS),
    Right(_WORKLOAD_STATUS, ("patch",), RightScope.CLUSTER, KUEUE_WORKLOADS),
    Right(ADMISSION_CHECKS, ("list", "watch"), RightScope.CLUSTER, KUEUE_WORKLOADS),
    Right(_CHECK_STATUS, ("patch",), RightScope.CLUSTER, KUEUE_WORKLOADS),
    Right(KUEUE_FLAVORS, ("list", "watch"), RightScope.CLUSTER, KUEUE_WORKLOADS),
    Right(EVENTS, ("create", "patch"), RightScope.CLUSTER, KUEUE_WORKLOADS),
    *(Right(each, ("patch",), RightScope.CLUSTER, KUEUE_WORKLOADS) for each in HELD),
    Right(COMPOSITE_GROUPS, ("list", "watch"), RightScope.CLUSTER, "pod-groups"),
)
"""`used_for` is one of `PARTS`, or what every master does in a cluster."""
CONTROLLERS_BY_DEFAULT = frozenset({"labels", "hypernodes", "annotations", "events"})
CONTROLLERS = CONTROLLERS_BY_DEFAULT | {
    NOMINATION,
    "gang-objects",
    "pod-groups",
    "device-taints",
    "node-taints",
    "node-conditions",
    "hypernode-annotations",
    "kueue-topologies",
    "kai-topologies",
    "koordinator-topologies",
    "node-features",
    PROVISIONING,
    KUEUE_WORKLOADS,
}

PARTS = CONTROLLERS | {SHARED_CARDS, PLACEMENT, CERTIFICATES, VOLCANO_CONFIG, GPU_QUOTA}
"""Parts of a master that its flags can switch off or move."""


def rights(parts: Collection[str] = PARTS) -> Iterator[Right]:
    """Return the rights of a master with these parts."""
    off = PARTS.difference(parts)
    return (right for right in RIGHTS if right.used_for not in off)
