"""Cheap evictions for a gang: nodes on which it fits once pods of lower priority are evicted.

Result: nodes for all groups of a job. Costs are compared by the highest priority of a broken job
(lower is better), then by pods, then by GPUs. Evicting one pod of a job breaks the job, so that all
of its pods count, once; only the pods on the chosen nodes are evicted, and the GPUs of the other
pods of a broken job are not counted as free.

How: group by group, each into the domain where it adds the least cost; a job that is already broken
costs nothing more. Inside a domain slot by slot, each on the node where it adds the least cost.
Ties go to the first in the order of the tree.

Why it is right: a slot is counted only where the free GPUs of its node and those of its victims
suffice for a pod, every victim has a lower priority, and no group crosses a domain. For one group
of whole-node pods over jobs of one pod the cost is the minimum. For several groups, or for jobs on
several nodes, the search is greedy: it does not foresee that a more expensive first domain may
break a job that a later group breaks anyway.

Cost: O(nodes + victims); after each group, the domains of newly broken jobs are computed again.

Example: dragonflies of two nodes. d1 runs job A (priority 1, on both nodes), d2 runs B (priority 0)
on one node and C (priority 0) on the other, d3 runs D (priority 0) on one node, the other is free,
but D has four pods. One group of two pods over all of them: d1 costs priority 1; d2 two pods of
priority 0; d3 four, as D is broken. It is d2.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from topo.gangs.machine.instructions import Place
from topo.model.ids import NodeName
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.slots import ELIGIBLE
from topo.placement.job.request import PlacementMode
from topo.placement.search.other_groups import requests_inside
from topo.placement.view import FreeView, view_of


@dataclass(frozen=True, slots=True)
class Evictable:
    """A bound pod that a scheduler may evict.

    Its GPUs are booked under `owner`; `unit` is the job that its eviction breaks.
    """

    owner: str
    node: NodeName
    gpus: int
    priority: int
    unit: str


class Cost(NamedTuple):
    """What an eviction breaks: its highest priority, its pods and its GPUs; less is better."""

    priority: int
    pods: int
    gpus: int


NOTHING = Cost(-(1 << 40), 0, 0)
"""Lower than any priority of Kubernetes."""


@dataclass(frozen=True, slots=True)
class Evictions:
    """A node for each pod of a job by rank, the pods to evict, and the cost."""

    nodes: tuple[NodeName, ...]
    victims: tuple[Evictable, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place for one pod on a node, and the pods to evict for it."""

    node: NodeName
    victims: tuple[Evictable, ...]


@dataclass(slots=True)
class _Found:
    """The choices so far: the domain and slots of each group; `used` counts the slots per node."""

    groups: list[tuple[int, list[_Slot]]] = field(default_factory=list)
    used: Counter[NodeName] = field(default_factory=Counter)
    gone: set[str] = field(default_factory=set)
    units: set[str] = field(default_factory=set)

    def add(self, domain: int, slots: list[_Slot]) -> None:
        self.groups.append((domain, slots))
        for slot in slots:
            self.used[slot.node] += 1
            self.gone |= {pod.owner for pod in slot.victims}
            self.units |= {pod.unit for pod in slot.victims}


def cheapest_evictions(
    capacity: CapacityView, asked: Place, evictable: Sequence[Evictable]
) -> Evictions | None:
    """Return the cheapest evictions found; None if evicting all pods would not suffice."""
    request = asked.request
    # Only a whole job is planned over others, never some of its pods.
    if len(asked.wanted) != request.pods or asked.kept:
        return None
    wished = request.eligible.gpu_type
    best: Evictions | None = None
    for gpu_type in (wished,) if wished is not None else capacity.gpu_types():
        for each in requests_inside(capacity, request, gpu_type, idle=True):
            view = view_of(capacity, each, gpu_type)
            if request.mode is PlacementMode.REQUIRED and not view.group_can_fit:
                continue
            over = _Over(capacity, replace(asked, request=each), view, evictable)
            for first, last in over.scopes():
                found = over.inside(first, last)
                if found is not None and (best is None or found.cost < best.cost):
                    best = found
    return best


