"""The cluster that benchmarks work on: simulated hosts, and what their workers would report."""

from collections.abc import Iterator

from master.sources.workers.sessions import interned
from topo.model.machine import NodeFacts
from topo.model.wire import Report
from topo.sim.fleet.facts import facts_of_host
from topo.sim.worlds.presets import World, world

STEM = "sample"
"""The hosts' names as `topo sim clustermanager` gives them to a world of a size."""
NODES_PER_SWITCHBOX = 100
INSTANCE = "bench-instance"


def shape(nodes: int) -> tuple[int, int, int]:
    """Switchboxes, dragonflies in each, hosts in each: pairs in boxes of at most a hundred."""
    boxes = max(1, nodes // NODES_PER_SWITCHBOX)
    return boxes, nodes // (2 * boxes), 2


def world_name(nodes: int) -> str:
    """The cluster as `topo sim` is told its size."""
    return "x".join(map(str, shape(nodes)))


def cluster(nodes: int) -> World:
    """The cluster of about that many hosts with 8 GPUs each."""
    return world(*shape(nodes), stem=STEM)


def full_report(facts: NodeFacts, seq: int = 0) -> bytes:
    """The first message of a worker, as its transport writes it."""
    report = Report(node=facts.identity.name, instance=INSTANCE, seq=seq, kind="full", facts=facts)
    return report.model_dump_json(exclude_unset=True).encode()


def as_master_holds(world: World) -> Iterator[NodeFacts]:
    """The facts of all hosts as they come out of the wire and pass the master's sessions.

    Every object is made anew, but for the sections that equal hosts share there.
    """
    for node in world.nodes:
        report = Report.model_validate_json(full_report(facts_of_host(node)))
        if report.facts is not None:
            yield interned(report.facts)
