"""Placement without kept counts: every request counts every node again. The yardstick of ratios.

The tree is known and the rule of choice is cheap (fewest top groups, then the least that fits), so
that what is compared is the counting, of eligible nodes as the engine defines them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host, is_eligible
from topo.placement.job.request import Request


@dataclass(slots=True)
class Record:
    """What an informer's cache knows of a node."""

    host: Host
    domain: int
    free: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """Nodes in natural order, by domain of tier 1, and those domains by top group."""

    nodes: Sequence[Record]
    members: Sequence[Sequence[Record]]
    tops: Sequence[Sequence[int]]


def fleet(capacity: Capacity) -> Fleet:
    """All nodes of a capacity as plain records."""
    domains: dict[object, int] = {}
    tops: dict[object, dict[int, None]] = {}
    nodes = []
    for host in capacity.hosts():
        domain = domains.setdefault(host.path, len(domains))
        tops.setdefault(host.path[:1], {})[domain] = None
        nodes.append(Record(host, domain, capacity.free(host.name)))
    members: list[list[Record]] = [[] for _ in domains]
    for node in nodes:
        members[node.domain].append(node)
    return Fleet(nodes, members, [list(inside) for inside in tops.values()])


def place(cluster: Fleet, request: Request) -> list[NodeName] | None:
    """Nodes for a job of whole groups, None if they do not fit; O(nodes) of counting.

    One top group if one holds all, the smallest such; else the largest ones first. In each of them
    the same with its domains.
    """
    k, gpus = request.pods_per_group, request.gpus_per_pod
    groups = [slots // k for slots in _counted(cluster, request)]
    sums = {at: sum(groups[domain] for domain in inside) for at, inside in enumerate(cluster.tops)}
    chosen = _fewest(sums, request.whole_groups)
    if chosen is None:
        return None
    names: list[NodeName] = []
    for top, some in chosen.items():
        inside = {domain: groups[domain] for domain in cluster.tops[top]}
        for domain, count in (_fewest(inside, some) or {}).items():
            names += _named(cluster.members[domain], gpus, count * k)
    return names


def _counted(cluster: Fleet, request: Request) -> list[int]:
    slots, gpus, eligibility = [0] * len(cluster.members), request.gpus_per_pod, request.eligible
    for node in cluster.nodes:
        if node.host.is_open and is_eligible(node.host, eligibility):
            slots[node.domain] += node.free // gpus
    return slots


def _fewest(capacities: Mapping[int, int], need: int) -> dict[int, int] | None:
    """Groups to take from each: the smallest that holds the rest, else the largest, and so on."""
    left = sorted((some, at) for at, some in capacities.items() if some)
    taken: dict[int, int] = {}
    while need:
        if not left:
            return None
        fitting = next((i for i, (some, _) in enumerate(left) if some >= need), len(left) - 1)
        some, at = left.pop(fitting)
        taken[at] = min(some, need)
        need -= taken[at]
    return taken


def _named(members: Sequence[Record], gpus: int, pods: int) -> list[NodeName]:
    names: list[NodeName] = []
    for node in members:
        if node.host.is_open:
            names += [node.host.name] * (node.free // gpus)
    return names[:pods]
