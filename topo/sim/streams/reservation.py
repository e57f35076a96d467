"""A stream in which the first big job that waits has a reservation, as Slurm's backfill gives one.

The reservation is the nodes that the policy itself would choose for the job at the first moment at
which it fits if nothing else starts. Until then a job that would not have ended by that moment sees
those nodes as taken; a shorter one may use them. Durations are known, as nowhere else: a real queue
has the limits that users state, which are longer.

Cost: for each reservation a binary search over the jobs that run, a placement in each step.

Example: two jobs hold all nodes, one until 10, one until 20; a big job needs the nodes of both. It
is to start at 20. A job of 5 that comes at 10 may start on what the first one gave back, a job of
15 may not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topo.model.ids import NodeName
from topo.placement.booking.holds import booked
from topo.placement.job.plan import Pods
from topo.sim.baselines.cluster import BaselineCluster
from topo.sim.streams.figures import BIG_GPUS
from topo.sim.streams.jobs import StreamJob
from topo.sim.streams.stream import Placer, Stream

_OWNER = "stream-reservation"


@dataclass(frozen=True, slots=True)
class BackfillReservation:
    """The job, when it is to start, and the GPUs by node that it is to have then."""

    number: int
    at_s: float
    gpus: Mapping[NodeName, int]


class ReservingStream(Stream):
    """One run, in which the first big job that does not fit has a reservation."""

    def __init__(self, cluster: BaselineCluster, place: Placer, jobs: Sequence[StreamJob]) -> None:
        super().__init__(cluster, place, jobs)
        self._reserved: BackfillReservation | None = None

    def _kind(self, job: StreamJob) -> object:
        return job.gpus, self._gives_way(job)

    def _gives_way(self, job: StreamJob) -> bool:
        """Return whether a job would still run when the reservation begins."""
        reserved = self._reserved
        if reserved is None or job.number == reserved.number:
            return False
        return self._now_s + job.duration_s > reserved.at_s

    def _tried(self, job: StreamJob) -> tuple[Pods, ...] | None:
        if self._reserved is not None and self._reserved.at_s < self._now_s:
            # A policy may choose worse at the moment itself than it did ahead: it tries anew.
            self._reserved = None
        hidden = self._hidden_from(job)
        if hidden:
            self._cluster.book(_OWNER, hidden)
        groups = super()._tried(job)
        if hidden:
            self._cluster.release(_OWNER)
        if groups is None and self._reserved is None and job.gpus >= BIG_GPUS:
            self._reserved = self._reservation(job)
        elif groups is not None and self._reserved and self._reserved.number == job.number:
            self._reserved = None
        return groups

    def _hidden_from(self, job: StreamJob) -> dict[NodeName, int]:
        """Return the free GPUs of reserved nodes that a job must leave alone."""
        if self._reserved is None or not self._gives_way(job):
            return {}
        free = self._cluster.capacity.free
        gpus = {node: min(some, free(node)) for node, some in self._reserved.gpus.items()}
        return {node: some for node, some in gpus.items() if some > 0}

    def _reservation(self, job: StreamJob) -> BackfillReservation | None:
        """Return when and where a job fits first if nothing else starts; None: never."""
        ends = sorted(self._ends)
        least, most = 0, len(ends)
        found = self._after(job, ends[:most])
        while found is not None and least + 1 < most:
            middle = (least + most) // 2
            earlier = self._after(job, ends[:middle])
            if earlier is None:
                least = middle
            else:
                most, found = middle, earlier
        if found is None:
            return None
        gpus = booked(found, job.request.gpus_per_pod)
        return BackfillReservation(job.number, ends[most - 1][0], gpus)

    def _after(self, job: StreamJob, ended: Sequence[tuple[float, int]]) -> tuple[Pods, ...] | None:
        """Return where a job goes once some others have ended; they run on afterwards."""
        running = self._cluster.capacity.bookings()
        kept = {f"stream-{number}": running[f"stream-{number}"] for _, number in ended}
        for owner in kept:
            self._cluster.release(owner)
        groups = self._place(job.request)
        for owner, gpus in kept.items():
            self._cluster.book(owner, gpus)
        return groups
