"""What a pod requires of its node and of the pods there, as its spec states it.

Fields: API reference of Kubernetes v1.37, core/v1.
"""

from dataclasses import field

from pydantic import Field

from master.kube.schema.slim import slim


@slim
class Requirement:
    """A condition on a label or field of an object; `operator` is In, NotIn, Exists, …"""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@slim
class NodeSelectorTerm:
    """Requirements that must all hold; a term without any matches no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


@slim
class NodeSelector:
    """Terms of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


@slim
class NodeAffinity:
    """The nodes that a pod requires; preferences concern the scheduler alone."""

    required: NodeSelector | None = Field(
        None, validation_alias="requiredDuringSchedulingIgnoredDuringExecution"
    )


@slim
class LabelSelector:
    """Labels that an object must have; without any condition every object is selected."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()


@slim
class PodAffinityTerm:
    """Pods, and the label of nodes of which one value makes one place.

    Without `label_selector` no pod is meant; without `namespaces` and `namespace_selector` those of
    the pod's own namespace.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


@slim
class PodAntiAffinity:
    """The pods that a pod requires to be elsewhere; preferences concern the scheduler alone."""

    required: tuple[PodAffinityTerm, ...] = Field(
        (), validation_alias="requiredDuringSchedulingIgnoredDuringExecution"
    )


@slim
class Affinity:
    """A pod's affinity to nodes, and its anti-affinity to pods; affinity to pods is not read."""

    node_affinity: NodeAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


def is_met(wanted: Requirement, value: str | None) -> bool:
    """Return whether the value meets the requirement; no value meets an unknown operator."""
    match wanted.operator:
        case "In":
            return value in wanted.values
        case "NotIn":
            return value not in wanted.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(wanted, value)
    return False


def _compares(wanted: Requirement, value: str | None) -> bool:
    try:
        found, limit = int(value or ""), int(*wanted.values)
    except (TypeError, ValueError):
        return False
    return found > limit if wanted.operator == "Gt" else found < limit
