"""Why a job does not fit: the first test that fails, and its numbers."""

from collections.abc import Mapping

from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.slots import Slots
from topo.placement.job.plan import FitTest, NoFit
from topo.placement.job.request import PlacementMode, Request
from topo.placement.job.words import counted
from topo.placement.view import FreeView, JobShape


def _no_fit(request: Request, failed: FitTest, text: str, numbers: Mapping[str, int]) -> NoFit:
    shortfall = dict(numbers)
    shortfall["missing"] = shortfall["needed"] - shortfall["available"]
    return NoFit(request, failed, shortfall, text)


def short_of_slots(request: Request, shape: JobShape, slots: Slots) -> NoFit | None:
    """Refuse a job that is larger than all that is free; O(1)."""
    gpus = request.pods * request.gpus_per_pod
    if not slots.nodes:
        text = "0 nodes have the type, labels, taints and name that the job asks for"
        return _no_fit(request, FitTest.LABEL, text, {"needed": 1, "available": 0})
    if slots.free_gpus < gpus:
        text = (
            f"the job needs {counted(gpus, 'GPU')}, "
            f"{slots.free_gpus} are free on nodes that it may use"
        )
        return _no_fit(request, FitTest.GPUS, text, {"needed": gpus, "available": slots.free_gpus})
    if slots.total < shape.pods:
        text = (
            f"the job needs room for {counted(shape.pods, 'pod')} of {counted(shape.gpus, 'GPU')}, "
            f"the free GPUs of the nodes give {slots.total}"
        )
        return _no_fit(
            request, FitTest.SLOTS, text, {"needed": shape.pods, "available": slots.total}
        )
    return None


def no_group_known(capacity: CapacityView, request: Request, view: FreeView) -> NoFit | None:
    """Refuse groups that no single node can hold if no node is in any group."""
    if view.group_can_fit or request.mode is PlacementMode.PREFERRED or capacity.kinds():
        return None
    shape = view.shape
    needed, largest = min(shape.k, shape.pods) * shape.gpus, shape.largest * shape.gpus
    text = (
        f"no groups of nodes are known: {counted(needed, 'GPU')} would have to be on one node, "
        f"and the largest has {largest}"
    )
    numbers = {"needed": needed, "available": largest, "largest_gpus": largest}
    return _no_fit(request, FitTest.GROUPS, text, numbers)


def no_group_so_large(request: Request, view: FreeView) -> NoFit | None:
    """Refuse groups that no domain could hold even if it were empty."""
    if view.group_can_fit or request.mode is PlacementMode.PREFERRED:
        return None
    shape = view.shape
    needed, largest = min(shape.k, shape.pods) * shape.gpus, shape.largest * shape.gpus
    text = (
        f"no group of nodes can hold {counted(needed, 'GPU')}; the largest there is holds {largest}"
    )
    return _no_fit(
        request,
        FitTest.GROUPS,
        text,
        {"needed": needed, "available": largest, "largest_gpus": largest},
    )


def short_of_groups(request: Request, view: FreeView) -> NoFit | None:
    """Refuse a job if there is no domain for one of its whole groups or for its tail."""
    shape = view.shape
    groups = view.groups(shape.tier)
    available = int(groups.sum())
    if available < shape.m:
        whole, of = counted(shape.m, "whole group"), counted(shape.k, "pod")
        text = f"the job needs {whole} of {of}, {available} are free"
        return _no_fit(request, FitTest.GROUPS, text, {"needed": shape.m, "available": available})
    if not shape.r or available - int(view.losses(shape.tier).min()) >= shape.m:
        return None
    # All groups are needed, so that the tail has what is left over in each domain.
    best = int((view.free_slots % shape.k).max()) if shape.m else int(view.free_slots.max())
    text = (
        f"beside the whole groups no domain has room for the last {counted(shape.r, 'pod')}; "
        f"the largest rest has room for {best}"
    )
    return _no_fit(request, FitTest.TAIL, text, {"needed": shape.r, "available": best})


def unknown_kind(capacity: CapacityView, request: Request) -> NoFit | None:
    """Refuse a limit to a kind of group that no node is in, whatever is free."""
    if request.within is None:
        return None
    kinds = capacity.kinds()
    if request.within in kinds:
        return None
    known = f"the kinds there are: {', '.join(sorted(kinds))}"
    text = f"there are 0 groups of kind {request.within}; {known if kinds else 'none are known'}"
    return _no_fit(request, FitTest.SPAN, text, {"needed": 1, "available": 0})


def impossible_span(capacity: CapacityView, request: Request, view: FreeView) -> NoFit | None:
    """Refuse a limit to a known kind of group that no state of the cluster could satisfy."""
    if request.within is None:
        return None
    tier, shape = capacity.kinds()[request.within], view.shape
    if view.group_can_fit and tier < shape.tier:
        pods = counted(min(shape.k, shape.pods), "pod")
        text = (
            f"a group of {pods} needs a domain of tier {shape.tier}, "
            f"a {request.within} is of tier {tier}"
        )
        return _no_fit(request, FitTest.SPAN, text, {"needed": shape.tier, "available": tier})
    return None


def short_of_span(request: Request, largest: int) -> NoFit:
    """Refuse a job that fits, but not inside one group of the kind it names."""
    whole = f"all {request.pods} pods in their groups" if request.pods > 1 else "the 1 pod"
    text = (
        f"no {request.within} can take {whole} now; "
        f"the one with most room has {counted(largest, 'slot')}"
    )
    most = min(largest, request.pods - 1)
    return _no_fit(request, FitTest.SPAN, text, {"needed": request.pods, "available": most})
