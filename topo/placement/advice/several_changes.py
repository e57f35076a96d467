"""Several changes of a refused request at once, where no single one suffices.

Result: a request that can be placed, with as few of its conditions given up as were found.

How: all conditions are given up at once: type, taints, labels, limit, whole groups; then, if need
be, pods are cut into smaller ones, or there are fewer. From what fits, each condition is put back
where the job still fits with it, the weightiest first.

Cost: a placement for each condition and for each size of pod.

Example: 2 pods of 16 GPUs of type C in one switchbox, on nodes of 8 GPUs of type A. Without any
condition 4 pods of 8 fit. On type C they do not, in one switchbox and in whole groups they do: the
advice is "on A and in pods of 8 GPUs".
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from topo.model.limits import MAX_PODS
from topo.placement.advice.other_requests import filters
from topo.placement.advice.suggestion import Suggestion, SuggestionKind
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.engine import fits, place
from topo.placement.job.plan import Plan
from topo.placement.job.request import Eligibility, PlacementMode, Request, Toleration
from topo.placement.job.words import counted, listed

_Condition = Callable[[Request], Request]
"""Puts a condition back into a request."""


def several_changes(capacity: CapacityView, request: Request) -> Suggestion | None:
    """Return a request that fits with several conditions given up; None if nothing is free."""
    found = _without_conditions(capacity, request)
    if found is None:
        return None
    for condition in _conditions(request):
        stricter = condition(found)
        if fits(capacity, stricter):
            found = stricter
    plan = place(capacity, found)
    assert isinstance(plan, Plan), "it was placed before"  # noqa: S101 - for mypy
    if request.eligible.gpu_type is not None:
        found = replace(found, eligible=replace(found.eligible, gpu_type=plan.gpu_type))
    return _suggestion(request, found, plan)


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
    wish = request.eligible
    yield lambda one: replace(one, eligible=replace(one.eligible, gpu_type=wish.gpu_type))
    yield lambda one: replace(one, eligible=replace(one.eligible, tolerations=wish.tolerations))
    yield lambda one: replace(
        one, eligible=replace(one.eligible, selector=wish.selector, exclude=wish.exclude)
    )
    yield lambda one: replace(one, within=request.within)
    yield lambda one: replace(one, mode=request.mode)


def _suggestion(request: Request, found: Request, plan: Plan) -> Suggestion:
    pods = request.pods * request.gpus_per_pod // found.gpus_per_pod
    whole = f"All {pods} pods fit" if pods > 1 else "The 1 pod fits"
    who = whole if found.pods == pods else f"{found.pods} of {counted(pods, 'pod')} fit"
    split, tops = plan.objective.split_groups, plan.objective.span[0]
    of = f"{split} of {counted(len(plan.groups), 'group')} split"
    return Suggestion(
        kind=SuggestionKind.SEVERAL_CHANGES,
        text=f"{who} {listed([*_given_up(request, found)])}: {of}, "
        f"over {counted(tops, 'top group')}.",
        numbers={"pods": found.pods, "split_groups": split, "top_groups": tops},
        request=found,
    )


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
        yield f"without {filters(before)}"
    if found.within != request.within:
        yield f"if not in one {request.within}"
    if found.mode != request.mode:
        yield "in preferred mode"
