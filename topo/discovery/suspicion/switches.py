"""Switches at which the links of most nodes are suspected: the switch is the cause, not its nodes.

Result: for each such switch, or several that have nodes in common, the nodes with their links.

How: a link of a node leads to the switch at the end of its adapter's cable. A switch is a cause if
at least half of the nodes that have a cable to it, and `TOGETHER` of them, have a suspected link
there. Switches of which a node has links at both (the leaves of one rack that lost its power) are
one cause.

Why that is right: a switch need not be a group of the tree. Dragonflies of two nodes hang on
leaves that hold one node of each, and the hosts of a unit on a leaf for each rail, so what fails
with a leaf is spread over many groups, or is a part of one.

Cost: O(links of the suspected nodes), and O(adapters) once after the cables changed.

Example: leaf-2 holds n01, n05, n09 and n13, of four dragonflies. Its power fails, and `mlx5_0 port
1` of all four is down: leaf-2 is a cause, with these four nodes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from topo.discovery.groups.fabric.uplinks import NodeUplinks
from topo.discovery.suspicion.machine import Suspicions
from topo.model.fabric import Guid
from topo.model.ids import NodeName, natural_key
from topo.model.machine import adapter_of

TOGETHER = 3
"""Nodes; two of them are as often an accident, and all of a dragonfly of two."""


@dataclass(slots=True)
class SwitchCause:
    """Switches, the suspected links to them by node, and how many nodes have cables to them."""

    switches: list[Guid] = field(default_factory=list)
    names: tuple[str, ...] = ()
    links: dict[NodeName, tuple[str, ...]] = field(default_factory=dict)
    size: int = 0


def switch_causes(suspicions: Suspicions, uplinks: NodeUplinks) -> tuple[SwitchCause, ...]:
    """Return the causes in the order of their first nodes; nodes in quarantine are in none."""
    at: defaultdict[Guid, defaultdict[NodeName, list[str]]]
    at = defaultdict(lambda: defaultdict(list))
    for node, held in suspicions.suspected.items():
        ends = uplinks.switches(node) if held.quarantine is None else {}
        for link, _ in held.links if ends else ():
            for switch in _switches_of(link, ends, suspicions.down(node)):
                at[switch][node].append(link)
    failing = (
        switch
        for switch, links in at.items()
        if len(links) >= TOGETHER and 2 * len(links) >= len(uplinks.nodes_at(switch))
    )
    found = [_named(cause, uplinks) for cause in _joined(failing, at)]
    return tuple(sorted(found, key=lambda cause: natural_key(next(iter(cause.links)))))


def _switches_of(link: str, ends: Mapping[str, Guid], down: Iterable[str]) -> Iterable[Guid]:
    """Return the switches that a link of a node leads to; `ends` by adapter.

    Several links at once (no name) are those that are down, else all that the node has, where these
    lead to one switch.
    """
    if link:
        return [ends[adapter_of(link)]] if adapter_of(link) in ends else ()
    found = {ends[adapter_of(each)] for each in down if adapter_of(each) in ends}
    if not found:
        found = set(ends.values())
        return found if len(found) == 1 else ()
    return found


def _joined(
    failing: Iterable[Guid], at: Mapping[Guid, Mapping[NodeName, list[str]]]
) -> Iterator[SwitchCause]:
    """Yield switches together that have nodes in common. O(links)."""
    cause_of: dict[NodeName, SwitchCause] = {}
    for switch in sorted(failing):
        cause = SwitchCause([switch])
        for node in at[switch]:
            other = cause_of.setdefault(node, cause)
            if other is not cause:
                cause.switches += other.switches
                cause_of |= dict.fromkeys(other.links, cause)
                cause.links |= other.links
        for node, links in at[switch].items():
            known = cause.links.get(node, ())
            cause.links[node] = tuple(dict.fromkeys((*known, *links)))
    yield from {id(cause): cause for cause in cause_of.values()}.values()


def _named(cause: SwitchCause, uplinks: NodeUplinks) -> SwitchCause:
    names = map(uplinks.name_of, cause.switches)
    size = len(set[NodeName]().union(*map(uplinks.nodes_at, cause.switches)))
    links = {node: cause.links[node] for node in sorted(cause.links, key=natural_key)}
    return SwitchCause(cause.switches, tuple(sorted(names, key=natural_key)), links, size)
