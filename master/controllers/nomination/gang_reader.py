"""Builds gangs from the newest versions of their pods, and keeps the last build of each."""

from collections.abc import Iterator, Sequence
from functools import partial

from master.controllers.nomination.evictable import evictable_pods
from master.controllers.nomination.gangs.builder import build_gang, gang_name, outline_gang
from master.controllers.nomination.gangs.context import GangContext
from master.controllers.nomination.gangs.ranks import first_of
from master.controllers.nomination.gangs.size import awaited_pods
from master.controllers.nomination.gangs.start_conditions import awaited_quota
from master.controllers.nomination.index import GangIndex
from master.controllers.nomination.native import NativeGangs
from master.controllers.nomination.sources import Sources
from master.kube.gang_pod import GangPod
from master.kube.objects import OwnerReference
from topo.gangs.decisions.eviction import Evictable
from topo.gangs.machine.gang import Gang, GangId, PodUid
from topo.gangs.machine.instructions import Check, Place
from topo.gangs.status import Transition
from topo.model.isolation import ObjectError, attempt
from topo.placement.booking.events import job_name


class GangReader:
    """Gangs placed by this controller. `known` has each gang as last built. Mutable; one owner."""

    def __init__(
        self, sources: Sources, index: GangIndex, native: NativeGangs, context: GangContext
    ) -> None:
        self._sources, self._index, self._native = sources, index, native
        self._context = context
        self.known: dict[GangId, Gang] = {}

    def pods(self, gang_id: GangId) -> list[GangPod]:
        """Return the pods of a gang in their newest versions."""
        known = self._sources.pods.objects
        found = [known.get(key) for key in self._index.pods(gang_id)]
        return [pod for pod in found if isinstance(pod, GangPod)]

    def pods_by_uid(self, gang_id: GangId) -> dict[PodUid, GangPod]:
        """Return the pods of a gang by uid, in their newest versions."""
        return {PodUid(pod.metadata.uid): pod for pod in self.pods(gang_id)}

    def any_pod(self, gang_id: GangId) -> GangPod | None:
        """Return a pod of a gang; None if it has none. O(1)."""
        key = self._index.any_pod(gang_id)
        found = self._sources.pods.objects.get(key) if key is not None else None
        return found if isinstance(found, GangPod) else None

    def gated_pods(self, gang_id: GangId) -> list[GangPod]:
        """Return the pods of a gang that have our gate, by rank."""
        gated = (pod for pod in self.pods(gang_id) if pod.gated)
        return sorted(gated, key=lambda pod: pod.rank)

    def build(self, gang_id: GangId) -> Gang | ObjectError | None:
        """Return the current gang, or the error that reading it raised; None if it has no pods.

        O(pods).
        """
        pods = self.pods(gang_id)
        return attempt(partial(build_gang, gang_id, pods, self._context)) if pods else None

    def outline(self, gang_id: GangId) -> Gang | None:
        """Return a gang as far as it can always be read; None if it has no pods. O(pods)."""
        pods = self.pods(gang_id)
        return outline_gang(gang_id, pods, self._context) if pods else None

    def awaits(self, gang_id: GangId) -> str:
        """Return why Volcano does not admit a gang now; empty for a gang that may start."""
        pods = self.pods(gang_id)
        missing = awaited_quota(gang_id, pods, self._context) if pods else None
        return missing.text if missing is not None else ""

    def build_all(self) -> Iterator[Gang]:
        """Yield all current gangs that can be read; O(pods)."""
        for gang_id in self._index.gangs():
            if isinstance(gang := self.build(gang_id), Gang):
                yield gang

    def gated(self) -> Iterator[GangId]:
        """Yield the known gangs with at least one gated pod."""
        for gang_id, gang in self.known.items():
            if any(member.gated for member in gang.members):
                yield gang_id

    def awaited_pods(self, gang_id: GangId) -> int | None:
        """Return how many pods of a gang are to run together now; None where none says so.

        O(pods).
        """
        pods = self.pods(gang_id) or self._native.pods(gang_id)
        return awaited_pods(pods, self._context.ended(gang_id), self._context) if pods else None

    def namespace(self, gang_id: GangId) -> str:
        """Return the namespace of a gang's pods; empty for a gang that is unknown."""
        gang = self.known.get(gang_id)
        return gang.namespace if gang is not None else self._index.namespace(gang_id)

    def first_pod(self, gang_id: GangId) -> GangPod | None:
        """Return the pod that carries a gang's status, native gangs included; None without pods."""
        return first_of(self.shown_pods(gang_id))

    def shown_pods(self, gang_id: GangId) -> Sequence[GangPod]:
        """Return the pods that may carry a gang's status, those of native gangs included."""
        return self.pods(gang_id) or self._native.pods(gang_id)

    def jobs_of_owners(self) -> dict[str, str]:
        """Return for each pod of a gang, as an owner of GPUs, what the gang is called as one.

        Only of gangs of several pods, which end together; O(pods of gangs).
        """
        found: dict[str, str] = {}
        for gang_id in (*self.known, *self._native.jobs()):
            bookings = [pod.booking for pod in self.shown_pods(gang_id)]
            owners = [each.pod.owner for each in bookings if each is not None]
            first = self.first_pod(gang_id)
            if first is not None and len(owners) > 1:
                name = job_name(first.metadata.namespace, gang_name(first)[1], gang_id)
                found |= dict.fromkeys(owners, name)
        return found

    def owner(self, gang_id: GangId) -> OwnerReference | None:
        """Return the job of a gang; None for pods without one."""
        first = self.first_pod(gang_id)
        return first.owner if first is not None else None

    def reported(self, gang_id: GangId) -> Transition | None:
        """Return the gang state that an earlier leader wrote; None if it wrote none."""
        first = first_of(self.pods(gang_id))
        return first.reported if first is not None else None

    def opening(self, asked: Check) -> tuple[str, list[GangPod]] | None:
        """Return the pods whose gates are opened once a check has passed, and their queue of
        Volcano; None for none, or where they have no queue.
        """
        uids = {member.uid for member, _ in asked.waiting if member.gated}
        pods = [pod for pod in self.pods(asked.id) if pod.metadata.uid in uids]
        group = self._context.pod_group(pods[0]) if pods else None
        return (group.spec.queue, pods) if group is not None else None

    def evictable(self, asked: Place | Check) -> Sequence[Evictable]:
        """Return the pods that the gang's scheduler may evict for it; O(pods of the cluster)."""
        gang, groups = self.known.get(asked.id), self._sources.pod_groups.objects
        if gang is None or asked.over is None:
            return ()
        pods = self._sources.pods.objects
        return tuple(evictable_pods(gang, pods, groups, below=asked.over))

    def begin_term(self, ahead_s: float) -> None:
        """Set the offset between the clocks for the whole term, so that the order of ages stays."""
        self._context.ahead_s = ahead_s
