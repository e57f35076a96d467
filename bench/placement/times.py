"""How long the engine takes, measured as the master runs: called in a process of its own."""

import gc
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from bench.discovery.core import Collector
from bench.figure import percentile
from bench.placement import naive
from bench.scale import SEED
from topo.model.ids import SCALE_OUT, GroupName, GroupPath, Kind, NodeName, natural_key
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import OtherGroup, Request
from topo.sim.baselines import volcano
from topo.sim.baselines.cluster import BaselineCluster
from topo.sim.baselines.cluster import place as place_by
from topo.sim.worlds.clusters import GROUP_GPUS, NODE_GPUS, cluster, requests

LOAD = 0.6
LEAF_NODES = 32
_POD_SIZES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds: the median of each run over single calls; what the plan was, in words."""

    runs: tuple[float, ...]
    outcome: str
    tops: int

    @property
    def median_ms(self) -> float:
        """The median over the runs."""
        return percentile(self.runs, 50)


@dataclass(frozen=True, slots=True)
class Churn:
    """Milliseconds of the calls of one run of a stream of jobs, and the share refused."""

    p50: float
    p99: float
    worst: float
    refused: float


def job(pods: int) -> Request:
    """So many pods of a node's size, in groups of 64 GPUs."""
    return Request(pods=pods, gpus_per_pod=NODE_GPUS, group_size=GROUP_GPUS)


def latencies(nodes: int, pods: Sequence[int], runs: int, calls: int) -> Mapping[int, Latency]:
    """Each size of job on a cluster of domains of 8, where something happens before every call."""
    capacity = cluster(nodes, "8", LOAD, SEED)
    stir = _stirring(capacity)
    Collector.AS_MASTER.prepare()
    return {size: _latency(capacity, job(size), stir, (runs, calls)) for size in pods}


def group_latencies(
    nodes: int, jobs: Sequence[tuple[int, int]], runs: int, calls: int
) -> Mapping[tuple[int, int], Latency]:
    """The same for jobs of so many pods of 8 GPUs, in groups of so many pods."""
    capacity = cluster(nodes, "8", LOAD, SEED)
    stir = _stirring(capacity)
    Collector.AS_MASTER.prepare()
    return {
        (pods, size): _latency(
            capacity, replace(job(pods), group_size=size * NODE_GPUS), stir, (runs, calls)
        )
        for pods, size in jobs
    }


def _latency(
    capacity: Capacity, request: Request, stir: Iterator[None], often: tuple[int, int]
) -> Latency:
    runs, calls = often
    answer = place(capacity, request)
    ours = partial(place, capacity, request)
    medians = [median_s(ours, stir, calls) * 1000 for _ in range(runs)]
    if isinstance(answer, NoFit):
        return Latency(tuple(medians), "refused: does not fit", 0)
    tops = answer.objective.span[0]
    return Latency(tuple(medians), f"in {tops} top groups" if tops > 1 else "", tops)


def _stirring(capacity: Capacity) -> Iterator[None]:
    """Small events at random, so that nothing can be remembered from one call to the next."""
    choice = random.Random(SEED)
    names = [host.name for host in capacity.hosts() if host.is_open]
    while True:
        capacity.book("stir", {choice.choice(names): choice.choice((1, 8))})
        yield
        capacity.release("stir")
        yield


def inside_leaves(nodes: int, request: Request, runs: int, calls: int) -> tuple[float, ...]:
    """How many times as long a job takes that must be inside one leaf, once a run.

    Dragonflies of two; leaves of `LEAF_NODES` neighbours, so that the first and the last dragonfly
    of each lie across two.
    """
    capacity = cluster(nodes, "2", LOAD, SEED)
    for at, host in enumerate(capacity.hosts()):
        path = GroupPath((GroupName(f"leaf-{(at + 1) // LEAF_NODES}"),))
        leaf = OtherGroup(SCALE_OUT, Kind("leaf"), path)
        capacity.upsert(replace(host, elsewhere=(leaf,)))
    stir = _stirring(capacity)
    inside = partial(place, capacity, replace(request, within=Kind("leaf")))
    anywhere = partial(place, capacity, request)
    Collector.AS_MASTER.prepare()
    return tuple(
        median_s(inside, stir, calls) / median_s(anywhere, stir, calls) for _ in range(runs)
    )


