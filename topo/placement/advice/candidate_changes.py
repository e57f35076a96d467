"""Changes of the cluster that would give slots: nodes to open, owners to release."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from topo.model.ids import NodeName
from topo.placement.advice.need import Need, domains
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.eligible import eligible
from topo.placement.capacity.layout import Counts
from topo.placement.capacity.slots import ELIGIBLE
from topo.placement.capacity.what_if import opened
from topo.placement.job.request import Mode
from topo.placement.search.job_shape import Shape

PROMISING = 3
"""Groups of the kind that a job must stay in that are looked at first."""
TRIED = 128
"""Domains that are looked at for owners to release."""
MOST_NODES = 256
"""Nodes whose owners are compared."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A change that could be made: what it costs and the slots it gives, by cell."""

    name: str
    cost: int
    slots: tuple[tuple[int, int], ...]

    @property
    def total(self) -> int:
        """Slots in all cells."""
        return sum(slots for _, slots in self.slots)


def closed_nodes(capacity: Capacity, need: Need) -> list[Offer]:
    """Nodes that would give slots if they were ready and uncordoned; each costs 1; O(nodes)."""
    offers = []
    for host in capacity.hosts():
        if host.ready and not host.cordoned:
            continue
        slots = capacity.free(host.name) // need.shape.gpus
        if slots and eligible(opened(host, capacity.policy) if host.taints else host, need.wish):
            offers.append(Offer(host.name, 1, ((capacity.position(host.name)[0], slots),)))
    return offers


def owners(capacity: Capacity, need: Need) -> list[Offer]:
    """Owners of bookings in the domains that lack least for one more group; costs are their GPUs.

    O(bookings), and O(hosts) of those domains.
    """
    near = _near(capacity, need)
    offers = []
    for owner, booked in capacity.bookings().items():
        if near.keys().isdisjoint(booked):
            continue
        gains = _gains(capacity, need, near, booked.items())
        if gains:
            offers.append(Offer(owner, sum(booked.values()), gains))
    return offers


_Near = dict[NodeName, tuple[int, int]]
"""(cell, GPUs) of open nodes that the job may use."""


def _near(capacity: Capacity, need: Need) -> _Near:
    """The nodes of the domains that lack least for one more group."""
    near: _Near = {}
    layout, tier = need.layout, need.shape.whole_in
    for domain in _lacking(need)[:TRIED].tolist():
        if len(near) >= MOST_NODES:
            break
        nodes: _Near = {}
        for cell in range(layout.firsts[tier][domain], layout.firsts[tier][domain + 1]):
            for host_id, host, _ in capacity.members(cell):
                if host.open and need.slots.mask[host_id] == ELIGIBLE:
                    nodes[host.name] = cell, host.gpus
        if _could_hold(capacity, need, nodes):
            near |= nodes
    return near


def _lacking(need: Need) -> Counts:
    """Domains where something runs, from the one that lacks least for one more group on; those of
    the scopes with most room come first, since several may have to be mended together.
    """
    shape, layout = need.shape, need.layout
    tier, size = shape.whole_in, _size(shape)
    lacks = size - layout.rolled(need.slots.free, tier) % size
    rank = np.full(len(lacks), 2)
    for place, scope in reversed([*enumerate(need.scopes)]):
        rank[domains(need, scope)] = min(place, PROMISING) // PROMISING
    found = np.flatnonzero((rank <= 1) & (layout.rolled(need.slots.busy, tier) > 0))
    ordered: Counts = found[np.lexsort((lacks[found], rank[found]))]
    return ordered


def _size(shape: Shape) -> int:
    """Pods of a group that the job has."""
    return shape.k if shape.m else shape.r


def _could_hold(capacity: Capacity, need: Need, nodes: _Near) -> bool:
    """Whether a group or the tail, or any pod where that is enough, would fit beside the whole
    groups if nothing ran there.
    """
    shape = need.shape
    whole = sum(gpus // shape.gpus for _, gpus in nodes.values())
    free = sum(capacity.free(node) // shape.gpus for node in nodes)
    if need.request.mode is Mode.PREFERRED:
        return whole > free
    return whole > free and whole - free // shape.k * shape.k >= (shape.r or shape.k)


def _gains(
    capacity: Capacity,
    need: Need,
    near: _Near,
    booked: Iterable[tuple[NodeName, int]],
) -> tuple[tuple[int, int], ...]:
    """Slots by cell that come back with a booking."""
    gains: dict[int, int] = {}
    gpus = need.shape.gpus
    for node, count in booked:
        if node in near:
            cell, size = near[node]
            used = capacity.used(node)
            gain = max(0, size - used + count) // gpus - max(0, size - used) // gpus
            if gain:
                gains[cell] = gains.get(cell, 0) + gain
    return tuple(gains.items())
