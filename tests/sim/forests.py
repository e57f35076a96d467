"""Small clusters for tests of placement policies, a node's free GPUs as a number."""

from collections.abc import Iterable, Sequence

from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host
from topo.placement.job.plan import Pods
from topo.placement.job.request import Request

Domain = Sequence[int]
"""Free GPUs of each node."""


def tree(*tops: Sequence[Domain], size: int | None = None) -> Capacity:
    """Two tiers: the domains of each top group, nodes named n1, n2, … in natural order.

    `size` is how many GPUs every node has; without it as many as are free.
    """
    capacity = Capacity()
    number = domain_number = 0
    for top_number, domains in enumerate(tops, start=1):
        for domain in domains:
            domain_number += 1
            path = (f"s{top_number}", f"d{domain_number}")
            for free in domain:
                number += 1
                _node(capacity, f"n{number}", path, (size or free, free))
    return capacity


def flat(*domains: Domain, size: int | None = None) -> Capacity:
    """One tier: domains that nothing joins."""
    capacity = Capacity()
    number = 0
    for domain_number, domain in enumerate(domains, start=1):
        for free in domain:
            number += 1
            _node(capacity, f"n{number}", (f"d{domain_number}",), (size or free, free))
    return capacity


def _node(capacity: Capacity, name: str, path: tuple[str, ...], size_free: tuple[int, int]) -> None:
    size, free = size_free
    kinds, tiers = (SWITCHBOX, DRAGONFLY)[-len(path) :], (2, 1)[-len(path) :]
    host = Host(
        name=NodeName(name),
        path=GroupPath(tuple(map(GroupName, path))),
        kinds=kinds,
        tiers=tiers,
        gpus=size,
    )
    capacity.upsert(host)
    if size > free:
        capacity.book(f"busy-{name}", {host.name: size - free})


def ask(pods: int, gpus: int = 1, group: int | None = None) -> Request:
    """So many pods; `group` is the size of a group in pods."""
    return Request(pods=pods, gpus_per_pod=gpus, group_size=None if group is None else group * gpus)


def counts(groups: Iterable[Pods] | None) -> dict[str, int]:
    """Pods by node over all groups."""
    assert groups is not None
    found: dict[str, int] = {}
    for group in groups:
        for node, pods in group:
            found[node] = found.get(node, 0) + pods
    return found


def by_domain(capacity: Capacity, groups: Iterable[Pods] | None) -> dict[str, int]:
    """Pods by innermost group over all groups."""
    found: dict[str, int] = {}
    for node, pods in counts(groups).items():
        host = capacity.host(NodeName(node))
        assert host is not None
        found[host.path[-1]] = found.get(host.path[-1], 0) + pods
    return found
