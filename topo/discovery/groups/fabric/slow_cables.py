"""Cables of nodes that are slower than those beside them, judged without a plan.

Result: for each node that has any a sentence for each of its slow cables.

How: a cable is as fast as the host at its end says, else as a dump says. It is compared with what
more than half of the hosts' cables of its switch have; where no speed has so many there, with what
more than half of the cables of the node's group have, of three at least.

Why that is right: the ports of a leaf, and the adapters of a unit, are bought alike. A host reads
its port when its worker looks, a dump is as old as its timer makes it. The vendor's pairs have two
hosts on a leaf, of which neither says that the other one is slow; the other rails of both do. Ports
of storage and management are on other switches, and have nothing to do with these.

Cost: O(cables of hosts).

Example: gpu-1 and gpu-2 are on leaf-1 to leaf-4 with 400 Gbit/s, but for 200 on leaf-3 of gpu-2.
Leaf-3 has one port of each; of the eight cables of the group seven have 400: that one is slow.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache

from topo.discovery.groups.fabric.switch_tiers import SwitchGroup
from topo.discovery.groups.fabric.trunks import usual
from topo.discovery.groups.fabric.wires import Wires
from topo.model.fabric import SLOWER, Guid, gbps, newest_rate
from topo.model.ids import NodeName


def slow_cables(
    wires: Wires,
    nodes: Mapping[Guid, NodeName],
    speeds: Mapping[Guid, float],
    groups: Mapping[NodeName, SwitchGroup],
) -> dict[NodeName, list[str]]:
    """Return the sentences; `speeds`: the Gbit/s that hosts say of their adapters."""
    rate_of = cache(newest_rate)
    cables = [
        (adapter, uplink, rate)
        for adapter, uplinks in wires.uplinks.items()
        for uplink in uplinks
        if (rate := rate_of(uplink.rate, speeds.get(adapter, 0.0)))
    ]
    at: defaultdict[Guid, Counter[str]] = defaultdict(Counter)
    for (switch, rate), number in Counter((e.switch, rate) for _, e, rate in cables).items():
        at[switch][rate] = number
    most = {switch: _most(rates) for switch, rates in at.items() if len(rates) > 1}
    of_group = _most_of_groups(at, {*groups.values()}, most) if None in most.values() else {}
    found: defaultdict[NodeName, list[str]] = defaultdict(list)
    for adapter, uplink, rate in sorted(each for each in cables if each[1].switch in most):
        node = nodes.get(adapter)
        if node is None:
            continue
        group, here = groups.get(node), most[uplink.switch]
        is_own = group is not None and uplink.switch in group.switches
        expected = here or (of_group.get(group) if is_own else None)
        if expected and gbps(rate) < SLOWER * gbps(expected):
            port = f"{wires.switches[uplink.switch].name} port {uplink.port}"
            where = "there" if here else "of its group"
            found[node].append(f"{port} runs at {rate}, most others {where} at {expected}")
    return found


def _most_of_groups(
    at: Mapping[Guid, Counter[str]],
    groups: AbstractSet[SwitchGroup],
    undecided: Mapping[Guid, str | None],
) -> dict[SwitchGroup | None, str | None]:
    """Return the speed of most cables of each group with a switch that is undecided."""
    found: dict[SwitchGroup | None, str | None] = {}
    for group in groups:
        if any(each in undecided for each in group.switches):
            rates = sum((at[each] for each in group.switches if each in at), Counter[str]())
            found[group] = usual(rates.elements())
    return found


def _most(rates: Counter[str]) -> str | None:
    rate, number = rates.most_common(1)[0]
    return rate if 2 * number > rates.total() else None
