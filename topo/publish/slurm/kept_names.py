"""The names of switches and blocks, kept from the file that is there.

Slurm saves at which unit a dynamic node stands. If the file no longer has that name, slurmctld does
not start ("Invalid node topology specified", 26.05.5). So a name is a promise to Slurm, and the
file that is there says which were made.

Result: a name for each part, no name twice, and the names of the file that no part has any more:
these are written as empty units.

How: a part has the name of the earlier unit of its height with which it shares more than half of
the nodes of both. Every other part has its own name, or one with digits where another part of the
file has that (`topo.publish.names`).

Why that is right: units of one height share no node, so at most one earlier unit has more than
half of a part and at most one part more than half of an earlier unit: no choice depends on order.
O(nodes times levels).

Example: the file has fly-1 = {a, b}. The group is now called fly-9: it stays fly-1 there. Another
group fly-1 = {c, d} comes: it is fly-1-<digits>. Both of the first go away: fly-1 is empty.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from topo.model.ids import GroupPath, natural_key
from topo.publish.names import LABEL_VALUE, unique_names
from topo.publish.slurm.topology import (
    ALONE,
    ALONE_PREFIX,
    Part,
    Reach,
    Topology,
    reaches,
)

ROOT_SWITCH = "cluster"
"""The switch above all others: every node reaches every other over the network of the cluster."""
PADDING = ".empty-"
"""In the name of an empty block that only keeps a place."""


class Names(NamedTuple):
    """The name of each part, and the names of the earlier file that are left without one."""

    of: Mapping[GroupPath, str]
    gone: tuple[str, ...]


def choose_names(parts: Sequence[Part], earlier: Topology | None) -> Names:
    """Return the names of the parts. Names are Slurm's: 63 of letters, digits, `-`, `_` and `.`."""
    before = _earlier(earlier)
    kept = _kept(parts, {name: reach for name, reach in before.items() if reach.nodes})
    given = {*kept.values(), ROOT_SWITCH}
    fresh = unique_names((part.path for part in parts if part.path not in kept), LABEL_VALUE, given)
    names = {**kept, **fresh}
    gone = before.keys() - set(names.values())
    return Names(names, tuple(sorted(gone, key=natural_key)))


def _earlier(earlier: Topology | None) -> Mapping[str, Reach]:
    """Return the units of the file but for its root and its padding."""
    units = earlier.units if earlier is not None else ()
    found = reaches({unit.name: (unit.nodes, unit.switches) for unit in units})
    return {
        name: reach for name, reach in found.items() if name != ROOT_SWITCH and PADDING not in name
    }


def _kept(parts: Sequence[Part], before: Mapping[str, Reach]) -> Mapping[GroupPath, str]:
    at = {
        (reach.height, node): name
        for name, reach in before.items()
        for node in reach.nodes
        if name != f"{ALONE_PREFIX}{node}"
    }
    now = reaches({part.path: (part.nodes, part.below) for part in parts})
    kept: dict[GroupPath, str] = {}
    for path, (height, nodes) in now.items():
        if ALONE in path:
            continue
        shared = Counter(name for node in nodes if (name := at.get((height, node))) is not None)
        for name, count in shared.most_common(1):
            if 2 * count > max(len(nodes), len(before[name].nodes)):
                kept[path] = name
    return kept
