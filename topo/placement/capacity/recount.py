"""Whether the hosts of a capacity are those of the forest: the count behind the increments."""

from collections.abc import Mapping

from topo.model.forest import Forest
from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity, Difference
from topo.placement.capacity.follow import hosts_of
from topo.placement.capacity.host import Host


def strayed(capacity: Capacity, forest: Forest) -> tuple[Difference, ...]:
    """The nodes whose host is not the forest's, with the GPUs there and here; O(nodes)."""
    there = hosts_of(forest)
    here = {host.name: host for host in capacity.hosts()}
    return tuple(
        Difference(name, _gpus(there, name), _gpus(here, name))
        for name in (*there, *(here.keys() - there.keys()))
        if there.get(name) != here.get(name)
    )


def recovered(capacity: Capacity, forest: Forest, nodes: frozenset[NodeName]) -> None:
    """Puts the forest's hosts in the place of those nodes' ones."""
    there = hosts_of(forest)
    for name in nodes:
        if name in there:
            capacity.upsert(there[name])
        else:
            capacity.remove(name)


def _gpus(hosts: Mapping[NodeName, Host], name: NodeName) -> int:
    host = hosts.get(name)
    return host.gpus if host is not None else 0