class _Over:
    """The search on the nodes of one GPU type."""

    def __init__(
        self, capacity: CapacityView, asked: Place, view: FreeView, evictable: Sequence[Evictable]
    ) -> None:
        self._capacity, self._asked, self._view = capacity, asked, view
        self._gpus = asked.request.gpus_per_pod
        self._units: dict[str, Cost] = {}
        self._on: dict[NodeName, list[Evictable]] = {}
        self._homes: dict[str, set[int]] = {}
        """The domains in which each job has pods."""
        for pod in evictable:
            before = self._units.get(pod.unit, NOTHING)
            self._units[pod.unit] = Cost(
                max(before.priority, pod.priority), before.pods + 1, before.gpus + pod.gpus
            )
            self._on.setdefault(pod.node, []).append(pod)
            if capacity.host(pod.node) is not None:
                at = view.layout.of[self._tier][capacity.domain_of(pod.node)]
                self._homes.setdefault(pod.unit, set()).add(at)
        self._nodes: dict[int, list[tuple[NodeName, int]]] = {}

    def scopes(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges of domains that the job may use together."""
        layout, tier = self._view.layout, self._tier
        kind = self._asked.request.within
        if kind is None:
            yield 0, len(layout.firsts[tier]) - 1
            return
        for above, at in layout.groups_of(kind):
            if above >= tier:
                bounds = layout.below(above, tier)
                yield bounds[at], bounds[at + 1]

    @property
    def _tier(self) -> int:
        preferred = self._asked.request.mode is PlacementMode.PREFERRED
        return 1 if preferred else self._view.shape.whole_in

    def inside(self, first: int, last: int) -> Evictions | None:
        """Return the cheapest evictions in a range of domains."""
        found = _Found()
        sizes = self._sizes()
        ready: list[tuple[Cost, int]] = []
        for at, size in enumerate(sizes):
            # Costs of a domain hold for groups of one size, so another size needs a new heap.
            if at == 0 or size != sizes[at - 1]:
                ready = [(NOTHING, domain) for domain in range(first, last)]
                heapify(ready)
            chosen = self._next(found, size, ready)
            if chosen is None:
                return None
        # Groups take the ranks by size, then in the order of the tree.
        order = sorted(range(len(sizes)), key=lambda at: (-sizes[at], found.groups[at][0], at))
        slots = [slot for at in order for slot in found.groups[at][1]]
        victims = {each.owner: each for slot in slots for each in slot.victims}
        return Evictions(
            tuple(slot.node for slot in slots),
            tuple(victims[owner] for owner in sorted(victims)),
            self._cost(found.units),
        )

    def _sizes(self) -> list[int]:
        """Return the pod count of each group that is placed separately, a smaller group last."""
        request, shape = self._asked.request, self._view.shape
        if request.mode is PlacementMode.PREFERRED:
            return [1] * request.pods
        if self._asked.mixed:
            return [request.pods]
        return [shape.k] * shape.m + [shape.r] * bool(shape.r)

    def _next(self, found: _Found, size: int, ready: list[tuple[Cost, int]]) -> int | None:
        """Choose the cheapest domain for the next group; None where none suffices.

        The heap has a lower bound of each domain's cost, unless a job in the domain was broken
        after the push. So a cost is recomputed before it is used, and each domain of a broken job
        is pushed again.
        """
        while ready:
            believed, domain = heappop(ready)
            slots = self._slots(domain, size, found)
            if slots is None:
                continue
            units = {each.unit for slot in slots for each in slot.victims} - found.units
            cost = self._cost(units)
            # Dearer than believed: another domain may be cheaper by now.
            if ready and (cost, domain) > ready[0] and cost > believed:
                heappush(ready, (cost, domain))
                continue
            found.add(domain, slots)
            for again in {domain}.union(*(self._homes[unit] for unit in units)):
                heappush(ready, (NOTHING, again))
            return domain
        return None

    def _slots(self, domain: int, pods: int, found: _Found) -> list[_Slot] | None:
        """Return the cheapest slots for so many pods in a domain; None if there are too few."""
        units, gone = set(found.units), set(found.gone)
        left: dict[NodeName, int] = {}
        for node, gpus in self._in(domain):
            cleared = sum(pod.gpus for pod in self._on.get(node, ()) if pod.owner in gone)
            used = found.used[node] * self._gpus
            left[node] = gpus - self._capacity.used(node) + cleared - used
        slots: list[_Slot] = []
        while len(slots) < pods:
            options = [
                (self._cost({pod.unit for pod in victims} - units), at, node, victims)
                for at, node in enumerate(left)
                if (victims := self._victims(node, left[node], gone, units)) is not None
            ]
            if not options:
                return None
            _, _, node, victims = min(options, key=lambda each: each[:2])
            slots.append(_Slot(node, victims))
            left[node] += sum(pod.gpus for pod in victims) - self._gpus
            gone |= {pod.owner for pod in victims}
            units |= {pod.unit for pod in victims}
        # In the order of the tree, so that neighbouring ranks are on neighbouring nodes.
        by_node = {node: at for at, node in enumerate(left)}
        return sorted(slots, key=lambda slot: by_node[slot.node])

    def _victims(
        self, node: NodeName, free: int, gone: set[str], units: set[str]
    ) -> tuple[Evictable, ...] | None:
        """Return the pods to evict from a node for one more pod; None if no choice suffices.

        Pods of jobs that are already broken come first, then the cheapest.
        """
        found: list[Evictable] = []
        there = [pod for pod in self._on.get(node, ()) if pod.owner not in gone]
        there.sort(
            key=lambda pod: (pod.unit not in units, self._units[pod.unit], -pod.gpus, pod.owner)
        )
        for pod in there:
            if free >= self._gpus:
                break  # no more victims than needed
            found.append(pod)
            free += pod.gpus
        return tuple(found) if free >= self._gpus else None

    def _in(self, domain: int) -> list[tuple[NodeName, int]]:
        """Return the open nodes of a domain that the job may use, with their GPUs."""
        if domain not in self._nodes:
            firsts = self._view.layout.firsts[self._tier]
            mask = self._view.slots.mask
            kept = {*self._asked.without, *self._asked.spoken_for}
            self._nodes[domain] = [
                (host.name, host.gpus)
                for at in range(firsts[domain], firsts[domain + 1])
                for host_id, host, _ in self._capacity.members(at)
                if host.is_open and mask[host_id] == ELIGIBLE and host.name not in kept
            ]
        return self._nodes[domain]

    def _cost(self, units: Iterable[str]) -> Cost:
        costs = [self._units[unit] for unit in units]
        return Cost(
            max((each.priority for each in costs), default=NOTHING.priority),
            sum(each.pods for each in costs),
            sum(each.gpus for each in costs),
        )
