"""Every call of a master to the API server: the rights that its role needs."""

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from master.admission import ADMISSION
from master.controllers import names
from master.kube.dra.claims import CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_CLAIMS
from master.kube.dra.slices import RESOURCE_SLICES
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES
from master.kube.gang_object import GANGS
from master.kube.leader_election.lease_object import LEASES
from master.kube.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
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
from master.kube.schedulers.hypernodes import HYPERNODES
from master.kube.schedulers.jobs import SIZED_KINDS, job_resource
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
SHARED_CARDS = "shared cards"
PLACEMENT, CERTIFICATES = "placement", "its certificates"
VOLCANO_CONFIG = "whether Volcano heeds groups"
GPU_QUOTA = "the quota of GPUs"
DEVICE_CONFIG_MAP = "metax-device-config"
VOLCANO_CONFIG_MAP = "volcano-scheduler-configmap"
QUOTA_CONFIG_MAP = "gpuquota"
_FOLLOWED = ("list", "watch")
_OWN_OBJECTS = (*_FOLLOWED, "create", "patch", "delete")
_READ_FOR_GANGS: tuple[Resource[Any], ...] = (
    *(POD_GROUPS, QUEUES, QUOTAS, CLAIMS, VOLUMES, STORAGE_CLASSES),
    *(RESOURCE_SLICES, DEVICE_CLASSES, CLAIM_TEMPLATES, RESOURCE_CLAIMS),
    *map(job_resource, SIZED_KINDS),
)
_KEEPS_AHEAD = (GPU_QUOTA, *names.OF_REQUESTS)
"""Parts that keep GPUs for pods that are not there, beside nomination."""

