"""Places for pods that may use different nodes, such as those that Kueue sent to other racks.

Result: places in which each pod is on a node that it may use, all on one GPU type and, where the
job has to, inside one tree group of a kind; groups are whole where they have to be. Or a refusal.

How: a group whose pods differ is placed by itself: domain by domain, among those with nodes for the
pod that has the fewest, its pods are matched with nodes. The other groups are sorted into classes
of equal eligibility. Class by class, those with the fewest nodes first, the groups of a class are
placed as those of a job whose other groups stay. What one step gets counts as taken for the next.
If a step fails, all is tried again on each GPU type alone and inside each tree group of the
required kind, at most `MOST_TRIES` times.

Why it is right. Groups of a class are placed by the same engine as any job, on their own nodes
alone; a group of different pods is matched inside one domain. So no group is split and no node is
used twice. Where no node is of two steps, as with racks, steps are independent, and a refusal of
one is a refusal of the job. Where steps share nodes, an earlier one may take what a later one
needs: then a job may be refused that would fit.

Cost: classes x tries searches of the engine; for a group of k different pods k matchings of O(k x
nodes of the domain) in each domain.

Example: groups of two; ranks 0 and 1 select rack a, ranks 2 and 3 have local disks on b1 and b2.
    ranks 2 and 3 differ   → rank 2 on b1, rank 3 on b2, one dragonfly
    then rack a            → ranks 0 and 1 on the best dragonfly of a
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.gang import Member, PodUid
from topo.gangs.machine.instructions import Place
from topo.model.ids import GroupPath, NodeName
from topo.model.words import counted
from topo.placement.booking.holds import booked
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import is_eligible
from topo.placement.job.plan import FitTest, NoFit, PlannedGroup
from topo.placement.job.request import Eligibility, PlacementMode
from topo.placement.view import view_of

MOST_TRIES = 64
MOST_MATCHED = 256
"""Pods of one group that are matched one by one; larger ones are refused."""
_OUTSIDE, _EARLIER = "gangs: outside of a try", "gangs: earlier step"
PlaceAlike = Callable[[CapacityView, Place], Placed | NoFit]


@dataclass(frozen=True, slots=True)
class _Step:
    """Pods that are placed together: of groups of one eligibility, or one group (None)."""

    eligible: Eligibility | None
    pods: tuple[Member, ...]


def place_unlike(capacity: CapacityView, asked: Place, place_alike: PlaceAlike) -> Placed | NoFit:
    """Return places for the wanted pods; `place_alike` places those of one class beside others."""
    steps = _steps(capacity, asked)
    first: NoFit | None = None
    for number, (view, tried) in enumerate(_tries(capacity, asked)):
        if number == MOST_TRIES:
            break
        found = _place_steps(view, tried, steps, place_alike)
        if isinstance(found, Placed):
            return found
        first = first or found
    assert first is not None, "the first try has no limits"  # noqa: S101 - for the type checker
    return first


def _steps(capacity: CapacityView, asked: Place) -> list[_Step]:
    """Return the wanted pods in the order of placement: what has the fewest nodes comes first."""
    request, size = asked.request, asked.request.pods_per_group
    of_group: dict[int, list[Member]] = {}
    for pod in asked.wanted:
        of_group.setdefault(pod.rank // size, []).append(pod)
    classes: dict[Eligibility, list[Member]] = {}
    mixed: list[_Step] = []
    for pods in of_group.values():
        kinds = {request.eligible_of(pod.rank) for pod in pods}
        if len(kinds) == 1:
            classes.setdefault(kinds.pop(), []).extend(pods)
        else:
            mixed.append(_Step(None, tuple(pods)))
    alike = [_Step(each, tuple(pods)) for each, pods in classes.items()]
    if len(alike) > 1:
        hosts = list(capacity.hosts())
        nodes = {each: sum(is_eligible(host, each) for host in hosts) for each in classes}
        alike.sort(key=lambda step: nodes[step.eligible] if step.eligible is not None else 0)
    return [*mixed, *alike]


def _tries(capacity: CapacityView, asked: Place) -> Iterator[tuple[CapacityView, Place]]:
    """Yield the capacity and the question without limits, then on each GPU type and scope."""
    yield capacity, asked
    wished = asked.request.eligible.gpu_type
    types = capacity.gpu_types() if wished is None else (wished,)
    scopes = _scopes(capacity, asked)
    for gpu_type in types:
        for scope in scopes:
            outside = [host.name for host in capacity.hosts() if not _is_inside(host.path, scope)]
            view = capacity.with_changes(taken={_OUTSIDE: capacity.free_on(outside)})
            yield view, replace(asked, request=asked.request.on_type(gpu_type))


def _scopes(capacity: CapacityView, asked: Place) -> list[GroupPath]:
    """Return the tree groups of the kind that all pods share; the whole tree without one."""
    kind = asked.request.within
    if kind is None or asked.kept:
        return [GroupPath(())]
    paths = (
        GroupPath(host.path[: host.kinds.index(kind) + 1])
        for host in capacity.hosts()
        if kind in host.kinds
    )
    return list(dict.fromkeys(paths))


def _is_inside(path: GroupPath, scope: GroupPath) -> bool:
    return path[: len(scope)] == scope


def _place_steps(
    capacity: CapacityView, asked: Place, steps: Sequence[_Step], place_alike: PlaceAlike
) -> Placed | NoFit:
    request, kept = asked.request, asked.kept
    parts: list[Placed] = []
    nodes: dict[PodUid, NodeName] = {}
    for number, step in enumerate(steps):
        tried = replace(asked, wanted=step.pods, kept=kept)
        if step.eligible is None:
            part = _place_mixed(capacity, tried)
        else:
            own = replace(step.eligible, gpu_type=request.eligible.gpu_type)
            alike = replace(request, eligible=own, by_rank=())
            part = place_alike(capacity, replace(tried, request=alike))
        if isinstance(part, NoFit):
            return part
        parts.append(part)
        got = {pod.uid: node for pod, node in zip(step.pods, part.nodes, strict=True)}
        nodes |= got
        kept = (*kept, *((pod.rank, got[pod.uid]) for pod in step.pods))
        taken = booked([group.pods for group in part.groups], request.gpus_per_pod)
        capacity = capacity.with_changes(taken={f"{_EARLIER} {number}": taken})
    return Placed(
        nodes=tuple(nodes[pod.uid] for pod in asked.wanted),
        request=replace(request, pods=len(nodes), by_rank=()),
        groups=tuple(group for part in parts for group in part.groups),
        mode=parts[0].mode,
        gpu_type=parts[0].gpu_type,
        certified=False,
    )


def _place_mixed(capacity: CapacityView, asked: Place) -> Placed | NoFit:
    """Return nodes for the pods of one group, which may use different ones."""
    request, pods = asked.request, asked.wanted
    group = pods[0].rank // request.pods_per_group
    kept = capacity.host(asked.kept[0][1]) if asked.kept else None
    wished = kept.gpu_type if kept is not None else request.eligible.gpu_type
    stay = [node for rank, node in asked.kept if rank // request.pods_per_group == group]
    is_bounded = len(pods) <= MOST_MATCHED
    for gpu_type in capacity.gpu_types() if wished is None else (wished,):
        for domain in _domains(capacity, asked, gpu_type, stay) if is_bounded else ():
            nodes = _matched(capacity, asked, domain, gpu_type)
            if nodes is not None:
                per_node = tuple((node, nodes.count(node)) for node in dict.fromkeys(nodes))
                planned = PlannedGroup(group, tail=False, pods=per_node, domains=())
                return Placed(nodes, request, (planned,), request.mode, gpu_type, certified=False)
    where = "one domain has" if request.mode is PlacementMode.REQUIRED else "there are"
    text = f"group {group}: {counted(len(pods), 'pod')} that may use different nodes, "
    text += f"and not {where} free ones for all of them"
    return NoFit(request, FitTest.SLOTS, {"needed": len(pods), "available": 0}, text)


def _domains(
    capacity: CapacityView, asked: Place, gpu_type: str, stay: Sequence[NodeName]
) -> Iterator[tuple[int, int]]:
    """Yield the domains to try, as (first, last + 1) of the innermost ones.

    Where pods of the group stay, it is theirs; else those with a node for the pod with the fewest.
    """
    request = asked.request
    view = view_of(capacity, replace(request, by_rank=()), gpu_type)
    layout = view.layout
    if request.mode is not PlacementMode.REQUIRED:
        yield 0, len(layout.domains)
        return
    tier = view.shape.whole_in
    if stay:
        names = [node for node in stay if capacity.host(node) is not None]
    else:
        hosts = list(capacity.hosts())
        able = (
            [host.name for host in hosts if is_eligible(host, request.eligible_of(pod.rank))]
            for pod in asked.wanted
        )
        names = min(able, key=len)
    homes = dict.fromkeys(layout.of[tier][capacity.domain_of(name)] for name in names)
    for home in homes:
        yield layout.firsts[tier][home], layout.firsts[tier][home + 1]


def _matched(
    capacity: CapacityView, asked: Place, domain: tuple[int, int], gpu_type: str
) -> tuple[NodeName, ...] | None:
    """Return a node of the domain for each pod, or None: a matching by augmenting paths (Kuhn)."""
    request = asked.request
    view = view_of(capacity, replace(request, by_rank=()), gpu_type)
    slots, _ = capacity.slots_per_node(range(*domain), view.slots)
    seats = [node for node, free in slots for _ in range(min(free, len(asked.wanted)))]
    if len(seats) < len(asked.wanted):
        return None
    able: list[list[int]] = []
    for pod in asked.wanted:
        eligible = request.eligible_of(pod.rank)
        hosts = (capacity.host(node) for node in seats)
        able.append(
            [
                at
                for at, host in enumerate(hosts)
                if host is not None and is_eligible(host, eligible)
            ]
        )
    taken: dict[int, int] = {}

    def seat(pod: int, tried: set[int]) -> bool:
        for at in able[pod]:
            if at not in tried:
                tried.add(at)
                if at not in taken or seat(taken[at], tried):
                    taken[at] = pod
                    return True
        return False

    if not all(seat(pod, set()) for pod in range(len(able))):
        return None
    of_pod = {pod: seats[at] for at, pod in taken.items()}
    return tuple(of_pod[pod] for pod in range(len(able)))
