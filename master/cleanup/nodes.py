"""What masters wrote on nodes; the label of a gang stays while a pod there selects it."""

from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence

from master.cleanup.cluster import MANAGER, CleanedCluster, write_all
from master.cleanup.removed_objects import RemovedObjects
from master.controllers.nomination.writing import gang_writes
from master.controllers.suspicion.node_marks import removals
from master.kube.objects import NODES, OWNED_NODES, SelectingPod, WrittenFields
from master.kube.writing.writes import MANAGER_PREFIX, Apply, Patch, Write, WriteTarget
from topo.gangs.annotation_keys import AnnotationKeys


async def remove_from_nodes(
    cluster: CleanedCluster, removed: RemovedObjects, pods: Sequence[SelectingPod]
) -> int:
    """Remove labels of gangs by their names, and what else masters wrote by its field manager."""
    prefix = AnnotationKeys(cluster.domain).node_label_prefix
    selected, writes = _selected(prefix, pods), list[Write]()
    removed.selected.clear()
    removed.bound.clear()
    for each in await cluster.objects(OWNED_NODES):
        name, uid = each.metadata.name, each.metadata.uid
        for manager in sorted(_ours(each.metadata.managed_fields) - {gang_writes.NODES_MANAGER}):
            writes.append(Apply(target=WriteTarget(NODES, name), manager=manager, uid=uid))
        writes.extend(removals(each, cluster.domain))
        labels = {label for label in each.metadata.labels if label.startswith(prefix)}
        waiting, bound = (selected.get(at, Tally[str]()) for at in ("", name))
        if labels & waiting.keys():
            removed.selected.add(name)
        if number := sum(bound[label] for label in labels):
            removed.bound[name] = number
        if gone := dict.fromkeys(sorted(labels - waiting.keys() - bound.keys())):
            writes.append(
                Patch(
                    target=WriteTarget(NODES, name),
                    manager=MANAGER,
                    uid=uid,
                    fields={"metadata": {"labels": gone}},
                )
            )
    await write_all(cluster, writes)
    removed.nodes.update(write.target.name for write in writes)
    return len(writes)


def _selected(prefix: str, pods: Sequence[SelectingPod]) -> Mapping[str, Tally[str]]:
    """Return how many pods select a label of a gang, by their node; "" for those without one.

    Without the label those could run nowhere.
    """
    found: dict[str, Tally[str]] = {}
    for pod in pods:
        keys = (key for key in pod.spec.node_selector if key.startswith(prefix))
        found.setdefault(pod.spec.node_name, Tally()).update(keys)
    return found


def _ours(managers: Iterable[WrittenFields]) -> set[str]:
    """Return the managers of this product that own a field by an apply."""
    return {
        each.manager
        for each in managers
        if each.manager.startswith(MANAGER_PREFIX) and each.operation == "Apply"
    }
