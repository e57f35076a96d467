"""PodGroup of Kubernetes itself (1.37): pods that kube-scheduler binds all or none.

It is served only where `scheduling.k8s.io/v1beta1` and the gate GenericWorkload are switched on. A
pod names it in `spec.schedulingGroup`, so it is called a scheduling group here, and a PodGroup is
Volcano's. Source: `k8s.io/api/scheduling/v1beta1/types.go` of v0.37.
"""

from dataclasses import field

from master.kube.objects import Metadata, Resource
from master.kube.schedulers.conditions import ExplainedCondition
from master.kube.schema.slim import slim

_SCHEDULED = "PodGroupInitiallyScheduled"


@slim
class GangSchedulingPolicy:
    """All or none: at least `min_count` pods are bound together."""

    min_count: int = 1


@slim
class SchedulingPolicy:
    """How the pods of a group are bound; without `gang` one by one."""

    gang: GangSchedulingPolicy | None = None


@slim
class TopologyConstraint:
    """All pods of the group have to be on nodes of one value of this label."""

    key: str = ""


@slim
class SchedulingConstraints:
    """At most one constraint in v1beta1."""

    topology: tuple[TopologyConstraint, ...] = ()

    @property
    def key(self) -> str:
        """The node label of which all pods need one value; empty for none."""
        return self.topology[0].key if self.topology else ""


@slim
class GroupSpec:
    """The constraints of a group, and the CompositePodGroup that it is below, empty for none."""

    parent_composite_pod_group_name: str = ""
    scheduling_constraints: SchedulingConstraints | None = None

    @property
    def topology_key(self) -> str:
        """The node label of which all pods below it need one value; empty for none."""
        constraints = self.scheduling_constraints
        return constraints.key if constraints is not None else ""


@slim
class SchedulingGroupSpec(GroupSpec):
    """The spec of a PodGroup, with its policy."""

    scheduling_policy: SchedulingPolicy = field(default_factory=SchedulingPolicy)


@slim
class SchedulingGroupCondition(ExplainedCondition):
    """A condition that kube-scheduler reports; `status` is True, False or Unknown."""

    type: str = ""
    status: str = ""


@slim
class SchedulingGroupStatus:
    """What kube-scheduler reports; empty until it has tried the group."""

    conditions: tuple[SchedulingGroupCondition, ...] = ()


@slim
class SchedulingGroupObject:
    """A PodGroup of Kubernetes."""

    metadata: Metadata
    spec: SchedulingGroupSpec = field(default_factory=SchedulingGroupSpec)
    status: SchedulingGroupStatus = field(default_factory=SchedulingGroupStatus)

    @property
    def is_gang(self) -> bool:
        """Whether its pods are bound all or none."""
        return self.spec.scheduling_policy.gang is not None

    @property
    def is_scheduled(self) -> bool:
        """Whether kube-scheduler has scheduled as many pods as it needs, at any time."""
        reports = self.status.conditions
        return any(each.type == _SCHEDULED and each.status == "True" for each in reports)

    @property
    def min_count(self) -> int:
        """How many pods are bound together at least."""
        gang = self.spec.scheduling_policy.gang
        return gang.min_count if gang is not None else 1


SCHEDULING_GROUPS = Resource(
    "scheduling.k8s.io/v1beta1", "PodGroup", "podgroups", SchedulingGroupObject
)
