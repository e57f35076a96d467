"""What a refused job could ask for instead and get: one change, fewer pods, or several changes.

Every request that is suggested has been placed, so it fits as the cluster is. The most pods that
fit are counted, not searched: with groups of k pods a domain of f free slots holds f // k groups,
and the tail may be as large as the largest f % k. A job of one group is as large as the best domain
of the lowest tier that could hold it.

Cost: one placement for each change, O(domains) for the count.

Example: 24 pods in groups of 8, domains with 7, 9 and 3 free slots in one switchbox.
    whole groups  0 + 1 + 0 = 1, rests 7, 1 and 3
    fewer pods    8 + 7 = 15 of the 24
    preferred     19 free slots are fewer than 24 pods: not suggested

Several changes at once, where no single one suffices. Result: a request that can be placed, with as
few of its conditions given up as were found.

How: all conditions are given up at once: type, taints, labels, exclusions, limit, whole groups;
then, if need be, pods are cut into smaller ones, or there are fewer. Of what fits, sets of one
condition, of two and so on are given up alone, the lightest first, until the job fits: no smaller
set would do.

Cost: a count for each set of conditions, at most 2^6, and for each size of pod; one placement.

Example: 2 pods of 16 GPUs of type C in one switchbox, on nodes of 8 GPUs of type A. Without any
condition 4 pods of 8 fit. On type C they do not, in one switchbox and in whole groups they do: the
advice is "on A and in pods of 8 GPUs".
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from topo.model.limits import MAX_PODS
from topo.model.words import counted, listed
from topo.placement.advice.suggestion import RefusedJob, Region, Suggestion
from topo.placement.advice.suggestion import SuggestionKind as Kind
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import is_eligible
from topo.placement.capacity.layout import Counts
from topo.placement.engine import fits, place
from topo.placement.job.plan import FitTest, NoFit, Plan
from topo.placement.job.request import Eligibility, PlacementMode, Request, Toleration

_OTHER_TYPES = 3
_Condition = Callable[[Request], Request]
"""Puts a condition back into a request."""


def other_requests(
    capacity: CapacityView, refused: NoFit, jobs: Sequence[RefusedJob]
) -> Iterator[Suggestion]:
    """Yield requests that fit and keep all pods, with one change, or two if no single one helps."""
    request = refused.request
    found = _placed(capacity, request, _changes(capacity, refused, jobs))
    if not found and request.within is not None:
        words = f"in preferred mode if not in one {request.within}"
        both = replace(request, mode=PlacementMode.PREFERRED, within=None)
        found = _placed(capacity, request, [(Kind.PREFERRED, words, both)])
    yield from found


def fewer_pods(
    capacity: CapacityView, request: Request, jobs: Sequence[RefusedJob]
) -> Suggestion | None:
    """Return the largest smaller job that fits, if any."""
    pods = max((most_pods(capacity, job) for job in jobs), default=0)
    smaller = replace(request, pods=pods)
    if not pods or not fits(capacity, smaller):
        return None
    fewer = request.pods - pods
    return Suggestion(
        kind=Kind.FEWER_PODS,
        text=f"{pods} of the {counted(request.pods, 'pod')} fit now, {fewer} fewer.",
        numbers={"pods": pods, "fewer": fewer, "gpus": pods * request.gpus_per_pod},
        request=smaller,
    )


def most_pods(capacity: CapacityView, job: RefusedJob) -> int:
    """Return the most pods, fewer than asked for, that one region has slots for; 0 for none.

    In preferred mode any slots count; else all whole groups, and a tail as large as the largest
    rest.
    """
    request, view = job.request, job.view
    below = request.pods - 1
    if request.mode is PlacementMode.PREFERRED:
        return min(below, job.regions[0].free_slots) if job.regions else 0
    if request.group_size is None or not view.group_can_fit:
        return _most_in_one_domain(capacity, job)
    k = view.shape.k

    def pods(region: Region) -> int:
        free = job.free_slots(region)
        if not free.size:
            # A part of a domain of the groups: whoever has fewer pods than a group is whole in it.
            return min(region.free_slots, k - 1)
        return int((free // k).sum()) * k + int((free % k).max(initial=0))

    return min(below, _most_over(job.regions, pods))


def _most_in_one_domain(capacity: CapacityView, job: RefusedJob) -> int:
    """Return `most_pods` of a job that is one group.

    Which tier's domains hold the group depends on its size. So for each tier from the top down: as
    many pods as one of its domains has slots for, if they are too many for the tier below.
    """
    view = job.view
    peaks = (0, *capacity.peaks(view.slots.eligibility.gpu_type or "", view.shape.gpus))
    for tier in range(view.shape.tier, 0, -1):
        free = view.free_slots_of(tier)

        def pods(region: Region, tier: int = tier, free: Counts = free) -> int:
            return int(free[job.domains(region, tier)].max(initial=0))

        most = min(job.request.pods - 1, peaks[tier], _most_over(job.regions, pods))
        if most > peaks[tier - 1]:
            return most
    return 0


def _most_over(regions: Sequence[Region], pods: Callable[[Region], int]) -> int:
    """Return the most pods in any region; stops at regions with fewer slots than found pods."""
    best = 0
    for region in regions:
        if region.free_slots <= best:
            break
        best = max(best, pods(region))
    return best


_Change = tuple[Kind, str, Request]
"""The kind of a change, how it is put after "All 8 pods fit", the request with it."""


def _changes(
    capacity: CapacityView, refused: NoFit, jobs: Sequence[RefusedJob]
) -> Iterator[_Change]:
    """Yield changes of one condition of the request."""
    request, eligibility = refused.request, refused.request.eligible
    if request.within is not None:
        words = f"if not in one {request.within}"
        yield Kind.ANYWHERE, words, replace(request, within=None)
    if eligibility.gpu_type is not None:
        others = [name for name in capacity.gpu_types() if name != eligibility.gpu_type]
        for name in others[:_OTHER_TYPES]:
            words = f"on {name or 'nodes without a GPU type'}"
            yield Kind.GPU_TYPE, words, request.on_type(name)
    if request.mode is PlacementMode.REQUIRED:
        largest = max((job.view.shape.largest for job in jobs), default=0)
        if 0 < largest < request.pods_per_group:
            size = largest * request.gpus_per_pod
            words = f"in groups of {size} GPUs, the largest that exist"
            yield Kind.GROUP_SIZE, words, replace(request, group_size=size)
        yield Kind.PREFERRED, "in preferred mode", replace(request, mode=PlacementMode.PREFERRED)
    for some in _fewer_filters(eligibility):
        changed = replace(request, eligible=some)
        if fits(capacity, changed):
            yield Kind.ANY_NODE, f"without {_filters(eligibility, some)}", changed
            break
    if refused.failed is FitTest.LABEL:
        yield from _tolerating(capacity, request)


def _fewer_filters(eligibility: Eligibility) -> Iterator[Eligibility]:
    """Yield the eligibility without its exclusions, without its selector, and without both."""
    if eligibility.exclude:
        yield replace(eligibility, exclude=frozenset())
    if eligibility.selector:
        yield replace(eligibility, selector=())
    if eligibility.exclude and eligibility.selector:
        yield replace(eligibility, selector=(), exclude=frozenset())


def _tolerating(capacity: CapacityView, request: Request) -> Iterator[_Change]:
    """Yield the request that tolerates the taint on most of the nodes it could use."""
    tolerates_all = replace(request.eligible, tolerations=(Toleration(operator="Exists"),))
    keys = Counter(
        taint.key
        for host in capacity.hosts()
        if is_eligible(host, tolerates_all)
        for taint in host.taints
    )
    for key, _ in sorted(keys.items(), key=lambda item: (-item[1], item[0]))[:1]:
        tolerations = (*request.eligible.tolerations, Toleration(key=key, operator="Exists"))
        eligibility = replace(request.eligible, tolerations=tolerations)
        yield (
            Kind.TOLERATE,
            f"if the taint {key} is tolerated",
            replace(request, eligible=eligibility),
        )


def _placed(
    capacity: CapacityView, request: Request, changes: Iterable[_Change]
) -> list[Suggestion]:
    """Return those of some changes under which the job fits."""
    whole, found = _all_fit(request.pods), []
    for kind, words, changed in changes:
        plan = place(capacity, changed) if fits(capacity, changed) else None
        if isinstance(plan, Plan):
            found.append(_suggested(kind, f"{whole} {words}", changed, plan))
    return found


def _all_fit(pods: int) -> str:
    return f"All {pods} pods fit" if pods > 1 else "The 1 pod fits"


def _suggested(kind: Kind, said: str, request: Request, plan: Plan) -> Suggestion:
    """Return the suggestion of a request with the numbers of the plan that it gets."""
    split, tops = plan.objective.split_groups, plan.objective.span[0]
    of = f"{split} of {counted(len(plan.groups), 'group')} split"
    return Suggestion(
        kind=kind,
        text=f"{said}: {of}, over {counted(tops, 'top group')}.",
        numbers={"pods": request.pods, "split_groups": split, "top_groups": tops},
        request=request,
    )


def _filters(before: Eligibility, after: Eligibility) -> str:
    """Return in words which of selector and exclusions are given up."""
    parts = []
    if after.selector != before.selector:
        parts.append(f"the selector of {counted(len(before.selector), 'label')}")
    if after.exclude != before.exclude:
        parts.append(f"leaving out {counted(len(before.exclude), 'node')}")
    return listed(parts)


def several_changes(capacity: CapacityView, request: Request) -> Suggestion | None:
    """Return a request that fits with the fewest conditions given up; None if nothing is free."""
    loosest = _without_conditions(capacity, request)
    if loosest is None:
        return None
    stricter = _with_most_conditions(request, loosest)
    found = next((one for one in stricter if fits(capacity, one)), loosest)
    plan = place(capacity, found)
    assert isinstance(plan, Plan), "it was placed before"  # noqa: S101 - for mypy
    if request.eligible.gpu_type is not None:
        found = found.on_type(plan.gpu_type)
    pods = request.pods * request.gpus_per_pod // found.gpus_per_pod
    who = _all_fit(pods)
    if found.pods != pods:
        who = f"{found.pods} of {counted(pods, 'pod')} fit"
    said = f"{who} {listed([*_given_up(request, found)])}"
    return _suggested(Kind.SEVERAL_CHANGES, said, found, plan)


def _with_most_conditions(request: Request, loosest: Request) -> Iterator[Request]:
    """Yield the loosest request with all conditions put back but none, one, two and so on."""
    # Conditions that the request does not set change nothing, so that giving them up is no way.
    conditions = [each for each in _conditions(request) if each(loosest) != loosest][::-1]
    for number in range(len(conditions)):
        for given_up in combinations(conditions, number):
            found = loosest
            for condition in conditions:
                found = found if condition in given_up else condition(found)
            yield found


def _without_conditions(capacity: CapacityView, request: Request) -> Request | None:
    """Return the job on any nodes in any way: all pods, smaller pods, or the most pods."""
    anywhere = _anywhere(request)
    free = replace(request, eligible=anywhere, within=None, mode=PlacementMode.PREFERRED)
    sizes = [*_pod_sizes(free)]
    for smaller in sizes:
        if fits(capacity, smaller):
            return smaller
    for smaller in sizes:
        slots = (
            capacity.slots(anywhere, gpu_type, smaller.gpus_per_pod).total
            for gpu_type in capacity.gpu_types()
        )
        most = min(smaller.pods - 1, max(slots, default=0))
        if most > 0:
            return replace(smaller, pods=most)
    return None


def _anywhere(request: Request) -> Eligibility:
    """Return the eligibility of all nodes that the job may ever use; its usage stays."""
    return Eligibility(tolerations=(Toleration(operator="Exists"),), usage=request.eligible.usage)


def _pod_sizes(request: Request) -> Iterator[Request]:
    """Yield the job in pods of this size, then in each smaller size that divides it.

    At most as many pods as a job may have.
    """
    for gpus in range(request.gpus_per_pod, 0, -1):
        parts, rest = divmod(request.gpus_per_pod, gpus)
        if not rest:
            pods = min(MAX_PODS, request.pods * parts)
            yield replace(request, gpus_per_pod=gpus, pods=pods)


def _conditions(request: Request) -> Iterator[_Condition]:
    """Yield what puts back each condition of a request, the weightiest first."""
    wish = request.eligible
    yield lambda one: replace(one, eligible=replace(one.eligible, gpu_type=wish.gpu_type))
    yield lambda one: replace(one, eligible=replace(one.eligible, tolerations=wish.tolerations))
    yield lambda one: replace(one, eligible=replace(one.eligible, selector=wish.selector))
    yield lambda one: replace(one, eligible=replace(one.eligible, exclude=wish.exclude))
    yield lambda one: replace(one, within=request.within)
    yield lambda one: replace(one, mode=request.mode)


def _given_up(request: Request, found: Request) -> Iterator[str]:
    """Yield the conditions that the request found does without, in words."""
    before, after = request.eligible, found.eligible
    if found.gpus_per_pod != request.gpus_per_pod:
        yield f"in pods of {counted(found.gpus_per_pod, 'GPU')}"
    if after.gpu_type != before.gpu_type:
        yield f"on {after.gpu_type or 'nodes without a GPU type'}"
    if after.tolerations != before.tolerations:
        yield "with 0 taints in the way"
    if (after.selector, after.exclude) != (before.selector, before.exclude):
        yield f"without {_filters(before, after)}"
    if found.within != request.within:
        yield f"if not in one {request.within}"
    if found.mode != request.mode:
        yield "in preferred mode"
