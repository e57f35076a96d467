"""What a job asks for: identical pods in identical groups, and which nodes they may use."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from topo.model.errors import Refusal
from topo.model.ids import FabricName, GroupPath, Kind, NodeName
from topo.model.limits import MAX_PODS
from topo.model.machine import MAX_GPUS

Labels = tuple[tuple[str, str], ...]
"""Labels as (key, value), sorted by key."""


class PlacementMode(StrEnum):
    """Whether a group may be split over several domains when it does not fit in one."""

    REQUIRED = "required"
    PREFERRED = "preferred"


@dataclass(frozen=True, slots=True)
class Toleration:
    """As Kubernetes defines it; an empty key with `Exists` tolerates every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class OwnDomains(NamedTuple):
    """Runs of ranks, `times` of `pods` each, that need a domain of their own each.

    A domain is the nodes with one value of `label`. Empty: these ranks need none.
    """

    times: int
    pods: int
    label: str


class Kin(NamedTuple):
    """Pods that may have to be in other domains than those of a job: with this label, in a scope.

    The scope is a namespace, or the value of another label.
    """

    label: str
    scope: str


class OtherGroup(NamedTuple):
    """A group of a fabric that is not the tree's, by its names from the root of that fabric."""

    fabric: FabricName
    kind: Kind
    path: GroupPath


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Which nodes a job may use; requests that agree on it share one array of slots.

    `gpu_type=None`: the type with the best placement, a job never mixes them. `usage` is what the
    job is, `training` or `inference`: it fits nodes of that pool, of the hybrid one and of none, as
    far as it tolerates their taints; with `spares_hybrid` it does without the hybrid one. Without a
    usage only taints keep it out. `inside`: only the nodes of that group of another fabric.
    """

    gpu_type: str | None = None
    selector: Labels = ()
    tolerations: tuple[Toleration, ...] = ()
    exclude: frozenset[NodeName] = frozenset()
    usage: str = ""
    spares_hybrid: bool = False
    inside: OtherGroup | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One gang: `pods` pods of `gpus_per_pod` GPUs, in groups of `group_size` GPUs.

    No `group_size`: the whole job is one group. `within` is a kind of group that all of the job
    must share one of: of the tree (`switchbox`), or where the tree has none of the kind, of another
    fabric (`leaf`). `by_rank`: where pods may use different nodes, what those of
    each run of ranks may, as (pods, eligibility); `eligible` is then what any may.

    `own_domains`: by rank, the runs of ranks that each have to be in a domain of their own, where
    no pods of other runs are, nor of other jobs of the first of the `kins`. Pods of any of these
    may keep a domain for themselves. The engine knows nothing of either:
    `topo/gangs/decisions/own_domains.py` does.
    """

    pods: int
    gpus_per_pod: int
    group_size: int | None = None
    mode: PlacementMode = PlacementMode.REQUIRED
    within: Kind | None = None
    eligible: Eligibility = Eligibility()
    by_rank: tuple[tuple[int, Eligibility], ...] = ()
    own_domains: tuple[OwnDomains, ...] = ()
    kins: tuple[Kin, ...] = ()

    def eligible_of(self, rank: int) -> Eligibility:
        """Return which nodes a pod may use; O(runs of ranks)."""
        for pods, eligible in self.by_rank:
            if rank < pods:
                return eligible
            rank -= pods
        return self.eligible

    def on_type(self, gpu_type: str) -> "Request":
        """Return the request with all of its pods on one GPU type."""
        return replace(self, eligible=replace(self.eligible, gpu_type=gpu_type))

    def by_pool(self) -> "tuple[Request, ...]":
        """Return the requests to try in order, this one last: hybrid nodes only where needed.

        They are for both kinds of jobs, so a job of one kind leaves them to the other while its own
        nodes have room. Where groups may be split, a whole one on hybrid nodes is better than one
        that is split on its own.
        """
        if not self.eligible.usage or self.eligible.spares_hybrid:
            return (self,)
        own = replace(self, eligible=replace(self.eligible, spares_hybrid=True))
        whole = [replace(each, mode=PlacementMode.REQUIRED) for each in (own, self)]
        return tuple(dict.fromkeys((*whole, own, self)))

    @property
    def pods_per_group(self) -> int:
        """k: slots that one whole group takes."""
        if self.group_size is None:
            return self.pods
        return self.group_size // self.gpus_per_pod

    @property
    def whole_groups(self) -> int:
        """m: groups of exactly k pods."""
        return self.pods // self.pods_per_group

    @property
    def tail(self) -> int:
        """r: pods of the last, smaller group; 0 where there is none."""
        return self.pods % self.pods_per_group

    @property
    def group_pods(self) -> tuple[int, ...]:
        """Pods of each group in rank order: k, k, …, and the tail."""
        tail = (self.tail,) if self.tail else ()
        return (self.pods_per_group,) * self.whole_groups + tail

    def pods_of_group(self, group: int) -> int:
        """Return how many pods the group of this number has; 0 beyond the last. O(1).

        A pod may state a rank of a million, so that `group_pods` is of as many groups.
        """
        return max(0, min(self.pods_per_group, self.pods - group * self.pods_per_group))


def flaw(request: Request) -> Refusal | None:
    """Return what makes a request meaningless on any cluster, or None; O(1)."""
    for field, value, most in (
        ("pods", request.pods, MAX_PODS),
        ("gpus_per_pod", request.gpus_per_pod, MAX_GPUS),
        ("group_size", request.group_size, MAX_PODS * MAX_GPUS),
    ):
        if value is not None and not 1 <= value <= most:
            return Refusal(f"{field} is {value}", field, f"give a whole number from 1 to {most}")
    size, gpus = request.group_size, request.gpus_per_pod
    if size is not None and size % gpus:
        what = f"a group of {size} GPUs is not a whole number of pods of {gpus} GPUs"
        below, above = size - size % gpus, size - size % gpus + gpus
        near = f"{below} or {above}" if below else str(above)
        return Refusal(what, "group_size", f"give a multiple of gpus_per_pod, such as {near}")
    return None
