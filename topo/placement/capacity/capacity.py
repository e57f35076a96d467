"""How much is free where, kept true by one small step per event.

One writer. A host, its bookings and its place are known by name; the free slots of every class of
request that was asked for lately are kept by tier-1 domain, so that a request costs a few passes
over an array and an event costs O(classes).
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from topo.model.ids import NodeName, natural_key
from topo.placement.capacity.columns import HostColumns, HostsOfType
from topo.placement.capacity.difference import Difference
from topo.placement.capacity.eligibility import eligible
from topo.placement.capacity.host import Host
from topo.placement.capacity.label_values import LabelValues
from topo.placement.capacity.layout import HostIndex, Layout
from topo.placement.capacity.node_usage import Amounts, NodeUsage
from topo.placement.capacity.slots import ELIGIBLE, Sizes, Slots, peaks
from topo.placement.job.plan import Pods
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility

CLASSES = 64
"""Classes of requests kept up to date; the one asked for longest ago gives way to a new one."""
_AT_ONCE = 16
"""Nodes booked together from which on passes over arrays are quicker than a step for each."""
ClassKey = tuple[str, object, object, object, str, int]
NodeSlots = list[tuple[NodeName, int]]
"""Nodes, each with the number of free slots that it has."""


class Capacity:
    """Hosts, bookings, and the slots that they leave. Only its owner calls what changes it.

    Booking more GPUs than a host has is a fact, not an error: `free` is then 0.
    """

    def __init__(self, policy: Policy = Policy()) -> None:  # noqa: B008  # frozen, safe to share
        self.policy = policy
        self.version = 0
        self.touched: set[NodeName] | None = None
        """Nodes of which something changed, for the one who takes them out; None: nobody does."""
        self._hosts: dict[NodeName, Host] = {}
        self._used: dict[NodeName, int] = {}
        self._bookings: dict[str, Mapping[NodeName, int]] = {}
        self._columns = HostColumns()
        self._types: Counter[str] = Counter()
        self._slots: OrderedDict[ClassKey, Slots] = OrderedDict()
        self._sizes: OrderedDict[tuple[str, int], Sizes] = OrderedDict()
        self._ordered: tuple[str, ...] | None = None
        self._peaks: dict[tuple[str, int], tuple[int, ...]] = {}
        self._index = HostIndex()
        self._labels = LabelValues()
        self._users: WeakSet[Capacity] = WeakSet([self])
        self._shared = False

    # What there is

    @property
    def tiers(self) -> int:
        """T: the number of tiers, at least 1."""
        return self._index.tiers

    def host(self, name: NodeName) -> Host | None:
        """A host by name."""
        return self._hosts.get(name)

    def hosts(self) -> Iterator[Host]:
        """All hosts in natural order of the tree."""
        self._settle()
        names = self._index.names
        return (self._hosts[names[host_id]] for host_id in self._index.walk())

    def used(self, name: NodeName) -> int:
        """GPUs booked on a node, known or not."""
        return self._used.get(name, 0)

    def free(self, name: NodeName) -> int:
        """GPUs of a host that nobody booked; 0 for an unknown one. Closed hosts have free GPUs."""
        host = self._hosts.get(name)
        return max(0, host.gpus - self._used.get(name, 0)) if host else 0

    def short_of(self, gpus: Mapping[NodeName, int]) -> list[NodeName]:
        """Those of some nodes that cannot take so many GPUs, at least 1 each; O(nodes given)."""
        ids, free = self._index.ids, self._columns.free_gpus
        return [name for name, need in gpus.items() if name not in ids or free[ids[name]] < need]

    def bookings(self) -> Mapping[str, Mapping[NodeName, int]]:
        """GPUs by node for each owner."""
        return MappingProxyType(self._bookings)

    def usage(
        self, holds: Iterable[str], shared: Mapping[NodeName, Amounts] | None = None
    ) -> NodeUsage:
        """Hosts and what is booked on them now, `holds` being the owners that are holds.

        `shared` is what pods take of shared cards. O(hosts) of plain copying: for readers in other
        threads.
        """
        kept = (self._bookings.get(owner) for owner in holds)
        holding = tuple(filter(None, kept))
        return NodeUsage(self.version, self._hosts.copy(), self._used.copy(), holding, shared or {})

    @property
    def gpus(self) -> int:
        """GPUs of all hosts, open or not, whoever has them; O(types)."""
        return self._types.total()

    def gpu_types(self) -> tuple[str, ...]:
        """The types that hosts with GPUs have, the policy's first."""
        if self._ordered is None:
            first = [name for name in self.policy.gpu_types if name in self._types]
            self._ordered = tuple(dict.fromkeys((*first, *sorted(self._types, key=natural_key))))
        return self._ordered

    def kinds(self) -> Mapping[str, int]:
        """The kinds of groups that hosts are in, with the highest tier of each."""
        return self._index.kinds()

    # What happens

    def upsert(self, host: Host) -> None:
        """A host came, moved or changed; O(classes), and a new layout if a group came or went."""
        self._touch((host.name,))
        before = self._hosts.get(host.name)
        if before is not None and before.is_like(host):
            self._hosts[host.name] = host
            if (before.ready, before.cordoned) != (host.ready, host.cordoned):
                self._refresh(self._index.ids[host.name], host, was_open=before.open)
            elif before.shared == host.shared:
                return
        elif before is not None and before.place == host.place:
            self._replace(before, host)
        else:
            if before is not None:
                self._take_out(before)
            self._put_in(host)
        self.version += 1

    def remove(self, name: NodeName) -> None:
        """A host went; what is booked on it stays booked. Unknown names are no error."""
        self._touch((name,))
        host = self._hosts.get(name)
        if host is not None:
            self._take_out(host)
            self.version += 1

    def book(self, owner: str, gpus: Mapping[NodeName, int]) -> None:
        """What an owner takes from now on, instead of what it had before.

        O(nodes) to compare, O(classes) for each node of which it takes more or less than before.
        """
        had = self._bookings.get(owner, {})
        if had == gpus:
            return
        self._bookings[owner] = MappingProxyType(dict(gpus))
        if not had:
            self._shift(gpus)
            return
        changes = {name: gpus.get(name, 0) - had.get(name, 0) for name in {**had, **gpus}}
        self._shift({name: change for name, change in changes.items() if change})

    def book_on(self, owner: str, gpus: Mapping[NodeName, int]) -> None:
        """What an owner takes of some nodes from now on, 0 for nothing; of others what it had."""
        had = self._bookings.pop(owner, {})
        if takes := {name: count for name, count in {**had, **gpus}.items() if count}:
            self._bookings[owner] = MappingProxyType(takes)
        self._shift({name: count - had.get(name, 0) for name, count in gpus.items()})

    def release(self, owner: str) -> None:
        """Free all that an owner took; an unknown owner is no error."""
        had = self._bookings.pop(owner, None)
        if had is not None:
            self._shift({name: -count for name, count in had.items()})

    # Copies and checks

    def copy(self) -> "Capacity":
        """The same state, apart from then on; O(hosts) of plain copying.

        The index is shared until one of the two gets or loses a host.
        """
        self._settle()
        twin = Capacity(self.policy)
        twin.version = self.version
        twin._hosts, twin._used = self._hosts.copy(), self._used.copy()
        twin._bookings, twin._columns = self._bookings.copy(), self._columns.copy()
        twin._types = self._types.copy()
        twin._slots = OrderedDict((key, slots.copy()) for key, slots in self._slots.items())
        twin._sizes = OrderedDict((key, sizes.copy()) for key, sizes in self._sizes.items())
        twin._peaks, twin._labels = self._peaks.copy(), self._labels.copy()
        twin._index, twin._users = self._index, self._users
        self._users.add(twin)
        self._shared = twin._shared = True
        return twin

    def recount(self) -> tuple[Difference, ...]:
        """What the increments got wrong, by node; the recount wins. O(hosts x classes)."""
        self._settle()
        used: Counter[NodeName] = Counter()
        for booking in self._bookings.values():
            used.update(booking)
        found = [*self._recount_free_gpus(used), *self._recount_slots()]
        self._peaks.clear()
        if found:
            self.version += 1
        return tuple(found)

    # For the engine

    def layout(self) -> Layout:
        """The tree as ranges over the tier-1 domains."""
        self._settle()
        return self._index.layout()

    def slots(self, eligibility: Eligibility, gpu_type: str, gpus: int) -> Slots:
        """A class's free slots along the tier-1 domains of `layout`; O(1) if asked for lately."""
        if not self._index.settled:
            self._settle()
        wish = eligibility
        key = (gpu_type, wish.selector, wish.tolerations, wish.exclude, wish.usage, gpus)
        found = self._slots.get(key)
        if found is not None:
            self._slots.move_to_end(key)
            return found
        typed = replace(eligibility, gpu_type=gpu_type)
        if eligibility.selector or eligibility.exclude:
            found = self._narrowed(typed, gpus)
        else:
            found = Slots(typed, gpus)
            self._fill(found)
        self._slots[key] = found
        if len(self._slots) > CLASSES:
            self._slots.popitem(last=False)
        return found

    def empty_slots(self, like: Slots, opened: Callable[[Host], Host] | None) -> Slots:
        """What a class would have if all hosts were as `opened` makes them, and nothing ran there.

        None: closed hosts stay closed. O(hosts of the type).
        """
        hosts = self._of_type(like.eligibility.gpu_type or "")
        found = Slots(like.eligibility, like.gpus)
        allowed = self._allowed(hosts, like.eligibility, opened or (lambda host: host))
        is_open = hosts.open if opened is None else np.ones_like(hosts.open)
        empty = hosts._replace(free_gpus=hosts.gpus * is_open, open=is_open)
        found.fill(empty, allowed, len(self._index.names), len(self._index.order))
        return found

    def peaks(self, gpu_type: str, gpus: int) -> tuple[int, ...]:
        """Slots of the largest domain of each tier if all were empty and open, tier 1 first."""
        key = gpu_type, gpus
        found = self._peaks.get(key)
        if found is None:
            self._settle()
            if key not in self._sizes:
                sizes = self._sizes[key] = Sizes(gpu_type, gpus)
                sizes.fill(self._of_type(gpu_type), len(self._index.order))
                if len(self._sizes) > CLASSES:
                    self._sizes.popitem(last=False)
            found = self._peaks[key] = peaks(self._sizes[key].whole, self.layout())
        return found

    def located(self, pods: Pods, places: list[int]) -> dict[int, int]:
        """Pods by tier-1 domain; adds the places of the hosts in the natural order of all hosts."""
        return self._index.located(pods, places)

    def position(self, name: NodeName) -> tuple[int, int]:
        """(tier-1 domain, place in the natural order of all hosts) of a known host."""
        return self._index.position(name)

    def members(self, at: int) -> list[tuple[int, Host, int]]:
        """(id, host, free GPUs if open else 0) of the hosts of a tier-1 domain in natural order."""
        names, hosts, free_gpus = self._index.names, self._hosts, self._columns.free_gpus
        return [
            (host_id, hosts[names[host_id]], free_gpus[host_id])
            for host_id in self._index.order[at].ids(names)
        ]

    def slots_per_node(self, domains: Iterable[int], slots: Slots) -> tuple[NodeSlots, list[int]]:
        """(name, slots) of the hosts of some tier-1 domains that have slots, and their places.

        Domain by domain in natural order; places are those in the natural order of all hosts.
        """
        index, mask, gpus = self._index, slots.mask, slots.gpus
        names, order, free_gpus = index.names, index.order, self._columns.free_gpus
        offsets = index.layout().offsets
        found: NodeSlots = []
        places: list[int] = []
        for at in domains:
            for place, host_id in enumerate(order[at].ids(names), offsets[at]):
                free = free_gpus[host_id]
                if free >= gpus and mask[host_id] == ELIGIBLE:
                    found.append((names[host_id], free // gpus))
                    places.append(place)
        return found, places

    # How it is kept

    def _narrowed(self, eligibility: Eligibility, gpus: int) -> Slots:
        """A new class from the one without its selector and exclusions; O(nodes told apart).

        It names nodes by exclusion or label, and there is no end to such classes.
        """
        assert eligibility.gpu_type is not None, "classes have a type"  # noqa: S101 - for mypy
        wide = replace(eligibility, selector=(), exclude=frozenset())
        found, ids = self.slots(wide, eligibility.gpu_type, gpus), self._index.ids
        if eligibility.selector:
            labels = ((ids[name], host.labels) for name, host in self._hosts.items())
            labelled = self._labels.matching(eligibility.selector, labels)
            found = found.among(eligibility, map(self._row, labelled))
        out = sorted(ids[name] for name in eligibility.exclude if name in ids)
        return found.without(eligibility, map(self._row, out))

    def _fill(self, slots: Slots) -> None:
        """Counts a class anew; O(hosts) of numpy, and a look at a host for each kind of guards."""
        hosts = self._of_type(slots.eligibility.gpu_type or "")
        allowed = self._allowed(hosts, slots.eligibility, lambda host: host)
        slots.fill(hosts, allowed, len(self._index.names), len(self._index.order))

    def _allowed(
        self, hosts: HostsOfType, eligibility: Eligibility, seen_as: Callable[[Host], Host]
    ) -> NDArray[np.bool_]:
        """Which of some hosts a job may use."""
        alike = np.arange(len(hosts.ids))
        if not (eligibility.selector or eligibility.exclude):
            alike = 2 * hosts.guards + hosts.open
        _, first, which = np.unique(alike, return_index=True, return_inverse=True)
        names = self._index.names
        found = [
            eligible(seen_as(self._hosts[names[host_id]]), eligibility)
            for host_id in hosts.ids[first].tolist()
        ]
        allowed: NDArray[np.bool_] = np.array(found, np.bool_)[which]
        return allowed

    def _of_type(self, gpu_type: str) -> HostsOfType:
        return self._columns.of_type(gpu_type, self._index.domain_at())

    def _row(self, host_id: int) -> tuple[int, int, Host, int]:
        index = self._index
        host = self._hosts[index.names[host_id]]
        return host_id, index.domain_of_host[host_id].at, host, self._columns.free_gpus[host_id]

    def _settle(self) -> None:
        if not self._index.settled:
            self._own()
            before = self._index.settle()
            for counts in self._counts():
                counts.reorder(before)

    def _counts(self) -> Iterator[Slots | Sizes]:
        yield from self._slots.values()
        yield from self._sizes.values()

    def _own(self) -> None:
        """Make sure that nobody shares the places that are about to change."""
        if self._shared:
            self._shared = False
            if len(self._users) > 1:
                # The others must see a user of the shared places until the clone is made.
                own = self._index.clone()
                self._users.discard(self)
                self._index, self._users = own, WeakSet([self])

    def _free_gpus_of(self, host: Host) -> int:
        return max(0, host.gpus - self._used.get(host.name, 0)) if host.open else 0

    def _replace(self, before: Host, host: Host) -> None:
        host_id = self._index.ids[host.name]
        at = self._index.domain_of_host[host_id].at
        old, new = self._columns.free_gpus[host_id], self._free_gpus_of(host)
        self._columns.put(host_id, host, new)
        self._hosts[host.name] = host
        if before.labels != host.labels:
            self._labels.put(host_id, host.labels)
        for slots in self._slots.values():
            slots.remove_host(host_id, at, before, old)
            slots.add_host(host_id, at, host, new)
        if (before.gpus, before.gpu_type) != (host.gpus, host.gpu_type):
            self._count_type(-1, before, at)
            self._count_type(1, host, at)

    def _take_out(self, host: Host) -> None:
        self._own()
        host_id = self._index.ids[host.name]
        at = self._index.domain_of_host[host_id].at
        for slots in self._slots.values():
            slots.remove_host(host_id, at, host, self._columns.free_gpus[host_id])
        self._columns.drop(host_id)
        self._labels.drop(host_id)
        self._count_type(-1, host, at)
        self._index.drop(host)
        del self._hosts[host.name]

    def _put_in(self, host: Host) -> None:
        self._own()
        host_id, made = self._index.add(host)
        at = self._index.domain_of_host[host_id].at
        if made:
            for counts in self._counts():
                counts.append()
        free = self._free_gpus_of(host)
        self._columns.put(host_id, host, free)
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
        """So many GPUs more are taken of each of these nodes."""
        self.version += 1
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
        if len(now_used) < _AT_ONCE:
            for host_id in now_used:
                host = self._hosts[index.names[host_id]]
                if host.open:
                    self._refresh(host_id, host, was_open=True)
            return
        taken = self._columns.taken(list(now_used), list(now_used.values()))
        domains = index.domain_of_host
        at = np.array([domains[host_id].at for host_id in now_used], np.intp)
        for slots in self._slots.values():
            slots.update_all_free(at, taken)

    def _refresh(self, host_id: int, host: Host, *, was_open: bool) -> None:
        """Count the free GPUs of a host anew after a booking or a change of state."""
        before, gpus = self._columns.free_gpus[host_id], host.gpus
        after = max(0, gpus - self._used.get(host.name, 0)) if host.open else 0
        busier = (host.open and after < gpus) - (was_open and before < gpus)
        if was_open != host.open:
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
