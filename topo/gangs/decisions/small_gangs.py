"""The best places of a small gang whose pods may use different nodes, by an exact search.

Result: what steps in order have found (`unlike_pods`), or better places, or places where they found
none. It is certified where the search came to its end: then no plan splits fewer groups or is in
fewer groups of a tier, the top one first; and a refusal is proven.

How: all pods of one kind are those of one eligibility. The nodes with free GPUs for them, of one
GPU type and in one group of the required kind, are the seats of `seat_search`.

Small is a gang of `MOST_PODS` pods and `MOST_NODES` nodes with room, summed over the kinds of its
pods. All searches of a question together look at `MOST_STEPS` domains. Where a policy has other
wishes, as reserves or pools, a plan of steps stands, for the search does not know them.

Cost: O(nodes with room), and a microsecond for each step.

Example: dragonflies a, b and c of two nodes; each of two pods is a group. Rank 0 may use a and b,
rank 1 may use b and c. Steps put rank 0 in a and rank 1 in b. The search finds both in b.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Protocol

from topo.gangs.decisions.placed import Placed
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
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host
from topo.placement.capacity.layout import Layout
from topo.placement.capacity.other_fabrics import group_of
from topo.placement.capacity.slots import Slots
from topo.placement.job.plan import NoFit, PlannedGroup
from topo.placement.job.request import Eligibility, PlacementMode, Request
from topo.placement.view import view_of

MOST_PODS, MOST_NODES, MOST_STEPS = 32, 2_048, 10_000


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
    capacity: CapacityView, asked: Place, usable: Usable, found: Placed | NoFit
) -> BestPlaces:
    """Return the best places of a small gang; `found` where nothing better is known."""
    if len(asked.wanted) > MOST_PODS or not asked.wanted:
        return BestPlaces(found)
    if isinstance(found, Placed) and _has_other_wishes(capacity, asked.request):
        return BestPlaces(found)
    kinds = list(dict.fromkeys(usable.eligible(pod.rank) for pod in asked.wanted))
    if sum(len(usable.hosts(kind)) for kind in kinds) > MOST_NODES:
        return BestPlaces(found)
    best, gpus = _Best(capacity, asked, usable, found), asked.request.gpus_per_pod
    for gpu_type in _types(capacity, asked):
        for nodes in _inside(capacity, asked, seats_for(capacity, usable, kinds, (gpu_type, gpus))):
            best.search(nodes, kinds, gpu_type)
    return best.answer()


def _has_other_wishes(capacity: CapacityView, request: Request) -> bool:
    return bool(capacity.policy.reserves) or len(request.by_pool()) > 1


def _types(capacity: CapacityView, asked: Place) -> Sequence[str]:
    kept = capacity.host(asked.kept[0][1]) if asked.kept else None
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
    found: dict[NodeName, tuple[int, int]] = {}
    has_penalties = False
    for bit, kind in enumerate(kinds):
        wide = replace(kind, selector=(), exclude=frozenset())
        slots = capacity.slots(wide, *asked)
        has_penalties |= bool(slots.penalized)
        for name, free in _free_seats(capacity, usable, kind, slots):
            found[name] = free, found.get(name, (free, 0))[1] | 1 << bit
    names = list(found)
    if has_penalties:
        penalties = {host.name: host.penalty for host in map(capacity.host, names) if host}
        names.sort(key=penalties.__getitem__)
    homes = cache(partial(_homes, capacity.layout()))
    return [SeatNode(name, *found[name], homes(capacity.domain_of(name))) for name in names]


def _free_seats(
    capacity: CapacityView, usable: Usable, kind: Eligibility, wide: Slots
) -> Iterable[tuple[NodeName, int]]:
    """Return the free seats of the nodes of one kind; `wide`: those of all of its pool."""
    if not (kind.selector or kind.exclude):
        return capacity.slots_per_node(range(len(capacity.layout().domains)), wide)[0]
    names = usable.names(kind)
    domains = sorted({capacity.domain_of(name) for name in names})
    slots = capacity.slots_per_node(domains, wide)[0]
    return ((name, free) for name, free in slots if name in names)


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
        self._found, self._left = found, MOST_STEPS
        self._is_searched, self._is_complete = False, True
        self._cost: Cost | None = None
        if isinstance(found, Placed):
            size = asked.request.pods_per_group
            new = [
                (pod.rank // size, homes_of(capacity, node))
                for pod, node in zip(asked.wanted, found.nodes, strict=True)
            ]
            self._cost = cost_of([*self._stay(), *new], self._whole_at(found.gpu_type))

    def search(
        self, nodes: Sequence[SeatNode], kinds: Sequence[Eligibility], gpu_type: str
    ) -> None:
        """Look for better places on these nodes."""
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
            stay=self._stay(),
        )
        seats = find_seats(question, self._cost, self._left)
        self._left -= seats.steps
        self._is_searched = True
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
