"""The read-only view of the capacity: hosts, bookings, and free slots.

Only its owner has the `Capacity` (`capacity.py`) behind it. What-if questions are asked of
`with_changes(…)`, a separate view: nothing is booked, so no version, tag or other reader changes.

The free slots of recently used classes of requests, and the values of labels that selectors name,
are kept. The first query counts them. That changes no answer: it is a cache, not a write.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import Final, NamedTuple, Self
from weakref import WeakSet

import numpy as np

from topo.model.errors import BrokenInvariantError
from topo.model.ids import Kind, NodeName, natural_key
from topo.model.pod_requests import Amounts as PodAmounts
from topo.placement.capacity.columns import HostColumns, HostsOfType, LabelValues, UsageChange
from topo.placement.capacity.host import Host, free_gpus, unbooked_gpus
from topo.placement.capacity.host_index import HostIndex
from topo.placement.capacity.layout import DomainIndices, Layout
from topo.placement.capacity.node_usage import Amounts, NodeUsage
from topo.placement.capacity.other_fabrics import GroupsElsewhere, RoomElsewhere, groups_elsewhere
from topo.placement.capacity.room_limits import NO_CHANGE, RoomChange, RoomLimits
from topo.placement.capacity.slots import ELIGIBLE, HostRow, Sizes, Slots, peaks
from topo.placement.job.plan import Pods
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, Labels

CLASSES = 64
"""Classes of requests kept up to date; the one asked for longest ago gives way to a new one."""
ClassKey = tuple[str, object, object, object, tuple[str, bool], int, PodAmounts]
NodeSlots = list[tuple[NodeName, int]]
"""Nodes, each with the number of free slots that it has."""
_NO_GPUS: Mapping[NodeName, int] = MappingProxyType({})
_versions_of_changes = count(-1, -1)


class _Changes(NamedTuple):
    """How a view differs from the view that it was made of; needed by classes counted later.

    First `hosts` change their state, each from one row to another; then bookings change the free
    GPUs (`taken`) on hosts in the domains `at`, and `room` what they have beside GPUs.
    """

    base: "CapacityView"
    base_version: int
    hosts: list[tuple[HostRow, HostRow]]
    at: DomainIndices
    taken: UsageChange
    room: RoomChange


class CapacityView:
    """Hosts, bookings, and the free slots, read-only.

    Booking more GPUs than a host has is a fact, not an error: `free` is then 0.
    """

    def __init__(self, policy: Policy = Policy()) -> None:  # noqa: B008  # frozen, safe to share
        self.policy: Final = policy
        self._limits = RoomLimits()
        self._version = 0
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
        self._elsewhere: dict[Kind, GroupsElsewhere] = {}
        self._users: WeakSet[CapacityView] = WeakSet([self])
        self._shared = False
        self._changes: _Changes | None = None
        self._takes: PodAmounts = ()  # what the pods of all questions take beside GPUs

    # What there is

    @property
    def version(self) -> int:
        """The version of the content: it grows with changes, and is negative for assumptions."""
        return self._version

    @property
    def tiers(self) -> int:
        """T: the number of tiers, at least 1."""
        return self._index.tiers

    def host(self, name: NodeName) -> Host | None:
        """Return a host by name."""
        return self._hosts.get(name)

    def hosts(self) -> list[Host]:
        """Return all hosts in the natural order of the tree; O(hosts)."""
        self._settle()
        hosts, names, order = self._hosts, self._index.names, self._index.order
        return [hosts[names[host_id]] for domain in order for host_id in domain.ids(names)]

    def labelled(self, selector: Labels) -> list[Host]:
        """Return the hosts with all labels of a selector, which has one; O(hosts found), mostly."""
        self._settle()
        hosts, ids, names = self._hosts, self._index.ids, self._index.names
        labels = ((ids[name], host.labels) for name, host in hosts.items())
        return [hosts[names[host_id]] for host_id in self._labels.matching(selector, labels)]

    def closed_hosts(self) -> list[Host]:
        """Return the hosts that are not open, in natural order; mostly a pass of numpy."""
        closed, ids = self._columns.closed(), self._index.ids
        return [host for host in self.hosts() if ids[host.name] in closed] if closed else []

    def used(self, name: NodeName) -> int:
        """Return the GPUs booked on a node, also on one without a host."""
        return self._used.get(name, 0)

    def unbooked(self, name: NodeName) -> int:
        """Return the unbooked GPUs of a host, open or closed; 0 for an unknown one."""
        return unbooked_gpus(host, self.used(name)) if (host := self.host(name)) else 0

    def free(self, name: NodeName) -> int:
        """Return the free GPUs of a host; 0 for one that is not open or not known."""
        return self._free_gpus_of(host) if (host := self.host(name)) else 0

    def free_on(self, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the free GPUs of those of the given nodes that have any; O(nodes given)."""
        return {name: free for name in names if (free := self.free(name))}

    def nodes_short_of(self, gpus: Mapping[NodeName, int]) -> list[NodeName]:
        """Return the nodes that cannot take the given GPUs (at least 1 each); O(nodes given)."""
        ids, free = self._index.ids, self._columns.free_gpus
        return [name for name, need in gpus.items() if name not in ids or free[ids[name]] < need]

    def bookings(self) -> Mapping[str, Mapping[NodeName, int]]:
        """Return the GPUs by node for each owner."""
        return MappingProxyType(self._bookings)

    def usage(
        self, holds: Iterable[str], shared: Mapping[NodeName, Amounts] | None = None
    ) -> NodeUsage:
        """Return what is booked on each host, frozen; `holds` are the owners that are holds.

        Any thread may read it. `shared`: the shared cards that pods take. O(hosts) of copying.
        """
        holding = tuple(filter(None, map(self._bookings.get, holds)))
        hosts, used = self._hosts.copy(), self._used.copy()
        return NodeUsage(self._version, hosts, used, holding, shared or {})

    @property
    def gpus(self) -> int:
        """The GPUs of all hosts, open or closed, booked or not; O(types)."""
        return self._types.total()

    def gpus_of(self, gpu_type: str) -> int:
        """Return the GPUs of all hosts of a type, open or closed, booked or not; O(1)."""
        return self._types[gpu_type]

    def gpu_types(self) -> tuple[str, ...]:
        """Return the GPU types of hosts with GPUs, in the policy's order."""
        if self._ordered is None:
            first = [name for name in self.policy.gpu_types if name in self._types]
            self._ordered = tuple(dict.fromkeys((*first, *sorted(self._types, key=natural_key))))
        return self._ordered

    def types_for(self, eligibility: Eligibility) -> tuple[str, ...]:
        """Return the GPU types that a job may have, in the order in which they are tried."""
        return self.gpu_types() if eligibility.gpu_type is None else (eligibility.gpu_type,)

    def kinds(self) -> Mapping[str, int]:
        """Return the kinds of groups that contain hosts, with the highest tier of each kind."""
        return self._index.kinds()

    def groups_elsewhere(self, kind: Kind) -> GroupsElsewhere | None:
        """Return the groups of a kind in other fabrics than the tree's; None where there are none.

        O(1) while no host comes, goes or moves; else O(hosts) in numpy.
        """
        self._settle()
        if (found := self._elsewhere.get(kind)) is None:
            found = groups_elsewhere(self._columns, self._index.domain_at(), kind)
            if found is not None:
                self._elsewhere[kind] = found
        return found

    def room_elsewhere(self, slots: Slots, kind: Kind, *, idle: bool) -> RoomElsewhere | None:
        """Return what those groups have free for a class; `idle`: as if nothing ran. O(hosts)."""
        groups = self.groups_elsewhere(kind)
        if groups is None:
            return None
        free_gpus = self._columns.gpus_of(groups.ids, idle=idle)
        return RoomElsewhere(groups, slots, slots.pods_on_all(groups.ids, free_gpus), self._columns)

    # Copies, and what if

    def copy(self, policy: Policy | None = None) -> Self:
        """Return an independent copy, for another thread; O(hosts) of plain copying.

        The index is shared until one of the two adds or removes a host. The copy of a view with
        changes does not depend on the original view, and answers for GPUs alone.
        """
        self._settle()
        twin = type(self)(policy or self.policy)
        self._share_index(twin)
        twin._version = self._version
        twin._hosts, twin._used = self._hosts.copy(), self._used.copy()
        twin._bookings, twin._columns = self._bookings.copy(), self._columns.copy()
        twin._types = self._types.copy()
        twin._slots = OrderedDict(
            (key, slots.copy()) for key, slots in self._slots.items() if not key[-1]
        )
        twin._sizes = OrderedDict((key, sizes.copy()) for key, sizes in self._sizes.items())
        twin._peaks, twin._labels = self._peaks.copy(), self._labels.copy()
        twin._elsewhere = self._elsewhere.copy()
        return twin

    def with_changes(
        self,
        *,
        released: Iterable[str] = (),
        taken: Mapping[str, Mapping[NodeName, int]] = MappingProxyType({}),
        hosts: Iterable[Host] = (),
        room: RoomChange = NO_CHANGE,
    ) -> "CapacityView":
        """Return a view with assumed changes. This view and its version stay as they are.

        `released`: owners that give everything back; unknown ones are ignored. `taken`: the GPUs
        that owners take instead of their current ones, by node. `hosts`: known hosts in another
        state or with other taints; place, GPUs, type and labels must stay. `room`: with `takes` all
        questions are about pods that take so much of their node beside GPUs; `pods` of such pods
        are there from now on, whose GPUs are in `taken`.

        The new view is valid until this one changes, and raises `BrokenInvariantError` after that.
        O(nodes that change) and some plain copying of numbers; a class of requests costs a copy of
        its counts when it is first used.
        """
        asked = {**dict.fromkeys(released, _NO_GPUS), **taken}
        bookings = {o: gpus for o, gpus in asked.items() if gpus or o in self._bookings}
        changed = [host for host in hosts if host != self._hosts[host.name]]
        if not bookings and not changed and room is NO_CHANGE:
            return self
        self._settle()
        view = CapacityView(self.policy)
        self._share_index(view)
        view._version = next(_versions_of_changes)
        # Hosts first, then bookings: what a booking frees depends on the state of its host.
        view._hosts = self._hosts | {h.name: h for h in changed} if changed else self._hosts
        view._types, view._ordered = self._types, self._ordered
        view._sizes, view._peaks, view._labels = self._sizes, self._peaks, self._labels
        view._elsewhere = self._elsewhere
        view._columns, view._used, view._bookings = self._columns, self._used, self._bookings
        if bookings or changed:
            view._columns = self._columns.copy()
            view._used, view._bookings = self._used.copy(), self._bookings.copy()
        rows = [view._restate(self, host) for host in changed]
        at, counted = view._rebook(bookings)
        view._takes = room.takes or self._takes
        view._changes = _Changes(self, self._version, rows, at, counted, room)
        return view

    def _share_index(self, other: "CapacityView") -> None:
        other._index, other._users = self._index, self._users
        self._users.add(other)
        self._shared = other._shared = True

    def _restate(self, base: "CapacityView", host: Host) -> tuple[HostRow, HostRow]:
        """Change the state of a host; return its rows before and after.

        The view must not have classes yet.
        """
        before = base._row(self._index.ids[host.name])
        if before[2].fixed_facts != host.fixed_facts:
            raise BrokenInvariantError(f"capacity: {host.name} is assumed to be another host")
        self._columns.put(before[0], host, self._free_gpus_of(host))
        return before, self._row(before[0])

    def _rebook(
        self, bookings: Mapping[str, Mapping[NodeName, int]]
    ) -> tuple[DomainIndices, UsageChange]:
        """Book the GPUs of owners; return what changed in which domains.

        The view must not have classes yet.
        """
        used, touched = self._used, dict[NodeName, None]()
        for owner, gpus in bookings.items():
            for name, number in self._bookings.pop(owner, {}).items():
                used[name] = used.get(name, 0) - number
                touched[name] = None
            for name, number in gpus.items():
                used[name] = used.get(name, 0) + number
                touched[name] = None
            if gpus:
                self._bookings[owner] = gpus
        ids, domains = self._index.ids, self._index.domain_of_host
        known = {ids[name]: used[name] for name in touched if name in ids}
        at = np.array([domains[host_id].at for host_id in known], np.intp)
        return at, self._columns.taken(list(known), list(known.values()))

    # For the engine

    def layout(self) -> Layout:
        """Return the tree as ranges over the tier-1 domains."""
        self._settle()
        return self._index.layout()

    def slots(
        self, eligibility: Eligibility, gpu_type: str, gpus: int, takes: PodAmounts = ()
    ) -> Slots:
        """Return a class's free slots by tier-1 domain; O(1) if the class was used recently.

        For pods that take other resources, O(nodes of which those changed since).
        """
        if not self._index.is_settled:
            self._settle()
        if eligibility.inside is not None:
            # Not kept: there are many groups, and a question asks for each once.
            inside = eligibility.inside
            wide = self.slots(replace(eligibility, inside=None), gpu_type, gpus, takes)
            room = self.room_elsewhere(wide, inside.kind, idle=False)
            return room.part(inside) if room is not None else wide.among(eligibility, ())
        wish, changes = eligibility, self._changes
        pools = wish.usage, wish.spares_hybrid
        takes = takes or self._takes
        key = (gpu_type, wish.selector, wish.tolerations, wish.exclude, pools, gpus, takes)
        found = self._slots.get(key)
        if found is not None:
            self._slots.move_to_end(key)
            if takes and changes is None:
                self._limits.follow(key, takes, found, (self._index, self._columns.free_gpus))
            return found
        typed = replace(eligibility, gpu_type=gpu_type)
        # A class of a view with changes is that of its base, with the difference added.
        if changes is not None:
            found = self._changed_slots(changes, typed, gpus, takes)
        elif takes:
            found = self.slots(eligibility, gpu_type, gpus).copy()
            self._limits.follow(key, takes, found, (self._index, self._columns.free_gpus))
        elif eligibility.selector or eligibility.exclude:
            found = self._narrowed(typed, gpus)
        else:
            found = Slots(typed, gpus)
            self._fill(found)
        self._slots[key] = found
        if len(self._slots) > CLASSES:
            oldest, _ = self._slots.popitem(last=False)
            self._limits.forget(oldest)
        return found

    def empty_slots(self, like: Slots, opened: Callable[[Host], Host] | None) -> Slots:
        """Return the slots of a class if all hosts were empty.

        `opened` returns hosts in an assumed state; without it closed ones stay closed. O(hosts).
        """
        hosts = self._of_type(like.eligibility.gpu_type or "")
        found = Slots(like.eligibility, like.gpus)
        seen_as = opened or (lambda host: host)
        may = hosts.allowed(like.eligibility, lambda host_id: seen_as(self._host(host_id)))
        is_open = hosts.open if opened is None else np.ones_like(hosts.open)
        empty = hosts._replace(free_gpus=hosts.gpus * is_open, open=is_open)
        found.fill(empty, may, len(self._index.names), len(self._index.order))
        return found

    def peaks(self, gpu_type: str, gpus: int) -> tuple[int, ...]:
        """Return the slots of the largest domain of each tier, from tier 1, all empty and open."""
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
        """Return the pods by tier-1 domain; append the positions of their hosts to `places`."""
        return self._index.located(pods, places)

    def penalty(self, pods: Iterable[tuple[NodeName, int]]) -> int:
        """Return the penalty of pods on nodes: that of its host for each pod."""
        return sum(self._hosts[name].penalty * some for name, some in pods if name in self._hosts)

    def domain_of(self, name: NodeName) -> int:
        """Return the tier-1 domain of a known host; O(1)."""
        return self._index.domain_of_host[self._index.ids[name]].at

    def members(self, at: int) -> list[tuple[int, Host, int]]:
        """Return (id, host, free GPUs) of a tier-1 domain's hosts, sorted; 0 GPUs if not open."""
        names, hosts, free_gpus = self._index.names, self._hosts, self._columns.free_gpus
        return [
            (host_id, hosts[names[host_id]], free_gpus[host_id])
            for host_id in self._index.order[at].ids(names)
        ]

    def slots_per_node(self, domains: Iterable[int], slots: Slots) -> tuple[NodeSlots, list[int]]:
        """Return the (name, free slots) and the positions of all hosts with free slots.

        The given domains are taken in natural order; a position counts all hosts in natural order.
        """
        index, mask, gpus, limits = self._index, slots.mask, slots.gpus, slots.limits
        names, order, free_gpus = index.names, index.order, self._columns.free_gpus
        offsets = index.layout().offsets
        found: NodeSlots = []
        places: list[int] = []
        for at in domains:
            for place, host_id in enumerate(order[at].ids(names), offsets[at]):
                free = free_gpus[host_id]
                if free >= gpus and mask[host_id] == ELIGIBLE:
                    pods = free // gpus
                    if host_id in limits and not (pods := slots.pods_on(host_id, free)):
                        continue
                    found.append((names[host_id], pods))
                    places.append(place)
        return found, places

    # How it is kept

    def _narrowed(self, eligibility: Eligibility, gpus: int) -> Slots:
        """Build a class from the class without its selector and exclusions; O(nodes that differ).

        Such classes are unlimited in number, because they name nodes by exclusion or label.
        """
        assert eligibility.gpu_type is not None, "classes have a type"  # noqa: S101 - for mypy
        wide = replace(eligibility, selector=(), exclude=frozenset())
        found, ids = self.slots(wide, eligibility.gpu_type, gpus), self._index.ids
        if eligibility.selector:
            labelled = self.labelled(eligibility.selector)
            found = found.among(eligibility, (self._row(ids[host.name]) for host in labelled))
        out = sorted(ids[name] for name in eligibility.exclude if name in ids)
        return found.without(eligibility, map(self._row, out))

    def _changed_slots(
        self, changes: _Changes, eligibility: Eligibility, gpus: int, takes: PodAmounts
    ) -> Slots:
        """Adapt a copy of the original view's counts of a class; O(nodes that differ)."""
        if changes.base.version != changes.base_version:
            raise BrokenInvariantError("capacity: what is assumed outlived what it was assumed on")
        gpu_type = eligibility.gpu_type or ""
        found = changes.base.slots(eligibility, gpu_type, gpus, takes)
        if not (changes.hosts or len(changes.at) or changes.room.limits):
            return found
        found = found.copy()
        for before, now in changes.hosts:
            found.remove_host(*before)
            found.add_host(*now)
        # In the order of `with_changes`, so that each step starts from the counts it expects.
        found.update_all_free(changes.at, changes.taken)
        if takes:
            changes.room.apply(found, (self._index, self._columns.free_gpus))
        return found

    def _fill(self, slots: Slots) -> None:
        """Count a class from scratch; O(hosts) in numpy, one check per distinct set of guards."""
        hosts = self._of_type(slots.eligibility.gpu_type or "")
        may = hosts.allowed(slots.eligibility, self._host)
        slots.fill(hosts, may, len(self._index.names), len(self._index.order))

    def _host(self, host_id: int) -> Host:
        return self._hosts[self._index.names[host_id]]

    def _of_type(self, gpu_type: str) -> HostsOfType:
        return self._columns.of_type(gpu_type, self._index.domain_at())

    def _row(self, host_id: int) -> HostRow:
        at, host = self._index.domain_of_host[host_id].at, self._host(host_id)
        return host_id, at, host, self._columns.free_gpus[host_id]

    def _settle(self) -> None:
        if not self._index.is_settled:
            self._own()
            self._elsewhere = {}
            before = self._index.settle()
            for counts in self._counts():
                counts.reorder(before)

    def _counts(self) -> Iterator[Slots | Sizes]:
        yield from self._slots.values()
        yield from self._sizes.values()

    def _own(self) -> None:
        """Clone the index before a change if another view shares it."""
        if self._shared:
            self._shared = False
            if len(self._users) > 1:
                # The others must see a user of the shared places until the clone is made.
                own = self._index.clone()
                # From here on the others share the old index, and this one has its own.
                self._users.discard(self)
                self._index, self._users = own, WeakSet([self])

    def _free_gpus_of(self, host: Host) -> int:
        return free_gpus(host, self.used(host.name))
