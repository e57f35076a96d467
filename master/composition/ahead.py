"""The budget of what namespaces keep ahead of their pods, with what is read for it."""

from collections.abc import Sequence

from master.booking.ahead import AheadBudget
from master.booking.ahead_metrics import AheadCollector
from master.cluster import Cluster
from master.composition.core import Core
from master.kube.schedulers.gpu_quotas import gpu_quota
from master.kube.schedulers.workloads import reserved_gpus
from topo.gangs.annotation_keys import AnnotationKeys
from topo.placement.booking.ahead import AheadLimit


def build_ahead(core: Core, cluster: Cluster | None) -> AheadBudget:
    """Return the budget; those who book for pods that are not there ask it."""
    state, keys = core.placements.state, AnnotationKeys(core.settings.domain)
    budget = AheadBudget(state, core.settings.ahead_share)
    core.registry.register(AheadCollector(budget))
    if cluster is None:
        return budget

    def quota(namespace: str, resources: Sequence[str]) -> AheadLimit | None:
        return gpu_quota(cluster.quotas.objects.values(), namespace, resources)

    def queued(namespace: str, name: str) -> int:
        found = cluster.workloads.objects.get((namespace, name))
        resources = state.policy.gpu_resources
        return reserved_gpus(found, resources, keys) if found is not None else 0

    budget.quota, budget.queued = quota, queued
    return budget
