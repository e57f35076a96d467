"""Checks that the hosts of a capacity are the join of forest and cluster, from scratch."""

from collections.abc import Iterable, Mapping

from topo.model.cluster import ClusterNode
from topo.model.forest import Forest
from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.difference import Difference
from topo.placement.capacity.host import Host
from topo.placement.capacity.host_follower import hosts_of


def host_differences(
    capacity: CapacityView, forest: Forest, cluster: Mapping[NodeName, ClusterNode]
) -> tuple[Difference, ...]:
    """Return the nodes whose host is not the join of forest and cluster; O(nodes)."""
    there = hosts_of(forest, cluster, capacity.policy)
    here = {host.name: host for host in capacity.hosts()}
    return tuple(
        Difference(name, _gpu_count(there, name), _gpu_count(here, name))
        for name in (*there, *(here.keys() - there.keys()))
        if there.get(name) != here.get(name)
    )


def restore_hosts(
    capacity: Capacity,
    forest: Forest,
    cluster: Mapping[NodeName, ClusterNode],
    nodes: Iterable[NodeName],
) -> None:
    """Replace the hosts of some nodes by the joined ones."""
    there = hosts_of(forest, cluster, capacity.policy)
    for name in nodes:
        if name in there:
            capacity.upsert(there[name])
        else:
            capacity.remove(name)


def _gpu_count(hosts: Mapping[NodeName, Host], name: NodeName) -> int:
    host = hosts.get(name)
    return host.gpus if host is not None else 0
