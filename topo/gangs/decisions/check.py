"""The answer to `Check`: the planned nodes that can no longer take their pods."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Protocol

from topo.gangs.decisions.part_domains import misplaced_nodes
from topo.gangs.decisions.placed import sum_gpus
from topo.gangs.decisions.resource_shortage import name_of
from topo.gangs.machine.instructions import Check
from topo.model.ids import NodeName
from topo.model.words import counted
from topo.placement.booking.holds import shortage
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import is_eligible
from topo.placement.capacity.other_fabrics import group_of
from topo.placement.job.request import PlacementMode
from topo.placement.view import shape_of

Losses = tuple[tuple[NodeName, str], ...]


class NodeShortages(Protocol):
    """What nodes have left beside GPUs for the waiting pods, as if none of these were there."""

    def shortages(self, pods: Mapping[NodeName, int]) -> Mapping[NodeName, str]:
        """Return the nodes without room for so many pods, with a resource that is short."""
        ...


def lost_nodes(
    capacity: CapacityView, check: Check, own: Sequence[str], room: NodeShortages | None = None
) -> Losses:
    """Return the nodes that are gone, closed, too full or not eligible, with the reason; O(pods).

    `own` are the booking owners of the waiting pods and their holds. `room` is what nodes have
    beside GPUs, None where the pods take nothing else.
    """
    request = check.request
    ranks: dict[NodeName, set[int]] = {}
    for pod, node in check.waiting:
        ranks.setdefault(node, set()).add(pod.rank if request.by_rank else 0)
    bookings = capacity.bookings()
    mine: Counter[NodeName] = Counter()
    for owner in dict.fromkeys(own):
        for node, gpus in bookings.get(owner, {}).items():
            mine[node] += gpus
    pods = Counter(node for _, node in check.waiting)
    short = room.shortages(pods) if room is not None else {}
    found: list[tuple[NodeName, str]] = []
    misplaced, gpu_type = misplaced_nodes(capacity, check), _gpu_type(capacity, check)
    allowed = cache(lambda rank: replace(request.eligible_of(rank), gpu_type=gpu_type))
    for node, gpus in sum_gpus(check.waiting, request.gpus_per_pod).items():
        host = capacity.host(node)
        why = shortage(capacity, node, gpus, given_back=mine[node])
        if why or host is None:
            found += [(node, why)] if why else []
        elif not all(is_eligible(host, allowed(rank)) for rank in ranks[node]):
            found.append((node, f"node {node} is not for this job"))
        elif node in short:
            what = f"{name_of(short[node])} for {counted(pods[node], 'pod')}"
            found.append((node, f"node {node} lacks {what}"))
        elif node in misplaced:
            found.append((node, misplaced[node]))
    return tuple(found)


def _gpu_type(capacity: CapacityView, check: Check) -> str | None:
    """Return the GPU type of the gang: the one stated, else that of most pods that run or wait."""
    stated = check.request.eligible.gpu_type
    nodes = [node for _, node in check.bound] or [node for _, node in check.waiting]
    hosts = filter(None, map(capacity.host, nodes))
    types = Counter(host.gpu_type for host in hosts)
    return stated or max(types, key=types.__getitem__, default=None)


def apart_groups(capacity: CapacityView, check: Check) -> tuple[int, ...]:
    """Return the groups outside the group of the kind asked for that has most of the job's pods.

    Only for a job that has to be inside one group of a kind, of any fabric. Running pods decide; if
    none runs, waiting pods do. O(pods).
    """
    kind = check.request.within
    if kind is None:
        return ()
    waiting = [(pod.rank, node) for pod, node in check.waiting]
    kinds = capacity.kinds()
    # A node that left the cluster is in no group, and tells nothing.
    homes = [
        (rank, group_of(host, kind, kinds))
        for rank, node in (*check.bound, *waiting)
        if (host := capacity.host(node)) is not None
    ]
    bound = sum(capacity.host(node) is not None for _, node in check.bound)
    # `homes` begins with the bound pods; they decide where the job is, if there are any.
    counts = Counter(home for _, home in homes[:bound] or homes if home)
    most = max(counts, key=lambda home: counts[home], default=None)
    size = check.request.pods_per_group
    return tuple(sorted({rank // size for rank, home in homes if home != most or home is None}))


def settled_groups(capacity: CapacityView, check: Check) -> tuple[int, ...]:
    """Return the groups that their running pods alone make split or apart; O(pods)."""
    ran = replace(check, waiting=())
    return tuple(sorted({*split_groups(capacity, ran), *apart_groups(capacity, ran)}))


def split_groups(capacity: CapacityView, check: Check) -> tuple[int, ...]:
    """Return the groups that span several domains although they must not; O(pods)."""
    request = check.request
    places = [(pod.rank, node) for pod, node in check.waiting] + list(check.bound)
    # A node that left the cluster has no domain to compare.
    known = [(rank, node) for rank, node in places if capacity.host(node) is not None]
    if request.mode is not PlacementMode.REQUIRED or not known:
        return ()
    first = capacity.host(known[0][1])
    tier = shape_of(capacity, request, first.gpu_type if first is not None else "").whole_in
    of, size = capacity.layout().of[tier], request.pods_per_group
    domains: dict[int, set[int]] = {}
    for rank, node in known:
        domains.setdefault(rank // size, set()).add(of[capacity.domain_of(node)])
    return tuple(group for group, homes in sorted(domains.items()) if len(homes) > 1)
