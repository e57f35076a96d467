"""Why a job does not fit, in sentences with their numbers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from topo.model.words import counted, listed, plural
from topo.placement.advice.suggestion import RefusedJob, Region, jobs_inside, refused_jobs
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import (
    Host,
    hosts_of_unknown_size,
    hosts_of_unknown_type,
    is_eligible,
    is_in_pool,
)
from topo.placement.capacity.slots import Slots
from topo.placement.job.plan import FitTest, NoFit
from topo.placement.job.request import Eligibility, Request, Toleration

_SHOWN = 3


def reasons(capacity: CapacityView, refused: NoFit) -> tuple[str, ...]:
    """Return the test that failed with its numbers, then known facts; one fact a sentence.

    `capacity` is the one that refused. O(nodes).
    """
    numbers = refused.shortfall
    text = f"{refused.text[:1].upper()}{refused.text[1:]}"
    first = f"{text}: {numbers['missing']} missing of {numbers['needed']}."
    wish = refused.request.eligible
    hosts = capacity.hosts()
    asides = filter(None, (untyped_nodes(hosts, wish), other_pools(capacity, wish)))
    said = (f"{aside[:1].upper()}{aside[1:]}." for aside in asides)
    nodes = (*_unsized(hosts, wish), *_sharing(hosts, wish))
    return (first, *nodes, *said, *_facts(capacity, hosts, refused))


def other_pools(capacity: CapacityView, wish: Eligibility) -> str:
    """Return how many free GPUs are in pools that a job with this usage never gets; O(nodes).

    Empty where there are none, and for a job without a usage.
    """
    free: Counter[str] = Counter()
    for host in capacity.hosts() if wish.usage else ():
        if not is_in_pool(host.pool, wish):
            free[host.pool] += capacity.free(host.name)
    found = [f"{gpus} in the pool {pool!r}" for pool, gpus in sorted(free.items()) if gpus]
    return f"free, and not for a {wish.usage} job: {listed(found)}" if found else ""


def untyped_nodes(hosts: Sequence[Host], wish: Eligibility) -> str:
    """Return how many GPUs are on nodes of no known type, empty where there are none; O(nodes)."""
    untyped = hosts_of_unknown_type(hosts, wish)
    gpus = sum(host.gpus for host in untyped)
    return (
        f"the type of {counted(gpus, 'GPU')} on {counted(len(untyped), 'node')} is not known: "
        "no worker and no label says it"
        if untyped
        else ""
    )


def _unsized(hosts: Sequence[Host], wish: Eligibility) -> Iterator[str]:
    """Yield a sentence on nodes whose number of GPUs is unknown."""
    if bare := sum(1 for _ in hosts_of_unknown_size(hosts, wish)):
        yield (
            f"{bare} of {counted(len(hosts), 'node')} have no known number of GPUs: "
            "no worker and no setting says it."
        )


def _sharing(hosts: Sequence[Host], wish: Eligibility) -> Iterator[str]:
    """Yield a sentence on nodes that share their cards, so that they have no whole GPU."""
    any_type = replace(wish, gpu_type=None)
    sharing = [host for host in hosts if host.shared and is_eligible(host, any_type)]
    if sharing:
        resources = listed(sorted({resource for host in sharing for resource, _ in host.shared}))
        yield (
            f"{counted(len(sharing), 'node')} more hand out parts of their cards ({resources}), "
            "so no whole GPU."
        )


def _facts(capacity: CapacityView, hosts: Sequence[Host], refused: NoFit) -> Iterator[str]:
    request = refused.request
    if refused.failed is FitTest.LABEL:
        yield _filtered(hosts, request)
        return
    # The facts are those of the type of which the refusal is.
    of_type = request if refused.gpu_type is None else request.on_type(refused.gpu_type)
    jobs = refused_jobs(capacity, of_type)
    job = max(jobs, key=lambda job: job.view.slots.free_gpus, default=None)
    if job is None:
        return
    slots, shape = job.view.slots, job.view.shape
    if refused.failed in {FitTest.GPUS, FitTest.SLOTS}:
        yield _pieces(slots)
        yield _closed(capacity, slots.eligibility)
        return
    if slots.total >= shape.pods:
        gpus = shape.pods * shape.gpus
        yield (
            f"Not the cause: {slots.free_gpus} GPUs are free of {gpus} needed, "
            f"with room for {slots.total} of {counted(shape.pods, 'pod')}."
        )
    others = jobs_inside(capacity, of_type) if job.view.others is not None else ()
    fullest = _fullest_elsewhere(request, others) if others else _fullest(job)
    if fullest:
        yield fullest


def _filtered(hosts: Sequence[Host], request: Request) -> str:
    """Return how many nodes each filter of the job lets through by itself."""
    wish = request.eligible
    anyone = Eligibility(tolerations=(Toleration(operator="Exists"),))
    alone = (
        (f"have GPUs of type {wish.gpu_type!r}", replace(anyone, gpu_type=wish.gpu_type)),
        ("have the labels", replace(anyone, selector=wish.selector)),
        ("are not left out", replace(anyone, exclude=wish.exclude)),
        (f"are for {wish.usage}", replace(anyone, usage=wish.usage)),
        ("have no taint in the way", Eligibility(tolerations=wish.tolerations, usage=wish.usage)),
    )
    asked = [(what, one) for what, one in alone if one != anyone]
    let_through = [(what, sum(is_eligible(host, one) for host in hosts)) for what, one in asked]
    found = [f"{number} {what}" for what, number in let_through if number < len(hosts)]
    return f"Of {counted(len(hosts), 'node')}, {listed(found) or '0 have GPUs'}."


def _pieces(slots: Slots) -> str:
    lost = slots.free_gpus - slots.total * slots.gpus
    return (
        f"Of {counted(slots.free_gpus, 'free GPU')} on {counted(slots.nodes, 'node')}, "
        f"{lost} are in pieces smaller than a pod of {slots.gpus}."
    )


def _closed(capacity: CapacityView, wish: Eligibility) -> str:
    """Return how many unbooked GPUs are on closed nodes, by cause."""
    closed = [host for host in capacity.closed_hosts() if is_eligible(host, wish)]
    gpus = sum(capacity.unbooked(host.name) for host in closed)
    broken = sum(not host.ready for host in closed)
    apart = [f"{host.name}: {host.quarantine}" for host in closed if host.quarantine is not None]
    quarantined = f", of these in quarantine {listed(apart)}" if apart else ""
    return (
        f"Another {counted(gpus, 'unbooked GPU')} are on closed nodes: {broken} not ready, "
        f"{len(closed) - broken} cordoned{quarantined}."
    )


def _fullest(job: RefusedJob) -> str:
    """Return the domains that lack least for one more group, or the groups the job may be in."""
    if job.request.within is not None:
        return _fullest_regions(job)
    view, shape = job.view, job.view.shape
    if not view.group_can_fit:
        return ""
    size = shape.k if shape.m else shape.r
    # A domain that has room for whole groups is as near to the next one as what is left over is.
    rest = view.free_slots % size
    order = np.argsort(-rest, kind="stable")[:_SHOWN].tolist()
    if not order:
        return ""
    refs = {domain: view.layout.ref(shape.tier, domain) for domain in order}
    names = [f"{'/'.join(ref.path)} for {int(rest[domain])}" for domain, ref in refs.items()]
    kinds = {ref.kind for ref in refs.values()}
    noun = kinds.pop() if len(kinds) == 1 else "domain"
    of = f"a group of {counted(size, 'pod')}"
    return f"Nearest to {of} are the {plural(noun)} with room left {listed(names)}."


def _fullest_regions(job: RefusedJob) -> str:
    names = [_room(job, region, region.path) for region in job.regions[:_SHOWN]]
    return _with_most_room(job.request, names)


def _fullest_elsewhere(request: Request, jobs: Sequence[RefusedJob]) -> str:
    """Return the same of groups of another fabric; each of the jobs is inside one of them."""
    jobs = sorted(jobs, key=lambda job: -job.regions[0].free_slots)[:_SHOWN]
    inside = [(job, job.request.eligible.inside) for job in jobs]
    names = [_room(job, job.regions[0], group.path) for job, group in inside if group]
    return _with_most_room(request, names)


def _room(job: RefusedJob, region: Region, path: Sequence[str]) -> str:
    groups = int((job.free_slots(region) // job.view.shape.k).sum())
    room = f"{counted(groups, 'whole group')} or {counted(region.free_slots, 'pod')}"
    return f"{'/'.join(path)} for {room}"


def _with_most_room(request: Request, names: Sequence[str]) -> str:
    if not names:
        return ""  # the sentence of the failed test says so, with the kinds that there are
    return f"The {plural(str(request.within))} with most room have it: {listed(names)}."
