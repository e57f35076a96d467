"""Places for pods that may use different nodes, such as those that Kueue sent to other racks.

Result: places in which each pod is on a node that it may use, all on one GPU type and, where the
job has to, inside one group of a kind; groups are whole where they have to be. Or a refusal.

How: a group whose pods differ is placed by itself: domain by domain, among those with nodes for the
pod that has the fewest, its pods are matched with nodes. The other groups are sorted into classes
of equal eligibility. Class by class, those with the fewest nodes first, the groups of a class are
placed as those of a job whose other groups stay. What one step gets counts as taken for the next.
The places of a small gang are then the best there are, or the refusal is proven (`small_gangs`).
Else, if a step fails, all is tried again on each GPU type alone and inside each group of the
required kind that has a node for the pod with the fewest; at most `MOST_TRIES` times, and no new
try begins after `MOST_STEPS` steps.

Why it is right. Groups of a class are placed by the same engine as any job, on their own nodes
alone; a group of different pods is matched inside one domain. So no group is split and no node is
used twice. Where no node is of two steps, as with racks, steps are independent, and a refusal of
one is a refusal of the job. Where steps share nodes, an earlier one may take what a later one
needs: then a job that is not small may be refused that would fit, or be in more domains than it
needs.

Cost: for each class a search of the engine, which copies what nodes have free; for a group of k
different pods k matchings of O(k x k seats) in each domain, on one capacity for all such groups.
The nodes of pods that select them are found in O(these nodes) (`usable_nodes`). 512 pods tied to a
node each, in pairs on 10,000 nodes: 25 ms of processor time.

Example: groups of two; ranks 0 and 1 select rack a, ranks 2 and 3 have local disks on b1 and b2.
    ranks 2 and 3 differ   → rank 2 on b1, rank 3 on b2, one dragonfly
    then rack a            → ranks 0 and 1 on the best dragonfly of a
"""

from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from itertools import islice

from topo.gangs.decisions.matching import matched
from topo.gangs.decisions.placed import Placed, kept_host, with_pods
from topo.gangs.decisions.small_gangs import Budget, best_places
from topo.gangs.decisions.usable_nodes import UsableNodes
from topo.gangs.machine.gang import Member, PodUid
from topo.gangs.machine.instructions import Place
from topo.model.ids import GroupPath, Kind, NodeName
from topo.model.words import counted
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host
from topo.placement.capacity.other_fabrics import group_of
from topo.placement.job.plan import FitTest, NoFit, PlannedGroup
from topo.placement.job.request import Eligibility, OtherGroup, PlacementMode, Request
from topo.placement.view import FreeView, view_of

MOST_TRIES = 64
MOST_STEPS = 256
MOST_MATCHED = 256
"""Pods of one group that are matched one by one; larger ones are refused."""
_FEW = 64
"""Domains that are looked at node by node each time."""
_OUTSIDE, _EARLIER = "gangs: outside of a try", "gangs: earlier step"
_Scope = tuple[Kind, GroupPath | OtherGroup] | None
"""A kind, and the group of it that all pods share; None: they may be anywhere."""
PlaceAlike = Callable[[CapacityView, Place], Placed | NoFit]


@dataclass(frozen=True, slots=True)
class _Step:
    """Pods that are placed together: of groups of one eligibility, or one group (None)."""

    eligible: Eligibility | None
    pods: tuple[Member, ...]


def place_unlike(
    capacity: CapacityView, asked: Place, place_alike: PlaceAlike, *, budget: Budget
) -> Placed | NoFit:
    """Return places for the wanted pods; `place_alike` places those of one class beside others."""
    usable = UsableNodes(capacity, asked.request)
    search = _Search(_steps(asked, usable), usable, place_alike)
    tries = _tries(capacity, asked, usable)
    first = search.place_together(*next(tries))
    best = best_places(capacity, asked, usable, first, budget=budget)
    if best.is_final:
        return best.found
    for view, tried in islice(tries, MOST_TRIES - 1):
        if search.steps_done >= MOST_STEPS:
            break
        if isinstance(found := search.place_together(view, tried), Placed):
            return found
    return first


