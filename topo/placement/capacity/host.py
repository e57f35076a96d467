"""A node as placement sees it: what forest and cluster say of it, and which jobs may use it.

Taints and tolerations as Kubernetes defines them:
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from topo.model.cluster import HYBRID, ClusterNode, Taint, quarantine_taint
from topo.model.forest import ROOT
from topo.model.ids import GroupPath, Kind, NodeName
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, Labels, OtherGroup, Toleration

HOSTNAME = "kubernetes.io/hostname"


Guards = tuple[tuple[Taint, ...], str]
"""Taints, and the usage pool."""
UNGUARDED: Guards = (), ""
_HARD = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One node. `path`, `kinds` and `tiers` are parallel, from the root to the innermost group.

    `places` is parallel too: the names by which groups are ordered among their siblings; empty if
    these are their own names.

    An empty path means that the node is in no group, so it is a domain of its own at every tier.
    `gpus` are whole GPUs that pods may request; `penalty` orders otherwise equal hosts (0 is best):
    suspected links, usage pools. `suspected`: whether such links are part of it. `quarantine`: why
    an operator keeps new pods off, None where none does; the host is cordoned then. `pool` is the
    purpose of the node. `elsewhere`: its groups in other fabrics, each fabric's outermost first.
    `shared` are the resources in which its cards are shared, with the numbers in their own units:
    such a node has no whole GPU.

    If the cluster knows the node, `cluster` has the cluster's facts, and `forest` is the host as
    the forest alone describes it, None if the forest does not know the node.
    """

    name: NodeName
    path: GroupPath = ROOT
    kinds: tuple[Kind, ...] = ()
    tiers: tuple[int, ...] = ()
    places: tuple[str, ...] = ()
    gpus: int = 0
    gpu_type: str = ""
    ready: bool = True
    cordoned: bool = False
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    penalty: int = 0
    suspected: bool = False
    quarantine: str | None = None
    elsewhere: tuple[OtherGroup, ...] = ()
    pool: str = ""
    shared: tuple[tuple[str, int], ...] = ()
    forest: "Host | None" = None
    cluster: ClusterNode | None = None

    @property
    def is_open(self) -> bool:
        """Whether new pods may start on the host at all."""
        return self.ready and not self.cordoned

    @property
    def place(self) -> tuple[object, ...]:
        """The host's place in the tree."""
        return self.path, self.kinds, self.tiers, self.places

    @property
    def stated_labels(self) -> Labels:
        """The labels as schedulers see them; `labels` is ahead where the forest is newer."""
        return self.cluster.labels if self.cluster is not None else self.labels

    @property
    def fixed_facts(self) -> tuple[object, ...]:
        """The facts that no assumption about the host changes."""
        return self.place, self.elsewhere, self.gpus, self.gpu_type, self.labels

    def is_like(self, other: "Host") -> bool:
        """Return whether two hosts differ at most in being ready and cordoned."""
        return (
            self.gpus == other.gpus
            and self.gpu_type == other.gpu_type
            and self.penalty == other.penalty
            and self.labels == other.labels
            and self.guards == other.guards
            and self.place == other.place
            and self.elsewhere == other.elsewhere
        )

    @property
    def guards(self) -> "Guards":
        """The facts that keep some jobs out, besides type and labels; equal for most nodes."""
        return self.taints, self.pool

    @property
    def forest_and_cluster(self) -> "tuple[Host | None, ClusterNode | None]":
        """The forest half and the cluster half; without a cluster the host is its forest half."""
        return (self, None) if self.cluster is None else (self.forest, self.cluster)


def unbooked_gpus(host: Host, booked: int) -> int:
    """Return the GPUs of a host that nobody booked; none where more are booked than there are."""
    return max(0, host.gpus - booked)


def free_gpus(host: Host, booked: int) -> int:
    """Return the free GPUs of a host: the unbooked ones, none of a host that is not open.

    Whoever counts free GPUs counts these; `HostColumns.taken` counts many hosts at once.
    """
    return unbooked_gpus(host, booked) if host.is_open else 0


@dataclass(frozen=True, slots=True)
class Difference:
    """A node whose free GPUs, or whose tier-1 domain's free slots, a recount found wrong."""

    node: NodeName
    counted: int
    kept: int


