"""What a search sees: the shape of the job, what is free by domain, and what the job lacks."""

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from topo.model.ids import FABRIC_OF_KIND, SCALE_OUT, SCALE_UP
from topo.model.words import counted
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.layout import Counts, Layout
from topo.placement.capacity.other_fabrics import RoomElsewhere
from topo.placement.capacity.penalties import Penalties
from topo.placement.capacity.slots import Groups, Slots
from topo.placement.job.plan import Allocation, FitTest, NoFit, Share
from topo.placement.job.request import PlacementMode, Request

TAIL_CANNOT_FIT = 1 << 40
"""The loss of a domain that cannot take the tail at all."""
_TOLD_BY = {
    SCALE_UP: "workers tell them",
    SCALE_OUT: "dumps and LLDP tell them, with fabric in --precedence",
}


@dataclass(frozen=True, slots=True)
class JobShape:
    """m groups of k pods and one of r pods, of `gpus` GPUs each, over T tiers.

    `tier` is the lowest tier at which some domain could hold a whole group if it were empty, 0
    where none could; a job without a whole group then goes by its tail. `canonical` pods are a
    canonical group, whole inside a domain of `canonical_tier`. `extra_domains` more than the fewest
    may be used where that leaves more of those.
    """

    gpus: int
    k: int
    m: int
    r: int
    tiers: int
    tier: int
    canonical: int
    canonical_tier: int
    largest: int
    extra_domains: int = 0

    @property
    def pods(self) -> int:
        """N: all pods of the job."""
        return self.m * self.k + self.r

    def pods_in(self, share: Share) -> int:
        """Return the pods that a share takes."""
        return share.groups * self.k + share.tail * self.r + share.loose

    @property
    def whole_in(self) -> int:
        """The tier whose domains groups must not cross; the top one where none can hold a group."""
        return self.tier or self.tiers


def shape_of(capacity: CapacityView, request: Request, gpu_type: str) -> JobShape:
    """Return the shape of a request over the nodes of a type; O(1) between changes of nodes."""
    gpus, policy = request.gpus_per_pod, capacity.policy
    sizes = request.pods, gpus, request.pods_per_group
    peaks = capacity.peaks(gpu_type, gpus)
    return _shape(sizes, peaks, policy.canonical_gpus, policy.extra_domains)


@lru_cache(maxsize=1024)
def _shape(
    sizes: tuple[int, int, int], peaks: tuple[int, ...], canonical_gpus: int, extra_domains: int
) -> JobShape:
    """Return `sizes`: pods, GPUs of a pod, pods of a group."""
    pods, gpus, k = sizes
    wanted = canonical_gpus // gpus
    # Pods larger than a canonical group make one group each.
    canonical_tier = _lowest(peaks, wanted) if wanted else 0
    m, r = divmod(pods, k)
    return JobShape(
        gpus=gpus,
        k=k,
        m=m,
        r=r,
        tiers=len(peaks),
        # A job smaller than a group goes by its pods: it may fit where no whole group does.
        tier=_lowest(peaks, k) or (0 if m else _lowest(peaks, r)),
        canonical=wanted if canonical_tier else max(1, peaks[0]),
        canonical_tier=canonical_tier or 1,
        largest=peaks[-1],
        extra_domains=extra_domains,
    )


def _lowest(peaks: tuple[int, ...], slots: int) -> int:
    for tier, peak in enumerate(peaks, start=1):
        if peak >= slots:
            return tier
    return 0


