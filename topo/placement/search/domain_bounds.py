"""Lower bounds on the cost of a placement inside one domain, before the domain is searched.

Result: a lower bound on each of the first numbers of the objective, for all domains that can hold
the whole job. A search looks into the domain with the least bound first, and stops at the first
domain that cannot improve on what was found.

Why it is right: every bound leaves out a condition, so no placement can be below it.
- Children: the fewest whose largest capacities cover the need. Which child takes what is left
  out.
- Canonical groups lost: all slots outside of canonical groups are used first.
- Top domain: taking as many groups from a domain with fewer free groups leaves a better profile.
- Slots: of so many children, the largest is at least the first of the last window that covers the
  need (step 3 in docs/placement.md, "The window rule").

Cost: a few passes over all tier-1 domains, or a step for each child where only a few domains can
hold the job. Slots are looked at only where the numbers before tie, and not where the children of
one domain have exactly the sizes that the job needs: no profile is better than that.

Example: a job of 16 pods, groups of 8. Switchbox A has 9, 8, 8 free slots, B has 9, 9, 7; both
hold it in 2 children and lose 2 of their groups (A has 3, B 2). So B comes first by its top
domain: bounds (2 children, 2 lost, top 2), then A: (2, 2, top 3). B gives 9 + 9 and reaches its
bound. The bound of A is larger, so A is not looked into, though it holds the job in 8 + 8.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.quality.certificate import least_inside, rows_of
from topo.placement.quality.measure import Key, leximax_key, profile_of
from topo.placement.view import FreeView, JobShape

FEW = 128
"""Children up to which plain lists are faster."""
Sizes = tuple[tuple[int, int], ...]
"""Free slots of domains, and how many of each size, the largest first."""


class DomainBound(NamedTuple):
    """What any placement inside one domain costs at least, in the order of the objective.

    `children`: domains used of the tier below. `lost`: canonical groups lost. `top`: canonical
    groups that are free in its top domain. `slots`: no key of a profile of slots is below it; empty
    where slots were not looked at. `depth`: the place of the children in a span.
    """

    children: int
    lost: int
    top: int
    slots: Key
    domain: int
    depth: int

    def spans_reached(self, key: Key) -> bool:
        """Return whether a placement uses as few children as any in this domain."""
        span: tuple[int, ...] = key[0]
        return span[self.depth] <= self.children

    def cannot_improve(self, key: Key) -> bool:
        """Return whether nothing inside this domain is better than a placement that was found.

        Compares number by number as keys do, and stops at the first that differs.
        """
        span: tuple[int, ...] = key[0]
        if span[self.depth] != self.children:
            return span[self.depth] < self.children
        if any(used > self.children for used in span[self.depth + 1 :]):
            return False  # of lower tiers no bound is known but the children
        if key[1] != self.lost:
            return bool(key[1] < self.lost)
        if self.lost and key[2][0] != (1, self.top, 1):
            return bool(key[2][0] < (1, self.top, 1))
        broken, penalty = key[4], key[5]
        as_good = key[3] == self.slots and not broken and not penalty
        return bool(key[3] < self.slots or as_good)

    def reached(self, key: Key) -> bool:
        """Return whether a placement is as good as this bound, down to the top tier's profile."""
        as_good = key[1] == self.lost and (not self.lost or key[2][0] == (1, self.top, 1))
        return bool(self.spans_reached(key) and as_good)


class DomainBounds:
    """The bounds of some domains, the least first; each is put together when somebody looks."""

    def __init__(
        self,
        columns: tuple[list[int], list[int], list[int], list[int]],
        slots: Callable[[int], Key],
        depth: int,
    ) -> None:
        self._columns, self._slots, self._depth = columns, slots, depth

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[DomainBound]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> DomainBound:
        children, lost, tops, domains = self._columns
        slots = self._slots(at)
        return DomainBound(children[at], lost[at], tops[at], slots, domains[at], self._depth)


