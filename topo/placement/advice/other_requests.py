"""What a refused job could ask for instead and get."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from topo.placement.advice.need import Need, most_pods
from topo.placement.advice.suggestion import Change, Suggestion
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.eligible import eligible
from topo.placement.engine import place
from topo.placement.job.plan import FitTest, NoFit, Plan
from topo.placement.job.request import Eligibility, Mode, Request, Toleration
from topo.placement.job.words import counted, listed

_OTHER_TYPES = 3


def other_requests(capacity: Capacity, nofit: NoFit, needs: Sequence[Need]) -> Iterator[Suggestion]:
    """Placeable requests that keep all pods and differ in one thing, or in two if none does."""
    request = nofit.request
    changes = _changes(capacity, nofit, needs)
    tried = [(kind, changed, place(capacity, changed)) for kind, changed in changes]
    if request.within is not None and not any(isinstance(plan, Plan) for *_, plan in tried):
        changed = replace(request, mode=Mode.PREFERRED, within=None)
        tried.append((Change.PREFERRED, changed, place(capacity, changed)))
    for kind, changed, plan in tried:
        if isinstance(plan, Plan):
            yield _suggestion(kind, request, changed, plan)


def fewer_pods(capacity: Capacity, request: Request, needs: Sequence[Need]) -> Suggestion | None:
    """The next smaller job that can be placed."""
    most = max((most_pods(capacity, need) for need in needs), default=0)
    pods = _placeable(capacity, request, most)
    if not pods:
        return None
    less = request.pods - pods
    return Suggestion(
        kind=Change.FEWER_PODS,
        text=f"{pods} of the {counted(request.pods, 'pod')} fit now, {less} fewer.",
        numbers={"pods": pods, "fewer": less, "gpus": pods * request.gpus_per_pod},
        request=replace(request, pods=pods),
    )


def _placeable(capacity: Capacity, request: Request, most: int) -> int:
    """`most` if so many pods can be placed, else the largest number that a bisection finds."""
    fits, fails = 0, most + 1
    trial = most
    while fails - fits > 1:
        if isinstance(place(capacity, replace(request, pods=trial)), Plan):
            fits = trial
        else:
            fails = trial
        trial = (fits + fails) // 2
    return fits


def _changes(
    capacity: Capacity, nofit: NoFit, needs: Sequence[Need]
) -> Iterator[tuple[Change, Request]]:
    """Changes of one thing, each with its kind."""
    request, wish = nofit.request, nofit.request.eligible
    if request.within is not None:
        yield Change.ANYWHERE, replace(request, within=None)
    if wish.gpu_type is not None:
        others = [name for name in capacity.gpu_types() if name != wish.gpu_type]
        for name in others[:_OTHER_TYPES]:
            yield Change.GPU_TYPE, replace(request, eligible=replace(wish, gpu_type=name))
    if request.mode is Mode.REQUIRED:
        largest = max((need.shape.largest for need in needs), default=0)
        if 0 < largest < request.pods_per_group:
            size = largest * request.gpus_per_pod
            yield Change.GROUP_SIZE, replace(request, group_size=size)
        yield Change.PREFERRED, replace(request, mode=Mode.PREFERRED)
    if wish.selector or wish.exclude:
        anyone = replace(wish, selector=(), exclude=frozenset())
        yield Change.ANY_NODE, replace(request, eligible=anyone)
    if nofit.failed is FitTest.LABEL:
        yield from _tolerating(capacity, request)


def _tolerating(capacity: Capacity, request: Request) -> Iterator[tuple[Change, Request]]:
    """The request with the taint tolerated that stands on most of the nodes it could use."""
    bears_all = replace(request.eligible, tolerations=(Toleration(operator="Exists"),))
    keys = Counter(
        taint.key
        for host in capacity.hosts()
        if host.taints and eligible(host, bears_all)
        for taint in host.taints
    )
    for key, _ in sorted(keys.items(), key=lambda item: (-item[1], item[0]))[:1]:
        tolerations = (*request.eligible.tolerations, Toleration(key=key, operator="Exists"))
        wish = replace(request.eligible, tolerations=tolerations)
        yield Change.TOLERATE, replace(request, eligible=wish)


def _suggestion(kind: Change, request: Request, changed: Request, plan: Plan) -> Suggestion:
    split, tops = plan.objective.split_groups, plan.objective.span[0]
    of = f"{split} of {counted(len(plan.groups), 'group')} split"
    how = {
        Change.ANYWHERE: f"if not in one {request.within}",
        Change.GPU_TYPE: f"on {plan.gpu_type or 'nodes without a GPU type'}",
        Change.GROUP_SIZE: f"in groups of {changed.group_size} GPUs, the largest that exist",
        Change.PREFERRED: "in preferred mode",
        Change.ANY_NODE: f"without {_filters(request.eligible)}",
        Change.TOLERATE: f"if the taint {_tolerated(changed)} is tolerated",
    }[kind]
    also = "" if changed.within or kind is not Change.PREFERRED else _left_out(request)
    whole = f"All {request.pods} pods fit" if request.pods > 1 else "The 1 pod fits"
    return Suggestion(
        kind=kind,
        text=f"{whole} {how}{also}: {of}, over {counted(tops, 'top group')}.",
        numbers={"pods": request.pods, "split_groups": split, "top_groups": tops},
        request=changed,
    )


def _left_out(request: Request) -> str:
    return f" if not in one {request.within}" if request.within else ""


def _tolerated(changed: Request) -> str:
    tolerations = changed.eligible.tolerations
    return tolerations[-1].key if tolerations else ""


def _filters(wish: Eligibility) -> str:
    parts = []
    if wish.selector:
        parts.append(f"the selector of {counted(len(wish.selector), 'label')}")
    if wish.exclude:
        parts.append(f"leaving out {counted(len(wish.exclude), 'node')}")
    return listed(parts)
