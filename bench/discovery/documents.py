"""The documents of a large cluster: how long they take to make, and their size."""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import orjson

from bench.discovery.core import Collector, built_state
from bench.figure import Figure, at_most, exact, median
from bench.processes import in_child
from bench.scale import Progress, Scale
from master.tree.document_cache import GZIP_LEVEL
from master.tree.topology_document import TopologyView, document
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host_follower import HostFollower
from topo.publish.nodegroup import render


@dataclass(frozen=True, slots=True)
class Renderings:
    """Milliseconds of every rendering, and sizes in bytes."""

    node_group: tuple[float, ...]
    squeezing: tuple[float, ...]
    topology: tuple[float, ...]
    plain: int
    squeezed: int
    topology_size: int


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Rendering times without budgets, and the one size that has one."""
    progress(f"{scale.nodes:,} nodes rendered {3 * scale.builds} times")
    found = in_child(measured, scale.nodes, 3 * scale.builds)
    size = f"{scale.nodes:,} nodes"
    note = f"level {GZIP_LEVEL}, of {found.plain / 1000:,.0f} kB"
    squeezed = exact(found.squeezed / 1000)
    yield Figure(f"/node_group gzipped, {size}", squeezed, "kB", at_most(200), note)
    yield Figure(f"/node_group rendered, {size}", median(found.node_group), "ms")
    yield Figure(f"/node_group compressed, {size}", median(found.squeezing), "ms")
    note = f"{found.topology_size / 1000:,.0f} kB, not compressed"
    yield Figure(f"/v1/topology rendered, {size}", median(found.topology), "ms", note=note)


def measured(nodes: int, runs: int) -> Renderings:
    """The documents of a cluster whose every node is Ready, with the collector as in a master.

    With Python's own thresholds the median says whether a full collection falls into the rendering
    or beside it: 28 or 80 ms for the same code.
    """
    snapshot = built_state(nodes).snapshot
    capacity = Capacity()
    HostFollower(capacity).follow(snapshot.forest)
    view = TopologyView(snapshot, capacity.usage(()))
    Collector.AS_MASTER.prepare()
    rendering, squeezing, telling = [], [], []
    body = squeezed = topology = b""
    for _ in range(runs):
        began = perf_counter()
        body = render(snapshot.forest)
        rendered = perf_counter()
        squeezed = gzip.compress(body, GZIP_LEVEL, mtime=0)
        compressed = perf_counter()
        topology = orjson.dumps(document(view, "switchbox", 1.0))
        told = perf_counter()
        rendering.append((rendered - began) * 1000)
        squeezing.append((compressed - rendered) * 1000)
        telling.append((told - compressed) * 1000)
    return Renderings(
        tuple(rendering),
        tuple(squeezing),
        tuple(telling),
        plain=len(body),
        squeezed=len(squeezed),
        topology_size=len(topology),
    )
