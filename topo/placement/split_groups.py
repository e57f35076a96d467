"""Where a job goes if some of its groups have to be split.

Result: the best candidate found, with what is proven of it. It splits the fewest groups there are.

How: as many groups are whole as can be, in the top domains that hold most of them. Then the tail,
in one domain if one holds it. The pods that are left are *loose*: each may go anywhere. What they
may take is a box. A domain in use has slots that its whole groups leave, its *rest*: such a box
costs no domain. Every other tier-1 domain of a top domain in use is a box that costs one. Where
these boxes are too small, further top domains bring theirs, the fewest that suffice. The rests
come first; of the other boxes the window rule takes the fewest (`search/window_rule.py`). What is
too much stays in one piece. Then the exact search (`exact/split_dp.py`) looks for what is still
better.

Why it is right: more rests cost nothing, so with all of them in use the fewest boxes are needed.
Of these the window rule is exact: with the fewest boxes what is left over is smaller than each of
them, so that the proof in docs/placement.md holds with the rests beside them. Where the boxes of
domains that are in use suffice, no choice of top domains is left, and the number of tier-1 domains
is the least there is for these whole groups and this tail. Which further top domains are best, and
what the profiles above the boxes say, is left to the exact search.

Cost: a few sorts of the tier-1 domains, then at most MOST_SPLIT_STEPS steps.

Example: free slots 9, 7, 3, 2 in switchbox A, 6, 2 in B; a job of 2 groups of 8. One whole group
goes to the 9, which leaves a rest of 1; 8 pods are loose. A has 12 other slots, so B stays out of
it. 1 goes to the rest; the boxes 7, 3 and 2 have to hold the other 7: the 7 alone does. One group
is split, over two dragonflies of A.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topo.placement.capacity.layout import Counts
from topo.placement.exact.split_dp import SplitSearch, loose_ways
from topo.placement.exact.tree_dp import exact_search
from topo.placement.job.plan import Allocation, Share
from topo.placement.quality.measure import Candidate, Proven, best_of, better_of
from topo.placement.search.window_rule import fewest, window
from topo.placement.view import FreeView

MOST_SPLIT_STEPS = 100_000
"""Steps (a twentieth of a microsecond each) of exact search that a job may take that is split."""
LAST_TRIED = 4
"""Top domains that are compared as the last one that is needed."""


def best_split(view: FreeView) -> Allocation | None:
    """Place as many whole groups as fit, the others over the rest; None if slots are too few."""
    shape = view.shape
    free_slots = view.free_slots
    if int(free_slots.sum()) < shape.pods:
        return None
    # Whole groups first: each that fits is one group less to split.
    caps = free_slots // shape.k if view.group_can_fit else free_slots * 0
    order = _by_top(view, caps)
    whole = _whole(order, caps.tolist(), shape.m)
    left = free_slots.tolist()
    for domain, groups in whole.items():
        left[domain] -= shape.k * groups
    tail = _tail_host(view, whole, left, order)
    base = {domain: shape.k * groups for domain, groups in whole.items()}
    if tail is not None:
        base[tail] = base.get(tail, 0) + shape.r
    boxes = _Boxes(view, base)
    return best_of(
        view, (_joined(view, (whole, tail), boxes.filled(tops)) for tops in boxes.tops())
    )


def improve_split(view: FreeView, found: Candidate, most_steps: int) -> Candidate:
    """Return the better of a candidate and an exact search, with what that proves."""
    best = found
    ways = [*loose_ways(view)]
    complete, exact = bool(ways), True
    for loose in ways:
        search = SplitSearch(view, exact_search(view), loose)
        for domains in search.tops():
            # Out of budget: what was found counts, and nothing is proven.
            if search.steps(domains) > most_steps:
                complete = False
                break
            other = search.over(domains)
            best = better_of(view, best, other) or best
            # More top domains would only be worse: the second set need not be searched.
            if other is not None and search.has_fewest_tops(other):
                break
        exact = exact and search.exact.packing.exact
    if not complete:
        return best
    return best.with_proof(Proven.NEWLY_BROKEN if exact else Proven.PROFILE_TOP)


def _by_top(view: FreeView, caps: Counts) -> list[int]:
    """Return domains of the group tier with slots, those in the top domains with the most groups
    first.
    """
    tops = np.array(view.tops, np.intp)
    # Top domains with many groups come first, so that few of them are used.
    totals = np.bincount(tops, weights=caps)
    able = np.flatnonzero(view.free_slots)
    keys = able, -caps[able], tops[able], -totals[tops[able]]
    order: list[int] = able[np.lexsort(keys)].tolist()
    return order


def _whole(order: list[int], caps: list[int], groups: int) -> dict[int, int]:
    """Return whole groups by domain, as many as the domains hold in this order."""
    whole: dict[int, int] = {}
    for domain in order:
        if not groups:
            break
        if caps[domain]:
            whole[domain] = min(groups, caps[domain])
            groups -= whole[domain]
    return whole


def _tail_host(
    view: FreeView, whole: dict[int, int], left: list[int], order: list[int]
) -> int | None:
    """Return a domain for the whole tail: one in use, or in a top domain in use, or any."""
    r = view.shape.r
    if not r or not view.group_can_fit:
        return None
    tops = view.tops
    used = {tops[d] for d in whole}
    able = [d for d in order if left[d] >= r]
    if not used and able:
        # The loose pods follow the tail: to where most of them find a slot.
        slots = view.free_slots_of(view.shape.tiers).tolist()
        most = max(slots[tops[d]] for d in able)
        able = [d for d in able if slots[tops[d]] == most]
    return min(able, key=lambda d: (tops[d] not in used, d not in whole, left[d], d), default=None)


def _joined(
    view: FreeView, kept: tuple[Mapping[int, int], int | None], tier1_pods: dict[int, int]
) -> Allocation:
    """Return the allocation of some pods; `kept` are whole groups by domain, and the tail's."""
    whole, tail = kept
    shape, of = view.shape, view.layout.of[view.shape.tier]
    pods: dict[int, int] = {}
    for at, some in tier1_pods.items():
        pods[of[at]] = pods.get(of[at], 0) + some
    shares = []
    for domain in sorted(pods):
        share = Share(domain, whole.get(domain, 0), domain == tail)
        shares.append(share._replace(loose=pods[domain] - shape.pods_in(share)))
    return Allocation(tuple(shares), tier1_pods)