def churns(nodes: int, shape: str, runs: int, calls: int) -> tuple[Churn, ...]:
    """A stream of jobs of 1 to 512 GPUs on a cluster kept at its load: placed, booked, released."""
    capacity = cluster(nodes, shape, LOAD, SEED)
    stream = _Stream(capacity)
    Collector.AS_MASTER.prepare()
    stream.run(max(1, calls // 10))
    return tuple(stream.run(calls) for _ in range(runs))


class _Stream:
    """Jobs come; as many end at random as keep the booked GPUs where they were."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._choice = random.Random(SEED)
        self._jobs = requests(SEED)
        self._owners = list(capacity.bookings())
        self._booked = self._most = sum(self._gpus(owner) for owner in self._owners)
        self._number = 0

    def _gpus(self, owner: str) -> int:
        return sum(self._capacity.bookings()[owner].values())

    def run(self, calls: int) -> Churn:
        """The latencies of so many jobs."""
        samples: list[float] = []
        refused = 0
        for _ in range(calls):
            request = next(self._jobs)
            began = perf_counter()
            answer = place(self._capacity, request)
            samples.append((perf_counter() - began) * 1000)
            refused += isinstance(answer, NoFit)
            if isinstance(answer, Plan):
                self._book(answer)
        p50, p99 = percentile(samples, 50), percentile(samples, 99)
        return Churn(p50, p99, max(samples), refused / calls)

    def _book(self, plan: Plan) -> None:
        self._number += 1
        owner = f"new-{self._number}"
        gpus: dict[NodeName, int] = {}
        for group in plan.groups:
            for name, pods in group.pods:
                gpus[name] = gpus.get(name, 0) + pods * plan.request.gpus_per_pod
        self._capacity.book(owner, gpus)
        self._owners.append(owner)
        self._booked += self._gpus(owner)
        while self._booked > self._most:
            at = self._choice.randrange(len(self._owners))
            self._owners[at], self._owners[-1] = self._owners[-1], self._owners[at]
            ended = self._owners.pop()
            self._booked -= self._gpus(ended)
            self._capacity.release(ended)


def events(nodes: int, runs: int, calls: int) -> Mapping[str, tuple[float, ...]]:
    """Microseconds of an event of one node by what happened, a median a run, per class kept.

    A class is one size of pod here: four are asked for before.
    """
    capacity = cluster(nodes, "8", LOAD, SEED)
    for gpus in _POD_SIZES:
        place(capacity, Request(pods=1, gpus_per_pod=gpus))
    choice = random.Random(SEED)
    opened = [host for host in capacity.hosts() if host.is_open]
    Collector.AS_MASTER.prepare()
    times: dict[str, list[float]] = {"booking": [], "status": []}
    for _ in range(runs):
        drawn = choice.choices(opened, k=calls)
        times["booking"].append(_median_us(_booked(capacity, host) for host in drawn))
        times["status"].append(_median_us(_cordoned(capacity, host) for host in drawn))
    return {what: tuple(us / len(_POD_SIZES) for us in runs) for what, runs in times.items()}


def _median_us(seconds: Iterable[float]) -> float:
    return percentile(list(seconds), 50) * 1e6


def _booked(capacity: Capacity, host: Host) -> float:
    """Seconds of a booking of one node and of its release, half of both."""
    gpus = {host.name: 1}
    began = perf_counter()
    capacity.book("event", gpus)
    capacity.release("event")
    return (perf_counter() - began) / 2


def _cordoned(capacity: Capacity, host: Host) -> float:
    """Seconds of a node closing and opening again, half of both."""
    closed = replace(host, cordoned=True)
    began = perf_counter()
    capacity.upsert(closed)
    capacity.upsert(host)
    return (perf_counter() - began) / 2


def cold_builds(nodes: int, runs: int) -> tuple[float, ...]:
    """Seconds from hosts and bookings to the first answer."""
    loaded = cluster(nodes, "8", LOAD, SEED)
    everybody, booked = list(loaded.hosts()), dict(loaded.bookings())
    del loaded
    Collector.AS_MASTER.prepare()
    times = []
    for _ in range(runs):
        natural_key.cache_clear()
        began = perf_counter()
        capacity = Capacity()
        for host in everybody:
            capacity.upsert(host)
        for owner, gpus in booked.items():
            capacity.book(owner, gpus)
        place(capacity, job(8))
        times.append(perf_counter() - began)
        del capacity
        gc.collect()
    return tuple(times)


def ratios(
    nodes: int, pods: Sequence[int], runs: int, calls: int
) -> Mapping[str, Mapping[int, tuple[float, ...]]]:
    """How many times as long others take for the same job in the same state, once a run.

    Volcano makes its sums by hypernode anew in each session; with sums that are kept as the engine
    keeps its own, what its rule pays for is trying the gang everywhere.
    """
    capacity = cluster(nodes, "8", LOAD, SEED)
    records, counted = naive.fleet(capacity), BaselineCluster(capacity)
    stir = _stirring(capacity)
    Collector.AS_MASTER.prepare()
    found: dict[str, dict[int, tuple[float, ...]]] = {}
    for size in pods:
        request = job(size)
        others: dict[str, Callable[[], object]] = {
            "naive recount": partial(naive.place, records, request),
            "Volcano's rule": partial(place_by, capacity, request, volcano.place),
            "Volcano's rule, sums kept,": partial(counted.place, request, volcano.place),
        }
        for name, other in others.items():
            ours = partial(place, capacity, request)
            found.setdefault(name, {})[size] = tuple(
                median_s(other, stir, calls) / median_s(ours, stir, calls) for _ in range(runs)
            )
    return found


def median_s(work: Callable[[], object], stir: Iterator[None], calls: int) -> float:
    """Seconds of a call, the median; something happens before each."""
    samples = []
    for _ in range(calls):
        next(stir)
        began = perf_counter()
        work()
        samples.append(perf_counter() - began)
    return percentile(samples, 50)
