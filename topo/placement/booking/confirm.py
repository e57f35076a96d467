"""Checks whether a job may still have the groups that a caller chose or was given earlier."""

from collections.abc import Sequence
from dataclasses import replace

from topo.model.words import listed
from topo.placement.booking.holds import booked, shortage
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import is_eligible
from topo.placement.capacity.other_fabrics import group_of
from topo.placement.job.plan import Plan, PlannedGroup, Pods, objective_names
from topo.placement.job.request import PlacementMode, Request
from topo.placement.quality.certificate import certified_by
from topo.placement.quality.measure import objective_of, pods_by_domain
from topo.placement.search.policies import reserve_taken_from
from topo.placement.view import FreeView, view_of


def confirm_groups(
    capacity: CapacityView, request: Request, given: Sequence[Pods], best: Plan | None
) -> Plan | str:
    """Return the groups as a plan, or a text that says why they are refused; O(nodes given).

    `best` is the plan that would be made now. If its groups are the given ones, it is returned
    unchanged; otherwise the answer has its bounds.
    """
    if best is not None and [group.pods for group in best.groups] == list(given):
        return best
    gpu_type = _type_of(capacity, given)
    against = (
        _misshapen(request, given)
        or _unusable(capacity, request, (gpu_type, given))
        or _apart(capacity, request, given)
    )
    if against:
        return against
    view = view_of(capacity, request, gpu_type)
    if best is not None and not best.used_reserve:
        kept = reserve_taken_from(view, pods_by_domain(capacity, given), capacity.policy.reserves)
        if kept is not None:
            return f"they would use groups that are kept free in {'/'.join(kept)}"
    found = objective_of(capacity, view, given)
    if found.split_groups and request.mode is PlacementMode.REQUIRED:
        return f"{found.split_groups} of the groups would be split by now"
    bounds = dict.fromkeys(objective_names(len(found.span))) if best is None else best.bounds
    return Plan(
        request=request,
        mode=PlacementMode.PREFERRED if found.split_groups else PlacementMode.REQUIRED,
        gpu_type=gpu_type,
        groups=_groups(capacity, view, given),
        objective=found,
        bounds=bounds,
        certified=certified_by(bounds, found),
        used_reserve=best is not None and best.used_reserve,
    )


def _type_of(capacity: CapacityView, given: Sequence[Pods]) -> str:
    host = capacity.host(given[0][0][0]) if given and given[0] else None
    return host.gpu_type if host else ""


def _misshapen(request: Request, given: Sequence[Pods]) -> str:
    sizes = [sum(pods for _, pods in group) for group in given]
    if sizes != list(request.group_pods):
        shown = listed(list(map(str, sizes))), listed(list(map(str, request.group_pods)))
        return f"they have {shown[0]} pods where the job's groups have {shown[1]}"
    return ""


def _unusable(capacity: CapacityView, request: Request, given: tuple[str, Sequence[Pods]]) -> str:
    """Return why a node cannot be used now; empty if all can."""
    gpu_type, groups = given
    eligibility = replace(request.eligible, gpu_type=request.eligible.gpu_type or gpu_type)
    for node, gpus in booked(iter(groups), request.gpus_per_pod).items():
        host = capacity.host(node)
        if why := shortage(capacity, node, gpus):
            return why
        if host is not None and not is_eligible(host, eligibility):
            filters = "type, selector, usage, tolerations or exclusions"
            return f"node {node} does not fit the job's {filters}"
    return ""


def _apart(capacity: CapacityView, request: Request, given: Sequence[Pods]) -> str:
    """Return why the nodes are not all in one group of the required kind; empty if they are."""
    if request.within is None:
        return ""
    shared, kinds = set(), capacity.kinds()
    for group in given:
        for node, _ in group:
            host = capacity.host(node)
            home = host and group_of(host, request.within, kinds)
            if home is None:
                return f"node {node} is in no {request.within}"
            shared.add(home)
    return "" if len(shared) == 1 else f"they are in {len(shared)} groups of kind {request.within}"


def _groups(
    capacity: CapacityView, view: FreeView, given: Sequence[Pods]
) -> tuple[PlannedGroup, ...]:
    layout, shape = view.layout, view.shape
    groups = []
    for index, pods in enumerate(given):
        homes = dict.fromkeys(layout.of[shape.tier][at] for at in capacity.located(pods, []))
        domains = tuple(layout.ref(shape.tier, domain) for domain in homes)
        groups.append(PlannedGroup(index, index >= shape.m, tuple(pods), domains))
    return tuple(groups)
