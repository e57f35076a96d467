"""The schedulers of the small cluster: Volcano binds gangs, kube-scheduler pods and PodGroups."""

from collections.abc import Iterator, Mapping, Sequence

from tests.gangs.world import Cluster
from topo.gangs.decisions.eviction import Evictable
from topo.gangs.machine.gang import Binding, GangId, Member, PodUid
from topo.model.ids import NodeName


def scheduled(cluster: Cluster) -> bool:
    """A cycle of both schedulers; whether they wrote anything."""
    did = False
    for gang_id, job in cluster.jobs.items():
        if job.binding is Binding.WHOLE:
            did |= schedule_whole(cluster, gang_id)
        elif job.binding is Binding.POD_GROUP:
            did |= schedule_group(cluster, gang_id)
        else:
            for uid in cluster.uids(gang_id):
                did |= cluster.pods[uid].opened and schedule_pod(cluster, uid)
    return did


def schedule_whole(cluster: Cluster, gang_id: GangId) -> bool:
    """Volcano: all that wait in one go, or none; a nominated node first, else any selected."""
    waiting = [uid for uid in cluster.uids(gang_id) if cluster.pods[uid].opened]
    taken: dict[NodeName, int] = {}
    chosen: dict[PodUid, NodeName] = {}
    for uid in waiting:
        gpus, places = cluster.gpus_of(uid), cluster.selected(uid)
        nominated = cluster.pods[uid].nominated
        if nominated in places:
            places = [nominated, *places]
        for node in places:
            is_free = cluster.free(node) - taken.get(node, 0) >= gpus
            if is_free and node not in cluster.starved:
                taken[node] = taken.get(node, 0) + gpus
                chosen[uid] = node
                break
    ended = sum(cluster.pods[uid].succeeded for uid in cluster.uids(gang_id))
    running = len(cluster.bound(gang_id)) + ended
    at_least = cluster.jobs[gang_id].at_least or cluster.jobs[gang_id].request.pods
    _refuse(cluster, [uid for uid in waiting if uid not in chosen])
    if not chosen or running + len(chosen) < at_least:
        return _clear_whole(cluster, gang_id, waiting, chosen) if cluster.preempts else False
    for uid, node in chosen.items():
        cluster.bind(uid, node)
    return True


def _clear_whole(
    cluster: Cluster, gang_id: GangId, waiting: list[PodUid], chosen: dict[PodUid, NodeName]
) -> bool:
    """Volcano's `preempt`: any node that they select; it evicts nobody for a nominated pod."""
    priority, taken = cluster.jobs[gang_id].priority, set(chosen.values())
    there, victims = cluster.evictable(gang_id, priority), list[Evictable]()
    cleared: dict[PodUid, NodeName] = {}
    for uid in waiting:
        if uid in chosen or not cluster.pods[uid].selection:
            continue
        if cluster.pods[uid].nominated is not None:
            return False
        for node in sorted(cluster.selected(uid), reverse=True):
            on_node = [pod for pod in there if pod.node == node]
            if node not in taken and on_node:
                taken.add(node)
                victims += on_node
                cleared[uid] = node
                break
        else:
            return False
    for pod in victims:
        cluster.evict(pod)
    for uid, node in cleared.items():
        cluster.change(uid, nominated=node)
    return bool(victims)


def _clear_for(cluster: Cluster, uid: PodUid) -> bool:
    """kube-scheduler's preemption: the nominated node first, else any that it selects."""
    gang_id = cluster.owner[uid]
    places = cluster.selected(uid) if cluster.pods[uid].selection else []
    places.sort(key=lambda node: node != cluster.pods[uid].nominated)
    for node in places:
        there = cluster.evictable(gang_id, cluster.jobs[gang_id].priority)
        on_node = [pod for pod in there if pod.node == node]
        if on_node:
            for pod in on_node:
                cluster.evict(pod)
            cluster.change(uid, nominated=node)
            return True
    return False


