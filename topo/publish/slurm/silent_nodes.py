"""Nodes of which no source has said anything yet: they stay where the file has them.

A master that starts without its state knows nodes from Kubernetes alone until their workers report.
Written as they are then, every group would fall apart for some seconds, and Slurm would start
jobs by that. A node whose unit has other nodes stays there. Where a whole unit is silent the
file is not written. O(nodes).

Example: the file has fly-1 = {a, b}, and b has no worker: fly-1 is a alone, and b stays beside it.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from topo.model.errors import Refusal
from topo.publish.slurm.topology import Topology, Unit


def places_of_silent(earlier: Topology | None, silent: AbstractSet[str]) -> Mapping[str, str]:
    """Return the unit of each silent node that the file has with others."""
    units = earlier.units if earlier is not None else ()
    return {
        node: unit.name
        for unit in units
        if len(unit.nodes) > 1
        for node in unit.nodes
        if node in silent
    }


def without(earlier: Topology | None, nodes: AbstractSet[str]) -> Topology | None:
    """Return the topology without some nodes, so that they decide no name."""
    if earlier is None or not nodes:
        return earlier
    units = tuple(
        unit._replace(nodes=tuple(node for node in unit.nodes if node not in nodes))
        for unit in earlier.units
    )
    return Topology(earlier.name, units, earlier.block_sizes, earlier.is_block, earlier.is_flat)


def put_back(topology: Topology, places: Mapping[str, str]) -> Topology | Refusal:
    """Return the topology with the silent nodes in their units, or why that cannot be."""
    if not places:
        return topology
    back: dict[str, list[str]] = {}
    for node, name in places.items():
        back.setdefault(name, []).append(node)
    living = {unit.name for unit in topology.units if unit.nodes}
    lost = sorted(back.keys() - living)
    if lost:
        what = f"nothing is known of any node of {lost[0]}"
        what += f" and of {len(lost) - 1} more" if len(lost) > 1 else ""
        what += ": no worker has reported, so the file stays as it is"
        fix = "ask again when the workers report; --forget takes the master at its word"
        return Refusal(what, "the answer", fix)
    units = tuple(
        Unit(unit.name, (*unit.nodes, *back.get(unit.name, ())), unit.switches)
        for unit in topology.units
    )
    return Topology(topology.name, units, topology.block_sizes, topology.is_block)
