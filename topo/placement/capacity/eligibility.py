"""Eligibility: which nodes a job may use, by type, selector, usage, taints, exclusions.

Taints and tolerations as Kubernetes defines them:
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from topo.model.cluster import HYBRID, ClusterNode, Taint
from topo.placement.capacity.host import UNGUARDED, Guards, Host
from topo.placement.job.request import Eligibility, Toleration

_HARD = frozenset({"NoSchedule", "NoExecute"})


def is_eligible(host: Host, eligibility: Eligibility) -> bool:
    """Return whether a job may run on a host, full or not; O(labels + taints x tolerations)."""
    if eligibility.gpu_type is not None and host.gpu_type != eligibility.gpu_type:
        return False
    if not _is_let_in(host.guards, eligibility):
        return False
    if eligibility.selector and not all(pair in host.labels for pair in eligibility.selector):
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


def _is_sized(cluster: ClusterNode | None) -> bool:
    return cluster is not None and cluster.allocatable is not None


def _is_let_in(guards: Guards, eligibility: Eligibility) -> bool:
    """Return whether taints and the usage pool admit the job."""
    if guards == UNGUARDED:
        return True
    taints, pool_taints, pool = guards
    if not eligibility.usage:
        return _tolerates_all(taints + pool_taints, eligibility.tolerations)
    is_of_pool = pool in ("", HYBRID, eligibility.usage)
    return is_of_pool and _tolerates_all(taints, eligibility.tolerations)


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
