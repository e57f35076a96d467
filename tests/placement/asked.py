"""Jobs that are asked for, and their plans or refusals."""

from tests.support.capacity import host, take
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import Request


def job(pods: int, **more: object) -> Request:
    values: dict[str, object] = {"pods": pods, "gpus_per_pod": 8, "group_size": 64}
    return Request(**(values | more))  # type: ignore[arg-type]


def planned(capacity: Capacity, request: Request) -> Plan:
    answer = place(capacity, request)
    assert isinstance(answer, Plan), answer
    return answer


def refused(capacity: Capacity, request: Request) -> NoFit:
    answer = place(capacity, request)
    assert isinstance(answer, NoFit), answer
    return answer


def two_types(first: Capacity, frees: tuple[int, ...], *, nodes: int = 2) -> Capacity:
    """A cluster of type A, and one more switchbox of type B with dragonflies of so many nodes."""
    for number, free in enumerate(frees, start=1):
        for n in range(1, nodes + 1):
            name = f"n9-{number}-{n}"
            first.upsert(host(name, ("s9", f"d{number}"), gpu_type="B"))
            if n > free:
                take(first, name)
    return first
