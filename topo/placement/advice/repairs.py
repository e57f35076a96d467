"""The cheapest changes of the cluster that are found to make a refused job fit.

A change is a closed node that is opened, at a cost of 1, or an owner that gives back its GPUs, at
the cost of their number. The result is a set of changes after which the job fits by the count of
slots; the caller places it on a changed copy of the cluster before the changes are advised.

How: what is best is added until the job fits, then what is not needed is dropped. Best is what
gives some domain one more group of the job at the least cost. That may take several changes: they
are added in the order of their cost, or of their cost per slot, whichever comes out cheaper. At
last every change without which the job fits as well is dropped, the dearest first.

Why it is right: a job fits a region exactly if its domains have slots for all whole groups and, in
one domain beside them, for the tail. That is counted with every change, so a set that is returned
suffices, and none of it can be left out. That it is the cheapest is not proven: owners span
domains, which makes it a set cover. In small random worlds at least 95 of 100 are the cheapest of
all sets (`tests/placement/advice/test_advice.py` tries them).

Cost: O(c log c) for c candidates in each domain, and O(domains) for each change made.

Example: one group of 8 nodes is missing; free nodes of three dragonflies, and who has the others:
    d1   7 free   a: 8 GPUs on 1 node           one more group costs 8
    d2   6 free   b, c: 2 GPUs on 1 node each   one more group costs 4, so b and c are added
    d3   5 free   d: 6 GPUs on 3 nodes          one more group costs 6
    Without b the job does not fit, nor without c. The repair: b and c give back 4 GPUs.

Candidates are changes that would give slots: closed nodes to open, owners to release.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter

import numpy as np

from topo.model.ids import NodeName
from topo.placement.advice.suggestion import RefusedJob, Region
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import is_eligible
from topo.placement.capacity.layout import Counts
from topo.placement.capacity.slots import ELIGIBLE
from topo.placement.capacity.what_if import open_host
from topo.placement.job.request import PlacementMode

REGIONS_TRIED = 3
"""Scopes of a job to look into: those with most free slots, of those with candidates enough."""
MOST_CHANGES = 32
"""Changes in one repair; a longer list is no advice."""
DOMAINS_TRIED = 128
"""Domains that are looked at for owners to release."""
NODES_TRIED = 256
"""Nodes whose owners are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class RepairCandidate:
    """A change that could be made: its cost, and the slots that it gives by tier-1 domain."""

    name: str
    cost: int
    slots: Mapping[int, int]

    @property
    def total_slots(self) -> int:
        """Slots in all domains."""
        return sum(self.slots.values())


@dataclass(frozen=True, slots=True)
class Repair:
    """The names of the changes to make, and what they cost together."""

    names: tuple[str, ...]
    cost: int


def cheapest_repair(jobs: Iterable[tuple[RefusedJob, Sequence[RepairCandidate]]]) -> Repair | None:
    """Return the cheapest repair found for a job, or None.

    The job is given once for each GPU type, with the candidates on it.
    """
    repairs = (
        _repair(job, region, candidates)
        for job, candidates in jobs
        for region in _regions(job, candidates)
    )
    return min((one for one in repairs if one), key=attrgetter("cost", "names"), default=None)


def _regions(job: RefusedJob, candidates: Iterable[RepairCandidate]) -> Iterable[Region]:
    """Return the regions to look into."""
    gains = np.zeros(len(job.view.free) + 1, np.int64)
    for candidate in candidates:
        for at, slots in candidate.slots.items():
            gains[at + 1] += slots
    # A region without slots enough, even after every change, cannot be repaired.
    sums, pods = gains.cumsum(), job.request.pods
    able = (r for r in job.regions if r.free_slots + sums[r.last] - sums[r.first] >= pods)
    return islice(able, REGIONS_TRIED)


def _repair(
    job: RefusedJob, region: Region, candidates: Iterable[RepairCandidate]
) -> Repair | None:
    """Add changes group by group, then for the tail; then drop those that are not needed."""
    domains = _domains(job, region, candidates)
    chosen: list[RepairCandidate] = []
    for size in filter(None, (domains.k, domains.tail)):
        for additions in sorted(domains.additions(size, chosen), key=_order):
            if domains.suffice(size):
                break
            new = [one for one in additions if one not in chosen]
            domains.add(new)
            chosen += new
    # What was added for one group may be more than the job needs in the end: drop the dearest.
    for candidate in sorted(chosen, key=lambda one: (-one.cost, one.total_slots, one.name)):
        domains.add([candidate], -1)
        if domains.suffice():
            chosen.remove(candidate)
        else:
            domains.add([candidate])
    if not domains.suffice() or len(chosen) > MOST_CHANGES:
        return None
    return Repair(tuple(one.name for one in chosen), sum(one.cost for one in chosen))


