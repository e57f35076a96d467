"""The ports of adapters as the workers of their nodes see them now, between two dumps.

A dump is as old as its timer makes it, and an adapter whose link is down is in none. The node at
this end knows at once: a port that is down has no cable, whatever a dump says; one that is up has
one, whatever no dump says; and a port says how fast it runs. It is known by the GUID of its
adapter, which also names adapters whose description names no host. O(ports).

Example: the dump of 10:00 has a cable from gpu-03 mlx5_1 to leaf-02 port 3. At 10:20 the worker of
gpu-03 sees mlx5_1 down: the cable counts no more.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from topo.discovery.groups.fabric.near_gpus import adapter_speeds
from topo.facts.plans.plan import End
from topo.model.fabric import Port, normalized_guid
from topo.model.machine import NetworkPort, NodeFacts

_ETHERNET = "Ethernet"
"""Such a port is in no dump. Source: `link_layer` of ABI/stable/sysfs-class-infiniband."""


class OwnPort(NamedTuple):
    """A port: its names, that of the node first; `gbps` is 0 where that is not said."""

    ends: tuple[End, ...]
    is_up: bool
    gbps: float


@dataclass(frozen=True, slots=True)
class OwnPorts:
    """The ports of a fabric by GUID and number; of Ethernet those that are down, and speeds."""

    by_guid: dict[Port, OwnPort] = field(default_factory=dict)
    dark: frozenset[End] = frozenset()
    gbps: dict[End, float] = field(default_factory=dict)


NO_PORTS = OwnPorts()


def own_ports(facts: Iterable[NodeFacts]) -> OwnPorts:
    """Return the ports of nodes; one that two nodes claim is in neither."""
    found: dict[Port, OwnPort] = {}
    dark: set[End] = set()
    gbps: dict[End, float] = {}
    claimed: set[Port] = set()
    for each in facts:
        hosts = tuple(filter(None, dict.fromkeys((each.identity.name, each.identity.hostname))))
        ports = Counter(nic.hca for nic in each.nics)
        speeds = adapter_speeds(each.nics)
        for nic in each.nics:
            if nic.virtual:
                continue
            if nic.link_layer == _ETHERNET:
                # Of an adapter with several ports nobody says which interface is whose.
                if not nic.up and len(nic.interfaces) == ports[nic.hca] == 1:
                    dark |= {End(host, nic.interfaces[0]) for host in hosts}
                own = each.identity.name
                gbps |= {End(own, name): speeds[nic.hca] for name in nic.interfaces}
            elif (guid := normalized_guid(nic.node_guid)) is not None:
                port = Port(guid, nic.port)
                if port in found:
                    claimed.add(port)
                ends = tuple(End(host, _named(nic)) for host in hosts)
                found[port] = OwnPort(ends, nic.up, nic.rate_gbps or 0.0)
    known = {p: each for p, each in found.items() if p not in claimed}
    return OwnPorts(known, frozenset(dark), gbps)


def _named(nic: NetworkPort) -> str:
    return nic.hca if nic.port == 1 else f"{nic.hca}/{nic.port}"
