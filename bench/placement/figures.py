"""Placement: latency, events, ratios and proofs, beside what is accepted."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from bench.figure import Budget, Figure, at_least, at_most, exact, growth_exponent, median, p99
from bench.placement.plans import LARGE_SHAPES, solved
from bench.placement.quality import KINDS, RIVALS, proven_in_every_number, quality
from bench.placement.shapes import ASIDE, shapes
from bench.placement.times import (
    LEAF_NODES,
    LOAD,
    Latency,
    churns,
    cold_builds,
    events,
    group_latencies,
    inside_leaves,
    job,
    latencies,
    ratios,
)
from bench.placement.unlike import unlike_gangs
from bench.placement.whole_fit import TIGHT, resource_ratios
from bench.processes import in_child
from bench.scale import SEED, Progress, Scale
from topo.sim.worlds.clusters import NODE_GPUS, SHAPES

PODS = (1, 8, 20, 64, 100, 256, 512, 1_024)
"""20 and 100 have a tail of 4; a whole group is 8."""
_LIMITS_MS: Mapping[int, Mapping[int, float]] = {
    10_000: {1: 0.05, 8: 0.05, 20: 1.0, 64: 0.2, 100: 1.0, 256: 0.8, 512: 0.8},
    100_000: {8: 0.15, 64: 1.0, 512: 2.5},
}
_CHURN_LIMITS_MS: Mapping[int, tuple[float | None, float]] = {
    10_000: (0.1, 1.0),
    100_000: (None, 10.0),
}
_LOOP_LIMITS_MS: Mapping[int, float] = {10_000: 50.0, 100_000: 100.0}
"""By nodes: the most that anything a request can ask for may take of the loop."""
_BEYOND_LOOP = tuple(f"{parts} parts with a rack each" for parts in (8, 64, 256))
"""What takes longer than anything may take of the loop."""
GROUPS = ((256, 4), (256, 2), (256, 1), (512, 4), (255, 2))
"""Pods, and pods of a group, of jobs of 64 to 256 groups; the last one has a tail."""
_GROUP_LIMITS_MS: Mapping[int, Mapping[tuple[int, int], float]] = {
    10_000: {(256, 4): 1.0, (256, 2): 1.0, (256, 1): 1.0}
}
INSIDE = (16, 2)
"""Pods of a job, and of its groups."""
_RATIOS: Mapping[str, Mapping[int, float]] = {
    "naive recount": {8: 20, 64: 5, 256: 2, 512: 1.5},
    "Volcano's rule": {64: 15},
}
_WITH_RESOURCES = (8, 64, 256, 512)
_GROWTH = (8, 32, 64)
"""Pods. Where one top group holds the job at every size, its growth is that of the search."""


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Latency, events, ratios, growth, rivals and proofs."""
    yield from _latencies(scale, progress)
    yield from _groups(scale, progress)
    yield from _inside_leaves(scale, progress)
    yield from _churns(scale, progress)
    yield from _upkeep(scale, progress)
    yield from _shapes(scale, progress)
    yield from _unlike(scale, progress)
    yield from _ratios(scale, progress)
    yield from _resources(scale, progress)
    yield from _plans(scale, progress)
    yield from _quality(scale, progress)
    yield from _on_pairs(scale, progress)


def _latencies(scale: Scale, progress: Progress) -> Iterator[Figure]:
    note = f"domains of 8, load {LOAD}, an event before every call; a group is 8 pods of 8 GPUs"
    found: dict[int, Mapping[int, Latency]] = {}
    for nodes in scale.placements:
        progress(f"latency: {nodes:,} nodes")
        sizes = sorted({*PODS, *_GROWTH})
        often = scale.placement_runs, scale.placement_calls
        found[nodes] = in_child(latencies, nodes, sizes, *often)
        for pods in PODS:
            latency = found[nodes][pods]
            limit = _LIMITS_MS.get(nodes, {}).get(pods)
            notes = "; ".join(filter(None, (note, latency.outcome)))
            name = f"place, {nodes:,} nodes, {pods:,} pods"
            yield Figure(name, median(latency.runs), "ms", _most(limit), notes)
            note = ""
    for pods in _GROWTH:
        if all(times[pods].tops == 1 for times in found.values()):
            yield _growth({nodes: times[pods] for nodes, times in found.items()}, pods)


