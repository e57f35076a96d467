"""Groups that somebody was told earlier, or chose: whether the job may have them now."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from topo.model.ids import GroupPath
from topo.placement.booking.holds import booked, shortage
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.eligible import eligible
from topo.placement.capacity.layout import Counts
from topo.placement.job.objective import Objective, values
from topo.placement.job.plan import Plan, PlannedGroup, Pods
from topo.placement.job.request import Mode, Request
from topo.placement.job.words import listed
from topo.placement.quality.measure import measure
from topo.placement.search.job_shape import Shape, shape_of


def confirmed(
    capacity: Capacity, request: Request, given: Sequence[Pods], best: Plan | None
) -> Plan | str:
    """The groups as a plan, or in words what is against them; O(nodes given).

    `best` is what would be planned now, and returned itself where it is what was given; its bounds
    are those of the answer.
    """
    if best is not None and [group.pods for group in best.groups] == list(given):
        return best
    gpu_type = _type_of(capacity, given)
    against = (
        _misshapen(request, given)
        or _unusable(capacity, request, (gpu_type, given))
        or _apart(capacity, request, given)
        or _reserved(capacity, request, (gpu_type, given), best)
    )
    if against:
        return against
    shape = shape_of(capacity, request, gpu_type)
    found = measure(capacity, request, given)
    if found.split_groups and request.mode is Mode.REQUIRED:
        return f"{found.split_groups} of the groups would be split by now"
    bounds: Mapping[str, int | None] = {} if best is None else best.bounds
    return Plan(
        request=request,
        mode=Mode.PREFERRED if found.split_groups else Mode.REQUIRED,
        gpu_type=gpu_type,
        groups=_groups(capacity, shape, given),
        objective=found,
        bounds=bounds,
        certified=_certified(found, bounds),
        used_reserve=best is not None and best.used_reserve,
    )


def _type_of(capacity: Capacity, given: Sequence[Pods]) -> str:
    host = capacity.host(given[0][0][0]) if given and given[0] else None
    return host.gpu_type if host else ""


def _misshapen(request: Request, given: Sequence[Pods]) -> str:
    sizes = [sum(pods for _, pods in group) for group in given]
    wanted = [request.pods_per_group] * request.whole_groups + [request.tail] * bool(request.tail)
    if sizes != wanted:
        shown = listed([str(size) for size in sizes]), listed([str(size) for size in wanted])
        return f"they have {shown[0]} pods where the job's groups have {shown[1]}"
    return ""


def _unusable(capacity: Capacity, request: Request, given: tuple[str, Sequence[Pods]]) -> str:
    """A node that is gone, closed or too small by now, or that the job may not use."""
    gpu_type, groups = given
    wish = replace(request.eligible, gpu_type=request.eligible.gpu_type or gpu_type)
    for node, gpus in booked(iter(groups), request.gpus_per_pod).items():
        host = capacity.host(node)
        if why := shortage(capacity, node, gpus):
            return why
        if host is not None and not eligible(host, wish):
            return f"node {node} does not fit the job's type, selector, tolerations or exclusions"
    return ""


def _apart(capacity: Capacity, request: Request, given: Sequence[Pods]) -> str:
    """Whether the nodes share no group of the kind that all must be within."""
    if request.within is None:
        return ""
    shared = set()
    for group in given:
        for node, _ in group:
            host = capacity.host(node)
            if host is None or request.within not in host.kinds:
                return f"node {node} is in no {request.within}"
            shared.add(host.path[: host.kinds.index(request.within) + 1])
    return "" if len(shared) == 1 else f"they are in {len(shared)} groups of kind {request.within}"


def _reserved(
    capacity: Capacity,
    request: Request,
    given: tuple[str, Sequence[Pods]],
    best: Plan | None,
) -> str:
    """Whether they take groups that the policy keeps, and others would do."""
    gpu_type, groups = given
    if best is None or best.used_reserve or not capacity.policy.reserves:
        return ""
    free = capacity.slots(request.eligible, gpu_type, request.gpus_per_pod).free
    after = free.copy()
    for group in groups:
        for node, pods in group:
            after[capacity.position(node)[0]] -= pods
    shape = shape_of(capacity, request, gpu_type)
    for path, kept in capacity.policy.reserves:
        before, left = (_whole_in(capacity, shape, path, slots) for slots in (free, after))
        if left < min(kept, before):
            return f"they would use groups that are kept free in {'/'.join(path)}"
    return ""


def _whole_in(capacity: Capacity, shape: Shape, path: GroupPath, free: Counts) -> int:
    """Canonical groups that are free inside a group; 0 for one that is not there."""
    layout = capacity.layout()
    of = layout.of[shape.canonical_tier]
    rooms: dict[int, int] = {}
    for at in range(*(layout.range_of(path) or (0, 0))):
        rooms[of[at]] = rooms.get(of[at], 0) + int(free[at])
    return sum(room // shape.canonical for room in rooms.values())


def _groups(capacity: Capacity, shape: Shape, given: Sequence[Pods]) -> tuple[PlannedGroup, ...]:
    layout, tier = capacity.layout(), shape.whole_in
    groups = []
    for index, pods in enumerate(given):
        homes = dict.fromkeys(layout.of[tier][capacity.position(node)[0]] for node, _ in pods)
        domains = tuple(layout.ref(tier, domain) for domain in homes)
        groups.append(PlannedGroup(index, index >= shape.m, tuple(pods), domains))
    return tuple(groups)


def _certified(found: Objective, bounds: Mapping[str, int | None]) -> dict[str, bool]:
    """What the bounds prove: each name whose value is the bound, up to the first gap."""
    certified: dict[str, bool] = {}
    proven = True
    for name, value in values(found).items():
        proven = proven and value == bounds.get(name)
        certified[name] = proven
    return certified
