"""The free capacity with its changes, updated in a small step per event.

There is one writer. Read-only queries are in `capacity_view.py`. A request costs a few passes over
an array, and an event O(classes of requests).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from topo.model.ids import NodeName
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.columns import HostColumns, LabelValues
from topo.placement.capacity.host import Difference, Host
from topo.placement.capacity.node_room import NodeRoom
from topo.placement.capacity.room_limits import RoomLimits
from topo.placement.job.policy import Policy

_AT_ONCE = 16
"""Nodes booked together from which on passes over arrays are quicker than a step for each."""


class Capacity(CapacityView):
    """A capacity that follows hosts and bookings. Only its owner has it; readers have the view."""

    def __init__(self, policy: Policy = Policy()) -> None:  # noqa: B008  # frozen, safe to share
        super().__init__(policy)
        self.touched: set[NodeName] | None = None
        """Nodes of which something changed, for the owner who takes them out; None: not wanted."""

    def limit_by(self, room: NodeRoom) -> None:
        """Limit pods that take more than GPUs by what nodes have of that."""
        self._limits = RoomLimits(room)

    # What happens

    def upsert(self, host: Host) -> None:
        """Add or change a host; O(classes), and a new layout if a group came or went."""
        self._touch((host.name,))
        before = self._hosts.get(host.name)
        if before is not None and before.is_like(host):
            self._hosts[host.name] = host
            if (before.ready, before.cordoned) != (host.ready, host.cordoned):
                self._refresh(self._index.ids[host.name], host, was_open=before.is_open)
            elif before.shared == host.shared:
                return
        # The most frequent changes come first: a state, then GPUs or labels; a move is the rarest.
        elif before is not None and before.place == host.place:
            self._replace(before, host)
        else:
            if before is not None:
                self._take_out(before)
            self._put_in(host)
        self._version += 1

    def remove(self, name: NodeName) -> None:
        """Remove a host; its bookings stay. Unknown names are ignored."""
        self._touch((name,))
        host = self._hosts.get(name)
        if host is not None:
            self._take_out(host)
            self._version += 1

    def book(self, owner: str, gpus: Mapping[NodeName, int]) -> None:
        """Set the GPUs that an owner takes, in place of its earlier ones.

        O(nodes) to compare, O(classes) for each node where the number changes.
        """
        had = self._bookings.get(owner, {})
        if had == gpus:
            return
        self._bookings[owner] = MappingProxyType(dict(gpus))
        if not had:
            self._shift(gpus)
            return
        # Only the nodes that differ are touched: a large job rebooks pod by pod.
        changes = {name: gpus.get(name, 0) - had.get(name, 0) for name in {**had, **gpus}}
        self._shift({name: change for name, change in changes.items() if change})

    def book_on(self, owner: str, gpus: Mapping[NodeName, int]) -> None:
        """Set the GPUs that an owner takes on some nodes, 0 for none; keep those on other nodes."""
        had = self._bookings.pop(owner, {})
        if takes := {name: count for name, count in {**had, **gpus}.items() if count}:
            self._bookings[owner] = MappingProxyType(takes)
        changes = {name: count - had.get(name, 0) for name, count in gpus.items()}
        if any(changes.values()):
            self._shift(changes)

    def release(self, owner: str) -> None:
        """Release all GPUs of an owner; an unknown owner is ignored."""
        had = self._bookings.pop(owner, None)
        if had is not None:
            self._shift({name: -count for name, count in had.items()})

    def recount(self) -> tuple[Difference, ...]:
        """Recount everything from scratch; correct and return what differs. O(hosts x classes)."""
        self._settle()
        used: Counter[NodeName] = Counter()
        for booking in self._bookings.values():
            used.update(booking)
        found = [*self._recount_free_gpus(used), *self._recount_slots()]
        self._peaks.clear()
        if found:
            self._version += 1
        return tuple(found)

    # How it is kept

    def _replace(self, before: Host, host: Host) -> None:
        host_id = self._index.ids[host.name]
        at = self._index.domain_of_host[host_id].at
        old, new = self._columns.free_gpus[host_id], self._free_gpus_of(host)
        self._columns.put(host_id, host, new)
        self._hosts[host.name] = host
        if before.labels != host.labels:
            self._labels.put(host_id, host.labels)
        if before.elsewhere != host.elsewhere:
            self._elsewhere = {}
        for slots in self._slots.values():
            slots.remove_host(host_id, at, before, old)
            slots.add_host(host_id, at, host, new)
        if (before.gpus, before.gpu_type) != (host.gpus, host.gpu_type):
            self._count_type(-1, before, at)
            self._count_type(1, host, at)

    def _forget_limited(self) -> None:
        """Forget the classes that are limited by host id: ids of hosts that go are used again."""
        for key in [key for key in self._slots if key[-1]]:
            del self._slots[key]
            self._limits.forget(key)

    def _take_out(self, host: Host) -> None:
        self._own()
        self._forget_limited()
        host_id = self._index.ids[host.name]
        at = self._index.domain_of_host[host_id].at
        for slots in self._slots.values():
            slots.remove_host(host_id, at, host, self._columns.free_gpus[host_id])
        self._columns.drop(host_id)
        self._elsewhere = {}
        self._labels.drop(host_id)
        self._count_type(-1, host, at)
        self._index.drop(host)
        del self._hosts[host.name]

    def _put_in(self, host: Host) -> None:
        self._own()
        self._forget_limited()
        host_id, made = self._index.add(host)
        at = self._index.domain_of_host[host_id].at
        if made:
            for counts in self._counts():
                counts.append()
        free = self._free_gpus_of(host)
        self._columns.put(host_id, host, free)
        self._elsewhere = {}
        self._labels.put(host_id, host.labels)
        self._hosts[host.name] = host
        for slots in self._slots.values():
            slots.add_host(host_id, at, host, free)
        self._count_type(1, host, at)

    def _count_type(self, sign: int, host: Host, at: int) -> None:
        self._peaks.clear()
        for sizes in self._sizes.values():
            sizes.count(sign, at, host)
        self._types[host.gpu_type] += sign * host.gpus
        self._types, self._ordered = +self._types, None

    def _touch(self, names: Iterable[NodeName]) -> None:
        if self.touched is not None:
            self.touched.update(names)

    def _shift(self, changes: Mapping[NodeName, int]) -> None:
        """Add these numbers to the used GPUs of the nodes; a negative number frees GPUs."""
        self._version += 1
        self._touch(changes)
        index, used, ids = self._index, self._used, self._index.ids
        now_used: dict[int, int] = {}
        for name, change in changes.items():
            now = used.get(name, 0) + change
            if now:
                used[name] = now
            else:
                used.pop(name, None)
            if name in ids:
                now_used[ids[name]] = now
        # A few nodes are quicker one by one: numpy has a fixed cost for each class.
        if len(now_used) < _AT_ONCE:
            for host_id in now_used:
                self._refresh(host_id, self._hosts[index.names[host_id]])
            return
        taken = self._columns.taken(list(now_used), list(now_used.values()))
        domains = index.domain_of_host
        at = np.array([domains[host_id].at for host_id in now_used], np.intp)
        for slots in self._slots.values():
            slots.update_all_free(at, taken)

    def _refresh(self, host_id: int, host: Host, *, was_open: bool | None = None) -> None:
        """Recompute the free GPUs of a host after a booking or a change of its state.

        `was_open`: whether it was open before; None if that did not change.
        """
        before, gpus, is_open = self._columns.free_gpus[host_id], host.gpus, host.is_open
        if was_open is None:
            was_open = is_open
        after = self._free_gpus_of(host)
        busier = (is_open and after < gpus) - (was_open and before < gpus)
        if was_open != is_open:
            self._columns.put(host_id, host, after)
        if after == before and not busier:
            return
        self._columns.free_gpus[host_id] = after
        at = self._index.domain_of_host[host_id].at
        for slots in self._slots.values():
            slots.update_free(host_id, at, busier, (before, after))

    def _recount_free_gpus(self, used: Counter[NodeName]) -> Iterator[Difference]:
        for name in {**used, **self._used}:
            if used[name] != self._used.get(name, 0) and name not in self._hosts:
                yield Difference(name, used[name], self._used.get(name, 0))
        self._used = {name: count for name, count in used.items() if count}
        before, self._columns = self._columns.free_gpus, HostColumns()
        self._labels = LabelValues()
        for name, host_id in self._index.ids.items():
            host = self._hosts[name]
            counted, kept = self._free_gpus_of(host), before[host_id]
            self._columns.put(host_id, host, counted)
            if counted != kept:
                yield Difference(name, counted, kept)

    def _recount_slots(self) -> Iterator[Difference]:
        domains = self._index.order
        for slots in self._slots.values():
            kept = slots.copy()
            self._fill(slots)
            for at in np.flatnonzero((slots.free != kept.free) | (slots.busy != kept.busy)):
                node = self._index.names[domains[at].ids(self._index.names)[0]]
                yield Difference(node, int(slots.free[at]), int(kept.free[at]))
        for sizes in self._sizes.values():
            sizes.fill(self._of_type(sizes.gpu_type), len(domains))
