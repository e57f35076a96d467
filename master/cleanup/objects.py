"""The objects that masters made: HyperNodes, topologies, ConfigMaps and others with our label."""

from collections.abc import Iterable
from typing import TypeVar

from master.cleanup.cluster import MANAGER, CleanedCluster, write_all
from master.cleanup.removed_objects import RemovedObjects
from master.controllers.hypernodes import PRODUCT, SOURCE_LABEL, managed_by
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES
from master.kube.objects import CONFIG_MAPS, KubeObject, Resource
from master.kube.schedulers.hypernodes import HYPERNODES, HyperNodeObject
from master.kube.schedulers.node_features import NODE_FEATURES
from master.kube.schedulers.topologies import PUBLISHED_TOPOLOGIES
from master.kube.writing.writes import Delete, WriteTarget

_PUBLISHED = (DEVICE_TAINT_RULES, *PUBLISHED_TOPOLOGIES, NODE_FEATURES)

T = TypeVar("T", bound=KubeObject)


async def remove_hypernodes(cluster: CleanedCluster, removed: RemovedObjects) -> int:
    """Delete parents before their children, so that no tree names a missing member."""
    tiers: dict[int, list[HyperNodeObject]] = {}
    labels = {managed_by(cluster.domain), SOURCE_LABEL}
    for each in await cluster.objects(HYPERNODES):
        if any(each.metadata.labels.get(label) == PRODUCT for label in labels):
            tiers.setdefault(each.spec.tier, []).append(each)
    found = 0
    for tier in sorted(tiers, reverse=True):
        writes = _deletions(HYPERNODES, tiers[tier], removed)
        await write_all(cluster, writes)
        removed.hypernodes.update(write.target.name for write in writes)
        found += len(writes)
    return found


async def remove_published(cluster: CleanedCluster, removed: RemovedObjects) -> int:
    """Delete our objects of `_PUBLISHED`."""
    found = 0
    for each in _PUBLISHED:
        names = set[str]()
        found += await remove_labelled(cluster, removed, each, names)
        if names:
            removed.more.setdefault(each.kind, set()).update(names)
    return found


async def remove_labelled(
    cluster: CleanedCluster,
    removed: RemovedObjects,
    resource: Resource[KubeObject],
    names: set[str],
) -> int:
    """Delete the objects that our label marks, of this namespace if they have one; note `names`."""
    ours = f"{managed_by(cluster.domain)}={PRODUCT}"
    namespace = cluster.namespace if resource.namespaced else ""
    may_lack = resource is not CONFIG_MAPS
    found = await cluster.objects(resource, namespace, may_lack=may_lack, labelSelector=ours)
    writes = _deletions(resource, found, removed)
    await write_all(cluster, writes)
    names.update(write.target.name for write in writes)
    return len(writes)


def _deletions(resource: Resource[T], found: Iterable[T], removed: RemovedObjects) -> list[Delete]:
    """Return the deletions of what is not deleted yet; record the rest in `removed.leaving`."""
    writes = []
    for each in found:
        metadata = each.metadata
        target = WriteTarget(resource, metadata.name, metadata.namespace)
        if metadata.deletion_timestamp:
            removed.leaving.add(str(target))
        else:
            manager = MANAGER
            writes.append(Delete(target=target, manager=manager, uid=metadata.uid))
    return writes
