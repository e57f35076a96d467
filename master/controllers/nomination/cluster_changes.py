"""Cluster changes → gangs to read again; updates the parts that count pods and nodes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from master.controllers.leaving_gangs import LeavingGangs
from master.controllers.nomination.ahead import GangsAhead
from master.controllers.nomination.debounce import Debounce
from master.controllers.nomination.gang_reader import GangReader
from master.controllers.nomination.index import GangIndex
from master.controllers.nomination.native import NativeGangs
from master.controllers.nomination.queues.reserved import OpeningPods
from master.controllers.nomination.queues.usage import QueueCounts
from master.controllers.nomination.sources import Sources
from master.controllers.nomination.writing.inflight import InflightWrites
from master.controllers.nomination.writing.node_labels import NodeLabels
from master.kube.gang_pod import ClusterPod
from master.kube.objects import KubeObject, NodeObject
from master.kube.reflector import Changed, Listed, StoreEvent
from master.kube.volumes import VolumeObject
from topo.gangs.machine.gang import GangId
from topo.model.ids import NodeName


@dataclass(kw_only=True)
class ClusterChanges:
    """Follows pods, nodes, PodGroups and queues. Mutable; one owner."""

    sources: Sources
    index: GangIndex
    native: NativeGangs
    reader: GangReader
    queues: QueueCounts
    inflight: InflightWrites
    labels: NodeLabels
    debounce: Debounce
    leaving: LeavingGangs
    ahead: GangsAhead
    _queue_moved: bool = field(default=False, init=False)
    """Whether what a queue has left may have changed."""

    def __post_init__(self) -> None:
        self.index.is_read = self.native.is_read = False
        self.sources.pods.subscribe(self._follow_pods)
        self.sources.nodes.subscribe(self._follow_nodes)
        self.sources.pod_groups.subscribe(self._follow_named)
        self.sources.scheduling_groups.subscribe(self._follow_named)
        self.sources.composite_groups.subscribe(self._follow_named)
        self.sources.devices.templates.subscribe(self._follow_named)
        self.sources.volumes.claims.subscribe(self._follow_named)
        self.sources.volumes.volumes.subscribe(self._follow_volumes)
        self.sources.volumes.classes.subscribe(lambda _: self._mark_gated())
        self.sources.devices.on_classes.append(self._mark_gated)
        self.sources.queues.subscribe(lambda _: self._mark_gated())
        for jobs in self.sources.jobs:
            jobs.subscribe(lambda _: self.debounce.wake())
        if self.sources.reservations is not None:
            for store in self.sources.reservations.stores:
                store.subscribe(self._follow_named)

    @property
    def is_synced(self) -> bool:
        """Whether all pods, also those of gangs that have succeeded, were listed at least once.

        What pods name was listed, too, where that can be.
        """
        sources = self.sources
        return sources.pods.synced and sources.ended_pods.synced and sources.is_answered()

    def begin(self) -> None:
        """Mark all gangs, and from now on those that change."""
        self.index.is_read = self.native.is_read = True
        self.index.mark_all()
        self.native.mark_all()

    def mark(self, gang_id: GangId) -> None:
        """Mark a gang to be read again soon."""
        self.index.mark(gang_id)
        self.debounce.wake()

    def mark_renewed(self) -> None:
        """Mark the gangs of pods whose version changed since a write was refused as outdated."""
        for gang_id in self.inflight.renewed(self.sources.pods.objects):
            self.index.mark(gang_id)

    def retain_quota(self, find: Callable[[GangId], OpeningPods | None]) -> None:
        """Reserve quota for no other pods than those whose gates are being opened, by what `find`
        returns for a gang.
        """
        self._queue_moved |= self.queues.retain(find)

    def mark_waiting_for_queues(self) -> None:
        """Mark the gangs that wait for a queue, if what a queue has left may have changed."""
        if self._queue_moved:
            self._queue_moved = False
            for gang_id, gang in self.reader.known.items():
                if gang.awaits:
                    self.mark(gang_id)

    def mark_unsettled(self, now_s: float) -> None:
        """Mark the gangs that start after a while with the pods that they have by then, and those
        whose places for further pods are kept no longer, or may be kept from now on.
        """
        for gang_id, gang in self.reader.known.items():
            if gang.is_elastic and len(gang.members) < gang.request.pods:
                self.mark(gang_id)
        for gang_id in self.ahead.due(now_s):
            self.mark(gang_id)

    def take(self) -> Iterator[GangId]:
        """Yield and unmark the marked gangs; a gang with pending writes or pods stays marked.

        So does one that has nothing yet, while another one is going.
        """
        is_late = self.leaving.is_any()
        for gang_id in self.index.take():
            awaits = self.inflight.is_awaited(gang_id, len(self.index.pods(gang_id)))
            if awaits or (is_late and self._has_nothing(gang_id)):
                self.index.mark(gang_id)
            else:
                yield gang_id

    def _has_nothing(self, gang_id: GangId) -> bool:
        """Return whether no pod of the gang has a place, nor a booking to take; O(pods)."""
        keys, pods = self.index.pods(gang_id), self.sources.pods.objects
        found = [pods[key] for key in keys if key in pods]
        return bool(found) and all(
            each.gated and each.booking is None and not each.consumes for each in found
        )

    def _follow_pods(self, event: StoreEvent[ClusterPod]) -> None:
        self._queue_moved |= self.queues.follow_pods(event)
        if isinstance(event, Listed):
            self.index.all_pods(event.objects)
            self.native.all_pods(event.objects)
        else:
            key = event.key
            pod = event.object if isinstance(event, Changed) else None
            self.index.pod(key, pod)
            self.native.pod(key, pod)
            self.inflight.remove(key)
        self.debounce.wake()

    def _follow_nodes(self, event: StoreEvent[NodeObject]) -> None:
        if isinstance(event, Listed):
            self.index.all_nodes(event.objects.values())
            names = [NodeName(name) for _, name in event.objects]
        else:
            name = NodeName(event.object.metadata.name)
            self.index.node(name, event.object if isinstance(event, Changed) else None)
            names = [name]
            self.inflight.remove(event.key)
        self.labels.confirm(names)
        self.debounce.wake()

    def _follow_named(self, event: StoreEvent[KubeObject]) -> None:
        if isinstance(event, Listed):
            self._mark_gated()
        else:
            self.index.named(event.key)
            self.debounce.wake()

    def _follow_volumes(self, event: StoreEvent[VolumeObject]) -> None:
        if isinstance(event, Listed):
            self._mark_gated()
        elif (claim := event.object.spec.claim_ref) is not None:
            self.index.named((claim.namespace, claim.name))
            self.debounce.wake()

    def _mark_gated(self) -> None:
        """Mark the gangs with gated pods."""
        for gang_id in self.reader.gated():
            self.index.mark(gang_id)
        self.debounce.wake()
