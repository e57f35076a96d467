"""Hosts and capacities for tests: nodes of eight GPUs in dragonflies in switchboxes."""

from collections.abc import Iterable, Sequence

from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, Kind, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host
from topo.placement.job.plan import Plan
from topo.placement.job.policy import Policy

KINDS = (Kind("pod"), SWITCHBOX, DRAGONFLY)


def host(name: str, path: Sequence[str] = (), **more: object) -> Host:
    """A node of eight GPUs at the end of a path of dragonflies, switchboxes, pods."""
    tiers = tuple(range(len(path), 0, -1))
    values: dict[str, object] = {
        "name": NodeName(name),
        "path": GroupPath(tuple(GroupName(each) for each in path)),
        "kinds": KINDS[len(KINDS) - len(path) :],
        "tiers": tiers,
        "gpus": 8,
        "gpu_type": "A",
    }
    return Host(**(values | more))  # type: ignore[arg-type]


def capacity_of(hosts: Iterable[Host], policy: Policy | None = None) -> Capacity:
    """A capacity with these hosts, on which nothing is booked."""
    capacity = Capacity(policy or Policy())
    for each in hosts:
        capacity.upsert(each)
    return capacity


def leaves(count: int, per_group: int) -> Capacity:
    """Nodes n0, n1, … in groups d0, d1, … of one tier, whose kind is `leaf`."""
    return capacity_of(
        host(f"n{number}", (f"d{number // per_group}",), kinds=(Kind("leaf"),))
        for number in range(count)
    )


def cluster(*tops: Sequence[int], policy: Policy | None = None, size: int = 0) -> Capacity:
    """A switchbox for each sequence, with a dragonfly for each number: its free nodes.

    `size` nodes are in each dragonfly, the rest of them taken; without it only the free ones are.
    """
    capacity = Capacity(policy or Policy())
    for s, frees in enumerate(tops, start=1):
        for d, free in enumerate(frees, start=1):
            for n in range(1, max(free, size) + 1):
                capacity.upsert(host(f"n{s}-{d}-{n}", (f"s{s}", f"d{d}")))
                if n > free:
                    take(capacity, f"n{s}-{d}-{n}")
    return capacity


def take(capacity: Capacity, name: str, gpus: int = 8) -> None:
    """Book GPUs of a node for an owner of its own."""
    capacity.book(f"on-{name}", {NodeName(name): gpus})


def shares(plan: Plan) -> dict[str, int]:
    """Pods by path of the dragonfly, in the order of rank."""
    found: dict[str, int] = {}
    for group in plan.groups:
        for name, pods in group.pods:
            at = "/".join(name.removeprefix("n").split("-")[:2])
            found[at] = found.get(at, 0) + pods
    return found


def host_at(top: int, inner: int, number: int, gpus: int = 8, gpu_type: str = "A") -> Host:
    """A node of a dragonfly in a switchbox."""
    name, path = f"n-{top}-{inner}-{number}", (f"s{top}", f"d{inner}")
    return host(name, path, gpus=gpus, gpu_type=gpu_type)


def partly_free(*free: tuple[int, ...], whole: int = 8) -> Capacity:
    """One switchbox for each tuple, one dragonfly for each number of free nodes in it."""
    capacity = Capacity()
    for top, dragonflies in enumerate(free, start=1):
        for inner, left in enumerate(dragonflies, start=1):
            for number in range(1, whole + 1):
                host = host_at(top, inner, number)
                capacity.upsert(host)
                if number > left:
                    capacity.book(f"job-{host.name}", {host.name: 8})
    return capacity


def state(capacity: CapacityView) -> tuple[object, ...]:
    """All that a search or a what-if must leave as it was."""
    bookings = {owner: dict(gpus) for owner, gpus in capacity.bookings().items()}
    return capacity.version, tuple(capacity.hosts()), bookings