@dataclass(frozen=True)
class FreeView:
    """The free slots of each tier-1 domain that a job may use, and the shape of the job.

    `free` is `slots.free`, less what reserves and limits keep from the job. The objective is
    always measured over `slots`. `narrowed`: the class of the nodes to use, where these are only a
    part of those of `slots`: then a domain may have nodes that are measured and not used. `others`
    is what groups of another fabric have free, where the job must be within one of them.

    `shape.tier` is never 0 here: it is the tier whose domains groups must not cross. Where no
    domain could hold a group even if it were empty, it is the top tier, and `group_can_fit` is
    false. `penalties` are None where no node has one. `allocation_cache` has what searches found so
    far, by tier, domain and need.
    """

    layout: Layout
    shape: JobShape
    slots: Slots
    free: Counts
    group_can_fit: bool = True
    penalties: Penalties | None = None
    narrowed: Slots | None = None
    others: RoomElsewhere | None = None
    allocation_cache: dict[tuple[int, int, tuple[int, bool]], Allocation | None] = field(
        default_factory=dict, init=False, compare=False
    )
    _groups: dict[int, Counts] = field(default_factory=dict, init=False, compare=False)
    _losses: dict[int, Counts] = field(default_factory=dict, init=False, compare=False)
    _fewest: dict[int, int] = field(default_factory=dict, init=False, compare=False)

    def only(self, free: Counts) -> "FreeView":
        """Return the same job with fewer free slots to use; the objective is measured as before."""
        return replace(self, free=free)

    def whole_in(self, tier: int) -> "FreeView":
        """Return the same job, whose groups must not cross domains of another tier."""
        return replace(self, shape=replace(self.shape, tier=tier), group_can_fit=True)

    def single_pods(self, pods: int) -> "FreeView":
        """Return the same slots for pods that may each go to any tier-1 domain."""
        single = replace(self.shape, k=1, m=pods, r=0, tier=1)
        return replace(self, shape=single, group_can_fit=True)

    def inside(self, room: RoomElsewhere, number: int) -> "FreeView":
        """Return the same job on the nodes of one group of another fabric."""
        narrowed = room.narrowed(number)
        free = narrowed.free
        if self.free is not self.slots.free:
            free = np.minimum(free, self.free)
        penalties = self.penalties and self.penalties.among(narrowed)
        return replace(self, free=free, narrowed=narrowed, penalties=penalties, others=None)

    @property
    def usable(self) -> Slots:
        """The class of the nodes that the job may use."""
        return self.narrowed or self.slots

    @cached_property
    def free_slots(self) -> Counts:
        """Free slots of the domains of the group tier, `shape.tier`."""
        return self.free_slots_of(self.shape.tier)

    @cached_property
    def tops(self) -> list[int]:
        """The domain of the top tier that each domain of the group tier is in."""
        of = self.layout.of[self.layout.tiers]
        if self.shape.tier == 1:
            return of
        return [of[first] for first in self.layout.firsts[self.shape.tier][:-1]]

    @property
    def free_canonical(self) -> Counts:
        """Free slots of the domains of the canonical tier, reserved ones too."""
        return self.slots.sums.by(self.shape.canonical_tier, self.layout)

    @property
    def tops_before(self) -> Counts:
        """Canonical groups that are free in each domain of the top tier, reserved ones too."""
        return self._canonical_groups.by_top

    @property
    def whole_before(self) -> int:
        """Canonical groups that are free before the job comes."""
        return self._canonical_groups.in_all

    def missed(self, rest: int) -> Counts:
        """Return how much each canonical domain would be missed if `rest` slots of it are taken."""
        return self._canonical_groups.missed(rest)

    @cached_property
    def _canonical_groups(self) -> Groups:
        shape = self.shape
        return self.slots.sums.groups(shape.canonical_tier, shape.canonical, self.layout)

    @property
    def nothing_kept_back(self) -> bool:
        """Whether all free slots are the job's: no reserve or limit keeps some of a domain."""
        return self.free is self.slots.free and self.shape.canonical_tier == 1

    @cached_property
    def one_group_each(self) -> bool:
        """Whether each group needs a tier-1 domain of its own: none has room for two, or a tail."""
        return self.shape.tier == 1 and not self.shape.r and int(self.groups(1).max()) <= 1

    def free_slots_of(self, tier: int) -> Counts:
        """Return free slots of the domains of a tier."""
        # Nothing is kept back from the job: the sums that are kept up to date can be read.
        if self.free is self.slots.free:
            return self.slots.sums.by(tier, self.layout)
        return self.layout.rolled(self.free, tier)

    def fewest_by_slots(self, tier: int) -> int:
        """Return how many of the largest domains of a tier have the job's slots, whatever its
        groups.
        """
        found = self._fewest.get(tier)
        if found is None:
            found = self._fewest[tier] = fewest_of(self.free_slots_of(tier), self.shape.pods)
        return found

    def most_in_one(self, tier: int) -> Counts:
        """Return the most free slots that a tier-1 domain has in each domain of a tier."""
        if self.free is self.slots.free:
            return self.slots.most.by(tier, self.layout)
        return self.layout.rolled(self.free, tier, np.maximum)

    def groups(self, tier: int) -> Counts:
        """Return the whole groups that fit in each domain of a tier, from the group tier up."""
        found = self._groups.get(tier)
        if found is None:
            if tier == self.shape.tier:
                found = self.free_slots if self.shape.k == 1 else self.free_slots // self.shape.k
            else:
                inner = self.shape.tier
                found = self.layout.rolled(self.groups(inner), tier, inner=inner)
            self._groups[tier] = found
        return found

    def losses(self, tier: int) -> Counts:
        """Return how many fewer groups each domain holds beside the tail, or `TAIL_CANNOT_FIT`."""
        found = self._losses.get(tier)
        if found is None:
            k, r = self.shape.k, self.shape.r
            if tier == self.shape.tier:
                free_slots = self.free_slots
                rest = free_slots - k * self.groups(tier)
                found = np.where(free_slots < r, TAIL_CANNOT_FIT, (rest < r).astype(np.int64))
            else:
                inner = self.shape.tier
                found = self.layout.rolled(self.losses(inner), tier, np.minimum, inner=inner)
            self._losses[tier] = found
        return found

    def holds(self, tier: int) -> Counts:
        """Return the whole groups that fit beside the tail; negative if the tail does not fit."""
        if not self.shape.r:
            return self.groups(tier)
        return self.groups(tier) - self.losses(tier)


