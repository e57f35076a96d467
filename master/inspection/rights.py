"""Every call of a master to the API server: what its role must allow, and nothing else."""

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import NamedTuple

from master.kube.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    HYPERNODES,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    SECRETS,
    BareObject,
    KubeObject,
    Resource,
)
from master.kube.volcano import POD_GROUPS, QUEUES


class Scope(StrEnum):
    """Where a right is given."""

    CLUSTER = "cluster"
    OWN = "own"
    DEFAULT = "default"


class Right(NamedTuple):
    """The verbs on a resource, and what needs them; `name` narrows it to one object."""

    resource: Resource[KubeObject]
    verbs: tuple[str, ...]
    scope: Scope
    used_for: str
    name: str = ""

    @property
    def group(self) -> str:
        """The API group, empty for the core."""
        return self.resource.api_version.rpartition("/")[0]

    def namespace(self, own: str) -> str:
        """The namespace that it is given in, empty for all of the cluster."""
        return {Scope.CLUSTER: "", Scope.OWN: own, Scope.DEFAULT: "default"}[self.scope]


_REVIEWS = Resource("authentication.k8s.io/v1", "TokenReview", "tokenreviews", BareObject)
_POD_STATUS = Resource("v1", "Pod", "pods/status", BareObject)
_NAME = "topo-master"
NOMINATION = "nomination"
SHARED_CARDS = "shared cards"
PLACEMENT, CERTIFICATES = "placement", "its certificates"
HEEDING = "whether Volcano heeds groups"
_ADMISSION = "topo-master-admission"
DEVICE_CONFIG_MAP = "metax-device-config"
VOLCANO_CONFIG_MAP = "volcano-scheduler-configmap"

RIGHTS = (
    Right(NODES, ("list", "watch"), Scope.CLUSTER, "capacity"),
    Right(PODS, ("list", "watch"), Scope.CLUSTER, "capacity"),
    Right(CONFIG_MAPS, ("list", "watch"), Scope.OWN, SHARED_CARDS, DEVICE_CONFIG_MAP),
    Right(_REVIEWS, ("create",), Scope.CLUSTER, "the identity of workers and masters"),
    Right(LEASES, ("create",), Scope.OWN, "leading"),
    Right(LEASES, ("get", "update"), Scope.OWN, "leading", _NAME),
    Right(CONFIG_MAPS, ("list", "create", "patch", "delete"), Scope.OWN, "the kept state"),
    Right(NODES, ("patch",), Scope.CLUSTER, "labels"),
    Right(NODES, ("patch",), Scope.CLUSTER, "annotations"),
    Right(
        HYPERNODES,
        ("list", "watch", "create", "patch", "delete"),
        Scope.CLUSTER,
        "hypernodes",
    ),
    Right(EVENTS, ("create", "patch"), Scope.DEFAULT, "events"),
    Right(EVENTS, ("create", "patch"), Scope.OWN, "events"),
    Right(DEPLOYMENTS, ("get",), Scope.OWN, "events", _NAME),
    Right(SECRETS, ("get",), Scope.OWN, PLACEMENT, _ADMISSION),
    Right(SECRETS, ("patch",), Scope.OWN, CERTIFICATES, _ADMISSION),
    Right(MUTATING_WEBHOOKS, ("get", "patch"), Scope.CLUSTER, CERTIFICATES, _ADMISSION),
    Right(CONFIG_MAPS, ("get",), Scope.CLUSTER, HEEDING, VOLCANO_CONFIG_MAP),
    Right(NODES, ("patch",), Scope.CLUSTER, NOMINATION),
    Right(PODS, ("patch",), Scope.CLUSTER, NOMINATION),
    Right(_POD_STATUS, ("patch",), Scope.CLUSTER, NOMINATION),
    Right(POD_GROUPS, ("list", "watch"), Scope.CLUSTER, NOMINATION),
    Right(QUEUES, ("list", "watch"), Scope.CLUSTER, NOMINATION),
    Right(EVENTS, ("create", "patch"), Scope.CLUSTER, NOMINATION),
)
"""`used_for` is one of `PARTS`, or what every master does in a cluster."""
CONTROLLERS_BY_DEFAULT = frozenset({"labels", "hypernodes", "annotations", "events"})
CONTROLLERS = CONTROLLERS_BY_DEFAULT | {NOMINATION}

PARTS = CONTROLLERS | {SHARED_CARDS, PLACEMENT, CERTIFICATES, HEEDING}
"""What the flags of a master can do without, or look for elsewhere."""


def rights(parts: Collection[str] = PARTS) -> Iterator[Right]:
    """Those that a master needs of which these parts are switched on."""
    off = PARTS.difference(parts)
    return (right for right in RIGHTS if right.used_for not in off)