def _groups(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Jobs of many small groups."""
    nodes = scale.nodes
    progress(f"groups: {nodes:,} nodes")
    often = scale.placement_runs, scale.placement_calls
    for (pods, size), found in in_child(group_latencies, nodes, GROUPS, *often).items():
        limit = _GROUP_LIMITS_MS.get(nodes, {}).get((pods, size))
        groups = f"{-(-pods // size)} groups of {size}"
        name = f"place, {nodes:,} nodes, {pods} pods in {groups}"
        yield Figure(name, median(found.runs), "ms", _most(limit), found.outcome)


def _inside_leaves(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """A job of pairs in one leaf, across some of whose dragonflies it lies."""
    progress("inside a leaf")
    pods, size = INSIDE
    request = replace(job(pods), group_size=size * NODE_GPUS)
    often = scale.placement_runs, scale.placement_calls
    found = in_child(inside_leaves, scale.nodes, request, *often)
    name = f"within a leaf / anywhere, {scale.nodes:,} nodes, {pods} pods in groups of {size}"
    note = f"dragonflies of 2; leaves of {LEAF_NODES} nodes, across which some lie"
    yield Figure(name, median(found), "x", at_most(10), note)


def _growth(latency: Mapping[int, Latency], pods: int) -> Figure:
    points = [(nodes, found.median_ms) for nodes, found in latency.items()]
    note = f"{' / '.join(f'{n:,}' for n, _ in points)} nodes: "
    note += f"{' / '.join(f'{ms:.3g}' for _, ms in points)} ms"
    name = f"growth exponent, placing {pods} pods in one top group"
    return Figure(name, exact(growth_exponent(points)), "n^x", at_most(0.5), note)


def _churns(scale: Scale, progress: Progress) -> Iterator[Figure]:
    runs = scale.placement_runs
    for nodes in scale.placements[1:]:
        calls = scale.churn_calls if nodes <= scale.nodes else scale.churn_calls // 4
        for shape in SHAPES:
            progress(f"churn: {nodes:,} nodes, domains of {shape}")
            found = in_child(churns, nodes, shape, runs, calls)
            p50_limit, p99_limit = _CHURN_LIMITS_MS.get(nodes, (None, None))
            refused = sum(run.refused for run in found) / len(found)
            note = f"jobs of 1 to 512 GPUs, {calls:,} a run; {refused:.1%} refused"
            name = f"place, {nodes:,} nodes, domains of {shape}, churn mix"
            p50s = median([run.p50 for run in found])
            yield Figure(f"{name}: median", p50s, "ms", _most(p50_limit), note)
            p99s = median([run.p99 for run in found])
            yield Figure(f"{name}: p99", p99s, "ms", _most(p99_limit))
            yield Figure(f"{name}: worst", median([run.worst for run in found]), "ms")


def _upkeep(scale: Scale, progress: Progress) -> Iterator[Figure]:
    progress("events and cold builds")
    runs, calls = scale.placement_runs, scale.churn_calls
    for what, us in in_child(events, scale.nodes, runs, calls).items():
        note = "four sizes of pod kept up to date; the time of one event, divided by four"
        name = f"event, {scale.nodes:,} nodes, {what} of a node, a class"
        yield Figure(name, median(us), "us", at_most(2), note)
    nodes = scale.placements[-1]
    note = "from hosts and bookings to the first answer"
    name = f"capacity built, {nodes:,} nodes"
    seconds = median(in_child(cold_builds, nodes, runs))
    yield Figure(name, seconds, "s", at_most(0.5), note)


def _shapes(scale: Scale, progress: Progress) -> Iterator[Figure]:
    for nodes in scale.placements[1:]:
        progress(f"shapes: {nodes:,} nodes")
        for name, ms in in_child(shapes, nodes, scale.placement_calls // 2).items():
            budget = None if name in ASIDE else at_most(_LOOP_LIMITS_MS.get(nodes, 50.0))
            note = "in a thread, on a copy" if name in ASIDE else "of the loop"
            yield Figure(f"{nodes:,} nodes: {name}", median(ms), "ms", budget, note)


def _unlike(scale: Scale, progress: Progress) -> Iterator[Figure]:
    note = "the whole answer of a gang, of the loop; dragonflies of two nodes, half of them free"
    for nodes in scale.placements[1:2]:
        progress(f"pods that differ: {nodes:,} nodes")
        for name, ms in in_child(unlike_gangs, nodes, scale.placement_calls // 2).items():
            budget = None if name in _BEYOND_LOOP else at_most(_LOOP_LIMITS_MS.get(nodes, 50.0))
            yield Figure(f"{nodes:,} nodes: {name}", exact(ms), "ms", budget, note)
            note = ""


def _ratios(scale: Scale, progress: Progress) -> Iterator[Figure]:
    progress("ratios")
    sizes = tuple(_RATIOS["naive recount"])
    found = in_child(ratios, scale.nodes, sizes, scale.placement_runs, scale.placement_calls)
    for rival, by_pods in found.items():
        for pods, several in by_pods.items():
            limit = _RATIOS.get(rival, {}).get(pods)
            budget = None if limit is None else at_least(limit)
            name = f"{rival} / place, {scale.nodes:,} nodes, {pods} pods"
            yield Figure(name, median(several), "x", budget)


def _resources(scale: Scale, progress: Progress) -> Iterator[Figure]:
    progress("five resources")
    sizes, often = _WITH_RESOURCES, (scale.placement_runs, scale.placement_calls)
    note = f"the whole answer of a gang; no CPU is left on {TIGHT:.0%} of the nodes"
    for pods, several in in_child(resource_ratios, scale.nodes, sizes, *often).items():
        name = f"five resources / GPUs alone, {scale.nodes:,} nodes, {pods} pods"
        yield Figure(name, median(several), "x", at_most(2), note)
        note = ""


def _plans(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """At full size: how many plans are proven to the last number, and the time of all answers."""
    for nodes in scale.placements[:2]:
        for shape in LARGE_SHAPES:
            progress(f"plans: {nodes:,} nodes, domains of {shape}")
            found = in_child(solved, shape, nodes, scale.instances)
            plans = [each for each in found if each.vector is not None]
            proven = sum(each.proven == each.numbers for each in plans)
            note = f"{len(plans):,} plans of {len(found):,} jobs of 1 to 512 pods, loads 0.4 to 0.8"
            name = f"plans, {nodes:,} nodes, domains of {shape}"
            share = exact(100 * proven / max(1, len(plans)))
            yield Figure(f"{name}: proven best in every number", share, "%", None, note)
            times = [each.ms for each in found]
            yield Figure(f"{name}: median", median(times), "ms")
            yield Figure(f"{name}: p99", p99(times), "ms")


def _quality(scale: Scale, progress: Progress) -> Iterator[Figure]:
    for kind, proven_least in zip(KINDS, (99, 85), strict=True):
        progress(f"quality: {scale.instances:,} {kind} instances")
        found = in_child(quality, kind, range(SEED, SEED + scale.instances))
        note = f"{found.plans:,} plans of {scale.instances:,} instances of 60 to 260 nodes"
        counted = exact(found.share(found.counted))
        name = f"plans with the least spans by counting alone, {kind}"
        yield Figure(name, counted, "%", at_least(proven_least), note)
        proven = exact(found.share(found.proven))
        name = f"plans proven to have the least spans, {kind}"
        yield Figure(name, proven, "%", at_least(proven_least), "by bounds or an exact search")
        for rival in RIVALS:
            worse = exact(found.share(found.worse[rival]))
            budget = at_most(0 if kind == "aligned" else 0.2)
            judged = kind == "aligned" or rival == "kueue-best-fit"
            yield Figure(f"worse than {rival}, {kind}", worse, "%", budget if judged else None)
            better = exact(found.share(found.better[rival]))
            judged = kind == "mixed" and rival == "kueue-best-fit"
            yield Figure(
                f"better than {rival}, {kind}", better, "%", at_least(35) if judged else None
            )


def _on_pairs(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """In small clusters of two-node dragonflies: how many plans are proven to the last number."""
    for kind, proven_least in (("nested", 95), ("torn", 90), ("kept", 60)):
        progress(f"quality: {scale.instances:,} {kind} instances")
        found = in_child(proven_in_every_number, kind, range(SEED, SEED + scale.instances))
        for how, (plans, proven) in found.items():
            share = exact(100 * proven / max(1, plans))
            note = f"{plans:,} plans of {scale.instances:,} instances of 12 to 48 nodes"
            name = f"plans proven best in every number, {kind}, {how}"
            yield Figure(name, share, "%", at_least(proven_least), note)


def _most(limit: float | None) -> Budget | None:
    return None if limit is None else at_most(limit)
