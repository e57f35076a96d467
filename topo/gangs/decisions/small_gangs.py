"""The best places of a small gang whose pods may use different nodes, by an exact search.

Result: what steps in order have found (`unlike_pods`), or better places, or places where they found
none. It is certified where the search came to its end: then no plan splits fewer groups or is in
fewer groups of a tier, the top one first; and a refusal is proven. Of equal plans nodes without a
penalty come first.

How: all pods of one kind are those of one eligibility. The nodes with free GPUs for them, of one
GPU type and in one group of the required kind, are the seats of `seat_search`. A plan that no other
one can be better than needs no search.

Small is a gang of `MOST_PODS` pods beside `MOST_STAYING` that stay, and `MOST_NODES` nodes with
room, summed over the kinds of its pods. All searches of a question share one `Budget`: those for a
place, for a refusal and for a reservation. Where it does not suffice what steps have found stands,
not certified, and no refusal is for ever. Where a policy has other wishes, as reserves or pools, a
plan of steps stands, for the search does not know them.

Cost: a microsecond for each step of the budget; a node that is looked at counts as `_NODE_STEPS`.

Example: dragonflies a, b and c of two nodes; each of two pods is a group. Rank 0 may use a and b,
rank 1 may use b and c. Steps put rank 0 in a and rank 1 in b. The search finds both in b.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Protocol

from topo.gangs.decisions.placed import Placed, kept_host
from topo.gangs.decisions.seat_search import (
    Cost,
    Homes,
    SeatNode,
    SeatQuestion,
    Seeker,
    cost_of,
    find_seats,
)
from topo.gangs.machine.instructions import Place
from topo.model.ids import NodeName
from topo.placement.capacity.capacity_view import CapacityView, NodeSlots
from topo.placement.capacity.host import Host
from topo.placement.capacity.layout import Layout
from topo.placement.capacity.other_fabrics import group_of
from topo.placement.capacity.slots import Slots
from topo.placement.job.plan import NoFit, PlannedGroup
from topo.placement.job.request import Eligibility, PlacementMode, Request
from topo.placement.view import view_of

MOST_PODS, MOST_STAYING, MOST_NODES, MOST_STEPS = 32, 256, 2_048, 20_000
_NODE_STEPS, _SEARCH_STEPS = 2, 50
"""What reading a node costs, and what a search does before its first step."""
_FEW = 4
"""The part of all nodes below which the domains of some are read, not all domains."""


@dataclass(slots=True)
class Budget:
    """The steps that all searches of one question have left; `is_spent`: one was cut short."""

    left: int = MOST_STEPS
    is_spent: bool = False

    def take(self, steps: int) -> bool:
        """Take so many steps if there are as many left; return whether there were."""
        if steps > self.left:
            self.is_spent = True
            return False
        self.left -= steps
        return True

    def spend(self, steps: int) -> None:
        """Count steps that were taken; a search that takes all that are left is cut short."""
        self.is_spent |= steps >= self.left
        self.left = max(0, self.left - steps)


class Usable(Protocol):
    """The nodes that pods may use."""

    def eligible(self, rank: int) -> Eligibility:
        """Return what a pod requires of its node."""
        ...

    def hosts(self, eligible: Eligibility) -> Sequence[Host]:
        """Return the hosts that pods of this eligibility may use."""
        ...

    def names(self, eligible: Eligibility) -> frozenset[NodeName]:
        """Return the names of these hosts."""
        ...


@dataclass(frozen=True, slots=True)
class BestPlaces:
    """The best places that are known; `is_proven`: there are no better ones."""

    found: Placed | NoFit
    is_proven: bool = False

    @property
    def is_final(self) -> bool:
        """Whether nothing else need be tried."""
        return self.is_proven or isinstance(self.found, Placed)


def best_places(
    capacity: CapacityView, asked: Place, usable: Usable, found: Placed | NoFit, *, budget: Budget
) -> BestPlaces:
    """Return the best places of a small gang; `found` where nothing better is known."""
    if not asked.wanted or len(asked.wanted) > MOST_PODS or len(asked.kept) > MOST_STAYING:
        return BestPlaces(found)
    if isinstance(found, Placed) and _has_other_wishes(capacity, asked.request):
        return BestPlaces(found)
    best = _Best(capacity, asked, usable, found)
    if isinstance(found, Placed) and best.is_least():
        return BestPlaces(replace(found, certified=True), is_proven=True)
    kinds = list(dict.fromkeys(usable.eligible(pod.rank) for pod in asked.wanted))
    nodes = sum(len(usable.hosts(kind)) for kind in kinds)
    if nodes > MOST_NODES or not budget.take(_NODE_STEPS * nodes):
        return BestPlaces(found)
    for gpu_type in _types(capacity, asked):
        seats = seats_for(capacity, usable, kinds, (gpu_type, asked.request.gpus_per_pod))
        for inside in _inside(capacity, asked, seats):
            best.search(inside, kinds, gpu_type, budget)
    return best.answer()


def _has_other_wishes(capacity: CapacityView, request: Request) -> bool:
    return bool(capacity.policy.reserves) or len(request.by_pool()) > 1


def _types(capacity: CapacityView, asked: Place) -> Sequence[str]:
    kept = kept_host(capacity, asked)
    return (kept.gpu_type,) if kept is not None else capacity.types_for(asked.request.eligible)


def _inside(
    capacity: CapacityView, asked: Place, nodes: Sequence[SeatNode]
) -> Iterable[Sequence[SeatNode]]:
    """Return the nodes of each group in which all pods may be; all where they need not share one.

    Beside pods that stay they may be in any group of these. O(nodes).
    """
    kind, kinds = asked.request.within, capacity.kinds()
    if kind is None:
        return [nodes]

    def home(node: NodeName) -> object:
        host = capacity.host(node)
        return group_of(host, kind, kinds) if host is not None else None

    of_home: dict[object, list[SeatNode]] = {}
    for node in nodes:
        of_home.setdefault(home(node.name), []).append(node)
    of_home.pop(None, None)
    stay = {home(node) for _, node in asked.kept if capacity.host(node) is not None}
    if stay:
        return [[node for each in of_home if each in stay for node in of_home[each]]]
    return of_home.values()


def seats_for(
    capacity: CapacityView, usable: Usable, kinds: Iterable[Eligibility], asked: tuple[str, int]
) -> list[SeatNode]:
    """Return the nodes with free seats for pods of these kinds, those with a penalty last.

    `asked` are the GPU type and the GPUs of a pod. O(nodes of the tier-1 domains of the hosts that
    each kind may use).
    """
    found: dict[NodeName, int] = {}
    kinds_of: dict[NodeName, int] = {}
    reader, has_penalties = _FreeSeats(capacity, usable), False
    for bit, kind in enumerate(kinds):
        wide = replace(kind, selector=(), exclude=frozenset())
        slots = capacity.slots(wide, *asked)
        has_penalties |= bool(slots.penalized)
        for name, number in reader.of_kind(kind, slots):
            found[name] = number
            kinds_of[name] = kinds_of.get(name, 0) | 1 << bit
    homes, at = cache(partial(_homes, capacity.layout())), capacity.domain_of
    seats = [SeatNode(name, each, kinds_of[name], homes(at(name))) for name, each in found.items()]
    if has_penalties:
        seats = [each._replace(penalty=_penalty(capacity, (each.name,))) for each in seats]
        seats.sort(key=lambda each: each.penalty)
    return seats


class _FreeSeats:
    """The free seats of nodes; all nodes of a pool are read once, not for each kind."""

    def __init__(self, capacity: CapacityView, usable: Usable) -> None:
        self._capacity, self._usable = capacity, usable
        self._of_pool: dict[Eligibility, NodeSlots] = {}

    def of_kind(self, kind: Eligibility, pool: Slots) -> Iterable[tuple[NodeName, int]]:
        """Return the free seats of the nodes of one kind; `pool`: the slots of all of its pool."""
        capacity = self._capacity
        if not (kind.selector or kind.exclude):
            return self._all(pool)
        hosts, names = self._usable.hosts(kind), self._usable.names(kind)
        if _FEW * len(hosts) < len(capacity.hosts()):
            domains = sorted({capacity.domain_of(host.name) for host in hosts})
            slots = capacity.slots_per_node(domains, pool)[0]
        else:
            slots = self._all(pool)
        return ((name, free) for name, free in slots if name in names)

    def _all(self, pool: Slots) -> NodeSlots:
        if pool.eligibility not in self._of_pool:
            every = range(len(self._capacity.layout().domains))
            self._of_pool[pool.eligibility] = self._capacity.slots_per_node(every, pool)[0]
        return self._of_pool[pool.eligibility]


def _penalty(capacity: CapacityView, nodes: Iterable[NodeName]) -> int:
    """Return the sum of the penalties of pods on these nodes."""
    return sum(host.penalty for host in map(capacity.host, nodes) if host is not None)


def homes_of(capacity: CapacityView, node: NodeName) -> Homes:
    """Return the domain of each tier that a known node is in, the top one first; O(tiers)."""
    return _homes(capacity.layout(), capacity.domain_of(node))


def _homes(layout: Layout, domain: int) -> Homes:
    return tuple(layout.of[tier][domain] for tier in range(layout.tiers, 0, -1))


def whole_at(capacity: CapacityView, request: Request, gpu_type: str) -> int:
    """Return the position in `homes_of` of the domains in which groups have to be whole."""
    view = view_of(capacity, replace(request, by_rank=()), gpu_type)
    return view.layout.tiers - view.shape.whole_in


class _Best:
    """The best places so far, over GPU types and groups."""

    def __init__(
        self, capacity: CapacityView, asked: Place, usable: Usable, found: Placed | NoFit
    ) -> None:
        self._capacity, self._asked, self._usable = capacity, asked, usable
        self._found = found
        self._is_searched, self._is_complete = False, True
        self._cost: Cost | None = None
        if isinstance(found, Placed):
            size = asked.request.pods_per_group
            new = [
                (pod.rank // size, homes_of(capacity, node))
                for pod, node in zip(asked.wanted, found.nodes, strict=True)
            ]
            penalty = _penalty(capacity, found.nodes)
            whole = self._whole_at(found.gpu_type)
            self._cost = cost_of([*self._stay, *new], whole, penalty)

    def is_least(self) -> bool:
        """Whether no plan can be better: none splits less or is in fewer groups than what stays."""
        if self._cost is None:
            return False
        split, *tiers, penalty = self._cost
        of_tiers = zip(*(homes for _, homes in self._stay), strict=True)
        there = [len({*domains}) for domains in of_tiers] or [1] * len(tiers)
        return not (split or penalty) and tiers == (there or [1] * len(tiers))

    def search(
        self,
        nodes: Sequence[SeatNode],
        kinds: Sequence[Eligibility],
        gpu_type: str,
        budget: Budget,
    ) -> None:
        """Look for better places on these nodes."""
        self._is_searched = True
        if sum(node.seats for node in nodes) < len(self._asked.wanted):
            return  # too few seats are a proof
        if not budget.take(_SEARCH_STEPS + _NODE_STEPS * len(nodes)):
            self._is_complete = False
            return
        asked, number = self._asked, {kind: at for at, kind in enumerate(kinds)}
        size = asked.request.pods_per_group
        seekers = [
            Seeker(pod.rank // size, number[self._usable.eligible(pod.rank)])
            for pod in asked.wanted
        ]
        question = SeatQuestion(
            seekers=seekers,
            nodes=nodes,
            whole_at=self._whole_at(gpu_type),
            is_required=asked.request.mode is PlacementMode.REQUIRED,
            stay=self._stay,
        )
        seats = find_seats(question, self._cost, budget.left)
        budget.spend(seats.steps)
        self._is_complete &= seats.complete
        if seats.nodes is not None:
            self._cost = seats.cost
            self._found = _planned(asked, seats.nodes, gpu_type)

    def answer(self) -> BestPlaces:
        """Return the best places, certified where there were searches and all were complete."""
        found, is_proven = self._found, self._is_searched and self._is_complete
        if isinstance(found, Placed):
            found = replace(found, certified=is_proven)
        return BestPlaces(found, is_proven)

    def _whole_at(self, gpu_type: str) -> int:
        return whole_at(self._capacity, self._asked.request, gpu_type)

    @cached_property
    def _stay(self) -> list[tuple[int, Homes]]:
        size = self._asked.request.pods_per_group
        return [
            (rank // size, homes_of(self._capacity, node))
            for rank, node in self._asked.kept
            if self._capacity.host(node) is not None
        ]


def _planned(asked: Place, nodes: Sequence[NodeName], gpu_type: str) -> Placed:
    request, pods = asked.request, dict[int, Counter[NodeName]]()
    for pod, node in zip(asked.wanted, nodes, strict=True):
        pods.setdefault(pod.rank // request.pods_per_group, Counter())[node] += 1
    groups = tuple(
        PlannedGroup(group, tail=False, pods=tuple(each.items()), domains=())
        for group, each in sorted(pods.items())
    )
    held = replace(request, pods=len(nodes), by_rank=())
    return Placed(tuple(nodes), held, groups, request.mode, gpu_type, certified=False)