RIGHTS = (
    Right(NODES, _FOLLOWED, RightScope.CLUSTER, "capacity"),
    Right(PODS, _FOLLOWED, RightScope.CLUSTER, "capacity"),
    Right(CONFIG_MAPS, _FOLLOWED, RightScope.OWN, SHARED_CARDS, DEVICE_CONFIG_MAP),
    Right(_REVIEWS, ("create",), RightScope.CLUSTER, "the identity of workers and masters"),
    Right(LEASES, ("create",), RightScope.OWN, "leading"),
    Right(LEASES, ("get", "update"), RightScope.OWN, "leading", _NAME),
    Right(CONFIG_MAPS, ("list", "create", "patch", "delete"), RightScope.OWN, "the kept state"),
    Right(NODES, ("patch",), RightScope.CLUSTER, names.LABELS),
    Right(NODES, ("patch",), RightScope.CLUSTER, names.ANNOTATIONS),
    Right(HYPERNODES, _OWN_OBJECTS, RightScope.CLUSTER, names.HYPERNODES),
    Right(EVENTS, ("create", "patch"), RightScope.DEFAULT, names.EVENTS),
    Right(EVENTS, ("create", "patch"), RightScope.OWN, names.EVENTS),
    Right(DEPLOYMENTS, ("get",), RightScope.OWN, names.EVENTS, _NAME),
    Right(SECRETS, ("get",), RightScope.OWN, PLACEMENT, ADMISSION),
    Right(SECRETS, ("patch",), RightScope.OWN, CERTIFICATES, ADMISSION),
    Right(MUTATING_WEBHOOKS, ("get", "patch"), RightScope.CLUSTER, CERTIFICATES, ADMISSION),
    Right(CONFIG_MAPS, ("get",), RightScope.CLUSTER, VOLCANO_CONFIG, VOLCANO_CONFIG_MAP),
    Right(CONFIG_MAPS, _FOLLOWED, RightScope.CLUSTER, GPU_QUOTA, QUOTA_CONFIG_MAP),
    Right(NODES, ("patch",), RightScope.CLUSTER, names.NOMINATION),
    Right(PODS, ("patch",), RightScope.CLUSTER, names.NOMINATION),
    Right(_POD_STATUS, ("patch",), RightScope.CLUSTER, names.NOMINATION),
    *(Right(each, _FOLLOWED, RightScope.CLUSTER, names.NOMINATION) for each in _READ_FOR_GANGS),
    Right(EVENTS, ("create", "patch"), RightScope.CLUSTER, names.NOMINATION),
    Right(GANGS, _OWN_OBJECTS, RightScope.CLUSTER, names.GANG_OBJECTS),
    Right(RESOURCE_SLICES, _FOLLOWED, RightScope.CLUSTER, names.DEVICE_TAINTS),
    Right(DEVICE_TAINT_RULES, _OWN_OBJECTS, RightScope.CLUSTER, names.DEVICE_TAINTS),
    Right(NODES, ("patch",), RightScope.CLUSTER, names.NODE_TAINTS),
    Right(_NODE_STATUS, ("patch",), RightScope.CLUSTER, names.NODE_CONDITIONS),
    Right(
        SCHEDULING_GROUPS,
        (*_FOLLOWED, "create", "patch"),
        RightScope.CLUSTER,
        names.POD_GROUPS,
    ),
    Right(KUEUE_TOPOLOGIES, _OWN_OBJECTS, RightScope.CLUSTER, names.KUEUE_FORMAT),
    Right(KUEUE_FLAVORS, _OWN_OBJECTS, RightScope.CLUSTER, names.KUEUE_FORMAT),
    Right(CLUSTER_QUEUES, _FOLLOWED, RightScope.CLUSTER, names.KUEUE_FORMAT),
    Right(KAI_TOPOLOGIES, _OWN_OBJECTS, RightScope.CLUSTER, names.KAI_FORMAT),
    Right(KOORDINATOR_TOPOLOGIES, _OWN_OBJECTS, RightScope.CLUSTER, names.KOORDINATOR_FORMAT),
    Right(NODE_FEATURES, _OWN_OBJECTS, RightScope.OWN, names.NODE_FEATURES),
    *(Right(QUOTAS, _FOLLOWED, RightScope.CLUSTER, each) for each in _KEEPS_AHEAD),
    Right(WORKLOADS, _FOLLOWED, RightScope.CLUSTER, names.PROVISIONING),
    Right(PROVISIONING_REQUESTS, _FOLLOWED, RightScope.CLUSTER, names.PROVISIONING),
    Right(_REQUEST_STATUS, ("patch",), RightScope.CLUSTER, names.PROVISIONING),
    Right(POD_TEMPLATES, _FOLLOWED, RightScope.CLUSTER, names.PROVISIONING),
    Right(EVENTS, ("create", "patch"), RightScope.CLUSTER, names.PROVISIONING),
    Right(WORKLOADS, _FOLLOWED, RightScope.CLUSTER, names.KUEUE_WORKLOADS),
    Right(_WORKLOAD_STATUS, ("patch",), RightScope.CLUSTER, names.KUEUE_WORKLOADS),
    Right(ADMISSION_CHECKS, _FOLLOWED, RightScope.CLUSTER, names.KUEUE_WORKLOADS),
    Right(_CHECK_STATUS, ("patch",), RightScope.CLUSTER, names.KUEUE_WORKLOADS),
    Right(KUEUE_FLAVORS, _FOLLOWED, RightScope.CLUSTER, names.KUEUE_WORKLOADS),
    Right(EVENTS, ("create", "patch"), RightScope.CLUSTER, names.KUEUE_WORKLOADS),
    *(Right(each, ("patch",), RightScope.CLUSTER, names.KUEUE_WORKLOADS) for each in HELD),
    Right(COMPOSITE_GROUPS, _FOLLOWED, RightScope.CLUSTER, names.POD_GROUPS),
)
"""`used_for` is one of `PARTS`, or what every master does in a cluster."""
PARTS = frozenset({*names.NAMES, SHARED_CARDS, PLACEMENT, CERTIFICATES, VOLCANO_CONFIG, GPU_QUOTA})
"""Parts of a master that its flags can switch off or move."""


def rights(parts: Collection[str] = PARTS) -> Iterator[Right]:
    """Return the rights of a master with these parts."""
    off = PARTS.difference(parts)
    return (right for right in RIGHTS if right.used_for not in off)