def _list_nominees(cluster: Cluster, node: NodeName, gang_id: GangId) -> Iterator[Member]:
    """The pods that kube-scheduler counts on a node beside a pod of this gang.

    It ignores nominated pods of a lower priority (`addGENominatedPods` in
    pkg/scheduler/framework/runtime/framework.go).
    """
    least = cluster.jobs[gang_id].priority
    for pod in cluster.pods.values():
        priority = cluster.jobs[cluster.owner[pod.uid]].priority
        if pod.node is None and pod.nominated == node and priority >= least:
            yield pod


def schedule_pod(cluster: Cluster, uid: PodUid) -> bool:
    """kube-scheduler: one pod; respects nominations of others, and forgets one that failed."""
    member = cluster.pods[uid]
    gpus = cluster.gpus_of(uid)
    places = cluster.selected(uid)
    if member.nominated in places:
        places = [member.nominated, *places]
    for node in places:
        others = sum(
            cluster.gpus_of(other.uid)
            for other in _list_nominees(cluster, node, cluster.owner[uid])
            if other.uid != uid
        )
        if node not in cluster.starved and cluster.free(node, nominated_for=others) >= gpus:
            cluster.bind(uid, node)
            return True
    _refuse(cluster, [uid])
    if cluster.preempts and _clear_for(cluster, uid):
        return True
    if member.nominated is not None:
        cluster.change(uid, nominated=None)
        return True
    return False


def schedule_group(cluster: Cluster, gang_id: GangId) -> bool:
    """kube-scheduler: a PodGroup, all or none, and none of it while one pod has a gate.

    The nominations of pods that would fit are cleared where one does not.
    """
    members = [cluster.pods[uid] for uid in cluster.uids(gang_id)]
    waiting = [each for each in members if each.waits]
    if not waiting or any(each.gated for each in waiting):
        return False
    taken: dict[NodeName, int] = {}
    chosen: dict[PodUid, NodeName] = {}
    for each in waiting:
        gpus, places = cluster.gpus_of(each.uid), cluster.selected(each.uid)
        if each.nominated in places:
            places = [each.nominated, *places]
        for node in places:
            others = taken.get(node, 0) + sum(
                cluster.gpus_of(other.uid)
                for other in _list_nominees(cluster, node, gang_id)
                if other.uid != each.uid and other.uid not in chosen
            )
            is_free = cluster.free(node, nominated_for=others) >= gpus
            if is_free and node not in cluster.starved:
                taken[node] = taken.get(node, 0) + gpus
                chosen[each.uid] = node
                break
    if len(chosen) == len(waiting):
        for uid, node in chosen.items():
            cluster.bind(uid, node)
        return True
    misfits = [each.uid for each in waiting if each.uid not in chosen]
    _refuse(cluster, misfits)
    if cluster.preempts and _clear_group(cluster, misfits, chosen):
        return True
    cleared = [uid for uid in chosen if cluster.pods[uid].nominated is not None]
    for uid in cleared:
        cluster.change(uid, nominated=None)
    return bool(cleared)


def _clear_group(
    cluster: Cluster, misfits: Sequence[PodUid], chosen: Mapping[PodUid, NodeName]
) -> bool:
    """kube-scheduler evicts for a PodGroup only where all of its pods fit afterwards.

    Then it nominates all of them.
    """
    gang_id = cluster.owner[misfits[0]]
    there = cluster.evictable(gang_id, cluster.jobs[gang_id].priority)
    cleared = dict(chosen)
    for uid in misfits:
        places = cluster.selected(uid) if cluster.pods[uid].selection else []
        places.sort(key=lambda node: node != cluster.pods[uid].nominated)
        for node in places:
            is_new = node not in cleared.values()
            if is_new and node not in cluster.starved and any(pod.node == node for pod in there):
                cleared[uid] = node
                break
        else:
            return False
    for uid, node in cleared.items():
        for pod in [pod for pod in there if pod.node == node]:
            there.remove(pod)
            cluster.evict(pod)
        cluster.change(uid, nominated=node)
    return True


def _refuse(cluster: Cluster, uids: Sequence[PodUid]) -> None:
    """The schedulers write why they bind these pods nowhere."""
    for uid in uids:
        if not cluster.pods[uid].unscheduled:
            cluster.change(uid, is_tried=True, unscheduled="no node has enough")
