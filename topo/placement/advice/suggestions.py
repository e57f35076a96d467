"""The smallest changes under which a refused job would fit.

Every change was tried before it is suggested: the changed request fits, or the request does where
the change holds.
"""

from collections.abc import Sequence

from topo.model.ids import NodeName
from topo.placement.advice.candidate_changes import nodes_to_open, owners_to_release
from topo.placement.advice.other_requests import fewer_pods, other_requests
from topo.placement.advice.refused_job import RefusedJob, refused_jobs
from topo.placement.advice.repairs import cheapest_repair
from topo.placement.advice.several_changes import several_changes
from topo.placement.advice.suggestion import Suggestion, SuggestionKind
from topo.placement.booking.events import owner_in_words
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.what_if import Assumptions, open_host
from topo.placement.engine import fits
from topo.placement.job.plan import NoFit
from topo.placement.job.words import counted, listed

MOST = 6
"""Suggestions in one answer."""
_NAMES_SHOWN = 6


def find_suggestions(capacity: CapacityView, refused: NoFit) -> tuple[Suggestion, ...]:
    """Return changes found to suffice, at most `MOST`, the most useful first.

    That none is found proves nothing. `capacity` is the one that refused. O(nodes + bookings) and a
    handful of placements.
    """
    jobs = refused_jobs(capacity, refused.request)
    found = [
        *other_requests(capacity, refused, jobs),
        fewer_pods(capacity, refused.request, jobs),
        _open_nodes(capacity, jobs),
        _release(capacity, jobs),
    ]
    order = tuple(SuggestionKind)
    suggestions = [one for one in found if one is not None]
    if not suggestions and (several := several_changes(capacity, refused.request)):
        suggestions.append(several)
    return tuple(sorted(suggestions, key=lambda one: order.index(one.kind))[:MOST])


def _open_nodes(capacity: CapacityView, jobs: Sequence[RefusedJob]) -> Suggestion | None:
    """Suggest the fewest nodes found to repair or uncordon, so that the job fits."""
    repair = cheapest_repair([(job, nodes_to_open(capacity, job)) for job in jobs])
    if repair is None:
        return None
    hosts = [host for host in map(capacity.host, map(NodeName, repair.names)) if host is not None]
    repaired = capacity.with_changes(hosts=[open_host(host, capacity.policy) for host in hosts])
    if not fits(repaired, jobs[0].request):
        return None
    broken = [host.name for host in hosts if not host.ready]
    cordoned = [host.name for host in hosts if host.ready]
    steps = [_step(nodes, how) for nodes, how in ((broken, "repaired"), (cordoned, "uncordoned"))]
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


def _release(capacity: CapacityView, jobs: Sequence[RefusedJob]) -> Suggestion | None:
    """Suggest the owners with the fewest GPUs found whose release makes the job fit."""
    repair = cheapest_repair([(job, owners_to_release(capacity, job)) for job in jobs])
    if repair is None:
        return None
    if not fits(capacity.with_changes(released=repair.names), jobs[0].request):
        return None
    names = [owner_in_words(owner) for owner in repair.names]
    ends = "gives" if len(repair.names) == 1 else "give"
    return Suggestion(
        kind=SuggestionKind.RELEASE,
        text=f"The job fits once {listed(names, _NAMES_SHOWN)} {ends} back "
        f"{counted(repair.cost, 'GPU')}.",
        numbers={"owners": len(repair.names), "gpus": repair.cost},
        owners=repair.names,
    )
