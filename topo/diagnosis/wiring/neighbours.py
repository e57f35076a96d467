"""The cables that workers see by LLDP: from a network interface to the port of a switch.

A node, the interface, the name of the switch, its port; a switch whose name another has, or that
has none, is called by its chassis. Ports have an identity and a description, and plans name either
(`etp1`, `Ethernet0`), so what the plan names of the two is taken. An interface that sees two
neighbours while its cable is moved, or behind a box that forwards LLDP, counts with the planned
one; and of interfaces that see one port (switches may give all ports one identity) the planned one.

Silence is no missing cable: a daemon may pause, and firmware of adapters eats frames. So no device
counts as looked at. O(neighbours).
"""

from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping
from itertools import chain

from topo.diagnosis.wiring.seen import SeenCable, SeenCables, folded, planned_far_ends
from topo.facts.plans.plan import CablePlan, End
from topo.model.ids import NodeName
from topo.model.machine import NicNeighbour


def seen_by_neighbours(
    facts: Mapping[NodeName, Collection[NicNeighbour]], plan: CablePlan
) -> SeenCables:
    """Return the cables at the interfaces of nodes; `plan` chooses between names of a port."""
    wanted = planned_far_ends(plan)
    cables: dict[End, SeenCable] = {}
    right: set[End] = set()
    for cable in _told(facts, wanted):
        if wanted.get(folded(cable.one)) == folded(cable.other):
            cables[cable.one] = cable
            right.add(cable.one)
        else:
            cables.setdefault(cable.one, cable)
    claims = Counter(cable.other for cable in cables.values())
    counted = (each for each in cables.values() if each.one in right or claims[each.other] == 1)
    return SeenCables(tuple(counted), frozenset())


def _told(
    facts: Mapping[NodeName, Collection[NicNeighbour]], wanted: Container[End]
) -> Iterator[SeenCable]:
    """Yield each neighbour of an interface as a cable."""
    chassis: dict[str, set[str]] = {}
    for each in chain.from_iterable(facts.values()):
        chassis.setdefault(each.name, set()).add(each.chassis)
    for node, neighbours in facts.items():
        for each in neighbours:
            is_known = each.name and len(chassis[each.name]) == 1
            name = each.name if is_known else each.chassis
            ports = [port for port in (each.port, each.port_description) if port] or [""]
            ends = [End(name, port) for port in ports]
            far = next((end for end in ends if folded(end) in wanted), ends[0])
            yield SeenCable(End(node, each.nic), far)
