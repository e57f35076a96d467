"""What to say when a job does not fit: why, and the smallest changes under which it would.

Every change was tried before it is told: the changed request, or the request on a changed copy of
the cluster, has been placed.
"""

from collections.abc import Callable, Sequence

from topo.model.ids import NodeName
from topo.placement.advice.candidate_changes import Offer, closed_nodes, owners
from topo.placement.advice.need import Need, need_of
from topo.placement.advice.other_requests import fewer_pods, other_requests
from topo.placement.advice.repairs import Mend, mend
from topo.placement.advice.suggestion import Change, Suggestion
from topo.placement.advice.why_not import reasons
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.what_if import Assumptions, opened
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import Request
from topo.placement.job.words import counted, listed

__all__ = ["MOST", "Change", "Suggestion", "reasons", "would_fit"]

MOST = 6
"""Suggestions in one answer."""
_SHOWN = 6


def would_fit(capacity: Capacity, nofit: NoFit) -> tuple[Suggestion, ...]:
    """The changes found to suffice, at most `MOST`, most useful first; none is no proof of none.

    `capacity` is the one that refused, and stays as it is. O(nodes + bookings) and a handful of
    placements, on copies.
    """
    copy, request = capacity.copy(), nofit.request
    wished = request.eligible.gpu_type
    types = copy.gpu_types() if wished is None else (wished,)
    needs = [need_of(copy, request, gpu_type) for gpu_type in types]
    found = [
        *other_requests(copy, nofit, needs),
        fewer_pods(copy, request, needs),
        _open_nodes(copy, request, needs),
        _release(copy, request, needs),
    ]
    told = tuple(Change)
    suggestions = [one for one in found if one is not None]
    return tuple(sorted(suggestions, key=lambda one: told.index(one.kind))[:MOST])


def _cheapest(needs: Sequence[Need], offers: Callable[[Need], Sequence[Offer]]) -> Mend | None:
    """The cheapest mend over the GPU types."""
    mends = [mend(need, offers(need)) for need in needs]
    return min((m for m in mends if m), key=lambda m: (m.cost, m.names), default=None)


def _open_nodes(capacity: Capacity, request: Request, needs: Sequence[Need]) -> Suggestion | None:
    """The fewest nodes found whose repair, or whose end of cordon, makes room."""
    found = _cheapest(needs, lambda need: closed_nodes(capacity, need))
    if found is None:
        return None
    names = tuple(NodeName(name) for name in found.names)
    hosts = [host for host in map(capacity.host, names) if host is not None]
    copy = capacity.copy()
    for host in hosts:
        copy.upsert(opened(host, capacity.policy))
    if not isinstance(place(copy, request), Plan):
        return None
    broken = [host.name for host in hosts if not host.ready]
    cordoned = [host.name for host in hosts if host.ready]
    steps = [_step(nodes, how) for nodes, how in ((broken, "repaired"), (cordoned, "uncordoned"))]
    return Suggestion(
        kind=Change.OPEN_NODES,
        text=f"The job fits once {' and '.join(filter(None, steps))}: "
        f"{counted(len(names), 'node')}.",
        numbers={"nodes": len(names), "repair": len(broken), "uncordon": len(cordoned)},
        assume=Assumptions(free=names),
    )


def _step(nodes: Sequence[str], how: str) -> str:
    if not nodes:
        return ""
    return f"{listed(nodes, _SHOWN)} {'is' if len(nodes) == 1 else 'are'} {how}"


def _release(capacity: Capacity, request: Request, needs: Sequence[Need]) -> Suggestion | None:
    """The owners with the fewest GPUs found whose release makes room."""
    found = _cheapest(needs, lambda need: owners(capacity, need))
    if found is None:
        return None
    copy = capacity.copy()
    for name in found.names:
        copy.release(name)
    if not isinstance(place(copy, request), Plan):
        return None
    ends = "gives" if len(found.names) == 1 else "give"
    return Suggestion(
        kind=Change.RELEASE,
        text=f"The job fits once {listed(found.names, _SHOWN)} {ends} back "
        f"{counted(found.cost, 'GPU')}.",
        numbers={"owners": len(found.names), "gpus": found.cost},
        owners=found.names,
    )
