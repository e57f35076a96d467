"""The discovery core alone: a full build, one change, and how both grow with the cluster."""

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from time import perf_counter

from bench import cluster
from bench.figure import Figure, at_most, exact, growth_exponent, median, p99, percentile
from bench.processes import in_child
from bench.scale import SEED, Progress, Scale
from topo.discovery.modes import DiscoverySettings, Mode
from topo.discovery.state import Discovery
from topo.kit.process.collector import THRESHOLDS
from topo.model.ids import natural_key
from topo.model.machine import NodeFacts
from topo.model.observation import Event, ManagerReported, NodeRemoved, WorkerReported
from topo.sim.fleet.facts import facts_of_host
from topo.sim.worlds.presets import managed_topology

_PYTHONS_OWN = (700, 10, 10)
_GROWTH_BUILDS = 3
"""As many at every size: the first build of a process pays for fresh pages of memory, too."""
SETTINGS = DiscoverySettings(mode=Mode.SWITCHBOX, node_number=2, gpus_per_node=8)


class Collector(StrEnum):
    """What the garbage collector is told."""

    AS_MASTER = "as the master runs"
    PYTHONS_OWN = "Python's own gc thresholds"

    def prepare(self) -> None:
        """Called in the measuring process, when the facts are there."""
        gc.collect()
        own = self is Collector.PYTHONS_OWN
        gc.set_threshold(*(_PYTHONS_OWN if own else THRESHOLDS))


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of every full build and of every single change."""

    builds: tuple[float, ...]
    changes: tuple[float, ...]


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """The budgets' two figures as the master would see them, the variant, and the growth."""
    nodes = scale.nodes
    progress(f"{nodes:,} nodes built {scale.builds} times, {scale.changes} single changes")
    note = "all reports and the manager's answer in one advance, caches cold"
    for collector, times in in_child(measured, nodes, scale.builds, scale.changes).items():
        judged = collector is Collector.AS_MASTER
        build = f"full build, {nodes:,} nodes, {collector}"
        yield Figure(build, median(times.builds), "ms", at_most(500) if judged else None, note)
        note = ""
        change = f"one change, {nodes:,} nodes, {collector}"
        limit = at_most(10) if judged else None
        yield Figure(f"{change}: median", median(times.changes), "ms", limit)
        yield Figure(f"{change}: p99", p99(times.changes), "ms", limit)
    yield from _growth(scale, progress)


def _growth(scale: Scale, progress: Progress) -> Iterator[Figure]:
    points: list[tuple[int, Times]] = []
    for nodes in scale.growth:
        progress(f"growth: {nodes:,} nodes")
        points.append((nodes, in_child(measured_light, nodes, _GROWTH_BUILDS, scale.changes)))
    sizes = " / ".join(f"{nodes:,}" for nodes, _ in points)
    series: tuple[tuple[str, Callable[[Times], Sequence[float]]], ...] = (
        ("full build", lambda times: times.builds),
        ("one change", lambda times: times.changes),
    )
    for what, samples in series:
        middle = [(nodes, percentile(samples(times), 50)) for nodes, times in points]
        note = f"{sizes} nodes: {' / '.join(f'{ms:.3g}' for _, ms in middle)} ms"
        yield Figure(f"growth exponent, {what}", exact(growth_exponent(middle)), "n^x", note=note)


def measured(nodes: int, builds: int, changes: int) -> dict[Collector, Times]:
    """The times with every node's facts in memory as the master holds them."""
    world = cluster.cluster(nodes)
    gc.disable()
    facts = list(cluster.as_master_holds(world))
    gc.enable()
    managed = ManagerReported(managed_topology(world))
    times = {}
    for collector in Collector:
        collector.prepare()
        times[collector] = _timed(facts, managed, builds, changes)
    return times


def measured_light(nodes: int, builds: int, changes: int) -> Times:
    """The times with facts that share what is equal, so that 100,000 nodes fit in memory."""
    world = cluster.cluster(nodes)
    gc.disable()
    facts = [facts_of_host(node) for node in world.nodes]
    gc.enable()
    Collector.AS_MASTER.prepare()
    return _timed(facts, ManagerReported(managed_topology(world)), builds, changes)


def _timed(facts: list[NodeFacts], managed: ManagerReported, builds: int, changes: int) -> Times:
    built: list[float] = []
    state = Discovery(SETTINGS)
    for _ in range(builds):
        state = Discovery(SETTINGS)
        natural_key.cache_clear()
        events: list[Event] = [managed, *(WorkerReported(f) for f in facts)]
        began = perf_counter()
        state.advance(0.0, *events)
        built.append((perf_counter() - began) * 1000)
    choice = random.Random(SEED)
    changed: list[float] = []
    while len(changed) < changes:
        for event in _episode(choice.choice(facts), choice):
            began = perf_counter()
            moved = state.advance(1.0, event)
            took_ms = (perf_counter() - began) * 1000
            if moved:
                changed.append(took_ms)
    return Times(tuple(built), tuple(changed))


def _episode(facts: NodeFacts, choice: random.Random) -> tuple[Event, ...]:
    """Something happens to one node and is undone; readings that settle nothing are among them."""
    well = WorkerReported(facts)
    episodes: tuple[tuple[Event, ...], ...] = (
        (*[_with_sick_gpu(facts)] * 2, *[well] * 3),
        (*[_without_peers(facts)] * 2, *[well] * 3),
        (NodeRemoved(facts.identity.name), well),
    )
    return choice.choice(episodes)


def _with_sick_gpu(facts: NodeFacts) -> WorkerReported:
    return WorkerReported(
        replace(facts, gpus=(replace(facts.gpus[0], healthy=False), *facts.gpus[1:]))
    )


def _without_peers(facts: NodeFacts) -> WorkerReported:
    peers = None if facts.peers is None else replace(facts.peers, remotes=())
    return WorkerReported(replace(facts, peers=peers))


def built_state(nodes: int) -> Discovery:
    """A discovery state that knows the whole cluster."""
    world = cluster.cluster(nodes)
    reports = (WorkerReported(facts_of_host(node)) for node in world.nodes)
    state = Discovery(SETTINGS)
    state.advance(0.0, ManagerReported(managed_topology(world)), *reports)
    return state
