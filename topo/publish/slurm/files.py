"""Topologies as the text of Slurm's files.

Formats: topology.conf(5) and topology.yaml(5) of Slurm 26.05; `topology.conf` with `topology/tree`
as old as 22.05. The text depends on the topologies alone: no date and no generation, so that an
equal forest is an equal file.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from topo.publish.slurm.hostlist import compress
from topo.publish.slurm.topology import Topology, Unit

HEADER = "# Written by `topo export`, which keeps the names that stand here. docs/slurm.md\n"


def conf(topology: Topology) -> str:
    """Return a topology as `topology.conf`. O(nodes)."""
    lines = [_block(unit) if topology.is_block else _switch(unit) for unit in topology.units]
    if topology.is_block:
        lines.append(f"BlockSizes={','.join(map(str, topology.block_sizes))}")
    return HEADER + "".join(f"{line}\n" for line in lines)


def _switch(unit: Unit) -> str:
    if unit.switches:
        return f"SwitchName={unit.name} Switches={compress(unit.switches)}"
    # An empty value is an empty switch; without the key slurmctld does not start.
    return f"SwitchName={unit.name} Nodes={compress(unit.nodes) or _NOTHING}"


def _block(unit: Unit) -> str:
    return f"BlockName={unit.name} Nodes={compress(unit.nodes) or _NOTHING}"


_NOTHING = '""'


def yaml(topologies: Sequence[Topology]) -> str:
    """Return topologies as `topology.yaml`, the first as the default of the cluster. O(nodes)."""
    lines = ["---"]
    for number, topology in enumerate(topologies):
        lines += [f"- topology: {_text(topology.name)}"]
        lines += [f"  cluster_default: {'false' if number else 'true'}"]
        if topology.is_flat:
            lines.append("  flat: true")
        else:
            lines += _blocks(topology) if topology.is_block else _switches(topology.units)
    return HEADER + "".join(f"{line}\n" for line in lines)


def _switches(units: Iterable[Unit]) -> Iterator[str]:
    yield "  tree:"
    yield "    switches:"
    for unit in units:
        yield f"      - switch: {_text(unit.name)}"
        if unit.switches:
            yield f"        children: {_text(compress(unit.switches))}"
        else:
            yield f"        nodes: {_text(compress(unit.nodes))}"


def _blocks(topology: Topology) -> Iterator[str]:
    yield "  block:"
    yield "    block_sizes:"
    yield from (f"      - {size}" for size in topology.block_sizes)
    yield "    blocks:"
    for unit in topology.units:
        yield f"      - block: {_text(unit.name)}"
        yield f"        nodes: {_text(compress(unit.nodes))}"


def _text(value: str) -> str:
    """Return a quoted scalar: without quotes `1e3`, `no` and `[…` would be something else."""
    return json.dumps(value)
