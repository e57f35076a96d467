"""Between which nodes a cable that joins two switches carries traffic.

Result: for such a cable the nodes on its two sides; a job with pods on both has traffic across it.

How: switches have their tiers as those of the groups (`switch_tiers`): a leaf has 1, what is next
to leaves 2, and so on. *Below* a switch are the nodes that are reached from it downward alone. On
one side of a cable are those below its lower end; on the other those that its higher end reaches
without going below it, upward, sideways and then down, and that are not on the first side. Of a
cable between switches of one tier either end is the lower one: traffic passes it in both ways. A
higher end that nobody saw may lead to all nodes.

Why that is right: traffic of a switched fabric goes up as far as it must and then down. What is
below a switch needs no cable above it to reach what is below it, too, and any of those above to
reach others. The fabric may use any of the cables that lead there: each of them carries a share.

Cost: that of `switch_tiers` once, then O(cables below, and beyond) for each switch, once each.

Example: node-1 and node-2 are on leaf-1, node-3 on leaf-2, both leaves on spine-1; node-4 is on
leaf-3 under spine-2, and core-1 is above both. The sides of leaf-1 to spine-1 are 1, 2 and 3, 4;
those of spine-1 to core-1 are 1, 2, 3 and 4: a job on node-1 and node-3 does not leave spine-1.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property

from topo.diagnosis.wiring.seen import UNNAMED, SeenCables, is_number
from topo.discovery.groups.fabric.switch_tiers import tiers
from topo.discovery.groups.fabric.wires import Wires
from topo.facts.plans.plan import End
from topo.model.fabric import Guid

Nodes = frozenset[str]
NodeOf = Callable[[str], str | None]
"""The node that a fabric calls so; None for what is no node."""


class Traffic:
    """The switches that are seen, with the nodes below and beyond them. Reads cables when asked."""

    def __init__(self, seen: SeenCables, node_of: NodeOf) -> None:
        """Take what is seen; devices are compared in any case."""
        self._seen = seen
        self._node_of = node_of
        self._hosts = {name.casefold() for name in seen.hosts}
        self._known = {name.casefold() for name in seen.devices}
        self._known |= {end.device.casefold() for each in seen.cables for end in each[:2]}
        self._below: dict[Guid, Nodes] = {}
        self._beyond: dict[Guid, Nodes] = {}

    def is_switch(self, end: End) -> bool:
        """Return whether an end is at neither a node nor another host.

        A device that is not seen is a switch if its ports are numbers.
        """
        device = end.device.casefold()
        is_host = device in self._hosts or end.device.startswith(UNNAMED)
        is_told = device in self._known or is_number(end)
        return is_told and not is_host and self._node_of(end.device) is None

    def sides(self, one: str, other: str) -> Iterator[tuple[Nodes, Nodes | None]]:
        """Yield the nodes on both sides of a cable between switches, for each end that is lower.

        None stands for all that are not on the first side.
        """
        ends = Guid(one.casefold()), Guid(other.casefold())
        ranks = [self._tiers.get(end) for end in ends]
        known = [rank for rank in ranks if rank is not None]
        for rank, lower, higher in zip(ranks, ends, ends[::-1], strict=True):
            if rank is not None and rank == min(known):
                beyond = self._beyond_of(higher) if len(known) == len(ends) else None
                yield self._below_of(lower), beyond

    @cached_property
    def _cabled(self) -> tuple[Wires, dict[str, Counter[Guid]]]:
        """The cables between switches, and the leaves of each node with the number of its cables.

        A host that is no node counts, too: it says which switches are leaves.
        """
        wires, leaves = Wires(), defaultdict[str, Counter[Guid]](Counter)
        for cable in self._seen.cables:
            names = cable.one.device, cable.other.device
            here, there = (Guid(each.casefold()) for each in names)
            switches = [*map(self.is_switch, cable[:2])]
            if all(switches):
                wires.trunks[here].add(there)
                wires.trunks[there].add(here)
            elif any(switches):
                host, switch = (names[1], here) if switches[0] else (names[0], there)
                leaves[self._node_of(host) or f"{host} (no node)"][switch] += 1
        return wires, leaves

    @cached_property
    def _nodes(self) -> set[str]:
        leaves = self._cabled[1]
        return {host for host in leaves if self._node_of(host) == host}

    @cached_property
    def _tiers(self) -> dict[Guid, int]:
        wires, leaves = self._cabled
        return tiers(wires, {h: frozenset(n.items()) for h, n in leaves.items()}, self._nodes)

    @cached_property
    def _at(self) -> dict[Guid, set[str]]:
        """The nodes with a cable to a switch."""
        found = defaultdict[Guid, set[str]](set)
        for node in self._nodes:
            for switch in self._cabled[1][node]:
                found[switch].add(node)
        return found

    def _below_of(self, switch: Guid) -> Nodes:
        if switch not in self._below:
            reached = self._reached([switch], lambda here, far: far < here)
            self._below[switch] = self._nodes_at(reached)
        return self._below[switch]

    def _beyond_of(self, switch: Guid) -> Nodes:
        """Return the nodes below all switches that are reached without going below this one."""
        if switch not in self._beyond:
            rank = self._tiers[switch]
            above = self._reached([switch], lambda _, far: far >= rank)
            nodes = self._nodes_at(self._reached(above, lambda here, far: far < here))
            self._beyond |= {each: nodes for each in above if self._tiers[each] == rank}
        return self._beyond[switch]

    def _reached(
        self, switches: Iterable[Guid], is_way: Callable[[int, int], bool]
    ) -> AbstractSet[Guid]:
        """Return these switches and those that they reach; a way is from a tier to another."""
        trunks, ranks = self._cabled[0].trunks, self._tiers
        found = set(switches)
        edge = list(found)
        while edge:
            here = edge.pop()
            far = {each for each in trunks.get(here, ()) if is_way(ranks[here], ranks[each])}
            edge += far - found
            found |= far
        return found

    def _nodes_at(self, switches: Iterable[Guid]) -> Nodes:
        return frozenset[str]().union(*(self._at.get(each, ()) for each in switches))
