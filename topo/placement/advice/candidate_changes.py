"""Changes of the cluster that would give slots: closed nodes to open, owners to release."""

from collections.abc import Mapping

import numpy as np

from topo.model.ids import NodeName
from topo.placement.advice.refused_job import RefusedJob
from topo.placement.advice.repairs import REGIONS_TRIED, RepairCandidate
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import is_eligible
from topo.placement.capacity.layout import Counts
from topo.placement.capacity.slots import ELIGIBLE
from topo.placement.capacity.what_if import open_host
from topo.placement.job.request import PlacementMode

DOMAINS_TRIED = 128
"""Domains that are looked at for owners to release."""
NODES_TRIED = 256
"""Nodes whose owners are compared."""


def nodes_to_open(capacity: CapacityView, job: RefusedJob) -> list[RepairCandidate]:
    """Return closed nodes that would give slots if they were open; each costs 1. O(nodes)."""
    slots = job.view.slots
    found = []
    for host in capacity.closed_hosts():
        gain = capacity.free(host.name) // slots.gpus
        if gain and is_eligible(
            open_host(host, capacity.policy) if host.taints else host, slots.eligibility
        ):
            found.append(RepairCandidate(host.name, 1, {capacity.position(host.name)[0]: gain}))
    return found


def owners_to_release(capacity: CapacityView, job: RefusedJob) -> list[RepairCandidate]:
    """Return owners with GPUs in the domains that lack least for one more group.

    Their cost is the GPUs that they give back. O(bookings), and O(nodes) of those domains.
    """
    near = _near(capacity, job)
    found = []
    for owner, booked in capacity.bookings().items():
        if near.keys().isdisjoint(booked):
            continue
        slots = _slots_given(capacity, job, near, booked)
        if slots:
            found.append(RepairCandidate(owner, sum(booked.values()), slots))
    return found


_Nodes = dict[NodeName, tuple[int, int]]
"""Open nodes that the job may use: (tier-1 domain, GPUs)."""


def _near(capacity: CapacityView, job: RefusedJob) -> _Nodes:
    """Return the nodes of the domains that lack least for one more group."""
    near: _Nodes = {}
    firsts = job.view.layout.firsts[job.view.shape.tier]
    for domain in _lacking_least(job)[:DOMAINS_TRIED].tolist():
        if len(near) >= NODES_TRIED:
            break
        nodes = {
            host.name: (at, host.gpus)
            for at in range(firsts[domain], firsts[domain + 1])
            for host_id, host, _ in capacity.members(at)
            if host.is_open and job.view.slots.mask[host_id] == ELIGIBLE
        }
        if _could_hold_more(job, int(job.view.free_slots[domain]), nodes):
            near |= nodes
    return near


def _could_hold_more(job: RefusedJob, free: int, nodes: _Nodes) -> bool:
    """Return whether an empty domain would hold one more group, or the tail."""
    shape = job.view.shape
    empty = sum(gpus // shape.gpus for _, gpus in nodes.values())
    size = 1 if job.request.mode is PlacementMode.PREFERRED else shape.r or shape.k
    return empty - free // shape.k * shape.k >= size


def _lacking_least(job: RefusedJob) -> Counts:
    """Return domains with booked GPUs, those that lack fewest slots for one more group first.

    Those of the regions with most free slots come before all others.
    """
    view = job.view
    size = view.shape.k if view.shape.m else view.shape.r
    lacks = size - view.free_slots % size
    rank = np.ones(len(lacks), np.int64)
    for region in job.regions[:REGIONS_TRIED]:
        rank[job.domains(region)] = 0
    booked = np.flatnonzero(view.layout.rolled(view.slots.busy, view.shape.tier))
    ordered: Counts = booked[np.lexsort((lacks[booked], rank[booked]))]
    return ordered


def _slots_given(
    capacity: CapacityView, job: RefusedJob, near: _Nodes, booked: Mapping[NodeName, int]
) -> dict[int, int]:
    """Return the slots that come back if a booking is released, by tier-1 domain."""
    slots: dict[int, int] = {}
    gpus = job.view.shape.gpus
    for node, count in booked.items():
        if node in near:
            at, size = near[node]
            used = capacity.used(node)
            gain = max(0, size - used + count) // gpus - max(0, size - used) // gpus
            if gain:
                slots[at] = slots.get(at, 0) + gain
    return slots