def _domains(job: RefusedJob, region: Region, candidates: Iterable[RepairCandidate]) -> "_Domains":
    """Return the domains of a region before any change.

    In preferred mode any slots will do: the region is one domain, and the job one group.
    """
    shape = job.view.shape
    if job.request.mode is PlacementMode.PREFERRED:
        domains = _Domains(np.array([region.free_slots]), shape.pods, 1, 0)
        domain_of, first = [0] * region.last, 0
    else:
        domains = _Domains(job.free_slots(region).copy(), shape.k, shape.m, shape.r)
        domain_of, first = job.view.layout.of[shape.tier], job.domains(region).start
    for candidate in candidates:
        for at, slots in candidate.slots.items():
            if region.first <= at < region.last and domains.free.size:
                gains = domains.gains.setdefault(domain_of[at] - first, {})
                gains[candidate] = gains.get(candidate, 0) + slots
    return domains


@dataclass(frozen=True)
class _Domains:
    """Free slots by domain, and the slots that candidates give, by domain too.

    The job is `groups` groups of `k` pods and one of `tail` pods.
    """

    free: Counts
    k: int
    groups: int
    tail: int
    gains: dict[int, dict[RepairCandidate, int]] = field(default_factory=dict)

    def suffice(self, size: int = 0) -> bool:
        """Return whether there are slots for the whole groups and, beside them, the tail.

        `size` = `k`: for the groups alone.
        """
        groups = int((self.free // self.k).sum())
        if groups != self.groups or size == self.k:
            return groups >= self.groups
        return int((self.free % self.k).max(initial=-1)) >= self.tail

    def add(self, candidates: Iterable[RepairCandidate], sign: int = 1) -> None:
        """Make some changes (1), or take them back (-1)."""
        for candidate in candidates:
            for domain, gains in self.gains.items():
                self.free[domain] += sign * gains.get(candidate, 0)

    def additions(
        self, size: int, chosen: Sequence[RepairCandidate]
    ) -> Iterator[list[RepairCandidate]]:
        """Yield, for each domain, what gives it one more group of a size, then another."""
        for domain, gains in self.gains.items():
            free = int(self.free[domain])
            left = {one: slots for one, slots in gains.items() if one not in chosen}
            # Each round fills the domain up to its next whole group.
            while (lack := size - free % self.k) > 0 and (found := _cheapest(left, lack)):
                yield found
                free += sum(left.pop(one) for one in found)


def _cheapest(gains: Mapping[RepairCandidate, int], lack: int) -> list[RepairCandidate]:
    """Return the cheapest candidates found that give so many slots; empty if all give too few."""

    def by_cost(one: RepairCandidate) -> tuple[float, int, str]:
        return one.cost, -gains[one], one.name

    def by_cost_per_slot(one: RepairCandidate) -> tuple[float, str]:
        return one.cost / min(lack, gains[one]), one.name

    # By cost is best if one candidate suffices, by cost per slot if several are needed.
    orders = sorted(gains, key=by_cost), sorted(gains, key=by_cost_per_slot)
    found = [_enough(order, gains, lack) for order in orders]
    short = [one for one in found if 0 < len(one) <= MOST_CHANGES]
    return min(short, key=_order, default=[])


def _enough(
    order: Iterable[RepairCandidate], gains: Mapping[RepairCandidate, int], lack: int
) -> list[RepairCandidate]:
    """Return the first candidates that give so many slots, without those not needed; or empty."""
    chosen: list[RepairCandidate] = []
    for candidate in order:
        if lack > 0:
            chosen.append(candidate)
            lack -= gains[candidate]
    for candidate in chosen[::-1]:
        if lack + gains[candidate] <= 0:
            chosen.remove(candidate)
            lack += gains[candidate]
    return chosen if lack <= 0 else []


def _order(candidates: list[RepairCandidate]) -> tuple[int, int, int, tuple[str, ...]]:
    """Return the sort key: cost, number, slots anywhere (more first), names."""
    cost, slots = sum(one.cost for one in candidates), sum(one.total_slots for one in candidates)
    return cost, len(candidates), -slots, tuple(one.name for one in candidates)


def nodes_to_open(capacity: CapacityView, job: RefusedJob) -> list[RepairCandidate]:
    """Return closed nodes that would give slots if they were open; each costs 1. O(nodes)."""
    slots = job.view.slots
    found = []
    for host in capacity.closed_hosts():
        gain = capacity.free(host.name) // slots.gpus
        if gain and is_eligible(
            open_host(host, capacity.policy) if host.taints else host, slots.eligibility
        ):
            found.append(RepairCandidate(host.name, 1, {capacity.domain_of(host.name): gain}))
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
