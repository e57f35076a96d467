"""Whether a queue of Volcano has room for a gang: one that is opened without it stays Pending.

A queue gets at most its `capability`, and of the cluster what the guarantees of the other queues
leave; a queue below another one also what that may have. Both plugins that keep queues refuse a
pod beyond it (Volcano v1.14: `realCapability` of `plugins/capacity` and `plugins/proportion`).

Not counted: the share that `proportion` gives a queue by weight while others ask for the same, and
`deserved` of `capacity`, up to which a queue reclaims. They move with every gang that comes, and a
gang beyond them waits in the scheduler, whole, until others have gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from master.kube.volcano import QueueObject
from topo.model.quantity import whole

ROOT = "root"
"""Volcano's own queue above all others; it has no limit but the cluster."""
MAX_DEPTH = 16
OPEN = "Open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """GPUs that a gang would take in a queue, of a resource."""

    queue: str
    resource: str
    gpus: int


def missing_room(
    asked: Asked,
    queues: Mapping[str, QueueObject],
    *,
    taken: Mapping[str, int],
    total: int,
) -> str:
    """Why the queue cannot take so many GPUs now, in words; empty where it can.

    `taken`: GPUs that pods have in each queue, or will have once the scheduler comes to them.
    `total`: GPUs of the cluster. O(queues).
    """
    queue = queues.get(asked.queue)
    if queue is None:
        return f"queue {asked.queue} is not there"
    if queue.status.state and queue.status.state != OPEN:
        return f"queue {asked.queue} is {queue.status.state}"
    for name in _upwards(asked.queue, queues):
        limit = _limit(name, queues, asked.resource, total)
        used = taken_in(name, queues, asked.resource, taken)
        if limit is not None and used + asked.gpus > limit:
            left = max(0, limit - used)
            return f"queue {name} has {left} of {limit} GPUs left where {asked.gpus} are needed"
    return ""


def taken_in(
    name: str, queues: Mapping[str, QueueObject], resource: str, taken: Mapping[str, int]
) -> int:
    """GPUs in use in a queue and below it: what the queue says, or what its pods say if more."""
    below = [each for each in queues if name in _upwards(each, queues)]
    said = (queues[name].status.allocated or {}).get(resource, "0")
    return max(whole(said) or 0, sum(taken.get(each, 0) for each in below))


def _upwards(name: str, queues: Mapping[str, QueueObject]) -> list[str]:
    """The queue and those above it, but for the root."""
    found: list[str] = []
    while name in queues and name != ROOT and len(found) < MAX_DEPTH:
        found.append(name)
        name = queues[name].spec.parent or ROOT
    return found


def _limit(name: str, queues: Mapping[str, QueueObject], resource: str, total: int) -> int | None:
    """GPUs that the queue can ever have; None where nothing limits it but what is free."""
    queue = queues[name]
    own = queue.spec.capability.get(resource)
    parent = queue.spec.parent or ROOT
    others = sum(
        whole(each.spec.guarantee.resource.get(resource, "0")) or 0
        for each in queues.values()
        if each.metadata.name not in {name, ROOT} and (each.spec.parent or ROOT) == parent
    )
    stated = [total - others] if others else []
    if own is not None:
        stated.append(whole(own) or 0)
    return max(0, min(stated)) if stated else None
