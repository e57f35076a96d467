"""The objects of Volcano by which a gang is let in: its PodGroup, and the queue of that.

Fields: `scheduling.volcano.sh/v1beta1` of Volcano v1.14.
"""

from dataclasses import field

from master.kube.objects import Metadata, Resource, slim

TOPOLOGY_MODE_HARD = "hard"


@slim
class NetworkTopology:
    """How near to each other a user of Volcano wants his pods; tier 1 is closest."""

    mode: str = TOPOLOGY_MODE_HARD
    highest_tier_allowed: int | None = None


@slim
class PodGroupCondition:
    """What Volcano's scheduler says of a gang, the latest of its type."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


@slim
class SubGroupPolicy:
    """Groups of pods that are to be near to each other, each of so many."""

    name: str = ""
    sub_group_size: int | None = None
    network_topology: NetworkTopology | None = None


@slim
class PodGroupSpec:
    """How many pods a gang needs at least, in which queue it stands, and what shall be near.

    Volcano goes by its priority class, whatever that of the pods is.
    """

    min_member: int = 0
    queue: str = ""
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


@slim
class PodGroupStatus:
    """How far a gang is: `phase` is Pending, Inqueue, Running, Unknown or Completed."""

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()


@slim
class PodGroupObject:
    """Pods that start together or not at all."""

    metadata: Metadata
    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)


@slim
class Guarantee:
    """What a queue has for itself, whether it uses it or not."""

    resource: dict[str, str] = field(default_factory=dict)


@slim
class QueueSpec:
    """What a queue may take at most; what is not named is not limited.

    `weight` is its part where queues share what is there, `deserved` what it may take back.
    """

    parent: str = ""
    weight: int = 1
    deserved: dict[str, str] = field(default_factory=dict)
    capability: dict[str, str] = field(default_factory=dict)
    guarantee: Guarantee = field(default_factory=Guarantee)


@slim
class QueueStatus:
    """What a queue's pods take, None before that was counted; `state` is Open, Closed, …"""

    state: str = ""
    allocated: dict[str, str] | None = None


@slim
class QueueObject:
    """A queue."""

    metadata: Metadata
    spec: QueueSpec = field(default_factory=QueueSpec)
    status: QueueStatus = field(default_factory=QueueStatus)


POD_GROUPS = Resource("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", PodGroupObject)
QUEUES = Resource("scheduling.volcano.sh/v1beta1", "Queue", "queues", QueueObject, namespaced=False)
