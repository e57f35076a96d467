"""Volcano's PodGroup and Queue, which decide whether a gang is admitted."""

from dataclasses import field

from master.kube.objects import Metadata, Resource
from master.kube.schedulers.conditions import ExplainedCondition
from master.kube.schema.slim import slim

TOPOLOGY_MODE_HARD = "hard"


@slim
class NetworkTopology:
    """How close together pods must be; tier 1 is closest."""

    mode: str = TOPOLOGY_MODE_HARD
    highest_tier_allowed: int | None = None


@slim
class SubGroupPolicy:
    """Subgroups of `sub_group_size` pods, each with its own network topology."""

    name: str = ""
    sub_group_size: int | None = None
    network_topology: NetworkTopology | None = None


@slim
class PodGroupSpec:
    """The minimum of pods, the queue and the network topology of a gang.

    Volcano uses the priority class of the PodGroup and ignores that of the pods.
    """

    min_member: int = 0
    queue: str = ""
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


@slim
class PodGroupStatus:
    """The phase of a gang: Pending, Inqueue, Running, Unknown or Completed."""

    phase: str = ""
    conditions: tuple[ExplainedCondition, ...] = ()


@slim
class PodGroupObject:
    """A gang of Volcano: its pods start together or not at all."""

    metadata: Metadata
    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)


@slim
class Guarantee:
    """Resources that a queue keeps for itself, used or not."""

    resource: dict[str, str] = field(default_factory=dict)


@slim
class QueueSpec:
    """The limits of a queue; a resource that is not named is not limited.

    `weight` is the queue's share where queues divide resources, `deserved` what the queue may
    reclaim.
    """

    parent: str = ""
    weight: int = 1
    deserved: dict[str, str] = field(default_factory=dict)
    capability: dict[str, str] = field(default_factory=dict)
    guarantee: Guarantee = field(default_factory=Guarantee)


@slim
class QueueStatus:
    """The resources that a queue's pods use, None before they were counted; `state` is Open, …"""

    state: str = ""
    allocated: dict[str, str] | None = None


@slim
class QueueObject:
    """A queue of Volcano."""

    metadata: Metadata
    spec: QueueSpec = field(default_factory=QueueSpec)
    status: QueueStatus = field(default_factory=QueueStatus)


POD_GROUPS = Resource("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", PodGroupObject)
QUEUES = Resource("scheduling.volcano.sh/v1beta1", "Queue", "queues", QueueObject, namespaced=False)
