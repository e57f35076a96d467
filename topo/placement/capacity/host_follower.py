"""Updates the hosts of a capacity from the published forest and the cluster's nodes."""

from collections.abc import Iterable
from itertools import islice

from topo.model.cluster import ClusterNode
from topo.model.forest import Forest
from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.forest_hosts import Differences, differences, forest_half, hosts_of
from topo.placement.capacity.host import Host, joined


class HostFollower:
    """Keeps the hosts of a capacity equal to the join of a forest and a cluster's nodes.

    `follow` takes the forest, `follow_cluster` the nodes; each keeps the facts of the other. Hosts
    from other sources are not changed.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self.forest = Forest()
        self.cluster: dict[NodeName, ClusterNode] = {}
        self._waiting: Differences = {}
        """Hosts that still have to be joined again."""

    def follow(self, forest: Forest) -> tuple[NodeName, ...]:
        """Follow a forest; return the hosts that were changed, added or removed.

        Subtrees that are the same objects as before are skipped: O(changes x fan-out).
        """
        self.begin(forest, differences(self.forest, forest))
        return self.join_all()

    def begin(self, forest: Forest, found: Differences) -> None:
        """Set a forest with its differences from the last one; `join` then processes them."""
        self.forest = forest
        self._waiting |= found

    def join(self, most: int) -> tuple[NodeName, ...]:
        """Join at most so many pending hosts; return those that were changed, added or removed."""
        domain, taken = self._capacity.policy.domain, list(islice(self._waiting, most))
        halves = {name: self._waiting.pop(name) for name in taken}
        return tuple(
            name
            for name, found in halves.items()
            if self._join(name, None if found is None else forest_half(*found, domain))
        )

    def join_all(self) -> tuple[NodeName, ...]:
        """Join all pending hosts."""
        return self.join(len(self._waiting))

    @property
    def has_pending(self) -> bool:
        """Whether hosts are pending for `join`."""
        return bool(self._waiting)

    def follow_cluster(
        self, changed: Iterable[ClusterNode], removed: Iterable[NodeName] = ()
    ) -> tuple[NodeName, ...]:
        """Follow nodes of the cluster; return the hosts that were changed, added or removed.

        `removed` are deleted nodes. O(nodes given).
        """
        gone = [name for name in removed if self.cluster.pop(name, None) is not None]
        # A node changes more often than what placement takes of it.
        # The host keeps what the forest said, so that a change of the cluster needs no forest.
        stated = {node.name: node for node in changed}  # of two statements the last one counts
        nodes = {name: node for name, node in stated.items() if self.cluster.get(name) != node}
        self.cluster |= nodes
        hosts = {name: self._capacity.host(name) for name in (*gone, *nodes)}
        halves = {name: host and host.forest_and_cluster[0] for name, host in hosts.items()}
        return tuple(name for name, half in halves.items() if self._join(name, half))

    def restore(self, nodes: Iterable[NodeName]) -> None:
        """Join some nodes again, from the forest and the cluster now; O(nodes there are)."""
        there = hosts_of(self.forest, self.cluster, self._capacity.policy)
        for name in nodes:
            if name in there:
                self._capacity.upsert(there[name])
            else:
                self._capacity.remove(name)

    def _join(self, name: NodeName, half: Host | None) -> bool:
        """Join the two halves of a node's host; return whether the host changed."""
        before = self._capacity.host(name)
        host = joined(half, self.cluster.get(name), self._capacity.policy)
        if host is None:
            self._capacity.remove(name)
        else:
            self._capacity.upsert(host)
        return host != before
