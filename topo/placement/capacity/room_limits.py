"""The classes of pods that take more of a node than GPUs, kept as the room of the nodes changes.

Result: a class whose hosts take no more pods than they have room for beside GPUs.

Why it is right: a host takes the smaller of the pods that its free GPUs take and those that its
other resources take (`node_room`). A class keeps the second number of each tight host; what changed
since the version of the room that it was counted with is all that can differ.

Cost: O(nodes that changed since the class was last asked for), a few passes over all nodes at the
first question and after `CHANGES` changes.

Example: pods of 4 GPUs and 8 CPUs; a host with 8 GPUs free has a limit of 1 for want of CPUs and
counts as one slot. A pod of 60 CPUs ends there: the host is tight no more and counts as two.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from topo.model.errors import BrokenInvariantError
from topo.model.ids import NodeName
from topo.model.pod_requests import Amounts
from topo.placement.capacity.host_index import HostIndex
from topo.placement.capacity.node_room import Limits, NodeRoom
from topo.placement.capacity.slots import Slots

_Hosts = tuple[HostIndex, Sequence[int]]
"""The index of the hosts, and their free GPUs by id."""


class RoomChange(NamedTuple):
    """What is assumed of nodes beside GPUs, for pods that take `takes` each.

    First nodes take so many of them as `limits` says, then so many more `pods` are there.
    """

    takes: Amounts = ()
    limits: Limits = MappingProxyType({})
    pods: Mapping[NodeName, int] = MappingProxyType({})

    def apply(self, slots: Slots, hosts: _Hosts) -> None:
        """Change the limits of a class; unknown nodes are ignored. O(nodes given).

        A host without a limit has room for as many as its GPUs. Each of these pods takes its share
        of them, so that it needs none after that either.
        """
        limit(slots, self.limits, hosts)
        ids, limits = hosts[0].ids, slots.limits
        for name, number in self.pods.items():
            if (most := limits.get(ids.get(name, -1))) is not None:
                limit(slots, {name: max(0, most - number)}, hosts)


NO_CHANGE = RoomChange()


class RoomLimits:
    """The room of the nodes, and of each class the version of it that the class was counted with.

    Classes are named by any key. Without a room no class can be limited.
    """

    def __init__(self, room: NodeRoom | None = None) -> None:
        self._room = room
        self._versions: dict[object, int] = {}

    def follow(self, key: object, takes: Amounts, slots: Slots, hosts: _Hosts) -> None:
        """Limit a class by what nodes have now."""
        room, shape, names = self._room, (takes, slots.gpus), hosts[0].names
        if room is None:
            raise BrokenInvariantError("capacity: what nodes have beside GPUs is not known here")
        limits = room.limits(shape, self._versions.get(key, -1))
        if limits is None:
            unlimited = {names[host_id]: None for host_id in slots.limits}
            limits = {**unlimited, **room.all_limits(shape)}
        limit(slots, limits, hosts)
        self._versions[key] = room.version

    def forget(self, key: object) -> None:
        """Forget a class that is kept no more."""
        self._versions.pop(key, None)


def limit(slots: Slots, limits: Limits, hosts: _Hosts) -> None:
    """Set how many pods some hosts take at most; unknown nodes are ignored. O(limits)."""
    index, free_gpus = hosts
    ids, domains = index.ids, index.domain_of_host
    for name, pods in limits.items():
        if (host_id := ids.get(name)) is not None:
            slots.limit(host_id, domains[host_id].at, free_gpus[host_id], pods)
