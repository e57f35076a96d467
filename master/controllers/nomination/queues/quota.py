"""Whether a Volcano queue has quota for a gang; without it the gang would stay Pending.

A queue gets at most its `capability`, at most the GPUs that the guarantees of other queues leave,
and at most the limit of its parent queue. Both queue plugins refuse a pod beyond that limit
(Volcano v1.14: `realCapability` of `plugins/capacity` and `plugins/proportion`). With `proportion`
a queue also gets no more than its share by weight while other queues ask for theirs (`fair_share`);
gated pods count as requests.

Not counted: the field `deserved` of the plugin `capacity`, up to which a queue reclaims GPUs from
others. A gang beyond it is admitted if there is room.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from master.controllers.nomination.queues.fair_share import QueueClaim, shares
from master.kube.schedulers.volcano import QueueObject
from topo.model.quantity import whole

ROOT = "root"
"""Volcano's own queue above all others; it has no limit but the cluster."""
MAX_DEPTH = 16
OPEN = "Open"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedGpus:
    """The GPUs of one resource that a gang would take in a queue."""

    gang: str
    queue: str
    resource: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """GPUs by queue, and the GPUs of the cluster.

    `taken`: GPUs of pods that have a node or are about to get one. `wanted`: `taken` plus the
    requests of gated pods; None if queues have no share by weight. `total`: GPUs of the cluster.
    """

    taken: Mapping[str, int]
    wanted: Mapping[str, int] | None
    total: int


@dataclass(frozen=True, slots=True)
class MissingQuota:
    """Why a queue cannot take a gang now. `never`: it could not even if all other jobs ended."""

    text: str
    never: bool = False


def missing_quota(
    asked: AskedGpus, queues: Mapping[str, QueueObject], usage: Usage
) -> MissingQuota | None:
    """Return why the queue cannot take so many GPUs now; None if it can. O(queues²)."""
    queue = queues.get(asked.queue)
    if queue is None:
        return MissingQuota(f"queue {asked.queue} is not there")
    if queue.status.state and queue.status.state != OPEN:
        return MissingQuota(f"queue {asked.queue} is {queue.status.state}")
    limits = {
        name: limit
        for name in _upwards(asked.queue, queues)
        if (limit := _limit(name, queues, asked.resource, usage.total)) is not None
    }
    # A limit below the request is final; anything else may change when other jobs end.
    tight = min(limits, key=lambda name: limits[name], default=None)
    if tight is not None and limits[tight] < asked.gpus:
        return MissingQuota(_too_small(tight, asked, queues, usage.total), never=True)
    for name, limit in limits.items():
        used = taken_in(name, queues, asked.resource, usage.taken)
        if used + asked.gpus > limit:
            left = max(0, limit - used)
            text = f"queue {name} has {left} of {limit} GPUs left where {asked.gpus} are needed"
            return MissingQuota(text)
    return _beyond_share(asked, queues, usage)


def taken_in(
    name: str, queues: Mapping[str, QueueObject], resource: str, taken: Mapping[str, int]
) -> int:
    """Return the GPUs used in a queue and its children.

    That is the queue's own count or the sum over its pods, whichever is larger.
    """
    below = [each for each in queues if name in _upwards(each, queues)]
    said = (queues[name].status.allocated or {}).get(resource, "0")
    return max(whole(said) or 0, sum(taken.get(each, 0) for each in below))


def _too_small(name: str, asked: AskedGpus, queues: Mapping[str, QueueObject], total: int) -> str:
    """Return a text: the queue is too small for the gang, and the smallest change that helps."""
    limit = _limit(name, queues, asked.resource, total) or 0
    own = whole(queues[name].spec.capability.get(asked.resource, ""))
    why = f"queue {name} may have {limit} GPUs and {asked.gpus} are needed"
    if asked.gpus > total:
        return f"{why}; the cluster has {total}"
    if own is not None and own < asked.gpus:
        change = f"its capability were {asked.gpus}"
    else:
        change = f"other queues were guaranteed {asked.gpus - limit} GPUs less"
    for other in sorted(queues.keys() - {name, ROOT}):
        chain = _upwards(other, queues)
        most = [_limit(each, queues, asked.resource, total) for each in chain]
        is_open = queues[other].status.state in {"", OPEN}
        if is_open and all(each is None or each >= asked.gpus for each in most):
            return f"{why}; it would fit if {change}, or in queue {other}"
    return f"{why}; it would fit if {change}"


def _beyond_share(
    asked: AskedGpus, queues: Mapping[str, QueueObject], usage: Usage
) -> MissingQuota | None:
    """Return why a gang has to wait for its queue's share by weight; None if it need not wait."""
    wanted = usage.wanted
    if wanted is None or any(each.spec.deserved for each in queues.values()):
        return None  # only the plugin `capacity` reads what a queue deserves
    asking = [name for name in queues if wanted.get(name)]
    claims = {name: _claim(name, queues, asked.resource, usage) for name in asking}
    if len(claims) < 2:
        return None  # one queue alone may use everything
    share = shares(claims, usage.total).get(asked.queue, 0)
    used = usage.taken.get(asked.queue, 0)
    if used + asked.gpus <= share:
        return None
    weight, weights = claims[asked.queue].weight, sum(each.weight for each in claims.values())
    others = ", ".join(f"{name} {claims[name].wanted}" for name in sorted(claims))
    return MissingQuota(
        f"queue {asked.queue} has {used} of the {share} GPUs that its weight"
        f" ({weight} of {weights}) gives it now where {asked.gpus} are needed; asked for: {others}"
    )


def _claim(name: str, queues: Mapping[str, QueueObject], resource: str, usage: Usage) -> QueueClaim:
    queue, limit = queues[name], _limit(name, queues, resource, usage.total)
    return QueueClaim(
        weight=queue.spec.weight,
        wanted=(usage.wanted or {}).get(name, 0),
        limit=usage.total if limit is None else limit,
        guaranteed=_guaranteed(queue, resource),
    )


def _guaranteed(queue: QueueObject, resource: str) -> int:
    return whole(queue.spec.guarantee.resource.get(resource, "0")) or 0


def _upwards(name: str, queues: Mapping[str, QueueObject]) -> list[str]:
    """Return the queue and its ancestors, without the root."""
    found: list[str] = []
    while name in queues and name != ROOT and len(found) < MAX_DEPTH:
        found.append(name)
        name = queues[name].spec.parent or ROOT
    return found


def _limit(name: str, queues: Mapping[str, QueueObject], resource: str, total: int) -> int | None:
    """Return the most GPUs that the queue can ever have; None if it has no limit of its own."""
    queue = queues[name]
    own = queue.spec.capability.get(resource)
    parent = queue.spec.parent or ROOT
    # What the siblings are guaranteed is never available here.
    others = sum(
        _guaranteed(each, resource)
        for each in queues.values()
        if each.metadata.name not in {name, ROOT} and (each.spec.parent or ROOT) == parent
    )
    stated = [total - others] if others else []
    if own is not None:
        stated.append(whole(own) or 0)
    return max(0, min(stated)) if stated else None
