"""The cables that workers see by LLDP: from a network interface to the port of a switch.

A node, the interface, the name of the switch, its port; a switch whose name another has, or that
has none, is called by its chassis, unless the plan has the name and the port there. Ports have an
identity and a description, and plans name either (`etp1`, `Ethernet0`), so what the plan names of
the two is taken. An interface that sees two neighbours while its cable is moved, or behind a box
that forwards LLDP, counts with the planned one; and of interfaces that see one port (switches may
give all ports one identity) the planned one. So no node takes by what it says what others see.

Silence is no missing cable: a daemon may pause, and firmware of adapters eats frames. So no device
counts as looked at. O(neighbours).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from topo.diagnosis.wiring.own_ports import NO_PORTS, OwnPorts
from topo.diagnosis.wiring.seen import SeenCable, SeenCables, folded, planned_far_ends, plug
from topo.facts.plans.plan import CablePlan, End
from topo.model.fabric import newest_rate
from topo.model.ids import NodeName
from topo.model.machine import NicNeighbour


def seen_by_neighbours(
    facts: Mapping[NodeName, Collection[NicNeighbour]], plan: CablePlan, own: OwnPorts = NO_PORTS
) -> SeenCables:
    """Return the cables at the interfaces of nodes; `plan` chooses between names of a port.

    A cable is as fast as the node says of its `own` port.
    """
    wanted = planned_far_ends(plan)
    cables: dict[End, SeenCable] = {}
    right: set[End] = set()
    for told in _told(facts, wanted):
        speed = own.gbps.get(told.one, 0.0)
        cable = told._replace(rate=newest_rate("", speed), gbps=speed)
        near = plug(cable.one)
        if wanted.get(folded(cable.one)) == folded(cable.other):
            cables[near] = cable
            right.add(near)
        else:
            cables.setdefault(near, cable)
    claims = Counter(plug(cable.other) for cable in cables.values())
    counted = (
        each for near, each in cables.items() if near in right or claims[plug(each.other)] == 1
    )
    return SeenCables(tuple(counted), frozenset())


def _told(
    facts: Mapping[NodeName, Collection[NicNeighbour]], wanted: Mapping[End, End]
) -> Iterator[SeenCable]:
    """Yield each neighbour of an interface as a cable."""
    chassis: dict[str, set[str]] = {}
    for each in chain.from_iterable(facts.values()):
        chassis.setdefault(each.name, set()).add(each.chassis)
    for node, neighbours in facts.items():
        for each in neighbours:
            near = End(node, each.nic)
            ports = [port for port in (each.port, each.port_description) if port] or [""]
            ends = [End(each.name, port) for port in ports]
            is_planned = wanted.get(folded(near)) in {*map(folded, ends)}
            if not each.name or (len(chassis[each.name]) > 1 and not is_planned):
                ends = [End(each.chassis, port) for port in ports]
            yield SeenCable(near, next((end for end in ends if folded(end) in wanted), ends[0]))
