"""HyperNodes: Volcano's groups of nodes, and of groups, by tier.

Fields: `topology.volcano.sh/v1alpha1` of Volcano v1.14.
"""

from dataclasses import field

from master.kube.objects import Metadata, Resource
from master.kube.schema.slim import slim


@slim
class ExactMatch:
    """A selector of one name."""

    name: str


@slim
class MemberSelector:
    """The members of a HyperNode; `exact_match` is None for another kind of selector."""

    exact_match: ExactMatch | None = None


@slim
class HyperNodeMember:
    """A node or a HyperNode of a lower tier; `type` is Node or HyperNode."""

    type: str
    selector: MemberSelector = field(default_factory=MemberSelector)


@slim
class HyperNodeSpec:
    """A group and its tier; tier 1 is closest to the nodes."""

    tier: int
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


@slim
class HyperNodeObject:
    """Volcano's group of nodes or of groups."""

    metadata: Metadata
    spec: HyperNodeSpec


HYPERNODES = Resource(
    "topology.volcano.sh/v1alpha1", "HyperNode", "hypernodes", HyperNodeObject, namespaced=False
)
