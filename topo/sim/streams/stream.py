"""A stream of jobs on a cluster, event by event, with one policy that places them.

Jobs wait in the order of their arrival; after every event the first `DEPTH` of them are tried in
that order and whatever fits starts (backfill without reservations). A job for which its policy
finds no place before any has started is turned away, as a queue would do. Equal arguments give
equal figures, but for the latencies, which are this machine's.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

from topo.model.errors import BadInputError, Refusal
from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import Plan, Pods
from topo.placement.job.request import Mode, Request
from topo.sim.baselines import CHOICES
from topo.sim.baselines.scene import Choice, Scene
from topo.sim.streams.figures import Figures, Start, Tally
from topo.sim.streams.jobs import Job

DEPTH = 40
"""Waiting jobs that are tried after every event."""
OURS, PREFERRED = "topo", "topo-preferred"
"""The product's engine with whole groups required, and with groups split where it must be."""
POLICIES = (OURS, PREFERRED, *CHOICES)

Tick = Callable[[int], None]
"""Told how many jobs have started since it was told last."""


@dataclass
class Cluster:
    """The state of one simulation: a scene for the baselines and the figures, and ours beside it.

    The capacity is a copy: the one given stays as it is.
    """

    capacity: Capacity
    scene: Scene = field(init=False)

    def __post_init__(self) -> None:
        self.capacity = self.capacity.copy()
        self.scene = Scene(self.capacity)


class Ours:
    """The product's engine on its own capacity."""

    def __init__(self, cluster: Cluster) -> None:
        self._capacity = cluster.capacity

    def place(self, request: Request) -> tuple[Pods, ...] | None:
        """The groups of a plan, or None."""
        answer = place(self._capacity, request)
        return tuple(g.pods for g in answer.groups) if isinstance(answer, Plan) else None

    def start(self, job: Job, gpus: Mapping[NodeName, int]) -> None:
        """The capacity follows; the scene is the simulation's."""
        self._capacity.book(f"job-{job.number}", gpus)

    def end(self, job: Job) -> None:
        """The capacity follows."""
        self._capacity.release(f"job-{job.number}")


class Theirs:
    """A baseline on the scene, which the simulation itself keeps."""

    def __init__(self, cluster: Cluster, choose: Choice) -> None:
        self._scene, self._choose = cluster.scene, choose

    def place(self, request: Request) -> tuple[Pods, ...] | None:
        """The groups of the policy, or None."""
        return self._scene.place(request, self._choose)

    def start(self, job: Job, gpus: Mapping[NodeName, int]) -> None:
        """Nothing beside the scene."""

    def end(self, job: Job) -> None:
        """Nothing beside the scene."""


def run(
    capacity: Capacity, jobs: Sequence[Job], policy: str, tick: Tick = lambda _: None
) -> Figures:
    """The figures of one of `POLICIES` on this stream.

    Raises `BadInputError` for a cluster without GPUs and for a policy that there is not.
    """
    if policy not in POLICIES:
        fix = f"take one of {', '.join(POLICIES)}"
        raise BadInputError(Refusal("there is no such policy", policy, fix))
    if not capacity.gpu_types():
        raise BadInputError(Refusal("the cluster has no GPUs", "its nodes", "give nodes with GPUs"))
    if policy == PREFERRED:
        jobs = [replace(job, request=replace(job.request, mode=Mode.PREFERRED)) for job in jobs]
    cluster = Cluster(capacity)
    ours = policy in {OURS, PREFERRED}
    placer = Ours(cluster) if ours else Theirs(cluster, CHOICES[policy])
    stream = Stream(cluster, placer, jobs)
    stream.run(tick)
    return stream.tally.figures(policy, len(jobs))


class Stream:
    """One run: the clock, the queue, the jobs that run."""

    def __init__(self, cluster: Cluster, placer: Ours | Theirs, jobs: Sequence[Job]) -> None:
        self.tally = Tally(cluster.scene, jobs, spans(cluster.capacity, jobs))
        self._scene, self._placer = cluster.scene, placer
        self._coming = sorted(jobs, key=lambda job: job.arrival_s, reverse=True)
        self._waiting: list[Job] = []
        self._ends: list[tuple[float, int]] = []
        self._running: dict[int, tuple[Job, dict[NodeName, int]]] = {}
        self._hopeless: set[int] = set()
        requests = {job.gpus: job.request for job in jobs}
        self._impossible = {gpus for gpus, asked in requests.items() if not placer.place(asked)}

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
        job, gpus = self._running.pop(number)
        self.tally.pass_to(now_s)
        self._placer.end(job)
        self._scene.give(gpus)
        self._hopeless.clear()
        return now_s

    def _backfill(self, now_s: float) -> int:
        """Starts what fits. A size that did not fit is hopeless until a job ends."""
        self.tally.pass_to(now_s)
        started = set()
        for job in self._waiting[:DEPTH]:
            if job.gpus in self._hopeless:
                continue
            groups = self._tried(job)
            if groups is None:
                self._hopeless.add(job.gpus)
            else:
                self._start(job, groups, now_s)
                started.add(job.number)
        if started:
            self._waiting = [job for job in self._waiting if job.number not in started]
        return len(started)

    def _tried(self, job: Job) -> tuple[Pods, ...] | None:
        began_ns = perf_counter_ns()
        groups = self._placer.place(job.request)
        took_ns = perf_counter_ns() - began_ns
        self.tally.tried(job, took_ns, fitted=groups is not None)
        return groups

    def _start(self, job: Job, groups: tuple[Pods, ...], now_s: float) -> None:
        gpus: dict[NodeName, int] = {}
        for group in groups:
            for node, pods in group:
                gpus[node] = gpus.get(node, 0) + pods * job.request.gpus_per_pod
        self._placer.start(job, gpus)
        self._scene.take(gpus)
        heapq.heappush(self._ends, (now_s + job.duration_s, job.number))
        self._running[job.number] = (job, gpus)
        self.tally.started(Start(job, now_s - job.arrival_s, groups))


def spans(capacity: Capacity, jobs: Sequence[Job]) -> Mapping[int, int]:
    """The top groups that each size takes on the cluster when it is empty, where it fits then."""
    empty = capacity.copy()
    for owner in list(empty.bookings()):
        empty.release(owner)
    found = {}
    for gpus, request in {job.gpus: job.request for job in jobs}.items():
        answer = place(empty, request)
        if isinstance(answer, Plan):
            found[gpus] = answer.objective.span[0]
    return found
