"""The whole file of one format, from the forest and the file that is there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from topo.model.errors import Refusal
from topo.model.forest import Forest
from topo.model.ids import SCALE_UP, FabricName, Kind
from topo.publish.known_nodes import known_nodes
from topo.publish.names import LABEL_VALUE
from topo.publish.slurm import files, reading
from topo.publish.slurm.blocks import block_kinds, block_topology
from topo.publish.slurm.hostlist import is_host
from topo.publish.slurm.kept_names import PADDING
from topo.publish.slurm.silent_nodes import places_of_silent, put_back, without
from topo.publish.slurm.topology import Topology
from topo.publish.slurm.tree import tree_topology

TREE_NAME = "fabric"
"""The topology of all nodes in `topology.yaml`, and the default of the cluster."""
CONF_NAME = "default"
"""What Slurm calls the topology of a `topology.conf`."""
_MAX_KIND_CHARS = 50


class SlurmFormat(StrEnum):
    """The files that Slurm reads: the first two are called `topology.conf`."""

    TREE = "slurm-tree"
    BLOCK = "slurm-block"
    YAML = "slurm-yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmChoice:
    """The choices for a file: groups of these kinds as blocks (none: all kinds), of `base`
    nodes (None: as most have). `is_forgetful`: nothing stays because the file has it.
    """

    format: SlurmFormat
    kinds: tuple[Kind, ...] = ()
    base: int | None = None
    is_forgetful: bool = False


@dataclass(frozen=True, slots=True)
class SlurmFile:
    """The text, and the nodes that are not in it: `unnameable` for Slurm, or in no block."""

    text: str
    unnameable: tuple[str, ...]
    in_no_block: tuple[str, ...]


def slurm_file(
    forest: Forest,
    choice: SlurmChoice,
    there: str,
    others: Mapping[FabricName, Forest] = MappingProxyType({}),
) -> SlurmFile | Refusal:
    """Return the file; `there` is the text of the one to be replaced, "" of none.

    `others` are the forests of the same nodes in further fabrics: each has a topology of its own.
    Refused is what would stop slurmctld: a forest without nodes, and the loss of a topology that
    a partition may name.
    """
    names = [node.name for node in forest.nodes()]
    if not any(map(is_host, names)):
        what = "the master knows no node, and with an empty file slurmctld does not start"
        return Refusal(what, "the answer", "ask again when `topo tree` shows nodes")
    earlier = _earlier(choice.format, there)
    if isinstance(earlier, Refusal):
        of_all = earlier.where == reading.WHOLE_FILE
        return replace(earlier, where="--output" if of_all else f"--output: {earlier.where}")
    found: list[Topology] = []
    for topology in _topologies(forest, others, choice, earlier):
        if isinstance(topology, Refusal):
            return topology
        found.append(topology)
    known = {topology.name for topology in found}
    gone = [each for name, each in earlier.items() if name not in known]
    if choice.is_forgetful:
        found = [_without_gone(each) for each in found]
    elif refused := next((each for each in gone if not each.is_flat), None):
        return _refuse_loss(refused)
    found += [each for each in gone if each.is_flat]
    text = files.yaml(found) if choice.format is SlurmFormat.YAML else files.conf(found[0])
    blocks = [unit.nodes for each in found if each.is_block for unit in each.units]
    blocked = {name for nodes in blocks for name in nodes}
    outside = () if not blocks else tuple(n for n in names if is_host(n) and n not in blocked)
    return SlurmFile(text, tuple(name for name in names if not is_host(name)), outside)


def _earlier(written: SlurmFormat, there: str) -> Mapping[str, Topology] | Refusal:
    if written is SlurmFormat.YAML:
        several = reading.read_yaml(there)
        if isinstance(several, Refusal):
            return several
        return {each.name: each for each in several}
    one = reading.read_conf(there)
    if isinstance(one, Refusal):
        return one
    if one.units and one.is_block is not (written is SlurmFormat.BLOCK):
        what = f"the file has {'blocks' if one.is_block else 'switches'}, not what is asked for"
        return Refusal(what, reading.WHOLE_FILE, "name the file of this format, or move it away")
    return {CONF_NAME: one}


def _blocks(
    forest: Forest, others: Mapping[FabricName, Forest], choice: SlurmChoice
) -> Mapping[Kind, Forest]:
    """Return the kinds of blocks, each with the first forest that has groups of it.

    If nobody names any, these are what nodes stand in, and in `topology.yaml` what GPUs share.
    """
    kinds = choice.kinds or block_kinds(forest)
    if not choice.kinds and choice.format is SlurmFormat.YAML and SCALE_UP in others:
        kinds += block_kinds(others[SCALE_UP])
    having = [(each, {g.kind for _, g in each.groups()}) for each in (forest, *others.values())]
    return {kind: next((each for each, has in having if kind in has), forest) for kind in kinds}


def _topologies(
    forest: Forest,
    others: Mapping[FabricName, Forest],
    choice: SlurmChoice,
    earlier: Mapping[str, Topology],
) -> Iterator[Topology | Refusal]:
    blocks = _blocks(forest, others, choice)
    if choice.format is SlurmFormat.BLOCK and len(blocks) != 1:
        yield _refuse_kinds(tuple(blocks))
        return
    silent = {node.name for node in forest.nodes()} - known_nodes(forest)
    wanted: list[tuple[str, Kind | None, Forest]] = [(CONF_NAME, None, forest)]
    if choice.format is SlurmFormat.BLOCK:
        wanted = [(CONF_NAME, *each) for each in blocks.items()]
    elif choice.format is SlurmFormat.YAML:
        trees = ((str(name), None, each) for name, each in others.items() if name != SCALE_UP)
        of_blocks = ((_topology_name(kind), kind, each) for kind, each in blocks.items())
        wanted = [(TREE_NAME, None, forest), *trees, *of_blocks]
    for name, kind, of in wanted:
        before = earlier.get(name)
        places = {} if choice.is_forgetful else places_of_silent(before, silent)
        before = without(before, places.keys())

        def is_written(node: str, held: Mapping[str, str] = places) -> bool:
            return is_host(node) and node not in held

        if kind is None:
            made: Topology | Refusal = tree_topology(of, name, before, is_written)
        else:
            made = block_topology(of, kind, name, before, base=choice.base, is_written=is_written)
        yield made if isinstance(made, Refusal) else put_back(made, places)


def _refuse_kinds(kinds: Sequence[Kind]) -> Refusal:
    if not kinds:
        return Refusal("no node is in a group", "--format", "use slurm-tree")
    what = f"nodes stand in groups of kinds {', '.join(kinds)}, and a file has one kind of blocks"
    return Refusal(what, "--kind", f"give --kind {kinds[0]}, or use slurm-yaml")


def _refuse_loss(topology: Topology) -> Refusal:
    what = f"the file has a topology {topology.name}, and no group of the forest is for it: "
    what += "a partition that names it would keep slurmctld from starting"
    fix = "take the name out of slurm.conf, then give --forget; or name another file"
    return Refusal(what, "--output", fix)


def _topology_name(kind: Kind) -> str:
    name = LABEL_VALUE.cleaned(kind, _MAX_KIND_CHARS) or "blocks"
    return f"{name}-blocks" if name == TREE_NAME else name


def _without_gone(topology: Topology) -> Topology:
    kept = (unit for unit in topology.units if unit.nodes or unit.switches or PADDING in unit.name)
    return Topology(topology.name, tuple(kept), topology.block_sizes, topology.is_block)
