"""The cluster that benchmarks work on: simulated hosts, and what their workers would report."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from master.sources.workers.sessions import interned
from topo.facts import parse
from topo.facts.assemble import assemble
from topo.model.ids import NodeName, ServerUuid
from topo.model.machine import NodeFacts, ProbeHealth, ServerPeers
from topo.model.wire import Report
from topo.sim.bundles import bundle_of
from topo.sim.worlds.presets import Hardware, SimNode, World, world

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


def facts_of(node: SimNode) -> NodeFacts:
    """What the worker of a host reports in full.

    One recording per kind of host goes through the parsers; hosts of a kind differ in their names,
    UUIDs and peers only, which are put in afterwards: the same value, a hundred times sooner.
    """
    pattern = _pattern(node.hardware, len(node.peers))
    return replace(
        pattern,
        identity=node.identity,
        gpus=tuple(replace(gpu, uuid=node.gpu_uuid(gpu.index)) for gpu in pattern.gpus),
        peers=_peers(node, pattern.peers),
        nics=tuple(replace(nic, node_guid=_guid(node, nic.node_guid)) for nic in pattern.nics),
    )


def _peers(node: SimNode, pattern: ServerPeers | None) -> ServerPeers | None:
    if node.server_uuid is None or pattern is None:
        return None
    remotes = zip(pattern.remotes, node.peers, strict=True)
    return ServerPeers(node.server_uuid, tuple(replace(peer, uuid=u) for peer, u in remotes))


def _guid(node: SimNode, pattern: str | None) -> str | None:
    """The simulation begins a NIC's GUID with the number of its host, as `topo.sim` does."""
    return None if pattern is None else f"{node.number:04x}{pattern[4:]}"


@lru_cache
def _pattern(hardware: Hardware, peers: int) -> NodeFacts:
    around = tuple(ServerUuid(f"peer-{slot}") for slot in range(peers))
    return assembled(SimNode(NodeName("pattern"), 0, hardware, ServerUuid("pattern"), around))


def assembled(node: SimNode) -> NodeFacts:
    """The facts of one host by the way that a worker goes: recording, parsers, assembly."""
    bundle = bundle_of(node)
    parsed = [(take.probe, parse(take.text, take.format)) for take in bundle.probes]
    health = [ProbeHealth(take.probe, take.state) for take in bundle.probes]
    return assemble(bundle.identity, parsed, health)


def full_report(facts: NodeFacts, seq: int = 0) -> bytes:
    """The first message of a worker, as its transport writes it."""
    report = Report(node=facts.identity.name, instance=INSTANCE, seq=seq, kind="full", facts=facts)
    return report.model_dump_json(exclude_unset=True).encode()


def as_master_holds(world: World) -> Iterator[NodeFacts]:
    """The facts of all hosts as they come out of the wire and pass the master's sessions.

    Every object is made anew, but for the sections that equal hosts share there.
    """
    for node in world.nodes:
        report = Report.model_validate_json(full_report(facts_of(node)))
        if report.facts is not None:
            yield interned(report.facts)
