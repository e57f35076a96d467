"""Jobs that a master holds back: their pods behind our gate, and those without their quota."""

from collections.abc import Sequence

from master.cleanup.cluster import MANAGER, CleanedCluster, write_all
from master.controllers.nomination.writing import gang_writes
from master.controllers.provisioning.workload_form import is_held, letting_go
from master.kube.objects import (
    PODS,
    SELECTING_PODS,
    UNFINISHED,
    SelectingPod,
)
from master.kube.schedulers.workloads import HELD
from master.kube.writing.writes import Patch, WriteTarget
from topo.gangs import note_codec
from topo.gangs.annotation_keys import AnnotationKeys


async def unfinished_pods(cluster: CleanedCluster) -> Sequence[SelectingPod]:
    """Return the pods that have not ended; without a right to them no master places gangs."""
    return await cluster.objects(SELECTING_PODS, may_lack=True, **UNFINISHED)


async def open_gates(
    cluster: CleanedCluster, pods: Sequence[SelectingPod], opened: set[str]
) -> int:
    """Remove our gates: nothing will place these pods any more."""
    keys = AnnotationKeys(cluster.domain)
    why = note_codec.encode_unplanned("what places gangs was taken away")
    writes = [
        Patch(
            target=WriteTarget(PODS, each.metadata.name, each.metadata.namespace),
            manager=MANAGER,
            uid=each.metadata.uid,
            fields={
                "metadata": {"annotations": {keys.placement: why}},
                "spec": gang_writes.gate_removal(keys),
            },
        )
        for each in pods
        if any(gate.name == keys.gate for gate in each.spec.scheduling_gates)
    ]
    await write_all(cluster, writes)
    opened.update(str(write.target) for write in writes)
    return len(writes)


async def release_jobs(cluster: CleanedCluster, jobs: set[str]) -> int:
    """Hold no job before its quota any more."""
    keys = AnnotationKeys(cluster.domain)
    writes = [
        letting_go(
            WriteTarget(resource, each.metadata.name, each.metadata.namespace),
            each.metadata.uid,
            each.metadata.annotations,
            keys,
            manager=MANAGER,
        )
        for resource in HELD
        for each in await cluster.objects(resource, may_lack=True)
        if is_held(each.metadata.annotations, keys)
    ]
    await write_all(cluster, writes)
    jobs.update(str(write.target) for write in writes)
    return len(writes)