def domain_bounds(view: FreeView, tier: int, able: DomainIndices) -> DomainBounds:
    """Return the bounds of the domains that are able to hold the whole job, the least first."""
    shape, layout = view.shape, view.layout
    rows = layout.children_of(tier).rows
    if rows is not None and shape.tier == shape.canonical_tier == tier - 1 == 1:
        width = rows.shape[1]
        if width * len(able) <= FEW:
            return _bounds_of_few(view, able.tolist(), width)
    children = _children(view, tier, able)
    lost = _lost(view, tier, able)
    top_of = layout.starts_in(tier, layout.tiers)[able]
    tops = np.where(lost > 0, view.tops_before[top_of], 0)
    depth = layout.tiers - tier + 1
    if shape.canonical_tier >= tier:
        # One domain gives all the slots: the smaller it is, the better the profile.
        # The canonical domain around it decides what is lost: a larger one is missed more.
        outer = layout.starts_in(tier, shape.canonical_tier)[able]
        used = view.free_canonical[outer]
        order = np.lexsort((able, used, tops, lost, children))
        used = used[order]
        columns = _lists(children[order], lost[order], tops[order], able[order])
        return DomainBounds(columns, lambda i: _least_key(((used.item(i), 1),), shape.pods), depth)
    order = np.lexsort((able, tops, lost, children))
    children, lost, tops, able = (each[order] for each in (children, lost, tops, able))
    # Slots decide only between domains that are equal so far: those of the best are enough.
    tied = int(((children == children[0]) & (lost == lost[0]) & (tops == tops[0])).sum())
    slots = _slots(view, tier, able[:tied], (int(children[0]), int(lost[0])))
    keys = [*slots.values()]
    able = np.concatenate((np.fromiter(slots, np.intp, tied), able[tied:]))
    columns = _lists(children, lost, tops, able)
    return DomainBounds(columns, lambda i: keys[i] if i < tied else (), depth)


def _lists(*columns: Counts) -> tuple[list[int], list[int], list[int], list[int]]:
    children, lost, tops, domains = (column.tolist() for column in columns)
    return children, lost, tops, domains


def _bounds_of_few(view: FreeView, domains: list[int], width: int) -> DomainBounds:
    """Return the same bounds of a few domains of tier 2 with groups in tier 1, canonical ones too.

    No domain has more than `width` children.
    """
    layout, shape = view.layout, view.shape
    firsts, top_of = layout.firsts[2], layout.of[layout.tiers]
    free, tops_before = view.free.data, view.tops_before.data
    found: list[tuple[int, int, int, int, list[int]]] = []
    for domain in domains:
        first, last = firsts[domain], firsts[domain + 1]
        own = sorted(free[first:last], reverse=True)
        children, lost = _children_of_few(shape, own), _lost_of_few(view, first, last)
        top = tops_before[top_of[first]] if lost > 0 else 0
        found.append((children, lost, top, domain, own))
    found.sort()
    best = found[0][:3]
    tied = [(domain, own) for *numbers, domain, own in found if (*numbers,) == best]
    slots = _slots_of_few(shape, tied, best[:2], width)
    rest = found[len(tied) :]
    columns = (
        [*[best[0]] * len(tied), *(each[0] for each in rest)],
        [*[best[1]] * len(tied), *(each[1] for each in rest)],
        [*[best[2]] * len(tied), *(each[2] for each in rest)],
        [*slots, *(each[3] for each in rest)],
    )
    keys = [*slots.values(), *[()] * len(rest)]
    return DomainBounds(columns, keys.__getitem__, layout.tiers - 1)