def _is_together(capacity: CapacityView, asked: Place, found: Placed) -> bool:
    """Return whether the pods are in one group of the kind that they must share; O(pods).

    Pods of one group that differ are matched with the nodes of a domain, which may be in several.
    """
    kind, kinds = asked.request.within, capacity.kinds()
    if kind is None:
        return True

    def homes(nodes: Iterable[NodeName]) -> set[object]:
        known = (host for node in nodes if (host := capacity.host(node)) is not None)
        return {group_of(host, kind, kinds) for host in known}

    kept, new = homes(node for _, node in asked.kept), homes(found.nodes)
    return None not in new and (new <= kept if kept else len(new) == 1)


def _apart(request: Request) -> NoFit:
    pods = counted(request.pods, "pod")
    text = f"no {request.within} was found with nodes for all {pods}, which may use different nodes"
    numbers = {"needed": request.pods, "available": 0, "missing": request.pods}
    return NoFit(request, FitTest.SPAN, numbers, text)


def of_all(request: Request) -> Eligibility:
    """Return the nodes that every pod of the job may use."""
    each = [request.eligible, *(found for _, found in request.by_rank)]
    wished = [set(found.tolerations) for _, found in request.by_rank]
    return replace(
        request.eligible,
        selector=tuple(sorted({pair for found in each for pair in found.selector})),
        tolerations=tuple(sorted(set.intersection(*wished), key=repr)),
        exclude=frozenset[NodeName]().union(*(found.exclude for found in each)),
    )


