"""`Check` answered on the capacity there is: which planned nodes can take their pods no more."""

from collections.abc import Sequence
from dataclasses import replace

from topo.gangs.instructions import Check
from topo.gangs.placing import released
from topo.model.ids import NodeName
from topo.placement.booking.holds import shortage
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.eligible import eligible
from topo.placement.job.request import PlacementMode
from topo.placement.search.job_shape import shape_of

Losses = tuple[tuple[NodeName, str], ...]


def lost_nodes(capacity: Capacity, check: Check, own: Sequence[str]) -> Losses:
    """Nodes that are gone, closed, too full or not for the job by now, with why; O(pods).

    `own` are the owners under which the waiting pods and their holds are booked.
    """
    request = check.request
    needs: dict[NodeName, int] = {}
    for _, node in check.waiting:
        needs[node] = needs.get(node, 0) + request.gpus_per_pod
    found: list[tuple[NodeName, str]] = []
    with released(capacity, own):
        for node, gpus in needs.items():
            host = capacity.host(node)
            why = shortage(capacity, node, gpus)
            if not why and host is not None:
                allowed = replace(request.eligible, gpu_type=host.gpu_type)
                why = "" if eligible(host, allowed) else f"node {node} is not for this job"
            if why:
                found.append((node, why))
    return tuple(found)


def split_groups(capacity: Capacity, check: Check) -> tuple[int, ...]:
    """The groups that stand in several domains although they are required whole; O(pods)."""
    request = check.request
    places = [(pod.rank, node) for pod, node in check.waiting] + list(check.bound)
    known = [(rank, node) for rank, node in places if capacity.host(node) is not None]
    if request.mode is not PlacementMode.REQUIRED or not known:
        return ()
    first = capacity.host(known[0][1])
    tier = shape_of(capacity, request, first.gpu_type if first is not None else "").whole_in
    of = capacity.layout().of[tier]
    domains: dict[int, set[int]] = {}
    for rank, node in known:
        group = rank // request.pods_per_group
        domains.setdefault(group, set()).add(of[capacity.position(node)[0]])
    return tuple(group for group, homes in sorted(domains.items()) if len(homes) > 1)
