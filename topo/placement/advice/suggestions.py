"""What would make a refused job fit: the smallest changes, or how large a job like it may be.

Every change was tried before it is suggested: the changed request fits, or the request does where
the change holds.

Whether a refused job could fit at all. Result: nothing if the job fits once all nodes are open and
empty, or while nobody knows how many GPUs a node of a group has, or of which type those are that
the job lacks; else the most pods with which it would.

Why it is right: the same search and the same count that answer for the cluster as it is are asked
about one on which every node that the job may use is open and nothing runs. What does not fit there
never fits while the nodes are what they are.

Cost: O(nodes), and one search for each GPU type that the job may have.

Example: two switchboxes of two dragonflies of two nodes with 8 GPUs. 5 pods of 8 inside one
switchbox never fit, 4 do. One pod of 16 GPUs never fits, nor would fewer: 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from topo.model.ids import NodeName
from topo.model.words import counted, listed
from topo.placement.advice.other_requests import (
    fewer_pods,
    most_pods,
    other_requests,
    several_changes,
)
from topo.placement.advice.repairs import cheapest_repair, nodes_to_open, owners_to_release
from topo.placement.advice.suggestion import RefusedJob, Suggestion, SuggestionKind, jobs_inside
from topo.placement.booking.events import owner_in_words
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host, hosts_of_unknown_size, hosts_of_unknown_type
from topo.placement.capacity.what_if import Assumptions, open_host
from topo.placement.engine import could_place, fits, place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import Request
from topo.placement.view import view_on

MOST = 6
"""Suggestions in one answer."""
_NAMES_SHOWN = 6


def find_suggestions(
    capacity: CapacityView, refused: NoFit, owned: Mapping[str, str] = MappingProxyType({})
) -> tuple[Suggestion, ...]:
    """Return changes found to suffice, at most `MOST`, the most useful first.

    That none is found proves nothing. `capacity` is the one that refused. `owned` are the jobs of
    owners that are pods of a job which runs as a whole. O(nodes + bookings) and a handful of
    placements.
    """
    jobs = jobs_inside(capacity, refused.request)
    found = [
        *other_requests(capacity, refused, jobs),
        fewer_pods(capacity, refused.request, jobs),
        _open_nodes(capacity, refused.request, jobs),
        _release(capacity, refused.request, jobs, owned),
    ]
    order = tuple(SuggestionKind)
    suggestions = [one for one in found if one is not None]
    if not suggestions and (several := several_changes(capacity, refused.request)):
        suggestions.append(several)
    return tuple(sorted(suggestions, key=lambda one: order.index(one.kind))[:MOST])


def _open_nodes(
    capacity: CapacityView, request: Request, jobs: Sequence[RefusedJob]
) -> Suggestion | None:
    """Suggest the fewest nodes found to repair or uncordon, so that the job fits."""
    repair = cheapest_repair([(job, nodes_to_open(capacity, job)) for job in jobs])
    if repair is None:
        return None
    hosts = [host for host in map(capacity.host, map(NodeName, repair.names)) if host is not None]
    repaired = capacity.with_changes(hosts=[open_host(host, capacity.policy) for host in hosts])
    if not fits(repaired, request):
        return None
    broken = [host.name for host in hosts if not host.ready]
    cordoned = [host.name for host in hosts if host.ready]
    apart = {host.name: host.quarantine for host in hosts if host.ready and host.quarantine}
    steps = [
        _step(broken, "repaired"),
        _step([name for name in cordoned if name not in apart], "uncordoned"),
        _step([f"{name} ({why})" for name, why in apart.items()], "taken out of quarantine"),
    ]
    return Suggestion(
        kind=SuggestionKind.OPEN_NODES,
        text=f"The job fits once {' and '.join(filter(None, steps))}: "
        f"{counted(len(hosts), 'node')}.",
        numbers={"nodes": len(hosts), "repair": len(broken), "uncordon": len(cordoned)},
        assume=Assumptions(free=tuple(host.name for host in hosts)),
    )


def _step(nodes: Sequence[str], how: str) -> str:
    if not nodes:
        return ""
    return f"{listed(nodes, _NAMES_SHOWN)} {'is' if len(nodes) == 1 else 'are'} {how}"


def _release(
    capacity: CapacityView,
    request: Request,
    jobs: Sequence[RefusedJob],
    owned: Mapping[str, str],
) -> Suggestion | None:
    """Suggest the owners with the fewest GPUs found whose release makes the job fit.

    A job that runs as a whole gives back all that it has, and is named in place of its pods.
    """
    repair = cheapest_repair([(job, owners_to_release(capacity, job, owned)) for job in jobs])
    if repair is None:
        return None
    owners = [each for each in capacity.bookings() if owned.get(each, each) in repair.names]
    if not fits(capacity.with_changes(released=owners), request):
        return None
    names = [owner_in_words(owner) for owner in repair.names]
    ends = "gives" if len(repair.names) == 1 else "give"
    return Suggestion(
        kind=SuggestionKind.RELEASE,
        text=f"The job fits once {listed(names, _NAMES_SHOWN)} {ends} back "
        f"{counted(repair.cost, 'GPU')}.",
        numbers={"owners": len(repair.names), "gpus": repair.cost},
        owners=tuple(sorted(owners)),
    )


def largest_possible_pods(capacity: CapacityView, request: Request) -> int | None:
    """Return None if the job could fit on open and empty nodes, else the most pods that could.

    None also if it could once more is known of some nodes.
    """
    if could_fit_once_known(capacity, request):
        return None
    if request.within is not None and request.within not in capacity.kinds():
        return _largest_elsewhere(emptied(capacity), request)
    types = capacity.types_for(request.eligible)
    jobs = [_on_empty_nodes(capacity, request, gpu_type) for gpu_type in types]
    if any(_fits(job) for job in jobs):
        return None
    smaller = [
        _on_empty_nodes(capacity, replace(request, pods=pods), job.view.slots.eligibility.gpu_type)
        for job in jobs
        if (pods := most_pods(capacity, job))
    ]
    return max((job.request.pods for job in smaller if _fits(job)), default=0)


def could_fit_once_known(capacity: CapacityView, request: Request) -> bool:
    """Return whether a refused job may fit once it is known what some nodes have; O(nodes).

    A node of a group has an unknown number of GPUs, or those of unknown type are enough to make up
    what the nodes of the job's type lack when they are open and empty.
    """
    hosts = capacity.hosts()
    if any(hosts_of_unknown_size(hosts, request.eligible)):
        return True
    untyped = hosts_of_unknown_type(hosts, request.eligible)
    if not untyped:
        return False
    more = sum(host.gpus // request.gpus_per_pod for host in untyped)
    jobs = (
        _on_empty_nodes(capacity, request, gpu_type)
        for gpu_type in capacity.types_for(request.eligible)
        if gpu_type
    )
    return any(job.view.slots.total + more >= request.pods for job in jobs)


def _largest_elsewhere(empty: CapacityView, request: Request) -> int | None:
    """Return `largest_possible_pods` of a job that must be in one group of another fabric."""
    if fits(empty, request):
        return None
    pods = max((most_pods(empty, job) for job in jobs_inside(empty, request)), default=0)
    return pods if pods and fits(empty, replace(request, pods=pods)) else 0


def emptied(capacity: CapacityView) -> CapacityView:
    """Return the capacity as it is once all nodes are open and nothing runs; O(nodes)."""
    closed = [host for host in capacity.hosts() if not host.is_open or host.taints]
    return capacity.with_changes(
        released=tuple(capacity.bookings()),
        hosts=[open_host(host, capacity.policy) for host in closed],
    )


def never_fits_text(request: Request, largest: int) -> str:
    """Return the sentence that a job never fits; `largest` is from `largest_possible_pods`."""
    size = f"{request.gpus_per_pod} GPUs" if request.gpus_per_pod > 1 else "1 GPU"
    most = f"such a job of {counted(largest, 'pod')}" if largest else f"{largest} pods of {size}"
    return (
        f"Never: with all nodes open and empty {most} would fit at most, "
        f"of {counted(request.pods, 'pod')}."
    )


def refusal_on_empty_nodes(
    capacity: CapacityView, request: Request, largest: int
) -> tuple[str, ...]:
    """Return why a job is refused even on open and empty nodes, then what change helps.

    Empty if it fits there. `largest` is what `largest_possible_pods` returned. O(nodes + bookings)
    and a handful of placements.
    """
    empty = emptied(capacity)
    found = place(empty, request)
    if isinstance(found, Plan):
        return ()
    fewer = f"Such a job of {counted(largest, 'pod')} would fit at most." if largest else ""
    whole = (
        each
        for each in find_suggestions(empty, found)
        if each.kind is not SuggestionKind.FEWER_PODS
    )
    change = next((each.text for each in whole), fewer)
    return (found.text, change) if change else (found.text,)


def _on_empty_nodes(capacity: CapacityView, request: Request, gpu_type: str | None) -> RefusedJob:
    def as_open(host: Host) -> Host:
        return open_host(host, capacity.policy) if host.taints and not host.is_open else host

    slots = capacity.slots(request.eligible, gpu_type or "", request.gpus_per_pod)
    return RefusedJob(request, view_on(capacity, request, capacity.empty_slots(slots, as_open)))


def _fits(job: RefusedJob) -> bool:
    return could_place(job.view, job.request)
