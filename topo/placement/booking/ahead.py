"""How many GPUs a namespace may keep for pods that it stated and that do not exist yet.

Result: why a keeper may not keep what it asks for, with the numbers; empty where it may. Keepers
are gangs whose pods are made one after the other, groups without gates, requests for capacity, and
jobs that are held before their quota.

How: GPUs of pods that exist are bounded by Kubernetes, since a ResourceQuota counts every pod. What
is kept ahead of pods no quota counts, so it is counted here, for all keepers of a namespace
together, and compared with its limit:

    the namespace has a ResourceQuota on GPUs    what that leaves it: hard less used
    it has none                                  a share of all GPUs of the type

GPUs that a queue of Kueue reserved for a job are not counted against the share, because the queue
has bounded them; against a ResourceQuota they are. The share is at least one innermost group, since
a part of one is of no use, but no more than half of all: in a small cluster one group may be all.

Why it is right: a keeper is compared before it gets more, in the step in which it is booked, and
what it has already is not taken from it when a limit falls. So the sum of a namespace grows only up
to its limit, whatever leader decides. Nothing is remembered: the sum is counted from holds and
pods, which the next leader reads, too.

Cost: O(what the namespace keeps).

Example: 64 GPUs in dragonflies of 16, a share of 0.25, no quota: 16 GPUs may be kept. One pod of 8
GPUs states a gang of eight: its seven others would keep 56, and the gang waits. With a
ResourceQuota of 64, of which the one pod uses 8, 56 are left, and the gang starts.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from fractions import Fraction

from topo.model.words import counted
from topo.placement.booking.holds import HoldId

Queued = Callable[[str, str], int]
"""Returns the GPUs that a queue reserved for a Workload of Kueue, by its namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAhead:
    """GPUs of one type that one keeper has ahead of its pods.

    `id` tells keepers apart: one of `OWN_KEYS` and by what the keeper is found, since a gang may
    have holds of two kinds. `kind` is gang, group, request or workload, `name` is what people call
    it in its namespace. `since_s` is when the oldest of its holds was made, on the clock of the
    bookings. `workload` is the Workload of Kueue that it is of, empty for none. `holds` book these
    GPUs.
    """

    id: str
    namespace: str
    kind: str
    name: str
    gpu_type: str
    gpus: int
    since_s: float
    workload: str = ""
    holds: tuple[HoldId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AheadRequest:
    """What the keeper `id` would keep in all: `gpus` GPUs of `gpu_type`.

    `own` are holds that it takes the place of. `pods` are those that are not made yet; `resource`
    is what the pods ask for, empty where they get their GPUs by claims, None where it is not known.
    """

    id: str
    namespace: str
    gpus: int
    gpu_type: str
    pods: int
    resource: str | None = None
    workload: str = ""
    own: Container[HoldId] = ()

    def claim(self, kind: str = "", name: str = "") -> KeptAhead:
        """Return what its keeper, of this kind and name, keeps once it is granted."""
        return KeptAhead(
            id=self.id,
            namespace=self.namespace,
            kind=kind,
            name=name,
            gpu_type=self.gpu_type,
            gpus=self.gpus,
            since_s=0.0,
            workload=self.workload,
        )


@dataclass(frozen=True, slots=True)
class AheadLimit:
    """The most GPUs that a namespace may keep ahead, None for no limit, and what says so.

    A quota counts GPUs of all types, and those that a queue reserved; a share those of one type
    that no queue did.
    """

    gpus: int | None
    source: str
    is_quota: bool

    def allows(self, gpus: int) -> bool:
        """Return whether so many GPUs may be kept."""
        return self.gpus is None or gpus <= self.gpus


def share_limit(share: float, gpus: int, group_gpus: int) -> AheadLimit:
    """Return the limit that is a share of all GPUs of a type; `group_gpus` are of the largest
    innermost group.
    """
    if share >= 1:
        return AheadLimit(None, f"--ahead-share {share:g}", is_quota=False)
    # A share as it is written: 0.29 of 100 GPUs are 29, and not one less by binary fractions.
    part = int(Fraction(str(share)) * gpus)
    least = min(group_gpus, gpus // 2) if share > 0 else 0
    source = f"--ahead-share {share:g} of {gpus} GPUs"
    if part < least:
        source = f"{source}, and at least one group"
    return AheadLimit(max(part, least), source, is_quota=False)


def kept_gpus(kept: Iterable[KeptAhead], limit: AheadLimit, gpu_type: str, queued: Queued) -> int:
    """Return the GPUs that count against a limit; O(kept)."""
    if limit.is_quota:
        return sum(each.gpus for each in kept)
    of_workload: Counter[tuple[str, str]] = Counter()
    for each in kept:
        if each.gpu_type == gpu_type:
            of_workload[each.namespace, each.workload] += each.gpus
    return sum(max(0, gpus - (queued(*key) if key[1] else 0)) for key, gpus in of_workload.items())


def excess(
    asked: AheadRequest, kept: Iterable[KeptAhead], limit: AheadLimit, queued: Queued, *, total: int
) -> str:
    """Return why the keeper may not keep what it asks for; empty where it may. O(kept).

    `kept` is what its namespace keeps, `total` are all GPUs of the type. A keeper that asks for no
    more than it has may have it.
    """
    others, had = list[KeptAhead](), 0
    for each in kept:
        if each.id == asked.id or any(hold in asked.own for hold in each.holds):
            had += each.gpus
        else:
            others.append(each)
    if asked.gpus <= had:
        return ""
    if limit.allows(kept_gpus([*others, asked.claim()], limit, asked.gpu_type, queued)):
        return ""
    of_type = f" of type {asked.gpu_type}" if asked.gpu_type else ""
    there = kept_gpus(others, limit, asked.gpu_type, queued)
    return (
        f"namespace {asked.namespace} keeps {there} of {total} GPUs{of_type} ahead of its pods and"
        f" may keep {limit.gpus} ({limit.source}): this job would keep {asked.gpus} more for"
        f" {counted(asked.pods, 'pod')} that {'is' if asked.pods == 1 else 'are'} not there yet; "
        f"{_what_to_do(asked, limit)}"
    )


def _what_to_do(asked: AheadRequest, limit: AheadLimit) -> str:
    if limit.is_quota:
        return "raise that quota, or end what keeps the others (topo gangs)"
    quota = f"a ResourceQuota on requests.{asked.resource}" if asked.resource else "more"
    return f"have all of its pods made at once, or ask the operator for {quota} (--ahead-share)"
