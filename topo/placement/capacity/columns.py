"""The facts of all hosts as arrays by host id, from which classes of requests are counted.

A class of requests that was not used recently is counted from these arrays in a few passes, for any
pod size. That takes milliseconds for 100,000 hosts; a loop would take a quarter of a second.

A label's key is looked up on all hosts when a selector first names it. After that, a change of a
host's labels costs one step per stored key, and the next selector one pass over the values of its
keys.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topo.model.ids import Kind
from topo.placement.capacity.host import UNGUARDED, Guards, Host, is_eligible
from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.job.request import Eligibility, Labels, OtherGroup

OPEN, PENALIZED = 1, 2
_NO_TYPE = -1
"""The type of an id that no host has."""
MOST_KEYS = 32
"""Keys that are kept; the one asked for longest ago gives way to a new one."""
Values = list[str | None]
"""A label's value by host id; None where the host has no such label."""


class HostsOfType(NamedTuple):
    """The hosts of a GPU type, an entry each. `at` is the tier-1 domain, `gpus` all GPUs.

    `guards` are numbers: equal numbers mean equal guards, 0 means none.
    """

    ids: DomainIndices
    at: DomainIndices
    gpus: Counts
    free_gpus: Counts
    open: NDArray[np.bool_]
    guards: NDArray[np.int64]
    penalized: NDArray[np.bool_]

    def allowed(
        self, eligibility: Eligibility, host_of: Callable[[int], Host]
    ) -> NDArray[np.bool_]:
        """Return, for each, whether a job may use it; one check per distinct set of guards.

        `host_of` returns a host by id. One check per host where the job names nodes or labels.
        """
        alike = np.arange(len(self.ids))
        if not (eligibility.selector or eligibility.exclude or eligibility.inside):
            alike = 2 * self.guards + self.open
        _, first, which = np.unique(alike, return_index=True, return_inverse=True)
        found = [is_eligible(host_of(each), eligibility) for each in self.ids[first].tolist()]
        may: NDArray[np.bool_] = np.array(found, np.bool_)[which]
        return may


class UsageChange(NamedTuple):
    """Changes of some hosts by bookings: the free GPUs before and after, an entry per host.

    `busier`: 1 for a host that has become busy, -1 for a host that is no longer busy.
    """

    ids: DomainIndices
    before: Counts
    after: Counts
    busier: Counts


class HostColumns:
    """GPUs, free GPUs, type, guards, groups in other fabrics, state by host id.

    `free_gpus` is 0 if a host is not open. Guards and groups are numbers, as many as there were
    different ones since the columns were made.
    """

    __slots__ = (
        "_codes",
        "_elsewhere",
        "_elsewhere_codes",
        "_gpus",
        "_guard_codes",
        "_guards",
        "_marks",
        "_types",
        "free_gpus",
    )

    def __init__(self) -> None:
        self.free_gpus = array("q")
        self._gpus = array("q")
        self._types = array("q")
        self._guards = array("q")
        self._guard_codes: dict[Guards, int] = {UNGUARDED: 0}
        self._elsewhere = array("q")
        self._elsewhere_codes: dict[tuple[OtherGroup, ...], int] = {(): 0}
        self._marks = bytearray()
        self._codes: dict[str, int] = {}

    def copy(self) -> "HostColumns":
        """Return an independent copy; O(hosts) of plain copying."""
        twin = HostColumns()
        for name in self.__slots__:
            setattr(twin, name, copy(getattr(self, name)))
        return twin

    def put(self, host_id: int, host: Host, free_gpus: int) -> None:
        """Add or change a host."""
        missing = host_id + 1 - len(self._types)
        if missing > 0:
            self.free_gpus.extend([0] * missing)
            self._gpus.extend([0] * missing)
            self._types.extend([_NO_TYPE] * missing)
            self._guards.extend([0] * missing)
            self._elsewhere.extend([0] * missing)
            self._marks.extend(bytes(missing))
        self.free_gpus[host_id], self._gpus[host_id] = free_gpus, host.gpus
        self._types[host_id] = self._codes.setdefault(host.gpu_type, len(self._codes))
        codes = self._guard_codes
        self._guards[host_id] = codes.setdefault(host.guards, len(codes))
        others = self._elsewhere_codes
        self._elsewhere[host_id] = others.setdefault(host.elsewhere, len(others))
        self._marks[host_id] = (OPEN if host.is_open else 0) | (
            PENALIZED if host.penalty > 0 else 0
        )

    def taken(self, host_ids: list[int], used: list[int]) -> UsageChange:
        """Set the used GPUs of some hosts; return what changed. O(hosts given)."""
        ids = np.array(host_ids, np.intp)
        free, gpus = (
            np.frombuffer(self.free_gpus, np.int64),
            np.frombuffer(self._gpus, np.int64)[ids],
        )
        is_open = (np.frombuffer(self._marks, np.uint8)[ids] & OPEN) > 0
        before = free[ids]
        after = np.maximum(0, gpus - np.array(used)) * is_open
        free[ids] = after
        busier = ((after < gpus) * 1 - (before < gpus)) * is_open
        return UsageChange(ids, before, after, busier)

    def drop(self, host_id: int) -> None:
        """Remove a host; its id may be reused."""
        self._types[host_id] = _NO_TYPE

    def closed(self) -> frozenset[int]:
        """Return the ids of the hosts that are not open; one pass of numpy."""
        marks, types = np.frombuffer(self._marks, np.uint8), np.frombuffer(self._types, np.int64)
        return frozenset(np.flatnonzero((marks & OPEN == 0) & (types != _NO_TYPE)).tolist())

    def of_kind_elsewhere(self, kind: Kind) -> tuple[list[OtherGroup], NDArray[np.int64]]:
        """Return the groups of a kind in other fabrics and, by host id, which the host is in.

        -1: in none. Of several around a host the outermost counts. O(hosts) in numpy.
        """
        numbers: dict[OtherGroup, int] = {}
        of_code = np.full(len(self._elsewhere_codes), -1)
        for groups, code in self._elsewhere_codes.items():
            found = next((each for each in groups if each.kind == kind), None)
            if found is not None:
                of_code[code] = numbers.setdefault(found, len(numbers))
        is_there = np.array(self._types) != _NO_TYPE
        return list(numbers), np.where(is_there, of_code[np.array(self._elsewhere)], -1)

    def gpus_of(self, ids: DomainIndices, *, idle: bool) -> Counts:
        """Return the free GPUs of some hosts; `idle`: those that they have when nothing runs."""
        if not idle:
            free: Counts = np.frombuffer(self.free_gpus, np.int64)[ids]
            return free
        is_open = (np.frombuffer(self._marks, np.uint8)[ids] & OPEN) > 0
        gpus: Counts = np.frombuffer(self._gpus, np.int64)[ids] * is_open
        return gpus

    def of_type(self, gpu_type: str, domain_at: DomainIndices) -> HostsOfType:
        """Return the hosts of a type; `domain_at` are the tier-1 domains by host id."""
        code = self._codes.get(gpu_type, _NO_TYPE - 1)
        ids = np.flatnonzero(np.array(self._types) == code)
        return self.of_ids(ids, domain_at[ids])

    def of_ids(self, ids: DomainIndices, at: DomainIndices) -> HostsOfType:
        """Return some hosts, which are in the tier-1 domains `at`."""
        marks = np.frombuffer(self._marks, np.uint8)[ids]
        return HostsOfType(
            ids=ids,
            at=at,
            gpus=np.frombuffer(self._gpus, np.int64)[ids],
            free_gpus=np.frombuffer(self.free_gpus, np.int64)[ids],
            open=(marks & OPEN) > 0,
            guards=np.frombuffer(self._guards, np.int64)[ids],
            penalized=(marks & PENALIZED) > 0,
        )


