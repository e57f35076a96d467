"""A stream of jobs on a cluster, event by event, with one policy that places them.

Jobs wait in the order of their arrival; after every event the first `DEPTH` of them are tried in
that order and whatever fits starts: backfill, without reservations here and with one in
`reservation.py`. A job for which its policy
finds no place before any has started is turned away, as a queue would do. Equal arguments give
equal figures, but for the latencies, which are this machine's.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter_ns

from topo.model.errors import BadInputError, Refusal
from topo.placement.booking.holds import booked
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import Plan, Pods
from topo.placement.job.request import PlacementMode, Request
from topo.sim.baselines import BASELINES
from topo.sim.baselines.cluster import BaselineCluster
from topo.sim.streams.figures import Figures, Statistics
from topo.sim.streams.jobs import StreamJob

DEPTH = 40
"""Waiting jobs that are tried after every event."""
OURS, PREFERRED = "topo", "topo-preferred"
"""The product's engine with whole groups required, and with groups split where it must be."""
POLICIES = (OURS, PREFERRED, *BASELINES)
EXTRA_DOMAINS = {f"{OURS}-extra-{extra}": extra for extra in (1, 2)}
"""The engine where a plan may use so many more domains of a tier to keep groups whole."""

Placer = Callable[[Request], tuple[Pods, ...] | None]
"""Where a job goes: its groups in rank order, or None where there is no place now."""
Tick = Callable[[int], None]
"""Told how many jobs have started since it was told last."""


def run(
    capacity: Capacity,
    jobs: Sequence[StreamJob],
    policy: str,
    tick: Tick = lambda _: None,
    *,
    queue: "type[Stream] | None" = None,
) -> Figures:
    """Return the figures of one of `POLICIES` or `EXTRA_DOMAINS` on this stream.

    `queue` decides who may start: `Stream`, or one with reservations.

    Raises `BadInputError` for a cluster without GPUs and for a policy that there is not.
    """
    if policy not in (*POLICIES, *EXTRA_DOMAINS):
        fix = f"take one of {', '.join((*POLICIES, *EXTRA_DOMAINS))}"
        raise BadInputError(Refusal("there is no such policy", policy, fix))
    if not capacity.gpu_types():
        raise BadInputError(Refusal("the cluster has no GPUs", "its nodes", "give nodes with GPUs"))
    if policy == PREFERRED:
        jobs = [
            replace(job, request=replace(job.request, mode=PlacementMode.PREFERRED)) for job in jobs
        ]
    policy_of_copy = capacity.policy
    if policy in EXTRA_DOMAINS:
        policy_of_copy = replace(policy_of_copy, extra_domains=EXTRA_DOMAINS[policy])
    cluster = BaselineCluster(capacity.copy(policy_of_copy))
    stream = (queue or Stream)(cluster, placer_of(cluster, policy), jobs)
    stream.run(tick)
    return stream.statistics.figures(policy, len(jobs))


def placer_of(cluster: BaselineCluster, policy: str) -> Placer:
    """Return what a policy does on the cluster as it is at each call."""
    if policy in BASELINES:
        return lambda request: cluster.place(request, BASELINES[policy])

    def ours(request: Request) -> tuple[Pods, ...] | None:
        answer = place(cluster.capacity, request)
        return tuple(g.pods for g in answer.groups) if isinstance(answer, Plan) else None

    return ours


class Stream:
    """One run: the clock, the queue, the jobs that run."""

    def __init__(self, cluster: BaselineCluster, place: Placer, jobs: Sequence[StreamJob]) -> None:
        self.statistics = Statistics(cluster, jobs, spans(cluster.capacity, jobs))
        self._cluster, self._place = cluster, place
        self._coming = sorted(jobs, key=lambda job: job.arrival_s, reverse=True)
        self._waiting: list[StreamJob] = []
        self._now_s = 0.0
        self._ends: list[tuple[float, int]] = []
        self._not_fitting: set[object] = set()
        requests = {job.gpus: job.request for job in jobs}
        self._impossible = {gpus for gpus, asked in requests.items() if not place(asked)}

    def run(self, tick: Tick) -> None:
        """Until nothing comes and nothing runs."""
        while self._coming or self._ends:
            arrival_s = self._coming[-1].arrival_s if self._coming else float("inf")
            ended = self._ends and self._ends[0][0] <= arrival_s
            now_s = self._end() if ended else self._arrive()
            started = self._backfill(now_s)
            if started:
                tick(started)

    def _arrive(self) -> float:
        job = self._coming.pop()
        if job.gpus not in self._impossible:
            self._waiting.append(job)
        return job.arrival_s

    def _end(self) -> float:
        now_s, number = heapq.heappop(self._ends)
        self.statistics.pass_to(now_s)
        self._cluster.release(f"stream-{number}")
        self._not_fitting.clear()
        return now_s

    def _backfill(self, now_s: float) -> int:
        """Start what fits. A size that did not fit is not tried again until a job ends."""
        self.statistics.pass_to(now_s)
        self._now_s = now_s
        started = set()
        for job in self._waiting[:DEPTH]:
            kind = self._kind(job)
            if kind in self._not_fitting:
                continue
            groups = self._tried(job)
            if groups is None:
                self._not_fitting.add(kind)
            else:
                self._start(job, groups, now_s)
                started.add(job.number)
        if started:
            self._waiting = [job for job in self._waiting if job.number not in started]
        return len(started)

    def _kind(self, job: StreamJob) -> object:
        """Return a key that is equal for jobs of which none fits if one does not."""
        return job.gpus

    def _tried(self, job: StreamJob) -> tuple[Pods, ...] | None:
        began_ns = perf_counter_ns()
        groups = self._place(job.request)
        took_ns = perf_counter_ns() - began_ns
        self.statistics.tried(job, took_ns, fitted=groups is not None)
        return groups

    def _start(self, job: StreamJob, groups: tuple[Pods, ...], now_s: float) -> None:
        gpus = booked(groups, job.request.gpus_per_pod)
        self._cluster.book(f"stream-{job.number}", gpus)
        heapq.heappush(self._ends, (now_s + job.duration_s, job.number))
        self.statistics.started(job, now_s - job.arrival_s, groups)


def spans(capacity: Capacity, jobs: Sequence[StreamJob]) -> Mapping[int, int]:
    """The top groups that each size takes on the cluster when it is empty, where it fits then."""
    empty = capacity.with_changes(released=tuple(capacity.bookings()))
    found = {}
    for gpus, request in {job.gpus: job.request for job in jobs}.items():
        answer = place(empty, request)
        if isinstance(answer, Plan):
            found[gpus] = answer.objective.span[0]
    return found
