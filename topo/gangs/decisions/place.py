"""The answer to `Place`: the best places for new groups, the nearest nodes for single pods.

Result: a node for each wanted pod. The engine places groups that have no remaining pod, with the
best objective. A pod whose group has remaining pods goes to the nearest node with free GPUs: first
a node of those pods, then a node in the smallest tree group shared with theirs. If groups are
required whole, the pod never leaves the domain of its group.

Cost: a search of the engine; for groups with remaining pods, O(nodes of their domain).

Pods of one gang may ask for different numbers of GPUs. Each is placed as if it were the largest, so
that any of them may have any place; what it does not ask for is `slack`, and is not held. A bound
of what is found, not of what is kept: others may have those GPUs.

Example: a gang of groups of two nodes; dragonflies d1 (n1, n2), d2 (n3, n4). Rank 0 stays on n1,
rank 1 lost n2. It is refused where groups are required: d1 has no other node. Preferred, it gets
n3.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from topo.gangs.decisions.by_links import Worth, less_worth
from topo.gangs.decisions.eviction import Evictable, cheapest_evictions
from topo.gangs.decisions.own_domains import place_in_own_domains
from topo.gangs.decisions.part_domains import nodes_kept_apart
from topo.gangs.decisions.placed import Placed, Seat, kept_host, slack_of, sum_gpus, with_pods
from topo.gangs.decisions.reservation import reservation
from topo.gangs.decisions.resource_shortage import shortage_in_words
from topo.gangs.decisions.small_gangs import Budget
from topo.gangs.decisions.unlike_pods import of_all, place_unlike
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import PodUid
from topo.gangs.machine.instructions import Place
from topo.model.ids import NodeName
from topo.model.words import counted
from topo.placement.advice.refusal_reasons import other_pools, untyped_nodes
from topo.placement.advice.suggestions import (
    could_fit_once_known,
    emptied,
    largest_possible_pods,
)
from topo.placement.booking.holds import shortage
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.node_room import Tight
from topo.placement.capacity.other_fabrics import group_of
from topo.placement.engine import place
from topo.placement.job.plan import FitTest, NoFit, PlannedGroup
from topo.placement.job.request import PlacementMode, Request
from topo.placement.view import view_of

_TIGHT = "gangs: short of other resources"
_KEPT, _BEYOND, _JOINING = "gangs: kept for another", "gangs: out of reach", "gangs: joining"
_HELD, _LESS_WORTH = "gangs: held for others of the gang", "gangs: of less worth"
_BESIDE = "gangs: out of reach of groups placed first"
_APART = "gangs: in domains of other jobs"
"""Owners of what a view counts as booked while a question is answered; no pod or hold has them."""


class Room(Protocol):
    """What nodes have left beside GPUs for the pods of a question."""

    def limited(self, capacity: CapacityView) -> CapacityView:
        """Return the capacity for pods that take more of a node than GPUs."""
        ...

    def beside(self, pods: Iterable[tuple[PodUid, NodeName]]) -> "Room":
        """Return the room with such pods on nodes, each counted there and nowhere else."""
        ...

    def tight(self) -> Mapping[NodeName, Tight]:
        """Return the nodes that take fewer of the pods than their GPUs could."""
        ...


def answer_place(
    capacity: CapacityView,
    asked: Place,
    own: Sequence[str],
    evictable: Callable[[], Sequence[Evictable]] = tuple,
    *,
    room: Room | None = None,
    worth: Worth | None = None,
) -> Placed | Refused:
    """Return the current places, or why there are none.

    `own` are the booking owners of the wanted pods and the replaced holds. `evictable` are the pods
    of priority below `asked.over` that the gang's scheduler may evict. `room` is what nodes have
    beside GPUs, None where the pods take nothing else; that of evictions is counted in GPUs.
    `worth` is what nodes are worth to a pod that has no group.
    """
    without_own, staying = _hold_places(capacity.with_changes(released=own), asked)
    if room is not None:
        room = room.beside((pod.uid, node) for pod, node in staying)
    if apart := nodes_kept_apart(without_own, asked.occupied):
        without_own = _with_taken(without_own, _APART, apart)
    asked = replace(asked, request=replace(asked.request, kins=()))
    found, budget = None, Budget()
    if room is not None and worth is None:
        limited = _with_taken(room.limited(without_own), _KEPT, asked.without)
        found = _place_pods(limited, asked, budget=budget)
        if isinstance(found, Placed):
            return _with_held(found, asked, staying)
    # A refusal and a choice by worth look at single nodes: there a missing resource counts as GPUs
    # that another job has.
    tight = room.tight() if room is not None else {}
    roomy = without_own.with_changes(taken={_TIGHT: _beyond_room(without_own, asked, tight)})
    allowed = _with_taken(roomy, _KEPT, asked.without)
    # Of pods that differ it says the same, at the cost of another search for each.
    if found is None or not (asked.request.by_rank or asked.request.own_domains):
        found = _place_by_worth(allowed, asked, worth, budget=budget)
    if isinstance(found, Placed):
        return _with_held(found, asked, staying)
    if asked.over is not None and not asked.request.own_domains:
        over = _place_by_evicting(roomy, _as_alike(asked), evictable())
        if over is not None:
            return over
    # For a job that has no room in any case all that is free is counted, also what is kept.
    alone = _place_pods(roomy, asked, budget=budget) if asked.without else found
    refused = _refuse(without_own, asked, tight, (found, alone), budget=budget)
    if not apart:
        return refused
    kept = f"{counted(len(apart), 'node')} in domains that other jobs have for themselves"
    return replace(refused, text=f"{refused.text}; {kept}")


def _place_by_worth(
    capacity: CapacityView, asked: Place, worth: Worth | None, *, budget: Budget
) -> Placed | NoFit:
    """Place on the nodes of most worth, on others only where these have no room."""
    if worth is not None and (aside := less_worth(capacity, asked.request, worth)):
        found = _place_pods(_with_taken(capacity, _LESS_WORTH, aside), asked, budget=budget)
        if isinstance(found, Placed):
            return found
    return _place_pods(capacity, asked, budget=budget)


def _hold_places(capacity: CapacityView, asked: Place) -> tuple[CapacityView, list[Seat]]:
    """Return the capacity beside the pods that keep their places, and these pods."""
    held = sum_gpus(asked.held, asked.request.gpus_per_pod)
    # A node that was lost is not held: the check before the gates are opened finds it.
    held = {node: gpus for node, gpus in held.items() if not shortage(capacity, node, gpus)}
    staying = [(pod, node) for pod, node in asked.held if node in held]
    return capacity.with_changes(taken={_HELD: held}), staying


def _refuse(
    capacity: CapacityView,
    asked: Place,
    tight: Mapping[NodeName, Tight],
    answers: tuple[NoFit, Placed | NoFit],
    *,
    budget: Budget,
) -> Refused:
    """Return why there is no place; `answers`: the one to the job, and the one without others.

    `capacity` is that without what the job has itself. Nothing is for ever that a search cut short.
    """
    found, alone = answers
    is_behind = isinstance(alone, Placed)
    refused = found if isinstance(alone, Placed) else alone
    first = () if is_behind else _reservation(capacity, asked, tight, budget=budget)
    text = refused.text
    if pools := other_pools(capacity, asked.request.eligible):
        text = f"{text}; {pools}"
    is_short = tight and not is_behind
    if is_short and isinstance(_place_pods(capacity, asked, budget=budget), Placed):
        text = f"{text}; {shortage_in_words(capacity, asked, tight)}"
    if untyped := untyped_nodes(capacity.hosts(), asked.request.eligible):
        text = f"{text}; {untyped}"
    if asked.fewest_gpus:
        most = asked.request.gpus_per_pod
        text = f"{text}; its pods take {asked.fewest_gpus} to {most} GPUs, each counts as {most}"
    could_fit = is_behind or first or _could_ever_fit(capacity, asked, tight, budget=budget)
    return Refused(
        id=asked.id,
        ask=asked.ask,
        text=text,
        shortfall=dict(refused.shortfall),
        reservation=first if asked.reserve else (),
        behind=is_behind,
        never=not (could_fit or budget.is_spent),
        ungrouped=not capacity.kinds() and _asks_for_groups(refused),
    )


def _reservation(
    capacity: CapacityView, asked: Place, tight: Mapping[NodeName, Tight], *, budget: Budget
) -> tuple[NodeName, ...]:
    """Return the nodes to reserve; empty for a job that would not fit on an empty cluster.

    A job with own domains, or with pods that may use different nodes, gets those that it would have
    there: counted as alike, pods that fit nowhere would keep nodes from all others for ever.
    """
    request = _on_nodes_with_room(asked, tight)
    if not (request.own_domains or request.by_rank):
        return reservation(capacity, request)
    idle = capacity.with_changes(released=tuple(capacity.bookings()))
    alone = replace(asked, request=request, occupied=())
    found = _place_pods(idle, alone, budget=budget)
    return tuple(dict.fromkeys(found.nodes)) if isinstance(found, Placed) else ()


def _could_ever_fit(
    capacity: CapacityView, asked: Place, tight: Mapping[NodeName, Tight], *, budget: Budget
) -> bool:
    """Return whether a job for which no open nodes can be reserved fits once closed ones are open,
    or may fit once it is known what some nodes have.

    By counting, as for any other job; a job with own domains or unlike pods is placed.
    """
    request = _on_nodes_with_room(asked, tight)
    if not (request.own_domains or request.by_rank):
        return largest_possible_pods(capacity, request) is None
    if could_fit_once_known(capacity, request):
        return True
    if all(host.is_open for host in capacity.hosts()):
        return False
    alone = replace(asked, request=request, occupied=())
    return isinstance(_place_pods(emptied(capacity), alone, budget=budget), Placed)


def _as_alike(asked: Place) -> Place:
    """Return the question as if each pod needed what all of them need."""
    request = asked.request
    if not request.by_rank:
        return asked
    return replace(asked, request=replace(request, eligible=of_all(request), by_rank=()))


def _beyond_room(
    capacity: CapacityView, asked: Place, tight: Mapping[NodeName, Tight]
) -> dict[NodeName, int]:
    """Return the free GPUs of tight nodes beyond those of the pods that fit; O(tight nodes)."""
    gpus = asked.request.gpus_per_pod
    beyond = {name: capacity.free(name) - each.pods * gpus for name, each in tight.items()}
    return {name: number for name, number in beyond.items() if number > 0}


def _on_nodes_with_room(asked: Place, tight: Mapping[NodeName, Tight]) -> Request:
    """Return the request without the nodes that take none of the pods, however idle they are."""
    never = {name for name, each in tight.items() if not each.most}
    eligible = asked.request.eligible
    if not never:
        return asked.request
    return replace(asked.request, eligible=replace(eligible, exclude=eligible.exclude | never))


def _with_held(found: Placed, asked: Place, staying: Sequence[Seat]) -> Placed:
    """Return the placement with the pods that stay and book nothing themselves, and its slack."""
    seats = (*zip(asked.wanted, found.nodes, strict=True), *staying)
    found = replace(found, slack=slack_of(seats, asked.request.gpus_per_pod))
    size, stay = asked.request.pods_per_group, dict[int, list[NodeName]]()
    for pod, node in staying:
        stay.setdefault(pod.rank // size, []).append(node)
    groups = tuple(
        PlannedGroup(group, tail=False, pods=_pods_per_node(nodes), domains=())
        for group, nodes in sorted(stay.items())
    )
    if not groups:
        return found
    request = replace(found.request, pods=found.request.pods + len(staying))
    return replace(found, request=request, groups=(*found.groups, *groups))


def _with_taken(capacity: CapacityView, owner: str, nodes: Sequence[NodeName]) -> CapacityView:
    """Return the capacity as if one owner had booked everything that is free on some nodes."""
    return capacity.with_changes(taken={owner: capacity.free_on(nodes)})


def _place_by_evicting(
    capacity: CapacityView, asked: Place, evictable: Sequence[Evictable]
) -> Placed | None:
    found = cheapest_evictions(capacity, asked, evictable)
    if found is None:
        return None
    request = asked.request
    return Placed(
        found.nodes, request, (), request.mode, "", certified=False, evicted=found.victims
    )


def _place_pods(capacity: CapacityView, asked: Place, *, budget: Budget) -> Placed | NoFit:
    if asked.request.own_domains:
        return place_in_own_domains(capacity, asked, _place_pods, budget=budget)
    if asked.request.by_rank:
        return place_unlike(capacity, asked, _place_beside, budget=budget)
    # A whole job gets the engine's objective; parts of one go near their own groups.
    if not asked.kept and len(asked.wanted) == asked.request.pods:
        return _place_by_engine(capacity, asked.request)
    return _place_beside(capacity, asked)


def _place_beside(capacity: CapacityView, asked: Place) -> Placed | NoFit:
    """Place pods near their own groups, on hybrid nodes only where the others have no room."""
    reachable = _with_taken(capacity, _BEYOND, _nodes_out_of_reach(capacity, asked))
    request = asked.request
    *before, last = (replace(asked, request=each) for each in request.by_pool())
    tried = (_place_with_kept(reachable, each) for each in before)
    found = next((each for each in tried if isinstance(each, Placed)), None)
    if found is None:
        return _place_with_kept(reachable, last)
    pools = replace(found.request.eligible, spares_hybrid=request.eligible.spares_hybrid)
    held = replace(found.request, mode=request.mode, eligible=pools)
    return replace(found, request=held, mode=request.mode)


def _asks_for_groups(refused: NoFit) -> bool:
    """Return whether the job is refused because no such groups exist, rather than no free ones."""
    return refused.failed is FitTest.SPAN or "largest_gpus" in refused.shortfall


def _place_by_engine(capacity: CapacityView, request: Request) -> Placed | NoFit:
    plan = place(capacity, request)
    if isinstance(plan, NoFit):
        return plan
    nodes: list[NodeName] = []
    for group in plan.groups:
        for node, pods in group.pods:
            nodes += [node] * pods
    certified = all(plan.certified.values())
    return Placed(tuple(nodes), request, plan.groups, plan.mode, plan.gpu_type, certified=certified)


def _on_type_of_kept(capacity: CapacityView, asked: Place) -> Request:
    """Return the request on one GPU type for the whole job: that of the pods that stay."""
    host = kept_host(capacity, asked)
    return asked.request if host is None else asked.request.on_type(host.gpu_type)


def _place_with_kept(capacity: CapacityView, asked: Place) -> Placed | NoFit:
    """Place pods whose groups have remaining pods; all of one GPU type."""
    size = asked.request.pods_per_group
    request = _on_type_of_kept(capacity, asked)
    joining = Counter(pod.rank // size for pod in asked.wanted)
    stay: dict[int, list[NodeName]] = {}
    for rank, node in asked.kept:
        if (group := rank // size) in joining:
            stay.setdefault(group, []).append(node)
    found: dict[int, list[NodeName]] = {}
    for group, pods in joining.items():
        if group not in stay:
            continue
        nodes = _nearest_nodes(capacity, request, stay[group], pods)
        if isinstance(nodes, NoFit):
            return nodes
        # What one group gets is not free for the next one.
        capacity = with_pods(capacity, f"{_JOINING} {group}", Counter(nodes), request.gpus_per_pod)
        found[group] = nodes
    new = {group: joining[group] for group in sorted(joining.keys() - found)}
    complete = {group: request.pods_of_group(group) for group in new}
    fresh = _place_new_groups(capacity, request, new, complete)
    if isinstance(fresh, NoFit) and asked.sizes:
        fresh = _place_small_groups(capacity, replace(asked, request=request), new)
    return (
        fresh
        if isinstance(fresh, NoFit)
        else _order_by_pod(capacity, asked, request, found | fresh)
    )


def _place_new_groups(
    capacity: CapacityView,
    request: Request,
    new: Mapping[int, int],
    complete: Mapping[int, int],
) -> dict[int, list[NodeName]] | NoFit:
    """Place pods of groups without remaining pods by the engine, as if the groups were complete.

    So a group of which pods have ended gets a whole domain and uses as much of it as it needs.
    """
    if not new:
        return {}
    plan = _place_by_engine(capacity, replace(request, pods=sum(complete[each] for each in new)))
    if isinstance(plan, NoFit):
        return plan
    left = iter(plan.nodes)
    nodes = {group: [next(left) for _ in range(complete[group])] for group in new}
    return {group: nodes[group][:pods] for group, pods in new.items()}


def _place_small_groups(
    capacity: CapacityView, asked: Place, new: Mapping[int, int]
) -> dict[int, list[NodeName]] | NoFit:
    """Place the whole ones of groups without remaining pods, and then each of `sizes` by itself.

    The others follow the first ones: they are on the same GPU type, and in the same group of the
    kind that all must share. The engine searches once for each of `sizes`.
    """
    sizes, found = dict(asked.sizes), dict[int, list[NodeName]]()
    whole = {group: pods for group, pods in new.items() if group not in sizes}
    for batch in (whole, *({group: new[group]} for group in new if group in sizes)):
        request = _on_type_of_kept(capacity, asked)
        complete = {each: sizes.get(each, request.pods_of_group(each)) for each in batch}
        reachable = _with_taken(capacity, _BESIDE, _nodes_out_of_reach(capacity, asked))
        fresh = _place_new_groups(reachable, request, batch, complete)
        if isinstance(fresh, NoFit):
            return fresh
        for group, nodes in fresh.items():
            owner, size = f"{_JOINING} {group}", request.pods_per_group
            capacity = with_pods(capacity, owner, Counter(nodes), request.gpus_per_pod)
            seats = tuple((group * size, node) for node in nodes)
            asked = replace(asked, kept=(*asked.kept, *seats))
        found |= fresh
    return found


def _order_by_pod(
    capacity: CapacityView, asked: Place, request: Request, found: Mapping[int, list[NodeName]]
) -> Placed:
    """Return the placement with its nodes in the order of the wanted pods."""
    size = request.pods_per_group
    left = {group: iter(nodes) for group, nodes in found.items()}
    nodes = tuple(next(left[pod.rank // size]) for pod in asked.wanted)
    groups = tuple(
        PlannedGroup(group, tail=False, pods=_pods_per_node(each), domains=())
        for group, each in sorted(found.items())
    )
    held = replace(request, pods=len(nodes))
    host = capacity.host(nodes[0])
    gpu_type = host.gpu_type if host is not None else ""
    return Placed(nodes, held, groups, request.mode, gpu_type, certified=False)


def _pods_per_node(nodes: Sequence[NodeName]) -> tuple[tuple[NodeName, int], ...]:
    return tuple(Counter(nodes).items())


def _nearest_nodes(
    capacity: CapacityView, request: Request, stay: Sequence[NodeName], pods: int
) -> list[NodeName] | NoFit:
    """Return the nodes for so many pods that are nearest to the remaining pods."""
    view = view_of(capacity, request, request.eligible.gpu_type or "")
    layout = view.layout
    homes = [capacity.domain_of(node) for node in stay if capacity.host(node) is not None]
    required = request.mode is PlacementMode.REQUIRED
    widest = view.shape.whole_in if required else layout.tiers
    found: list[NodeName] = []
    seen: set[int] = set()
    # Tier by tier around the pods that stay, so that nearer nodes are always found first.
    for tier in range(1, widest + 1):
        for domain in dict.fromkeys(layout.of[tier][home] for home in homes):
            for at in range(layout.firsts[tier][domain], layout.firsts[tier][domain + 1]):
                if at in seen:
                    continue
                seen.add(at)
                node_slots, _ = capacity.slots_per_node((at,), view.usable)
                # Nodes with pods of the group come first; the sort is stable for the others.
                node_slots.sort(key=lambda each: each[0] not in stay)
                found += [node for node, slots in node_slots for _ in range(slots)]
                if len(found) >= pods:
                    return found[:pods]
    if not required:
        rest = [at for at in range(len(layout.domains)) if at not in seen]
        node_slots, _ = capacity.slots_per_node(rest, view.usable)
        found += [node for node, slots in node_slots for _ in range(slots)]
        if len(found) >= pods:
            return found[:pods]
    where = "in the domain of the group" if required else "on nodes that they may use"
    asking = f"{counted(pods, 'pod')} of {request.gpus_per_pod} GPUs"
    text = f"{asking}: room for {len(found)} {where}"
    numbers = {"needed": pods, "available": len(found), "missing": pods - len(found)}
    return NoFit(request, FitTest.SLOTS, numbers, text)


def _nodes_out_of_reach(capacity: CapacityView, asked: Place) -> list[NodeName]:
    """Return the nodes outside the group of a kind that all of the gang must share; O(nodes)."""
    kind = asked.request.within
    if kind is None or not asked.kept:
        return []
    kinds = capacity.kinds()
    kept = (host for _, node in asked.kept if (host := capacity.host(node)) is not None)
    homes = {group_of(host, kind, kinds) for host in kept} - {None}
    return [host.name for host in capacity.hosts() if group_of(host, kind, kinds) not in homes]