def _children_of_few(shape: JobShape, own: list[int]) -> int:
    """Return the fewest of some children that hold the job, the most free slots first."""
    k, r = shape.k, shape.r
    need, children = shape.m, 0
    if r:
        # The host of the tail holds at most so many groups beside it, others the rest.
        need -= max([(slots - r) // k for slots in own if slots >= r])
        children = 1
    for slots in own:
        if need <= 0:
            break
        need -= slots // k
        children += 1
    return children


def _lost_of_few(view: FreeView, first: int, last: int) -> int:
    """Return the fewest canonical groups that the job costs in a range of tier-1 domains."""
    shape = view.shape
    canonical, r = shape.canonical, shape.r
    if canonical != shape.k or r:
        rest = sum([slots % canonical for slots in view.slots.free_list[first:last]])
        lost = max(0, -(-(shape.pods - rest) // canonical))
    else:
        lost = shape.m
    if canonical != shape.k:
        return lost
    beside = not r or any(slots % canonical >= r for slots in view.free.data[first:last])
    return max(lost, shape.m + (not beside))


def _slots_of_few(
    shape: JobShape, tied: list[tuple[int, list[int]]], least: tuple[int, int], width: int
) -> dict[int, Key]:
    """Return what `_slots` does, for children that are sorted."""
    count, lost = least
    exact = _exact_sizes(shape, 2, count)
    if sum([size // shape.canonical * times for size, times in exact]) <= lost:
        for domain, own in tied:
            if all(own.count(size) >= times for size, times in exact):
                key = _least_key(exact, shape.pods)
                return dict.fromkeys((domain, *(each for each, _ in tied)), key)
    if width < count:
        return dict.fromkeys((domain for domain, _ in tied), ())
    rows = [own + [0] * (width - len(own)) for _, own in tied]
    keys = [_key_of_few(shape, row, count) for row in rows]
    return _least_first([domain for domain, _ in tied], keys)


def _key_of_few(shape: JobShape, row: list[int], count: int) -> Key:
    """Return what `_keys` does for a row."""
    k = shape.k
    last = _last_window_of_few([slots // k for slots in row], count, shape.m)
    if shape.r:
        last = min(last, _last_window_of_few(row, count, shape.pods))
    largest = row[last]
    often = min(sum([slots >= largest for slots in row]) - last, count)
    missing = shape.pods - largest * often
    if count - often != (missing > 0):
        return ((1, largest, often),)
    if missing <= 0:
        return _least_key(((largest, often),), shape.pods)
    smallest = min([largest, *(slots for slots in row if slots >= missing)])
    return _least_key(((largest, often), (smallest, 1)), shape.pods)


def _last_window_of_few(row: list[int], count: int, need: int) -> int:
    covered = sum(row[:count])
    for at in range(1, len(row) - count + 1):
        covered += row[at + count - 1] - row[at - 1]
        if covered < need:
            return at - 1
    return max(0, len(row) - count)


def _children(view: FreeView, tier: int, able: DomainIndices) -> Counts:
    """Return the fewest children of each domain that hold the job."""
    shape, layout = view.shape, view.layout
    children = layout.children_of(tier)
    if tier == shape.tier:
        need = np.full(len(able), shape.pods)
        return least_inside(view.free_slots_of(tier - 1), children, able, need)
    if not shape.r:
        need = np.full(len(able), shape.m)
        return least_inside(view.groups(tier - 1), children, able, need)
    # The host of the tail holds at most so many groups beside it, others the rest.
    held = np.maximum.reduceat(view.holds(tier - 1), children.starts)[able]
    return 1 + least_inside(view.groups(tier - 1), children, able, shape.m - held)


def _slots(
    view: FreeView, tier: int, able: DomainIndices, least: tuple[int, int]
) -> dict[int, Key]:
    """For each domain a bound on its profile of slots, the least first; empty: not looked at.

    `least`: the children that are used of each, and the canonical groups that are lost at least.
    """
    shape, layout = view.shape, view.layout
    count, lost = least
    domains = able.tolist()
    # The profile counts slots of canonical domains; only those are the children here.
    if shape.canonical_tier != tier - 1 or shape.tier < tier - 1:
        return dict.fromkeys(domains, ())
    free_slots = view.free_slots_of(tier - 1)
    exact = _exact_sizes(shape, tier, count)
    bounds = layout.below(tier, tier - 1)
    loses_least = sum(size // shape.canonical * times for size, times in exact) <= lost
    for domain in domains if loses_least else ():
        children = free_slots[bounds[domain] : bounds[domain + 1]].tolist()
        if all(children.count(size) >= times for size, times in exact):
            # No domain leaves more than this one: nobody has to count the slots of the others.
            return dict.fromkeys((domain, *domains), _least_key(exact, shape.pods))
    rows = rows_of(free_slots, layout.children_of(tier), able)
    if rows is None or rows.shape[1] < count:
        return dict.fromkeys(domains, ())
    return _least_first(domains, _keys(shape, tier, rows, count))


def _least_first(domains: list[int], keys: list[Key]) -> dict[int, Key]:
    return {domain: key for key, domain in sorted(zip(keys, domains, strict=True))}


@lru_cache(maxsize=1024)
def _least_key(used: Sizes, pods: int) -> Key:
    """Return the key of a profile of slots where domains of these sizes are used, as good as can
    be.

    They are used up, and what is too much for the job stays in one piece.
    """
    changes = Counter[int]()
    for size, times in used:
        changes[size] -= times
        changes[0] += times
    left = sum(size * times for size, times in used) - pods
    changes[left] += 1
    changes[0] -= 1
    return leximax_key(profile_of(changes))


@lru_cache(maxsize=1024)
def _exact_sizes(shape: JobShape, tier: int, count: int) -> Sizes:
    """Return the sizes of `count` children that leave the most of all: the job fits them exactly.

    They have as many groups each, as far as can be. The tail is where the fewest groups are.
    """
    k, m, r = (1, shape.pods, 0) if shape.tier == tier else (shape.k, shape.m, shape.r)
    each, more = divmod(m, count)
    sizes = Counter({k * (each + 1): more, k * each: count - more - 1})
    sizes[k * each + r] += 1
    return tuple(sorted(((size, times) for size, times in sizes.items() if times), reverse=True))


def _keys(shape: JobShape, tier: int, rows: Counts, count: int) -> list[Key]:
    """For each row of free slots the least key of a profile in which `count` of them are used."""
    if shape.tier == tier:
        last = _last_window(rows, count, shape.pods)
    else:
        last = _last_window(rows // shape.k, count, shape.m)
        if shape.r:
            # Groups alone leave out the tail, slots alone the groups: both are bounds.
            last = np.minimum(last, _last_window(rows, count, shape.pods))
    largest = np.take_along_axis(rows, last[:, None], 1)
    times = np.minimum((rows >= largest).sum(axis=1) - last, count)
    # What the largest leave of the job needs a domain with as many slots, if it is one alone.
    rest = shape.pods - largest[:, 0] * times
    other = np.where(rows >= rest[:, None], rows, largest).min(axis=1)
    found = zip(*(each.tolist() for each in (largest[:, 0], times, rest, other)), strict=True)
    keys: list[Key] = []
    for size, often, missing, smallest in found:
        if count - often == (missing > 0):
            used = ((size, often), (smallest, 1)) if missing > 0 else ((size, often),)
            keys.append(_least_key(used, shape.pods))
        else:
            keys.append(((1, size, often),))  # of the others nothing is known
    return keys


def _last_window(rows: Counts, count: int, need: int) -> Counts:
    """Return the last place in each descending row from which `count` neighbours cover the need."""
    sums = rows.cumsum(axis=1)
    covered = sums[:, count - 1 :].copy()
    covered[:, 1:] -= sums[:, :-count]
    found: Counts = (covered >= need).sum(axis=1) - 1
    return np.maximum(found, 0)


def _lost(view: FreeView, tier: int, able: DomainIndices) -> Counts:
    """Return the fewest canonical groups that placing the job in each domain costs."""
    shape, layout = view.shape, view.layout
    canonical, pods = shape.canonical, shape.pods
    free_slots = layout.rolled(view.slots.free, shape.canonical_tier)
    if shape.canonical_tier >= tier:
        outer = layout.starts_in(tier, shape.canonical_tier)[able]
        before = free_slots[outer]
        found: Counts = before // canonical - (before - pods) // canonical
        return found
    rest = layout.rolled(free_slots % canonical, tier, inner=shape.canonical_tier)[able]
    found = np.maximum(0, -(-(pods - rest) // canonical))
    if shape.k == canonical and shape.tier == shape.canonical_tier:
        loss = view.losses(tier)[able] if shape.r else 0
        found = np.maximum(found, shape.m + loss)
    return found
