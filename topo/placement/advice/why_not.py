"""Why a job does not fit, in sentences with their numbers."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from topo.placement.advice.need import Need, need_of, rooms_in
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.eligible import eligible
from topo.placement.job.plan import FitTest, NoFit
from topo.placement.job.request import Eligibility, Request, Toleration
from topo.placement.job.words import counted, listed, plural

_FULLEST = 3


def reasons(capacity: Capacity, nofit: NoFit) -> tuple[str, ...]:
    """The test that failed with its numbers, then what is known about it; one fact a sentence.

    `capacity` is the one that refused. O(nodes).
    """
    numbers = nofit.shortfall
    text = f"{nofit.text[:1].upper()}{nofit.text[1:]}"
    first = f"{text}: {numbers['missing']} missing of {numbers['needed']}."
    return (first, *_facts(capacity, nofit))


def _facts(capacity: Capacity, nofit: NoFit) -> Iterator[str]:
    request = nofit.request
    if nofit.failed is FitTest.LABEL:
        yield _filtered(capacity, request)
        return
    need = _roomiest(capacity, request)
    if need is None:
        return
    if nofit.failed in {FitTest.GPUS, FitTest.SLOTS}:
        yield _pieces(need)
        yield _closed(capacity, need)
        return
    gpus, pods = request.pods * request.gpus_per_pod, need.shape.pods
    if need.slots.total >= pods:
        yield (
            f"Not the cause: {need.slots.room_gpus} GPUs are free of {gpus} needed, "
            f"with room for {need.slots.total} of {counted(pods, 'pod')}."
        )
    fullest = _fullest(need)
    if fullest:
        yield fullest


def _roomiest(capacity: Capacity, request: Request) -> Need | None:
    """The need over the GPU type of which most is free."""
    wished = request.eligible.gpu_type
    types = capacity.gpu_types() if wished is None else (wished,)
    needs = [need_of(capacity, request, gpu_type) for gpu_type in types]
    return max(needs, key=lambda need: need.slots.room_gpus, default=None)


def _filtered(capacity: Capacity, request: Request) -> str:
    """How many nodes each filter lets through by itself."""
    hosts, wish = list(capacity.hosts()), request.eligible
    anyone = Eligibility(tolerations=(Toleration(operator="Exists"),))
    alone = (
        (f"have GPUs of type {wish.gpu_type!r}", replace(anyone, gpu_type=wish.gpu_type)),
        ("have the labels", replace(anyone, selector=wish.selector)),
        ("are not left out", replace(anyone, exclude=wish.exclude)),
        ("have no taint in the way", Eligibility(tolerations=wish.tolerations)),
    )
    asked = [(what, one) for what, one in alone if one != anyone]
    let_through = [(what, sum(eligible(host, one) for host in hosts)) for what, one in asked]
    found = [f"{number} {what}" for what, number in let_through if number < len(hosts)]
    return f"Of {counted(len(hosts), 'node')}, {listed(found) or '0 have GPUs'}."


def _pieces(need: Need) -> str:
    pods, gpus = need.slots.total, need.shape.gpus
    lost = need.slots.room_gpus - pods * gpus
    return (
        f"Of {counted(need.slots.room_gpus, 'free GPU')} on {counted(need.slots.nodes, 'node')}, "
        f"{lost} are in pieces smaller than a pod of {gpus}."
    )


def _closed(capacity: Capacity, need: Need) -> str:
    """What is shut away, by cause."""
    closed = [host for host in capacity.hosts() if not host.open and eligible(host, need.wish)]
    gpus = sum(capacity.free(host.name) for host in closed)
    broken = sum(not host.ready for host in closed)
    return (
        f"Another {counted(gpus, 'free GPU')} are on closed nodes: {broken} not ready, "
        f"{len(closed) - broken} cordoned."
    )


def _fullest(need: Need) -> str:
    """What the fullest domains have room for, in groups where the job stays within a kind."""
    shape, tier = need.shape, need.shape.whole_in
    if need.request.within is not None:
        return _fullest_scopes(need)
    if not shape.tier:
        return ""
    rooms = need.layout.rolled(need.slots.free, tier)
    size = shape.k if shape.m else shape.r
    # A domain that has room for whole groups is as near to the next one as what is left over is.
    rest = rooms % size
    order = np.argsort(-rest, kind="stable")[:_FULLEST].tolist()
    names = [
        f"{'/'.join(need.layout.ref(tier, domain).path)} for {int(rest[domain])}"
        for domain in order
    ]
    if not names:
        return ""
    kinds = {need.layout.ref(tier, domain).kind for domain in order}
    noun = kinds.pop() if len(kinds) == 1 else "domain"
    of = f"a group of {counted(size, 'pod')}"
    return f"Nearest to {of} are the {plural(noun)} with room left {listed(names)}."


def _fullest_scopes(need: Need) -> str:
    names = []
    for scope in need.scopes[:_FULLEST]:
        groups = int((rooms_in(need, scope) // need.shape.k).sum())
        names.append(
            f"{'/'.join(scope.path)} for {counted(groups, 'whole group')} "
            f"or {counted(scope.room, 'pod')}"
        )
    if not names:
        return f"There are 0 groups of kind {need.request.within}."
    return f"The {plural(str(need.request.within))} with most room have it: {listed(names)}."
