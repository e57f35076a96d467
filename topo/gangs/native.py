"""The groups of a native gang as fields of its PodGroup, for Volcano to choose the nodes.

    11 pods in groups of 4 → groups 0 and 1 of 4 pods each, group 2 of 3 pods,
    each inside one HyperNode of the lowest tier that has a HyperNode for 4 such pods

A pod is in the first policy that selects it, and a sub-group with fewer pods than `subGroupSize`
never starts, so that the smaller last group has a policy of its own. `minSubGroups` is left out:
the gang's own minimum starts all groups together, and with `minSubGroups` set, pods without a label
would keep the job waiting for ever.

Sources: `scheduling.volcano.sh/v1beta1` PodGroup of volcano.sh/apis v1.14; Volcano v1.14.1,
pkg/scheduler/api/job_info.go (`getOrCreateSubJob`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.stamp import Stamp
from topo.gangs.terms import GroupTerms
from topo.model.ids import Kind
from topo.placement.job.request import PlacementMode

PLUGIN = "network-topology-aware"
"""Volcano's plugin that reads these fields; without it the scheduler ignores them silently."""
Shape = tuple[tuple[int, int], ...]
"""The nodes of a group by size: (GPUs of a node, number of such nodes)."""


@dataclass(frozen=True, slots=True)
class HyperNodeTier:
    """The groups that are HyperNodes of one tier: their kinds, and all their shapes."""

    number: int
    kinds: frozenset[Kind]
    shapes: frozenset[Shape]

    def pods(self, gpus_per_pod: int) -> int:
        """Return how many pods of this size the largest group of the tier holds when empty."""
        return max((_pods(shape, gpus_per_pod) for shape in self.shapes), default=0)


def _pods(shape: Shape, gpus_per_pod: int) -> int:
    return sum(nodes * (gpus // gpus_per_pod) for gpus, nodes in shape)


Tiers = Sequence[HyperNodeTier]
"""From the lowest, whose groups are the closest; empty where no group is known."""


def lowest_tier_for(tiers: Tiers, pods: int, gpus_per_pod: int) -> HyperNodeTier | None:
    """Return the lowest tier in which an empty group holds these pods; None if there is none."""
    return next((tier for tier in tiers if tier.pods(gpus_per_pod) >= pods), None)


def tier_of_kind(tiers: Tiers, kind: Kind) -> HyperNodeTier | None:
    """Return the tier of a kind of group; None if no tier has this kind."""
    return next((tier for tier in tiers if kind in tier.kinds), None)


def kinds(tiers: Tiers) -> tuple[Kind, ...]:
    """Return all kinds of groups, from the lowest tier."""
    return tuple(kind for tier in tiers for kind in sorted(tier.kinds))


def constraints(
    stamp: Stamp, terms: GroupTerms, tiers: Tiers, keys: AnnotationKeys
) -> Mapping[str, Any] | None:
    """Return the fields of a PodGroup's `spec` that group its pods; None if groups are unknown.

    If no tier has a group that is large enough for a required group, the highest tier is used: the
    pods then wait and are never split.
    """
    if not tiers:
        return None
    gpus_per_pod = terms.group_size // stamp.pods_per_group
    tier = lowest_tier_for(tiers, min(stamp.pods, stamp.pods_per_group), gpus_per_pod) or tiers[-1]
    near = _topology(terms.mode, tier)
    found: dict[str, Any] = {"subGroupPolicy": list(_policies(stamp, near, keys))}
    if terms.within is not None and (above := tier_of_kind(tiers, terms.within)) is not None:
        found["networkTopology"] = _topology(terms.mode, above)
    return found


def _topology(mode: PlacementMode, tier: HyperNodeTier) -> Mapping[str, Any]:
    if mode is PlacementMode.PREFERRED:
        return {"mode": "soft"}
    return {"mode": "hard", "highestTierAllowed": tier.number}


def _policies(
    stamp: Stamp, near: Mapping[str, Any], keys: AnnotationKeys
) -> Iterator[Mapping[str, Any]]:
    """Yield one policy for all groups of the same size, and a second one for a smaller last group.

    The names contain a slash, which task names cannot: Volcano replaces a policy named like a task.
    """
    groups, rest = divmod(stamp.pods, stamp.pods_per_group)
    alike = {"matchLabelKeys": [keys.group], "networkTopology": near}
    is_one: Mapping[str, Any] = {"key": keys.group, "operator": "Exists"}
    is_last: Mapping[str, Any] = {"key": keys.group, "operator": "In", "values": [str(groups)]}
    if groups:
        selected = [is_one, {**is_last, "operator": "NotIn"}] if rest else [is_one]
        size = {"name": keys.group, "subGroupSize": stamp.pods_per_group}
        yield {**size, "labelSelector": {"matchExpressions": selected}, **alike}
    if rest:
        size = {"name": f"{keys.group}-last", "subGroupSize": rest}
        yield {**size, "labelSelector": {"matchExpressions": [is_last]}, **alike}
