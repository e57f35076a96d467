"""How many GPUs of each node are free, in use and held: a frozen view for readers in any thread.

A GPU counts once: as used if a pod is bound to it, as held if it is kept for a pod that is not: by
a hold for a pod that does not exist or is not opened yet, or for one that is opened. An unbooked
GPU is cordoned if its node is cordoned, free if its node is open, and closed if its node is not
ready. So of every node

    free + used + held + cordoned + closed = GPUs + overbooked

where `overbooked` is 0 unless pods take what was held, or a scheduler makes room by eviction.

Example: a node of 8 GPUs, a pod has 2 of them and a hold keeps 4: free 2, used 2, held 4. Cordoned,
it has free 0, used 2, held 4, cordoned 2; not ready, closed 2 in place of cordoned 2.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from topo.model.errors import BrokenInvariantError
from topo.model.ids import NodeName
from topo.placement.capacity.host import Host, free_gpus, unbooked_gpus


class NodeCounts(NamedTuple):
    """The GPUs of one node: `gpus` are all that pods may request.

    `cordoned` are the unbooked GPUs of a cordoned node, `closed` those of one that is not ready.
    """

    free: int = 0
    used: int = 0
    held: int = 0
    cordoned: int = 0
    closed: int = 0
    is_cordoned: bool = False
    gpus: int = 0

    @property
    def overbooked(self) -> int:
        """The GPUs that are used or held beyond those of the node."""
        return max(0, self.used + self.held - self.gpus)

    @property
    def adds_up(self) -> bool:
        """Whether every GPU is counted once, and none is counted below zero."""
        counts = self[:5]
        return min(counts) >= 0 and sum(counts) == self.gpus + self.overbooked


class TypeCounts(NamedTuple):
    """The GPUs of all nodes of one type: all that pods may request, those of ready nodes, …

    `opened` are those of the held ones that are for pods that are opened and not bound.
    """

    gpus: int = 0
    ready: int = 0
    free: int = 0
    used: int = 0
    held: int = 0
    cordoned: int = 0
    closed: int = 0
    opened: int = 0


Amounts = tuple[tuple[str, int], ...]
"""(resource, number) pairs, each number in the resource's own unit."""


class SharedCards(NamedTuple):
    """The cards of a node in a resource that shares cards: its capacity, and what pods take."""

    resource: str
    allocatable: int
    used: int


NO_COUNTS = NodeCounts()
"""Those of a node that is not known."""


@dataclass(frozen=True)
class NodeUsage:
    """Hosts, the GPUs that are booked on each, and the part of them that is kept for pods.

    `holds`: what each hold keeps; `opened`: the GPUs of pods that are opened and not bound yet.
    `shared_used` are the shared cards that pods take; they are counted separately, in their own
    units. `version` is that of what is booked. The values given must not change afterwards.
    """

    version: int = 0
    hosts: Mapping[NodeName, Host] = field(default_factory=dict)
    booked: Mapping[NodeName, int] = field(default_factory=dict)
    holds: Iterable[Mapping[NodeName, int]] = ()
    shared_used: Mapping[NodeName, Amounts] = field(default_factory=dict)
    opened: Mapping[NodeName, int] = field(default_factory=dict)

    @cached_property
    def counts(self) -> Mapping[NodeName, NodeCounts]:
        """The counts of every known node; O(nodes and those of all holds), computed once.

        Most nodes are open and have no bookings: nodes of one size share one value.
        """
        held: Counter[NodeName] = Counter(self.opened)
        for gpus in self.holds:
            held.update(gpus)
        sizes = {host.gpus for host in self.hosts.values()}
        idle = {gpus: NodeCounts(gpus, gpus=gpus) for gpus in sizes}
        booked = self.booked
        return {
            name: idle[host.gpus]
            if host.ready and not host.cordoned and name not in booked
            else _counts(host, booked.get(name, 0), held[name])
            for name, host in self.hosts.items()
        }

    @cached_property
    def shared(self) -> Mapping[NodeName, tuple[SharedCards, ...]]:
        """The shared cards of each node that has any, by resource name; O(nodes), computed once."""
        return {
            name: _shared(dict(host.shared), dict(self.shared_used.get(name, ())))
            for name, host in self.hosts.items()
            if host.shared or name in self.shared_used
        }

    def shared_by_resource(self) -> Mapping[str, SharedCards]:
        """Return the shared cards of all nodes, by resource; O(nodes that have any)."""
        sums: dict[str, SharedCards] = {}
        for cards in self.shared.values():
            for resource, allocatable, used in cards:
                _, all_there, all_used = sums.get(resource, (resource, 0, 0))
                total = SharedCards(resource, all_there + allocatable, all_used + used)
                sums[resource] = total
        return sums

    def overbooked(self) -> int:
        """Return the GPUs that are used or held beyond those of their nodes; O(nodes)."""
        return sum(each.overbooked for each in self.counts.values())

    def validate(self) -> None:
        """Raise `BrokenInvariantError` with the first node whose GPUs do not add up; O(nodes)."""
        for name, counts in self.counts.items():
            if not counts.adds_up:
                raise BrokenInvariantError(f"usage: the GPUs of {name} do not add up: {counts}")

    def by_type(self) -> Mapping[str, TypeCounts]:
        """Return the counts by GPU type, "" for an unknown type; O(nodes).

        Nodes without GPUs on which nothing is booked have no type to count.
        """
        rows: dict[str, list[TypeCounts]] = {}
        for name, counts in self.counts.items():
            host = self.hosts[name]
            if host.gpus or counts.overbooked:
                ready = host.gpus if host.ready else 0
                row = TypeCounts(host.gpus, ready, *counts[:5], self.opened.get(name, 0))
                rows.setdefault(host.gpu_type, []).append(row)
        return {
            each: TypeCounts(*map(sum, zip(*found, strict=True))) for each, found in rows.items()
        }


def _shared(allocatable: dict[str, int], used: dict[str, int]) -> tuple[SharedCards, ...]:
    resources = sorted(allocatable.keys() | used)
    return tuple(SharedCards(r, allocatable.get(r, 0), used.get(r, 0)) for r in resources)


def _counts(host: Host, booked: int, held: int) -> NodeCounts:
    left = unbooked_gpus(host, booked)
    return NodeCounts(
        free=free_gpus(host, booked),
        used=booked - held,
        held=held,
        cordoned=left if host.cordoned else 0,
        closed=0 if host.is_open or host.cordoned else left,
        is_cordoned=host.cordoned,
        gpus=host.gpus,
    )