class _Box(NamedTuple):
    """Where loose pods may go: the room there, the tier-1 domain, and whether it is in use by
    nobody.
    """

    room: int
    at: int
    intact: bool


class _Boxes:
    """What loose pods may take beside the pods of whole groups and the tail.

    `base` has those pods by domain of the group tier. The largest tier-1 domains of each are taken
    for them; the room that they leave in the last one is the domain's rest.
    """

    def __init__(self, view: FreeView, base: Mapping[int, int]) -> None:
        self._view = view
        layout, shape = view.layout, view.shape
        self._loose = shape.pods - sum(base.values())
        needed = np.zeros(len(view.free_slots), np.int64)
        needed[list(base)] = list(base.values())
        of = layout.starts_in(1, shape.tier)
        order = np.lexsort((-view.free, of))
        free = view.free[order]
        before = free.cumsum() - free
        firsts = np.array(layout.firsts[shape.tier][:-1], np.intp)
        # Slots before each domain inside of its domain of the groups, which come one by one.
        before -= before[firsts][of]
        used = before < needed[of]
        taken = np.minimum(free, np.maximum(needed[of] - before, 0))
        self._taken = dict(zip(order[used].tolist(), taken[used].tolist(), strict=True))
        self._rests = self._boxes(order[used], (free - taken)[used])
        self._others, self._sizes = order[~used], free[~used]
        self._top_of = layout.starts_in(1, shape.tiers)
        near = np.zeros(len(layout.firsts[shape.tiers]) - 1, np.bool_)
        near[self._top_of[order[used]]] = True
        self._near = near

    def _boxes(self, domains: Counts, rooms: Counts) -> list[_Box]:
        """Return boxes with room, the largest first."""
        intact = (self._view.slots.busy[domains] == 0).tolist()
        each = zip(rooms.tolist(), domains.tolist(), intact, strict=True)
        boxes = [_Box(*one) for one in each if one[0]]
        boxes.sort(key=lambda one: (-one.room, one.intact, one.at))
        return boxes

    def tops(self) -> Iterator[NDArray[np.bool_]]:
        """Yield sets of top domains with boxes enough: those in use, and the fewest others."""
        view = self._view
        free = view.free_slots_of(view.shape.tiers)
        short = view.shape.pods - int(free[self._near].sum())
        if short <= 0:
            yield self._near
            return
        far = np.flatnonzero(~self._near & (free > 0))
        far = far[np.lexsort((far, -free[far]))]
        sizes = free[far].tolist()
        more = fewest(sizes, short)
        if more is None:
            return
        first, lacking = far[: more - 1], short - sum(sizes[: more - 1])
        # Any that suffices may be the last one: the smallest spares most, the largest needs fewest.
        enough = [at for at in range(more - 1, len(far)) if sizes[at] >= lacking]
        for last in dict.fromkeys(enough[: LAST_TRIED // 2] + enough[-LAST_TRIED // 2 :]):
            chosen = self._near.copy()
            chosen[first] = chosen[far[last]] = True
            yield chosen

    def filled(self, tops: NDArray[np.bool_]) -> dict[int, int]:
        """Return all pods by tier-1 domain, with the loose ones in boxes of some top domains."""
        pods = dict(self._taken)
        rests = sum(box.room for box in self._rests)
        if rests >= self._loose:
            # What is not needed stays where most is in one piece.
            spare = rests - self._loose
            for box in self._rests:
                kept = min(box.room, spare)
                spare -= kept
                pods[box.at] += box.room - kept
            return dict(sorted(pods.items()))
        inside = tops[self._top_of[self._others]]
        boxes = self._boxes(self._others[inside], self._sizes[inside])
        rooms = [box.room for box in boxes]
        need = self._loose - rests
        chosen = [boxes[at] for at in window(rooms, rooms, fewest(rooms, need) or 0, need)]
        for box in (*self._rests, *chosen):
            pods[box.at] = pods.get(box.at, 0) + box.room
        spare = sum(box.room for box in chosen) - need
        if spare:
            pods[self._spared(chosen, spare, pods)] -= spare
        return dict(sorted(pods.items()))

    def _spared(self, chosen: list[_Box], spare: int, pods: Mapping[int, int]) -> int:
        """Return the tier-1 domain that keeps what is too much: where most stays free with it."""
        view = self._view
        tier = view.shape.canonical_tier
        outer = view.layout.of[tier]
        taken: dict[int, int] = {}
        for at, some in pods.items():
            taken[outer[at]] = taken.get(outer[at], 0) + some
        free = view.free_canonical

        def rank(box: _Box) -> tuple[int, bool, int]:
            canonical = outer[box.at]
            return taken[canonical] - int(free[canonical]), box.intact, box.at

        return min((box for box in (*self._rests, *chosen) if box.room >= spare), key=rank).at
