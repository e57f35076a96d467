"""Slurm's topology files read back, to keep the names that they have.

Read is what was written here, and what people wrote by hand, as far as it names switches, blocks
and their members: keys in any case, comments, lines that go on after a backslash. All else is left
to Slurm. O(size of the text and names).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from topo.facts.declared.documents import NoText, load_lined
from topo.model.errors import Refusal
from topo.publish.slurm.hostlist import expand
from topo.publish.slurm.topology import Topology, Unit

_KEY = re.compile(r"(?<!\w)(\w+)\s*=\s*(\"[^\"]*\"|\S*)", re.ASCII)
_COMMENT = re.compile(r"#.*")
WHOLE_FILE = "the file"
"""Where a refusal is of no one line."""
_FIX = "correct the file, or move it away to have a new one written"


def read_conf(text: str) -> Topology | Refusal:
    """Return the switches or blocks of a `topology.conf`; its name is always `default`."""
    units: list[Unit] = []
    sizes: tuple[int, ...] = ()
    is_block = False
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        pairs = _KEY.findall(_COMMENT.sub("", line))
        given = {key.lower(): value.strip('"') for key, value in pairs}
        name = given.get("switchname") or given.get("blockname")
        is_block = is_block or "blockname" in given or "blocksizes" in given
        if "blocksizes" in given:
            sizes = tuple(int(each) for each in re.findall(r"\d{1,9}", given["blocksizes"]))
        if name is None:
            continue
        unit = _unit(name, given.get("nodes", ""), given.get("switches", ""))
        if isinstance(unit, Refusal):
            return Refusal(unit.what, f"line {number}", _FIX)
        units.append(unit)
    if not units and text.strip():
        return Refusal("no line names a switch or a block", WHOLE_FILE, _FIX)
    return Topology("default", tuple(units), sizes, is_block)


def read_yaml(text: str) -> tuple[Topology, ...] | Refusal:
    """Return the topologies of a `topology.yaml`; a ring or torus has no units here."""
    if not text.strip():
        return ()
    document = load_lined(text)
    if isinstance(document, Refusal):
        return document
    if not isinstance(document, list):
        return Refusal("no list of topologies", WHOLE_FILE, _FIX)
    found: list[Topology] = []
    for entry in document:
        topology = _topology(entry)
        if isinstance(topology, Refusal):
            return topology
        found.append(topology)
    return tuple(found)


def _topology(entry: object) -> Topology | Refusal:
    if not isinstance(entry, dict):
        return Refusal("an entry is no topology", WHOLE_FILE, _FIX)
    name = _scalar(entry.get("topology"))
    for kind, units_key, name_key in (
        ("tree", "switches", "switch"),
        ("block", "blocks", "block"),
    ):
        about = entry.get(kind)
        if not isinstance(about, dict) or not about:
            continue
        units = list(_units(about.get(units_key), name_key))
        refused = next((each for each in units if isinstance(each, Refusal)), None)
        if refused is not None:
            return Refusal(refused.what, f"topology {name}", _FIX)
        sizes = (_scalar(each) for each in _items(about.get("block_sizes")))
        numbers = tuple(int(each) for each in sizes if re.fullmatch(r"\d{1,9}", each, re.ASCII))
        known = tuple(unit for unit in units if isinstance(unit, Unit))
        return Topology(name, known, numbers, kind == "block")
    return Topology(name, (), is_flat="flat" in entry)


def _units(entries: object, name_key: str) -> Iterator[Unit | Refusal]:
    for entry in _items(entries):
        if isinstance(entry, Mapping) and (name := _scalar(entry.get(name_key))):
            yield _unit(name, _scalar(entry.get("nodes")), _scalar(entry.get("children")))


def _unit(name: str, nodes: str, switches: str) -> Unit | Refusal:
    members = (expand(nodes), expand(switches))
    for each in members:
        if isinstance(each, Refusal):
            return Refusal(f"{name}: {each.what}", each.where, each.fix)
    one, other = members
    return Unit(name, tuple(one), tuple(other))  # type: ignore[arg-type] # no refusal, see above


def _items(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _scalar(value: object) -> str:
    if isinstance(value, NoText):
        return value.text
    return value if isinstance(value, str) else ""