class LabelValues:
    """The values of some labels by host id."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[str, Values] = OrderedDict()
        self._ids: dict[str, dict[str | None, list[int]]] = {}
        """By key and value the hosts that have it, ascending; read where a selector asks for it."""

    def copy(self) -> "LabelValues":
        """Return an independent copy."""
        twin = LabelValues()
        twin._by_key = OrderedDict((key, values[:]) for key, values in self._by_key.items())
        return twin

    def put(self, host_id: int, labels: Labels) -> None:
        """Set the labels of a host."""
        if self._by_key:
            known = dict(labels)
            for key, values in self._by_key.items():
                if host_id >= len(values):
                    values.extend([None] * (host_id + 1 - len(values)))
                if values[host_id] != known.get(key):
                    values[host_id] = known.get(key)
                    self._ids.pop(key, None)

    def drop(self, host_id: int) -> None:
        """Remove a host."""
        self.put(host_id, ())

    def matching(self, selector: Labels, hosts: Iterable[tuple[int, Labels]]) -> list[int]:
        """Return the ids of the hosts that have all labels of a selector, which has at least one.

        `hosts` are all hosts; O(hosts) for each key after a change of it, else O(hosts found).
        """
        missing = {key for key, _ in selector if key not in self._by_key}
        if missing:
            self._read(missing, hosts)
        (key, value), *others = selector
        found = self._ids_of(key).get(value, [])
        for key, value in others:
            values = self._by_key[key]
            found = [host_id for host_id in found if values[host_id] == value]
        for key, _ in selector:
            self._by_key.move_to_end(key)
        while len(self._by_key) > MOST_KEYS:
            self._ids.pop(self._by_key.popitem(last=False)[0], None)
        return found

    def _ids_of(self, key: str) -> Mapping[str | None, list[int]]:
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = {}
            for host_id, value in enumerate(self._by_key[key]):
                found.setdefault(value, []).append(host_id)
        return found

    def _read(self, keys: Collection[str], hosts: Iterable[tuple[int, Labels]]) -> None:
        """Read keys from the labels of all hosts."""
        known = list(hosts)
        size = 1 + max((host_id for host_id, _ in known), default=-1)
        read: dict[str, Values] = {key: [None] * size for key in keys}
        for host_id, labels in known:
            for key, value in labels:
                if key in read:
                    read[key][host_id] = value
        self._by_key |= read