def view_of(capacity: CapacityView, request: Request, gpu_type: str) -> FreeView:
    """Return what a search for the job sees on nodes of one type."""
    return view_on(
        capacity, request, capacity.slots(request.eligible, gpu_type, request.gpus_per_pod)
    )


def view_on(capacity: CapacityView, request: Request, slots: Slots) -> FreeView:
    """Return what a search for the job would see if these slots were free."""
    shape = shape_of(capacity, request, slots.eligibility.gpu_type or "")
    layout = capacity.layout()
    if request.within is not None and not shape.m:
        # Inside one group of the kind a job of fewer pods than a group is whole anyway.
        limit = capacity.kinds().get(request.within, shape.tier)
        shape = replace(shape, tier=min(shape.tier, limit))
    penalties = Penalties(capacity, slots) if slots.penalized else None
    others = None
    if request.within is not None and request.within not in capacity.kinds():
        others = capacity.room_elsewhere(slots, request.within, idle=False)
    is_possible = shape.tier > 0
    if not is_possible:
        shape = replace(shape, tier=shape.tiers)
    return FreeView(
        layout,
        shape,
        slots,
        slots.free,
        group_can_fit=is_possible,
        penalties=penalties,
        others=others,
    )


def fewest_of(values: Counts, need: int) -> int:
    """Return how many of the largest values cover the need, or one more than there are.

    Counted by size: thousands of domains have a few sizes, and none counts for more than the need.
    """
    if need <= 0:
        return 0
    often = np.bincount(np.minimum(values, need))[::-1]
    sizes = np.arange(len(often) - 1, -1, -1)
    held = (often * sizes).cumsum()
    at = int(held.searchsorted(need))
    if at == len(held):
        return len(values) + 1
    return int(often[: at + 1].sum() - (held[at] - need) // sizes[at])


def _no_fit(
    request: Request, failed: FitTest, text: str, numbers: tuple[int, int], **more: int
) -> NoFit:
    """Return the refusal; `numbers` are what is needed and what is available."""
    needed, available = numbers
    shortfall = {"needed": needed, "available": available, **more, "missing": needed - available}
    return NoFit(request, failed, shortfall, text)


def type_in_words(gpu_type: str) -> str:
    """Return which nodes have GPUs of a type."""
    return f"GPU type {gpu_type}" if gpu_type else "nodes without a GPU type"


def short_of_slots(request: Request, shape: JobShape, slots: Slots) -> NoFit | None:
    """Refuse a job that is larger than all that is free; O(1)."""
    gpus = request.pods * request.gpus_per_pod
    if not slots.nodes:
        text = "0 nodes have the type, labels, taints and name that the job asks for"
        return _no_fit(request, FitTest.LABEL, text, (1, 0))
    if slots.free_gpus < gpus:
        text = (
            f"the job needs {counted(gpus, 'GPU')}, "
            f"{slots.free_gpus} are free on nodes that it may use"
        )
        return _no_fit(request, FitTest.GPUS, text, (gpus, slots.free_gpus))
    if slots.total < shape.pods:
        text = (
            f"the job needs room for {counted(shape.pods, 'pod')} of {counted(shape.gpus, 'GPU')}, "
            f"the free GPUs of the nodes give {slots.total}"
        )
        return _no_fit(request, FitTest.SLOTS, text, (shape.pods, slots.total))
    return None


def no_group_so_large(capacity: CapacityView, request: Request, view: FreeView) -> NoFit | None:
    """Refuse groups that no domain could hold if it were empty, or no node where none is in one."""
    if view.group_can_fit or request.mode is PlacementMode.PREFERRED:
        return None
    shape = view.shape
    needed, largest = min(shape.k, shape.pods) * shape.gpus, shape.largest * shape.gpus
    gpus = counted(needed, "GPU")
    text = f"no group of nodes can hold {gpus}; the largest there is holds {largest}"
    if not capacity.kinds():
        text = (
            f"no groups of nodes are known: {gpus} would have to be on one node, "
            f"and the largest has {largest}"
        )
    return _no_fit(request, FitTest.GROUPS, text, (needed, largest), largest_gpus=largest)


def short_of_groups(request: Request, view: FreeView) -> NoFit | None:
    """Refuse a job if there is no domain for one of its whole groups or for its tail."""
    shape = view.shape
    groups = view.groups(shape.tier)
    available = int(groups.sum())
    if available < shape.m:
        whole, of = counted(shape.m, "whole group"), counted(shape.k, "pod")
        text = f"the job needs {whole} of {of}, {available} are free"
        return _no_fit(request, FitTest.GROUPS, text, (shape.m, available))
    if not shape.r or available - int(view.losses(shape.tier).min()) >= shape.m:
        return None
    # All groups are needed, so that the tail has what is left over in each domain.
    best = int((view.free_slots % shape.k).max()) if shape.m else int(view.free_slots.max())
    text = (
        f"beside the whole groups no domain has room for the last {counted(shape.r, 'pod')}; "
        f"the largest rest has room for {best}"
    )
    return _no_fit(request, FitTest.TAIL, text, (shape.r, best))


def unknown_kind(capacity: CapacityView, request: Request) -> NoFit | None:
    """Refuse a limit to a kind of group that no node is in, in any fabric, whatever is free.

    O(1) for a kind that there is, else O(hosts).
    """
    if request.within is None:
        return None
    kinds = capacity.kinds()
    if request.within in kinds or capacity.groups_elsewhere(request.within) is not None:
        return None
    others = {group.kind for host in capacity.hosts() for group in host.elsewhere} - kinds.keys()
    known = f"the kinds there are: {', '.join(sorted(kinds))}" if kinds else "none are known"
    if others:
        known += f"; of another fabric: {', '.join(sorted(others))}"
    if (fabric := FABRIC_OF_KIND.get(request.within)) and not others:
        known += f"; nobody tells groups of {fabric}, where it would be: {_TOLD_BY[fabric]}"
    text = f"there are 0 groups of kind {request.within}; {known}"
    return _no_fit(request, FitTest.SPAN, text, (1, 0))


def impossible_span(capacity: CapacityView, request: Request, view: FreeView) -> NoFit | None:
    """Refuse a limit to a known kind of group that no state of the cluster could satisfy."""
    if request.within is None or view.others is not None:
        return None
    tier, shape = capacity.kinds()[request.within], view.shape
    if view.group_can_fit and tier < shape.tier:
        pods = counted(min(shape.k, shape.pods), "pod")
        text = (
            f"a group of {pods} needs a domain of tier {shape.tier}, "
            f"a {request.within} is of tier {tier}"
        )
        return _no_fit(request, FitTest.SPAN, text, (shape.tier, tier))
    return None


def short_of_span(request: Request, largest: int, outside: int = 0) -> NoFit:
    """Refuse a job that fits, but not inside one group of the kind it names.

    `outside` are the slots of nodes in no such group of another fabric.
    """
    whole = f"all {request.pods} pods in their groups" if request.pods > 1 else "the 1 pod"
    text = (
        f"no {request.within} can take {whole} now; "
        f"the one with most room has {counted(largest, 'slot')}"
    )
    if outside:
        text += f", and nobody says in which {request.within} {counted(outside, 'more slot')} are"
    most = min(largest, request.pods - 1)
    return _no_fit(request, FitTest.SPAN, text, (request.pods, most))
