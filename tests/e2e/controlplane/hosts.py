"""Simulated hosts behind GPU nodes: recordings that workers replay, cables that can be pulled."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from topo.kit.files import replace_whole
from topo.model.ids import NodeName
from topo.recording.timeline import Fault, FaultKind, Sentence
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import SimNode, World

FAULTS_FILE = "faults.txt"


class Hosts:
    """The simulated hosts: a recording each, whose cables can be pulled while workers replay it."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world
        self._hosts = {str(host.name): host for host in world.nodes}
        for name, host in self._hosts.items():
            write_bundle(folder / name, host)

    def cut(self, node: str) -> tuple[str, str]:
        """Pulls the cable in the first slot of a node, at both ends; the two nodes."""
        near = self._hosts[node]
        far = next(host for host in self._hosts.values() if host.server_uuid == near.peers[0])
        for host, other in ((near, far), (far, near)):
            assert other.server_uuid is not None
            slot = host.peers.index(other.server_uuid) + 1
            self._break(host, [Fault(FaultKind.REMOTE_GONE, NodeName(host.name), index=slot)])
        return str(near.name), str(far.name)

    def heal(self) -> None:
        """Plugs all cables in."""
        for host in self.world.nodes:
            self._break(host, [])

    def rewire(self, world: World) -> set[str]:
        """The hosts of another world take the place of those of the same name; which changed."""
        changed = {host for host in world.nodes if self._hosts[str(host.name)] != host}
        for host in changed:
            write_bundle(self.folder / host.name, host)
            self._hosts[str(host.name)] = host
        return {str(host.name) for host in changed}

    def _break(self, host: SimNode, faults: Iterable[Fault]) -> None:
        lines = "".join(f"{Sentence(fault, begins=True)}\n" for fault in faults)
        replace_whole(self.folder / host.name / FAULTS_FILE, lines.encode())


def exchanged(world: World, one: str, other: str) -> World:
    """The world in which two hosts have changed their places in their dragonflies of two."""
    hosts = {str(host.name): host for host in world.nodes}
    first, second = hosts[one].server_uuid, hosts[other].server_uuid
    assert first is not None
    assert second is not None
    uuids = {first: second, second: first}
    changed = []
    for host in world.nodes:
        place = {one: hosts[other], other: hosts[one]}.get(str(host.name), host)
        peers = place.peers if place is not host else tuple(uuids.get(p, p) for p in host.peers)
        moved = replace(host, peers=peers, switchbox=place.switchbox, dragonfly=place.dragonfly)
        changed.append(moved)
    return replace(world, nodes=tuple(changed))