def joined(forest: Host | None, cluster: ClusterNode | None, policy: Policy) -> Host | None:
    """Return the host that two statements make together; None where neither is made.

    Pure, so that following, recounting and what-if agree. Each fact and who decides it:

    - path, kinds, tiers: the forest. A node that only the cluster knows has an empty path.
    - ready: both must say so; who is silent is no obstacle. Cordon and taints: the cluster.
    - gpus: what a pod can get, which is the cluster's allocatable of the first resource of the
      policy that the node has, none if it has none of them or shares its cards; GPUs that the
      worker saw only where the cluster says nothing about allocatable.
    - gpu_type: the worker, else the cluster's product label of that resource.
    - labels: the cluster's, over those that a host name and GPUs imply, under those that the place
      implies: where a label of a group lags behind the forest, the forest is newer.
    - pool, and what cards are shared in: the cluster.
    - penalty: that of the forest (suspected links) plus the policy's for the usage pool.
    """
    if cluster is None:
        return forest
    seen = forest or Host(name=cluster.name, labels=((HOSTNAME, cluster.name),))
    stated = dict(cluster.labels)
    placed = {f"{policy.domain}/{kind}" for kind in seen.kinds}
    labels = {**dict(seen.labels), **stated, **{k: v for k, v in seen.labels if k in placed}}
    resource, gpus = _allocatable(cluster, policy) or ("", seen.gpus)
    return replace(
        seen,
        gpus=0 if cluster.shared else gpus,
        gpu_type=seen.gpu_type or stated.get(f"{resource}.product", ""),
        ready=seen.ready and cluster.ready,
        cordoned=seen.cordoned or cluster.unschedulable,
        labels=tuple(sorted(labels.items())),
        taints=seen.taints + _other_taints(seen, cluster, policy),
        penalty=seen.penalty + dict(policy.pool_penalties).get(cluster.pool, 0),
        pool=cluster.pool,
        shared=cluster.shared,
        forest=forest,
        cluster=cluster,
    )


def _other_taints(seen: Host, cluster: ClusterNode, policy: Policy) -> tuple[Taint, ...]:
    """Return the taints but that of the node's quarantine, which is told with its reason."""
    if seen.quarantine is None or not cluster.taints:
        return cluster.taints
    ours = quarantine_taint(policy.domain)
    return tuple(each for each in cluster.taints if each != ours)


def _allocatable(cluster: ClusterNode, policy: Policy) -> tuple[str, int] | None:
    """Return the resource that counts as the node's GPUs, and its number; None if not stated."""
    if cluster.allocatable is None:
        return None
    there = dict(cluster.allocatable)
    return next(((name, there[name]) for name in policy.gpu_resources if name in there), ("", 0))


def is_eligible(host: Host, eligibility: Eligibility) -> bool:
    """Return whether a job may run on a host, full or not; O(labels + taints x tolerations)."""
    if eligibility.gpu_type is not None and host.gpu_type != eligibility.gpu_type:
        return False
    if not _is_let_in(host.guards, eligibility):
        return False
    if eligibility.selector and not all(pair in host.labels for pair in eligibility.selector):
        return False
    if eligibility.inside is not None and eligibility.inside not in host.elsewhere:
        return False
    return host.name not in eligibility.exclude


def hosts_of_unknown_size(hosts: Iterable[Host], eligibility: Eligibility) -> Iterator[Host]:
    """Return usable hosts in groups whose number of GPUs is unknown; O(hosts).

    Until a worker, a setting or the cluster states the number, such hosts count as 0 GPUs of no
    type.
    """
    any_type = replace(eligibility, gpu_type=None)
    return (
        host
        for host in hosts
        if host.path and not (host.gpus or _is_sized(host.cluster)) and is_eligible(host, any_type)
    )


def hosts_of_unknown_type(hosts: Sequence[Host], eligibility: Eligibility) -> list[Host]:
    """Return usable hosts whose GPUs have no type, where those of other hosts have one; O(hosts).

    Until a worker or a label states the type, no job gets GPUs of both.
    """
    untyped = [host for host in hosts if host.gpus and not host.gpu_type]
    if not untyped or not any(host.gpus and host.gpu_type for host in hosts):
        return []
    any_type = replace(eligibility, gpu_type=None)
    return [host for host in untyped if is_eligible(host, any_type)]


def _is_sized(cluster: ClusterNode | None) -> bool:
    return cluster is not None and cluster.allocatable is not None


def _is_let_in(guards: Guards, eligibility: Eligibility) -> bool:
    """Return whether taints and the usage pool admit the job."""
    if guards == UNGUARDED:
        return True
    taints, pool = guards
    return is_in_pool(pool, eligibility) and _tolerates_all(taints, eligibility.tolerations)


def is_in_pool(pool: str, eligibility: Eligibility) -> bool:
    """Return whether the usage of a job lets it on nodes of a pool; taints are asked for apart."""
    if not eligibility.usage or pool in ("", eligibility.usage):
        return True
    return pool == HYBRID and not eligibility.spares_hybrid


def _tolerates_all(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    return all(
        taint.effect not in _HARD
        or any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.key == taint.key and toleration.value == taint.value
