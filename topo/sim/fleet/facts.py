"""What the worker of a simulated host reports, for worlds of thousands of hosts."""

from dataclasses import replace
from functools import lru_cache

from topo.facts import parse
from topo.facts.assemble import assemble
from topo.model.ids import NodeName, ServerUuid
from topo.model.machine import NodeFacts, ProbeHealth, ServerPeers
from topo.sim.bundles import bundle_of
from topo.sim.worlds.presets import Hardware, SimNode


def facts_of_host(node: SimNode) -> NodeFacts:
    """Return the facts of a healthy host.

    One recording per kind of host goes through the parsers; hosts of a kind that are wired by
    MetaXLink differ in names, UUIDs and peers only, which are put in afterwards: the same value, a
    hundred times sooner. A host of an NVLink fabric or a super pod goes all the way.
    """
    if node.fabric is not None or node.super_pod is not None:
        return assembled(node)
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
    """Return the GUID with the number of its host in front, as `probe_outputs.sysfs` makes it."""
    return None if pattern is None else f"{node.number:04x}{pattern[4:]}"


@lru_cache
def _pattern(hardware: Hardware, peers: int) -> NodeFacts:
    around = tuple(ServerUuid(f"peer-{slot}") for slot in range(peers))
    return assembled(SimNode(NodeName("pattern"), 0, hardware, ServerUuid("pattern"), around))


def assembled(node: SimNode) -> NodeFacts:
    """Return the facts of one host by the way that a worker goes: recording, parsers, assembly."""
    bundle = bundle_of(node)
    parsed = [(take.probe, parse(take.text, take.format)) for take in bundle.probes]
    health = [ProbeHealth(take.probe, take.state) for take in bundle.probes]
    return assemble(bundle.identity, parsed, health)
