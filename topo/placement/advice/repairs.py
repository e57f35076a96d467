"""The cheapest changes of the cluster that are found to make a refused job fit.

A change is a closed node that is opened, at a cost of 1, or an owner that gives back its GPUs, at
the cost of their number. The result is a set of changes after which the job fits by the count of
slots; the caller places it on a changed copy of the cluster before the changes are advised.

How: what is best is added until the job fits, then what is not needed is dropped. Best is what
gives some domain one more group of the job at the least cost: sets of changes in that domain are
tried in the order of their cost (`cheapest_sets.py`), for several owners may share the node that a
pod needs. At last sets of all changes are tried in that order, until one is enough or costs as much
as what was found.

Why it is right: a job fits a region exactly if its domains have slots for all whole groups and, in
one domain beside them, for the tail. Slots are counted node by node with all changes made, so a set
that is returned suffices, and none of it can be left out. Where the last trial was not cut short
nothing is cheaper, as in all small worlds that `tests/placement/advice/test_repairs.py` tries.

Cost: at most MOST_TRIALS sets, each as long as its changes have nodes, and O(domains) for each.
A region takes half of the trials that are left, and so does each step in it, so that the next has
some. Beside them n changes are sorted, and dropped at O(domains) for each that was added.

Example: one group of 8 nodes is missing; free nodes of three dragonflies, and who has the others:
    d1   7 free   a: 8 GPUs on 1 node           one more group costs 8
    d2   6 free   b, c: 2 GPUs on 1 node each   one more group costs 4, so b and c are added
    d3   5 free   d: 6 GPUs on 3 nodes          one more group costs 6
    Without b the job does not fit, nor without c. The repair: b and c give back 4 GPUs.

Candidates are changes that would give GPUs: closed nodes to open, owners to release.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from operator import attrgetter, itemgetter

import numpy as np

from topo.model.ids import NodeName
from topo.placement.advice.cheapest_sets import Trials, cheapest_set
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
MOST_TRIALS = 4_000
"""Sets of changes that are tried in all, a few microseconds each."""
DOMAIN_TRIALS = 64
"""Sets that are tried in the order of their cost to give one domain one more group."""
DOMAINS_TRIED = 128
"""Domains that are looked at for owners to release."""
NODES_TRIED = 256
"""Nodes whose owners are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class RepairCandidate:
    """A change that could be made: its cost, and the GPUs that it gives back by node."""

    name: str
    cost: int
    gpus: Mapping[NodeName, int]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What could be changed, and its nodes: (tier-1 domain, free GPUs now, maybe below 0)."""

    changes: Sequence[RepairCandidate]
    nodes: Mapping[NodeName, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Repair:
    """The names of the changes to make, and what they cost together."""

    names: tuple[str, ...]
    cost: int


def cheapest_repair(jobs: Iterable[tuple[RefusedJob, Candidates]]) -> Repair | None:
    """Return the cheapest repair found for a job, or None.

    The job is given once for each GPU type, with the candidates on it.
    """
    trials = Trials(MOST_TRIALS)
    repairs = (
        _repair(job, region, candidates, trials.some(trials.left // 2))
        for job, candidates in jobs
        for region in _regions(job, candidates)
    )
    return min((one for one in repairs if one), key=attrgetter("cost", "names"), default=None)


def _regions(job: RefusedJob, candidates: Candidates) -> Iterable[Region]:
    """Return the regions to look into."""
    gains = np.zeros(len(job.view.free) + 1, np.int64)
    given: Counter[NodeName] = Counter()
    for change in candidates.changes:
        given.update(change.gpus)
    for node, gpus in given.items():
        at, free = candidates.nodes[node]
        gains[at + 1] += slots_of(free + gpus, job) - slots_of(free, job)
    # A region without slots enough, even after every change, cannot be repaired.
    sums, pods = gains.cumsum(), job.request.pods
    able = (r for r in job.regions if r.free_slots + sums[r.last] - sums[r.first] >= pods)
    return islice(able, REGIONS_TRIED)


def slots_of(free_gpus: int, job: RefusedJob) -> int:
    """Return the pods of a job that a node with so many free GPUs takes."""
    return max(0, free_gpus) // job.view.shape.gpus


def _repair(
    job: RefusedJob, region: Region, candidates: Candidates, trials: Trials
) -> Repair | None:
    """Add changes group by group, then for the tail; drop what is not needed; then try cheaper."""
    domains = _domains(job, region, candidates)
    chosen: list[RepairCandidate] = []
    for size in filter(None, (domains.k, domains.tail)):
        for additions in sorted(domains.additions(size, trials.some(trials.left // 2)), key=_order):
            if domains.suffice(size):
                break
            new = [one for one in additions if one not in chosen]
            domains.add(new)
            chosen += new
    # What was added for one group may be more than the job needs in the end: drop the dearest.
    for candidate in sorted(chosen, key=lambda one: (-one.cost, one.name)):
        domains.add([candidate], -1)
        if domains.suffice():
            chosen.remove(candidate)
        else:
            domains.add([candidate])
    found = chosen if domains.suffice() else None
    domains.add(chosen, -1)
    cheaper = cheapest_set(
        domains.changes,
        domains.suffice_with,
        trials,
        below=sum(one.cost for one in found) if found else None,
    )
    found = cheaper or found
    if not found or len(found) > MOST_CHANGES:
        return None
    return Repair(tuple(one.name for one in found), sum(one.cost for one in found))


def _domains(job: RefusedJob, region: Region, candidates: Candidates) -> "_Domains":
    """Return the domains of a region before any change.

    In preferred mode any slots will do: the region is one domain, and the job one group.
    """
    shape = job.view.shape
    if job.request.mode is PlacementMode.PREFERRED:
        domains = _Domains(job, np.array([region.free_slots]), shape.pods, 1, 0)
        domain_of, first = [0] * region.last, 0
    else:
        domains = _Domains(job, job.free_slots(region).copy(), shape.k, shape.m, shape.r)
        domain_of, first = job.view.layout.of[shape.tier], job.domains(region).start
    if not domains.free.size:
        return domains
    for node, (at, free) in candidates.nodes.items():
        if region.first <= at < region.last:
            domains.nodes[node] = _Node(domain_of[at] - first, free)
    for change in candidates.changes:
        if not domains.nodes.keys().isdisjoint(change.gpus):
            domains.changes.append(change)
    return domains


@dataclass(slots=True)
class _Node:
    """A node of a region: its domain, and its free GPUs with the changes that are made."""

    domain: int
    free_gpus: int


@dataclass(frozen=True)
class _Domains:
    """Free slots by domain with the changes that are made.

    The job is `groups` groups of `k` pods and one of `tail` pods. `changes` are all that give GPUs
    in the region, `nodes` the nodes that they give them on.
    """

    job: RefusedJob
    free: Counts
    k: int
    groups: int
    tail: int
    nodes: dict[NodeName, _Node] = field(default_factory=dict)
    changes: list[RepairCandidate] = field(default_factory=list)

    def suffice(self, size: int = 0) -> bool:
        """Return whether there are slots for the whole groups and, beside them, the tail.

        `size` = `k`: for the groups alone.
        """
        groups = int((self.free // self.k).sum())
        if groups != self.groups or size == self.k:
            return groups >= self.groups
        return int((self.free % self.k).max(initial=-1)) >= self.tail

    def suffice_with(self, changes: Sequence[RepairCandidate]) -> bool:
        """Return whether slots suffice with some changes besides those that are made."""
        self.add(changes)
        enough = self.suffice()
        self.add(changes, -1)
        return enough

    def add(self, changes: Iterable[RepairCandidate], sign: int = 1) -> None:
        """Make some changes (1), or take them back (-1)."""
        for change in changes:
            for name, gpus in change.gpus.items():
                node = self.nodes.get(name)
                if node is not None:
                    before = slots_of(node.free_gpus, self.job)
                    node.free_gpus += sign * gpus
                    self.free[node.domain] += slots_of(node.free_gpus, self.job) - before

    def additions(self, size: int, trials: Trials) -> Iterator[list[RepairCandidate]]:
        """Yield, for each domain, what gives it one more group of a size, then another.

        Nothing is changed in the end. The domains that lack least come first.
        """
        inside: dict[int, list[RepairCandidate]] = {}
        for change in self.changes:
            for domain in {self.nodes[name].domain for name in change.gpus if name in self.nodes}:
                inside.setdefault(domain, []).append(change)
        for domain in sorted(inside, key=lambda at: (size - self.free[at] % self.k, at)):
            left, made = inside[domain], list[RepairCandidate]()
            # Each round fills the domain up to its next whole group.
            while (lack := size - int(self.free[domain]) % self.k) > 0:
                found = self._cheapest_in(domain, left, int(self.free[domain]) + lack, trials)
                if not found:
                    break
                yield found
                self.add(found)
                made += found
                left = [one for one in left if one not in found]
            self.add(made, -1)

    def _cheapest_in(
        self, domain: int, left: Sequence[RepairCandidate], wanted: int, trials: Trials
    ) -> list[RepairCandidate] | None:
        """Return the cheapest changes found that give a domain so many slots in all."""

        def enough(some: Sequence[RepairCandidate]) -> bool:
            self.add(some)
            found = int(self.free[domain]) >= wanted
            self.add(some, -1)
            return found

        few = trials.some(min(DOMAIN_TRIALS, trials.left // 2))
        return cheapest_set(left, enough, few) or _largest_of_cheapest(
            [(one, self._gain(domain, one)) for one in left], enough, trials
        )

    def _gain(self, domain: int, change: RepairCandidate) -> int:
        """Return the most slots that a change gives a domain: rounded up for each node."""
        return sum(
            -(-gpus // self.job.view.shape.gpus)
            for name, gpus in change.gpus.items()
            if (node := self.nodes.get(name)) is not None and node.domain == domain
        )


def _largest_of_cheapest(
    gains: Iterable[tuple[RepairCandidate, int]],
    enough: Callable[[Sequence[RepairCandidate]], bool],
    trials: Trials,
) -> list[RepairCandidate] | None:
    """Return at most MOST_CHANGES changes that are enough together, or None.

    Of the fewest cheapest changes among which so many are enough, those with the largest gain are
    taken; then each that is not needed is dropped, the dearest first, while trials are left. At
    most MOST_CHANGES + 1 trials and one for each doubling of n; beside them O(n log n).
    """
    ranked = sorted(gains, key=lambda each: (each[0].cost, -each[1], each[0].name))

    def largest(number: int) -> list[RepairCandidate]:
        some = nlargest(MOST_CHANGES, ranked[:number], key=itemgetter(1))
        return [one for one, _ in some]

    if not trials.take() or not enough(largest(len(ranked))):
        return None
    # The more there are to choose from, the larger are the largest: bisect for the least number.
    low, high = 1, len(ranked)
    while low < high and trials.take():
        middle = (low + high) // 2
        if enough(largest(middle)):
            high = middle
        else:
            low = middle + 1
    found = largest(high)
    for change in sorted(found, key=lambda one: (-one.cost, one.name)):
        if not trials.take():
            break
        others = [one for one in found if one is not change]
        if enough(others):
            found = others
    return found


def _order(changes: list[RepairCandidate]) -> tuple[int, int, tuple[str, ...]]:
    """Return the sort key: cost, number, names."""
    cost = sum(one.cost for one in changes)
    return cost, len(changes), tuple(one.name for one in changes)


def nodes_to_open(capacity: CapacityView, job: RefusedJob) -> Candidates:
    """Return closed nodes that would give slots if they were open; each costs 1. O(nodes)."""
    slots = job.view.slots
    found: list[RepairCandidate] = []
    nodes: dict[NodeName, tuple[int, int]] = {}
    for host in capacity.closed_hosts():
        gpus = capacity.unbooked(host.name)
        if gpus >= slots.gpus and is_eligible(
            open_host(host, capacity.policy) if host.taints else host, slots.eligibility
        ):
            found.append(RepairCandidate(host.name, 1, {host.name: gpus}))
            nodes[host.name] = capacity.domain_of(host.name), 0
    return Candidates(found, nodes)


def owners_to_release(
    capacity: CapacityView, job: RefusedJob, jobs: Mapping[str, str]
) -> Candidates:
    """Return owners with GPUs in the domains that lack least for one more group.

    `jobs` are the jobs of owners that end together: such a job is one candidate. Their cost is the
    GPUs that they give back, wherever these are. O(bookings), and O(nodes) of those domains.
    """
    near = _near(capacity, job)
    costs: Counter[str] = Counter()
    given: dict[str, Counter[NodeName]] = {}
    for owner, booked in capacity.bookings().items():
        name = jobs.get(owner, owner)
        costs[name] += sum(booked.values())
        if gpus := {node: count for node, count in booked.items() if node in near}:
            given.setdefault(name, Counter()).update(gpus)
    found = [RepairCandidate(name, costs[name], gpus) for name, gpus in given.items()]
    nodes = {node: (at, size - capacity.used(node)) for node, (at, size) in near.items()}
    return Candidates(found, nodes)


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
