"""A plan of cables beside a dump of the fabric, with eight adapters a host and wrong cables."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from bench.discovery.core import Collector
from bench.figure import Figure, at_least, at_most, exact, median
from bench.processes import in_child
from bench.scale import SEED, CannotRunError, Progress, Scale
from tests.support.fabric_shapes import SHAPES, hosts_named
from tests.support.miswired import Miswired, plans
from topo.diagnosis.wiring.compare import CableComparison, compare
from topo.diagnosis.wiring.cost import Costs, Job, NodeAt
from topo.diagnosis.wiring.seen import SeenCables, seen_in_dumps
from topo.facts.plans import read_plan
from topo.facts.plans.plan import CablePlan
from topo.model.errors import Refusal

_PODS = 8


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Milliseconds of each run, megabytes of one, cables, and the share of swaps that is named."""

    comparing: tuple[float, ...]
    memory: float
    cables: int
    named: float


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Measure a comparison of a rail-optimised fabric: its time, its memory, the swaps it names."""
    progress(f"{scale.nodes:,} hosts, compared {scale.builds} times")
    found = in_child(measured, scale.nodes, scale.builds)
    size = f"{scale.nodes:,} hosts"
    note = f"{found.cables:,} planned cables, with the cost of each finding"
    yield Figure(f"plan compared, {size}", median(found.comparing), "ms", at_most(5000), note)
    yield Figure(f"memory of a comparison, {size}", exact(found.memory), "MB", at_most(200))
    yield Figure(f"swaps named, {size}", exact(100 * found.named), "%", at_least(99))


def measured(hosts: int, runs: int) -> Comparisons:
    """The times with the collector as in a master."""
    made = Miswired.at_random(SHAPES[0], hosts, SEED)
    plan = read_plan(plans(made)["csv"])
    seen, times = seen_in_dumps(made.dumps()), []
    nodes, jobs = _running(hosts)
    Collector.AS_MASTER.prepare()
    for _ in range(runs):
        began = perf_counter()
        costs = Costs(nodes, jobs, seen)
        for finding in _compared(plan, seen).findings:
            costs.of(finding)
        times.append((perf_counter() - began) * 1000)
    tracemalloc.start()
    found = _compared(plan, seen)
    memory = tracemalloc.get_traced_memory()[1] / 1e6
    swaps = {ends for verdict, ends in made.expected if verdict == "swap"}
    named = {frozenset(each.ends) for each in found.findings if each.verdict == "swap"}
    share = len(swaps & named) / len(swaps | named)
    return Comparisons(tuple(times), memory, len(made.planned), share)


def _running(hosts: int) -> tuple[dict[str, NodeAt], list[Job]]:
    """The nodes, and jobs of eight that are far from each other."""
    names = hosts_named(hosts)
    apart = max(hosts // _PODS, 1)
    jobs = [Job(f"job-{n}", frozenset(names[n::apart])) for n in range(apart)]
    return {name: NodeAt(8, True, (), ()) for name in names}, jobs


def _compared(plan: CablePlan | Refusal, seen: SeenCables) -> CableComparison:
    found = plan if isinstance(plan, Refusal) else compare(plan, seen)
    if isinstance(found, Refusal):
        raise CannotRunError(str(found))
    return found
