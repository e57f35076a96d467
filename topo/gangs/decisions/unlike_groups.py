"""Places for groups that may use different nodes, such as those that Kueue sent to other racks.

Result: places in which each group is on nodes that its own pods may use, all on one GPU type and,
where the job has to, inside one tree group of a kind; or a refusal.

How: the groups are sorted into classes of equal eligibility. Class by class, those with the fewest
nodes first, the groups of a class are placed as those of a job whose other groups stay, and what
they get counts as taken for the next class. If that fails, it is tried again on each GPU type alone
and inside each tree group of the required kind, at most `MOST_TRIES` times.

Why it is right. Each class is placed by the same engine as any job, on its own nodes alone, so no
group is split and no node is used twice. Where no node is in two classes, as with racks, the
classes are independent, and a refusal of one is a refusal of the job. Where classes share nodes, an
earlier one may take what a later one needs: then a job may be refused that would fit. Pods of one
group that differ need nodes that all of them may use.

Cost: classes x tries searches of the engine.

Example: groups 0 and 1 select rack a, group 2 rack b; a has three free dragonflies, b has one.
    b has fewer nodes   → group 2 on the dragonfly of b
    then a              → groups 0 and 1 on two of a
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.gang import Member, PodUid
from topo.gangs.machine.instructions import Place
from topo.model.ids import GroupPath, NodeName
from topo.placement.booking.holds import booked
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import is_eligible
from topo.placement.job.plan import NoFit
from topo.placement.job.request import Eligibility

MOST_TRIES = 64
_OUTSIDE, _EARLIER = "gangs: outside of a try", "gangs: earlier class"
PlaceAlike = Callable[[CapacityView, Place], Placed | NoFit]


def place_unlike(capacity: CapacityView, asked: Place, place_alike: PlaceAlike) -> Placed | NoFit:
    """Return places for the wanted pods; `place_alike` places those of one class beside others."""
    classes = _classes(capacity, asked)
    first: NoFit | None = None
    for number, (view, tried) in enumerate(_tries(capacity, asked)):
        if number == MOST_TRIES:
            break
        found = _place_classes(view, tried, classes, place_alike)
        if isinstance(found, Placed):
            return found
        first = first or found
    assert first is not None, "the first try has no limits"  # noqa: S101 - for the type checker
    return first


def _classes(capacity: CapacityView, asked: Place) -> list[tuple[Eligibility, tuple[Member, ...]]]:
    """Return the wanted pods by what their group may use, those with the fewest nodes first."""
    request, size = asked.request, asked.request.pods_per_group
    found: dict[Eligibility, list[Member]] = {}
    for pod in asked.wanted:
        found.setdefault(request.eligible_of(pod.rank // size), []).append(pod)
    hosts = list(capacity.hosts())
    nodes = {each: sum(is_eligible(host, each) for host in hosts) for each in found}
    return [(each, tuple(found[each])) for each in sorted(found, key=lambda one: nodes[one])]


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


def _place_classes(
    capacity: CapacityView,
    asked: Place,
    classes: list[tuple[Eligibility, tuple[Member, ...]]],
    place_alike: PlaceAlike,
) -> Placed | NoFit:
    request, kept = asked.request, asked.kept
    parts: list[Placed] = []
    nodes: dict[PodUid, NodeName] = {}
    for number, (eligible, pods) in enumerate(classes):
        own = replace(eligible, gpu_type=request.eligible.gpu_type)
        alike = replace(request, eligible=own, by_group=())
        part = place_alike(capacity, replace(asked, wanted=pods, kept=kept, request=alike))
        if isinstance(part, NoFit):
            return part
        parts.append(part)
        got = {pod.uid: node for pod, node in zip(pods, part.nodes, strict=True)}
        nodes |= got
        kept = (*kept, *((pod.rank, got[pod.uid]) for pod in pods))
        taken = booked([group.pods for group in part.groups], request.gpus_per_pod)
        capacity = capacity.with_changes(taken={f"{_EARLIER} {number}": taken})
    return Placed(
        nodes=tuple(nodes[pod.uid] for pod in asked.wanted),
        request=replace(request, pods=len(nodes), by_group=()),
        groups=tuple(group for part in parts for group in part.groups),
        mode=parts[0].mode,
        gpu_type=parts[0].gpu_type,
        certified=False,
    )
