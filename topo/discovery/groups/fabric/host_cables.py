"""The cables of dumps and those that nodes see themselves as one, and where those of hosts lead.

Result: the cables together, the node of each adapter, and for each host its leaves with how many
cables it has to each.

How: what dumps say is taken at once, what a node sees (`switch_ports`) node by node. A switch that
no dump has is called by the first of the names that nodes see, in the order of the alphabet.

Why that is right: only a node's own cables say where it leads, so one whose cables differ changes
nobody else's. Who is a host and no switch depends on the names of all nodes, so begin anew where
the name of a node is one of those that are seen.

Cost: O(cables of the node) for a node, O(cables of all dumps) to begin.

Example: gpu-1 sees leaf-1 twice and leaf-2 once, and host gpu-2. Its leaves are leaf-1 with 2 and
leaf-2 with 1. Another reading shows leaf-2 twice: three cables are dropped, and four counted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from topo.discovery.groups.fabric.switch_ports import NodeCable
from topo.discovery.groups.fabric.switch_tiers import Host, Leaves, leaves_of_hosts
from topo.discovery.groups.fabric.wires import Wires
from topo.model.fabric import FabricSwitch, Guid
from topo.model.ids import NodeName


@dataclass
class HostCables:
    """The cables by host. Mutable; owned by `FabricGroups`.

    `nodes` has the node of each adapter that has one.
    """

    wires: Wires = field(default_factory=Wires)
    nodes: dict[Guid, NodeName] = field(default_factory=dict)
    leaves: dict[Host, Leaves] = field(default_factory=dict)
    _dumped: Wires = field(default_factory=Wires)
    _seen: dict[NodeName, tuple[NodeCable, ...]] = field(default_factory=dict)
    _names: defaultdict[Guid, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """The names that nodes see of each switch."""

    @classmethod
    def of(
        cls, dumped: Wires, hosts: Mapping[Guid, Host], nodes: Mapping[Guid, NodeName]
    ) -> "HostCables":
        """Return the cables of dumps; `hosts` and `nodes` have the host of each adapter there."""
        wires = replace(
            dumped,
            switches=dict(dumped.switches),
            adapters=dict(dumped.adapters),
            uplinks=dumped.uplinks.copy(),
        )
        return cls(wires, dict(nodes), leaves_of_hosts(dumped, hosts), dumped)

    def put(
        self, node: NodeName, seen: Collection[NodeCable], is_host: Callable[[str], bool]
    ) -> None:
        """Take the cables that a node sees now; `is_host` knows the names of nodes."""
        leaves = Counter(dict(self.leaves.get(node, ())))
        for cable in self._seen.pop(node, ()):
            del self.nodes[cable.adapter]
            if self.wires.adapters.pop(cable.adapter, None) is not None:
                del self.wires.uplinks[cable.adapter]
                leaves[cable.uplink.switch] -= 1
                self._name(cable, -1)
        for cable in seen:
            self.nodes[cable.adapter] = node
            if not is_host(cable.end.name.lower()):
                self.wires.adapters[cable.adapter] = cable.adapter
                self.wires.uplinks[cable.adapter] = [cable.uplink]
                leaves[cable.uplink.switch] += 1
                self._name(cable, 1)
        if seen:
            self._seen[node] = tuple(seen)
        self.leaves[node] = frozenset([each for each in leaves.items() if each[1]])
        if not self.leaves[node]:
            del self.leaves[node]

    def _name(self, cable: NodeCable, step: int) -> None:
        """Count the name that a cable shows of its switch."""
        switch = cable.uplink.switch
        if switch in self._dumped.switches:
            return
        names = self._names[switch]
        names[cable.end.name or cable.end.chassis] += step
        found = [name for name, number in names.items() if number]
        if found:
            self.wires.switches[switch] = FabricSwitch(switch, min(found), 0)
        else:
            del self._names[switch], self.wires.switches[switch]
