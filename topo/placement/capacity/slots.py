"""Free slots by tier-1 domain and above, for one class of eligible nodes and one pod size.

A job takes a few of thousands of tier-1 domains, and the next search needs the sums of all of them
again. So each number of a higher domain is kept, and the next query adds the differences since.

Example: switchboxes with 3, 1 and 2, 2 free slots, whole groups of two slots. The sums are 4 and 4,
the maxima 3 and 2, the groups 2 and 2. A pod takes a slot of the first domain: 3 becomes 2, the
first sum 3 and its groups 1. Its maximum is computed again, because 3 was the maximum and the next
largest number is not kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from topo.placement.capacity.columns import HostsOfType, UsageChange
from topo.placement.capacity.host import Host, is_eligible
from topo.placement.capacity.layout import Counts, DomainIndices, Layout
from topo.placement.job.request import Eligibility

HostRow = tuple[int, int, Host, int]
"""(id, tier-1 domain, host, free GPUs)."""
ELIGIBLE = 2
"""The mask of a host that the job may use."""
_NONE = bytes.maketrans(bytes([ELIGIBLE]), b"\1")
"""Masks of the type, none of them eligible."""
_EMPTY: Counts = np.zeros(0, np.int64)
_MENDED_AS_FAST = 128
"""Entries that numpy rolls up in all while one change is mended."""
BROKEN = 1 << 40
"""More than any sum."""
_RESTS = 1
"""Rests for which it is kept how much domains are missed."""


class Slots:
    """Free slots for pods of `gpus` GPUs on eligible hosts.

    `free` and `busy` have an entry per tier-1 domain; `free_list` has the numbers of `free` as a
    list, quick to read one by one; `sums` and `most` are the numbers of higher tiers. `busy` counts
    the open hosts of the type, eligible or not, on which GPUs are booked. `mask` has a byte per
    host id: 0 another type, 1 not eligible, 2 eligible. `nodes` are the eligible hosts, `free_gpus`
    their free GPUs, `penalized` those with a penalty. `limits` are the pods, by host id, that a
    host takes at most for want of something else than GPUs.
    """

    __slots__ = (
        "busy",
        "eligibility",
        "free",
        "free_gpus",
        "free_list",
        "gpus",
        "limits",
        "mask",
        "most",
        "nodes",
        "penalized",
        "sums",
        "total",
    )

    def __init__(
        self, eligibility: Eligibility, gpus: int, free: Counts = _EMPTY, busy: Counts = _EMPTY
    ) -> None:
        self.eligibility, self.gpus = eligibility, gpus
        self.mask = bytearray()
        self.limits: dict[int, int] = {}
        self.nodes = self.free_gpus = self.penalized = self.total = 0
        self._set(free, busy)

    def _set(self, free: Counts, busy: Counts) -> None:
        self.free: Counts = free
        self.free_list = free.data
        self.sums, self.most = Sums(free), Most(free)
        self.busy: Counts = busy

    def fill(self, hosts: HostsOfType, allowed: NDArray[np.bool_], ids: int, domains: int) -> None:
        """Count from scratch; `hosts` are those of the type, `allowed` which the job may use.

        O(hosts).
        """
        slots = np.where(allowed, self._pods_on_all(hosts.ids, hosts.free_gpus), 0)
        busy = hosts.at[hosts.open & (hosts.free_gpus < hosts.gpus)]
        self._set(_sum_by_domain(hosts.at, slots, domains), np.bincount(busy, minlength=domains))
        mask = np.zeros(ids, np.uint8)
        mask[hosts.ids] = np.where(allowed, ELIGIBLE, 1)
        self.mask = bytearray(mask.tobytes())
        self.nodes = int(allowed.sum())
        self.free_gpus = int(hosts.free_gpus[allowed].sum())
        self.penalized = int(hosts.penalized[allowed].sum())
        self.total = int(slots.sum())

    def copy(self) -> "Slots":
        """Return an independent copy."""
        twin = Slots(self.eligibility, self.gpus, self.free.copy(), self.busy.copy())
        twin.mask, twin.limits = self.mask[:], self.limits.copy()
        twin.nodes, twin.free_gpus, twin.penalized = self.nodes, self.free_gpus, self.penalized
        twin.total = self.total
        return twin

    def without(self, eligibility: Eligibility, hosts: Iterable[HostRow]) -> "Slots":
        """Return the class without some hosts."""
        twin = self.copy()
        twin.eligibility = eligibility
        for row in hosts:
            if twin.mask[row[0]] == ELIGIBLE:
                twin.mask[row[0]] = 1
                twin.count_host(-1, row)
        return twin

    def among(self, eligibility: Eligibility, hosts: Iterable[HostRow]) -> "Slots":
        """Return the class with only some hosts."""
        twin = Slots(eligibility, self.gpus, np.zeros_like(self.free), self.busy.copy())
        twin.mask, twin.limits = self.mask.translate(_NONE), self.limits.copy()
        for host_id, at, host, unbooked in hosts:
            if self.mask[host_id] == ELIGIBLE:
                twin.mask[host_id] = ELIGIBLE
                twin.nodes += 1
                twin.free_gpus += unbooked
                twin.penalized += host.penalty > 0
                twin.free_list[at] += twin.pods_on(host_id, unbooked)
        twin.total = int(twin.free.sum())
        return twin

    def part(self, eligibility: Eligibility, hosts: HostsOfType, pods: Counts) -> "Slots":
        """Return the class with only some of its hosts, which take so many `pods`; O(domains)."""
        twin = Slots(eligibility, self.gpus, np.zeros_like(self.free), self.busy)
        mask = np.frombuffer(self.mask, np.uint8)
        may = mask[hosts.ids] == ELIGIBLE
        own = np.minimum(mask, 1)
        own[hosts.ids[may]] = ELIGIBLE
        twin.mask, twin.limits = bytearray(own.tobytes()), self.limits
        np.add.at(twin.free, hosts.at, pods)
        twin.nodes, twin.total = int(may.sum()), int(pods.sum())
        twin.free_gpus = int(hosts.free_gpus[may].sum())
        twin.penalized = int(hosts.penalized[may].sum())
        return twin

    def pods_on(self, host_id: int, free_gpus: int) -> int:
        """Return how many pods a host with so many free GPUs takes."""
        pods = free_gpus // self.gpus
        return min(pods, self.limits.get(host_id, pods))

    def pods_on_all(self, host_ids: DomainIndices, free_gpus: Counts) -> Counts:
        """Return how many pods some hosts take, 0 those that the job may not use; O(hosts)."""
        may = np.frombuffer(self.mask, np.uint8)[host_ids] == ELIGIBLE
        pods: Counts = self._pods_on_all(host_ids, free_gpus) * may
        return pods

    def _pods_on_all(self, host_ids: DomainIndices, free_gpus: Counts) -> Counts:
        pods = free_gpus // self.gpus
        if not self.limits:
            return pods
        of, most = self.limits, pods.tolist()
        limits = [of.get(each, pods) for each, pods in zip(host_ids.tolist(), most, strict=True)]
        return np.minimum(pods, np.array(limits, np.int64))

    def limit(self, host_id: int, at: int, free_gpus: int, pods: int | None) -> None:
        """Set how many pods a host takes at most; None: as many as its GPUs."""
        is_counted = host_id < len(self.mask) and self.mask[host_id] == ELIGIBLE
        before = self.pods_on(host_id, free_gpus)
        if pods is None:
            self.limits.pop(host_id, None)
        else:
            self.limits[host_id] = pods
        if is_counted and (change := self.pods_on(host_id, free_gpus) - before):
            self._add(at, change)

    def update_free(self, host_id: int, at: int, busier: int, free_gpus: tuple[int, int]) -> None:
        """Update for a change of the free GPUs of one host, from and to; O(1).

        `busier`: 1 if the host has become busy, -1 if it is no longer busy.
        """
        kind = self.mask[host_id]
        if not kind:
            return
        if busier:
            self.busy[at] += busier
        if kind == ELIGIBLE:
            before, after = free_gpus
            self.free_gpus += after - before
            # Free GPUs may change without a slot: pieces smaller than a pod are none.
            change = after // self.gpus - before // self.gpus
            if self.limits:
                change = self.pods_on(host_id, after) - self.pods_on(host_id, before)
            if change:
                self._add(at, change)

    def update_all_free(self, at: DomainIndices, taken: UsageChange) -> None:
        """Update for changes of the free GPUs of many hosts, each in its domain; O(hosts given)."""
        # numpy reads the mask in place, and drops the view before the mask can grow.
        kinds = np.frombuffer(self.mask, np.uint8)[taken.ids]
        np.add.at(self.busy, at, taken.busier * (kinds > 0))
        may = kinds == ELIGIBLE
        self.free_gpus += int((taken.after - taken.before)[may].sum())
        before, after = (self._pods_on_all(taken.ids, each) for each in (taken.before, taken.after))
        changes = (after - before) * may
        np.add.at(self.free, at, changes)
        self.sums.change_many(at, changes)
        self.most.change_many(at, changes)
        self.total += int(changes.sum())

    def remove_host(self, host_id: int, at: int, host: Host, unbooked: int) -> None:
        """Remove a host."""
        if self.mask[host_id]:
            row = host_id, at, host, unbooked
            self._count(-1, row, eligible=self.mask[host_id] == ELIGIBLE)
            self.mask[host_id] = 0

    def add_host(self, host_id: int, at: int, host: Host, unbooked: int) -> None:
        """Add a host; it counts only if it is of the type and eligible."""
        if host_id >= len(self.mask):
            self.mask.extend(bytes(max(64, host_id + 1 - len(self.mask))))
        if host.gpu_type == self.eligibility.gpu_type:
            fits = is_eligible(host, self.eligibility)
            self.mask[host_id] = ELIGIBLE if fits else 1
            self._count(1, (host_id, at, host, unbooked), eligible=fits)

    def append(self) -> None:
        """Add an empty domain at the end."""
        self._set(np.append(self.free, 0), np.append(self.busy, 0))

    def reorder(self, before: Counts) -> None:
        """Move the counts with their domains; `before` are the former indices."""
        self._set(self.free[before], self.busy[before])

    def _count(self, sign: int, row: HostRow, *, eligible: bool) -> None:
        _, at, host, unbooked = row
        if unbooked < host.gpus and host.is_open:
            self.busy[at] += sign
        if eligible:
            self.count_host(sign, row)

    def count_host(self, sign: int, row: HostRow) -> None:
        """Add an eligible host to the counts (1) or remove it (-1)."""
        host_id, at, host, unbooked = row
        slots = self.pods_on(host_id, unbooked)
        self.nodes += sign
        self.penalized += sign * (host.penalty > 0)
        self.free_gpus += sign * unbooked
        if slots:
            self._add(at, sign * slots)

    def _add(self, at: int, slots: int) -> None:
        self.free_list[at] += slots
        self.sums.changed(at, slots)
        self.most.changed(at, slots)
        self.total += slots


class Sizes:
    """Slots by tier-1 domain if every host of a type were empty and open: the upper limit."""

    __slots__ = ("gpu_type", "gpus", "whole")

    def __init__(self, gpu_type: str, gpus: int) -> None:
        self.gpu_type, self.gpus = gpu_type, gpus
        self.whole: Counts = np.zeros(0, np.int64)

    def fill(self, hosts: HostsOfType, domains: int) -> None:
        """Count from scratch; O(hosts)."""
        self.whole = _sum_by_domain(hosts.at, hosts.gpus // self.gpus, domains)

    def copy(self) -> "Sizes":
        """Return an independent copy."""
        twin = Sizes(self.gpu_type, self.gpus)
        twin.whole = self.whole.copy()
        return twin

    def count(self, sign: int, at: int, host: Host) -> None:
        """Add a host (1) or remove it (-1)."""
        if host.gpu_type == self.gpu_type:
            self.whole[at] += sign * (host.gpus // self.gpus)

    def append(self) -> None:
        """Add an empty domain at the end."""
        self.whole = np.append(self.whole, 0)

    def reorder(self, before: Counts) -> None:
        """Move the counts with their domains; `before` are the former indices."""
        self.whole = self.whole[before]


def _sum_by_domain(at: DomainIndices, numbers: Counts, domains: int) -> Counts:
    """Return the sum of the numbers of each domain; each number belongs to one domain."""
    sums: Counts = np.bincount(at, weights=numbers, minlength=domains).astype(np.int64)
    return sums


def peaks(whole: Counts, layout: Layout) -> tuple[int, ...]:
    """Return the most slots that one domain of each tier has, from tier 1."""
    if not whole.size:
        return (0,) * layout.tiers
    return tuple(int(layout.rolled(whole, tier).max()) for tier in range(1, layout.tiers + 1))


class _Rollups(ABC):
    """The rolled-up numbers per tier of one number per tier-1 domain.

    The arrays are changed in place, so no caller may keep one beyond the next change. Reading one
    costs O(changes since the last read); O(tier-1 domains) the first time.
    """

    __slots__ = ("_by_tier", "_changes", "_how", "_layout", "_values")

    def __init__(self, values: Counts, how: np.ufunc) -> None:
        self._values, self._how = values, how
        self._layout: Layout | None = None
        self._changes: dict[int, int] = {}
        self._by_tier: dict[int, Counts] = {}

    def changed(self, at: int, by: int) -> None:
        """Record that the number of a tier-1 domain changed."""
        self._changes[at] = self._changes.get(at, 0) + by

    def change_many(self, at: DomainIndices, by: Counts) -> None:
        """Record that the numbers of some tier-1 domains changed; an index may repeat."""
        if len(at) * _MENDED_AS_FAST > len(self._values):
            self._layout, self._changes = None, {}
        else:
            for domain, change in zip(at.tolist(), by.tolist(), strict=True):
                self.changed(domain, change)

    def by(self, tier: int, layout: Layout) -> Counts:
        """Return the rolled-up number of each domain of a tier."""
        if layout is not self._layout or self._changes:
            self._follow(layout)
        found = self._by_tier.get(tier)
        if found is None:
            found = self._by_tier[tier] = layout.rolled(self._values, tier, self._how)
        return found

    def _follow(self, layout: Layout) -> None:
        if layout is not self._layout or len(self._changes) * _MENDED_AS_FAST > len(self._values):
            self._forget()
        else:
            for tier in self._by_tier:
                self._mend(tier, layout)
        self._layout, self._changes = layout, {}

    def _forget(self) -> None:
        self._by_tier = {}

    @abstractmethod
    def _mend(self, tier: int, layout: Layout) -> None:
        """Apply the recorded changes to the numbers of a tier; tier 1 is the numbers themselves."""


class Most(_Rollups):
    """The largest number in each domain."""

    __slots__ = ()

    def __init__(self, values: Counts) -> None:
        super().__init__(values, np.maximum)

    def _mend(self, tier: int, layout: Layout) -> None:
        if tier == 1:
            return
        values, most, of = self._values.data, self._by_tier[tier].data, layout.of[tier]
        unknown: set[int] = set()
        for at, by in self._changes.items():
            domain, now = of[at], values[at]
            # A larger number is the most; a smaller one matters only if it was the most.
            if now >= most[domain]:
                most[domain] = now
            elif now - by >= most[domain]:
                unknown.add(domain)  # it was the maximum: the next largest is not kept
        firsts = layout.firsts[tier]
        for domain in unknown:
            most[domain] = np.maximum.reduce(self._values[firsts[domain] : firsts[domain + 1]])


class Groups:
    """Whole groups of `size`, each inside one domain of `tier`: per top-tier domain, and in all."""

    __slots__ = ("_missed", "_sums", "by_top", "in_all", "size", "tier")

    def __init__(self, sums: Counts, tier: int, size: int, layout: Layout) -> None:
        self.tier, self.size = tier, size
        self._sums, self._missed = sums, dict[int, Counts]()
        self.by_top: Counts = layout.rolled(sums // size, layout.tiers, inner=tier)
        self.in_all = int(self.by_top.sum())

    def missed(self, rest: int) -> Counts:
        """Return the cost of using each domain: its sum, plus `BROKEN` if that breaks a group."""
        found = self._missed.get(rest)
        if found is None:
            if len(self._missed) == _RESTS:
                self._missed.clear()
            # A smaller last group breaks one more group if it does not fit into the remainder.
            found = self._missed[rest] = self._sums + BROKEN * (self._sums % self.size < rest)
        return found

    def changed(self, domain: int, top: int, sums: tuple[int, int]) -> None:
        """Follow a change of the sum of a domain, which is inside the top-tier domain `top`."""
        before, now = sums
        # A group came or went if a multiple of its size was crossed.
        more = now // self.size - before // self.size
        if more:
            self.by_top[top] += more
            self.in_all += more
        for rest, missed in self._missed.items():
            missed[domain] = now + BROKEN * (now % self.size < rest)


class Sums(_Rollups):
    """The sum of the numbers in each domain, and the whole groups in them."""

    __slots__ = ("_groups",)

    def __init__(self, values: Counts) -> None:
        super().__init__(values, np.add)
        self._groups: dict[tuple[int, int], Groups] = {}

    def groups(self, tier: int, size: int, layout: Layout) -> Groups:
        """Return the whole groups of `size`, each inside a domain of the tier."""
        sums = self.by(tier, layout)
        found = self._groups.get((tier, size))
        if found is None:
            found = self._groups[tier, size] = Groups(sums, tier, size, layout)
        return found

    def _forget(self) -> None:
        super()._forget()
        self._groups = {}

    def _mend(self, tier: int, layout: Layout) -> None:
        changes, of = self._changes, layout.of[tier]
        if tier > 1:
            changes = {}
            for at, by in self._changes.items():
                domain = of[at]
                changes[domain] = changes.get(domain, 0) + by
        sums, firsts, tops = self._by_tier[tier].data, layout.firsts[tier], layout.of[layout.tiers]
        groups = [each for each in self._groups.values() if each.tier == tier]
        for domain, by in changes.items():
            if tier > 1:
                sums[domain] += by
            now = sums[domain]
            for each in groups:
                each.changed(domain, tops[firsts[domain]], (now - by, now))