def _steps(asked: Place, usable: UsableNodes) -> list[_Step]:
    """Return the wanted pods in the order of placement: what has the fewest nodes comes first."""
    size = asked.request.pods_per_group
    of_group: dict[int, list[Member]] = {}
    for pod in asked.wanted:
        of_group.setdefault(pod.rank // size, []).append(pod)
    classes: dict[Eligibility, list[Member]] = {}
    mixed: list[_Step] = []
    for pods in of_group.values():
        kinds = {usable.eligible(pod.rank) for pod in pods}
        if len(kinds) == 1:
            classes.setdefault(kinds.pop(), []).extend(pods)
        else:
            mixed.append(_Step(None, tuple(pods)))
    alike = [_Step(each, tuple(pods)) for each, pods in classes.items()]
    if len(alike) > 1:
        nodes = {each: len(usable.hosts(each)) for each in classes}
        alike.sort(key=lambda step: nodes[step.eligible] if step.eligible is not None else 0)
    return [*mixed, *alike]


def _tries(
    capacity: CapacityView, asked: Place, usable: UsableNodes
) -> Iterator[tuple[CapacityView, Place]]:
    """Yield the capacity and the question without limits, then on each GPU type and scope."""
    yield capacity, asked
    wished = asked.request.eligible.gpu_type
    able = usable.fewest(asked.wanted)
    of_able = {host.gpu_type for host in able}
    types = [each for each in capacity.gpu_types() if wished in {None, each} and each in of_able]
    kinds = capacity.kinds()
    scopes = _scopes(able, asked, kinds)
    if scopes == [None] and len(capacity.gpu_types()) == 1:
        return  # that was the first try
    for gpu_type in types:
        for scope in scopes:
            outside = [
                host.name
                for host in capacity.hosts()
                if scope is not None and group_of(host, scope[0], kinds) != scope[1]
            ]
            view = capacity.with_changes(taken={_OUTSIDE: capacity.free_on(outside)})
            yield view, replace(asked, request=asked.request.on_type(gpu_type))


def _scopes(able: Iterable[Host], asked: Place, kinds: Container[str]) -> Sequence[_Scope]:
    """Return the groups of the kind that all pods share, with one of these hosts.

    It is everywhere, None, where they need not share one.
    """
    kind = asked.request.within
    if kind is None or asked.kept:
        return [None]
    homes = dict.fromkeys(group_of(host, kind, kinds) for host in able)
    return [(kind, home) for home in homes if home is not None]


@dataclass(slots=True)
class _Search:
    """The steps of one question, tried on several capacities."""

    steps: Sequence[_Step]
    usable: UsableNodes
    place_alike: PlaceAlike
    steps_done: int = 0

    def place_together(self, capacity: CapacityView, asked: Place) -> Placed | NoFit:
        """Return places for all pods, in one group of the kind that they must share."""
        found = self._place(capacity, asked)
        if isinstance(found, Placed) and not _is_together(capacity, asked, found):
            return _apart(asked.request)
        return found

    def _place(self, capacity: CapacityView, asked: Place) -> Placed | NoFit:
        """Return places for the pods of all steps; of what one step gets the next has nothing."""
        request, kept = asked.request, asked.kept
        parts: list[Placed] = []
        nodes: dict[PodUid, NodeName] = {}
        mixed = _MixedGroups(capacity, self.usable)
        for step in self.steps:
            self.steps_done += 1
            own = replace(asked, wanted=step.pods, kept=kept)
            if step.eligible is None:
                part = mixed.place(own)
            else:
                part = self._place_class(mixed.beside(step.eligible, request), own, step.eligible)
            if isinstance(part, NoFit):
                return part
            parts.append(part)
            mixed.take(part.nodes)
            got = {pod.uid: node for pod, node in zip(step.pods, part.nodes, strict=True)}
            nodes |= got
            kept = (*kept, *((pod.rank, got[pod.uid]) for pod in step.pods))
        return Placed(
            nodes=tuple(nodes[pod.uid] for pod in asked.wanted),
            request=replace(request, pods=len(nodes), by_rank=()),
            groups=tuple(group for part in parts for group in part.groups),
            mode=parts[0].mode,
            gpu_type=parts[0].gpu_type,
            certified=False,
        )

    def _place_class(
        self, capacity: CapacityView, asked: Place, eligible: Eligibility
    ) -> Placed | NoFit:
        own = replace(eligible, gpu_type=asked.request.eligible.gpu_type)
        alike = replace(asked.request, eligible=own, by_rank=())
        return self.place_alike(capacity, replace(asked, request=alike))


class _MixedGroups:
    """Places for groups whose pods differ, and what earlier steps have of the nodes.

    All of them are matched on one capacity, less the seats that are taken: a capacity for each
    would cost a copy of what all nodes have free.
    """

    def __init__(self, capacity: CapacityView, usable: UsableNodes) -> None:
        self._capacity, self._usable = capacity, usable
        self._taken: dict[GroupPath, dict[NodeName, int]] = {}
        """Pods by node, by the outermost group of these."""
        self._views: dict[str, FreeView] = {}
        self._all_slots: dict[str, Mapping[NodeName, int]] = {}

    def take(self, nodes: Iterable[NodeName]) -> None:
        """Count a pod on each of these nodes."""
        for node in nodes:
            of_group = self._taken.setdefault(self._outermost(node), {})
            of_group[node] = of_group.get(node, 0) + 1

    def beside(self, eligible: Eligibility, request: Request) -> CapacityView:
        """Return the capacity for pods of a class, beside those of earlier steps.

        Of these only what is in the outermost groups that the class may use is counted. Between
        domains with as much room the engine looks at what is taken beside them, and no further.
        What is left out makes a step cheap for jobs of hundreds of parts.
        """
        hosts = self._usable.hosts(eligible) if self._taken else ()
        groups = {host.path[:1] for host in hosts}
        found = (taken.items() for group, taken in self._taken.items() if group in groups)
        there = {node: pods for taken in found for node, pods in taken}
        if not there:
            return self._capacity
        return with_pods(self._capacity, _EARLIER, there, request.gpus_per_pod)

    def place(self, asked: Place) -> Placed | NoFit:
        """Return nodes for the pods of one group, which may use different ones."""
        capacity, request, pods = self._capacity, asked.request, asked.wanted
        group = pods[0].rank // request.pods_per_group
        kept = kept_host(capacity, asked)
        wished = kept.gpu_type if kept is not None else request.eligible.gpu_type
        stay = [node for rank, node in asked.kept if rank // request.pods_per_group == group]
        is_bounded = len(pods) <= MOST_MATCHED
        types = capacity.gpu_types() if wished is None else (wished,)
        for gpu_type in types if is_bounded else ():
            view = self._view(request, gpu_type)
            able = stay or [host.name for host in self._usable.fewest(pods)]
            able = [node for node in able if capacity.host(node) is not None]
            for domains in self._domains(view, asked, able):
                nodes = self._matched(pods, self._slots(view, domains))
                if nodes is not None:
                    per_node = tuple((node, nodes.count(node)) for node in dict.fromkeys(nodes))
                    planned = (PlannedGroup(group, tail=False, pods=per_node, domains=()),)
                    return Placed(nodes, request, planned, request.mode, gpu_type, certified=False)
        where = "one domain has" if request.mode is PlacementMode.REQUIRED else "there are"
        text = f"group {group}: {counted(len(pods), 'pod')} that may use different nodes, "
        text += f"and not {where} free ones for all of them"
        return NoFit(request, FitTest.SLOTS, {"needed": len(pods), "available": 0}, text)

    def _outermost(self, node: NodeName) -> GroupPath:
        host = self._capacity.host(node)
        return GroupPath(host.path[:1]) if host is not None else GroupPath(())

    def _view(self, request: Request, gpu_type: str) -> FreeView:
        found = self._views.get(gpu_type)
        if found is None:
            alike = replace(request, by_rank=())
            found = self._views[gpu_type] = view_of(self._capacity, alike, gpu_type)
        return found

    def _slots(self, view: FreeView, domains: Collection[int]) -> Mapping[NodeName, int]:
        """Return the free slots in some domains; those of many are counted once."""
        if len(domains) <= _FEW:
            return dict(self._capacity.slots_per_node(domains, view.usable)[0])
        found = self._all_slots.get(gpu_type := view.slots.eligibility.gpu_type or "")
        if found is None:
            every = range(len(view.layout.domains))
            found = dict(self._capacity.slots_per_node(every, view.usable)[0])
            self._all_slots[gpu_type] = found
        return found

    def _domains(
        self, view: FreeView, asked: Place, able: Iterable[NodeName]
    ) -> Iterator[Collection[int]]:
        """Yield the innermost domains of each domain that a group may be in.

        `able` are the nodes of one of its pods.
        """
        layout, capacity = view.layout, self._capacity
        if asked.request.mode is not PlacementMode.REQUIRED:
            kinds = dict.fromkeys(self._usable.eligible(pod.rank) for pod in asked.wanted)
            names = {name for kind in kinds for name in self._usable.names(kind)}
            yield sorted({capacity.domain_of(name) for name in names})
            return
        tier = view.shape.whole_in
        homes = dict.fromkeys(layout.of[tier][capacity.domain_of(name)] for name in able)
        for home in homes:
            yield range(layout.firsts[tier][home], layout.firsts[tier][home + 1])

    def _matched(
        self, pods: Sequence[Member], slots: Mapping[NodeName, int]
    ) -> tuple[NodeName, ...] | None:
        """Return a node for each pod of those with slots, or None; a node has a seat for each.

        Of each kind of pods as many seats as there are pods suffice: whoever may have so many gets
        one, whatever the others have.
        """
        kinds = dict.fromkeys(self._usable.eligible(pod.rank) for pod in pods)
        free: dict[NodeName, int] = {}
        for kind in kinds:
            seats = 0
            for node in self._able(kind, slots):
                free[node] = min(slots[node] - self._earlier(node), len(pods))
                seats += max(0, free[node])
                if seats >= len(pods):
                    break
        seats_of = [node for node, number in free.items() for _ in range(number)]
        able: dict[Eligibility, list[int]] = {}
        for kind in kinds:
            names = self._usable.names(kind)
            able[kind] = [at for at, node in enumerate(seats_of) if node in names]
        found = matched([able[self._usable.eligible(pod.rank)] for pod in pods])
        return tuple(seats_of[at] for at in found) if found is not None else None

    def _able(self, kind: Eligibility, slots: Mapping[NodeName, int]) -> Iterable[NodeName]:
        """Return the nodes with slots that pods of a kind may use; O(the fewer of both)."""
        hosts, names = self._usable.hosts(kind), self._usable.names(kind)
        if len(slots) <= len(hosts):
            return (node for node in slots if node in names)
        return (host.name for host in hosts if host.name in slots)

    def _earlier(self, node: NodeName) -> int:
        return self._taken.get(self._outermost(node), {}).get(node, 0) if self._taken else 0
