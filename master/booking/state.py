"""The one owner of free capacity: it follows the forest and the cluster, and books.

Everything here runs on the event loop and none of it waits, so between looking and booking nobody
else can take what was found.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from master.booking.metrics import PlacementMetrics
from master.booking.saved_changes import SavedChanges
from master.tree.engine import Clock
from topo.kit.process.boot import boot_id
from topo.model.cluster import ClusterNode
from topo.model.forest import Forest, Snapshot
from topo.model.ids import NodeName
from topo.model.isolation import owned_state
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.bookings_view import BookingsView
from topo.placement.booking.events import Change, Event, HoldChange, What
from topo.placement.booking.holds import (
    ClockReading,
    Ended,
    Hold,
    HoldId,
    HoldRefused,
    HoldsMemory,
    Limits,
)
from topo.placement.booking.log import Advanced, Entry, HostsChanged, LogHeader
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.forest_hosts import differences
from topo.placement.capacity.host import Difference
from topo.placement.capacity.host_follower import HostFollower
from topo.placement.capacity.node_room import NodeRoom
from topo.placement.capacity.node_usage import NodeUsage
from topo.placement.job.policy import Policy
from topo.shared_cards.cards import CardBook

TURN = 256
"""Hosts that are joined anew before everybody else has a turn: some 10 ms."""

_COMINGS_AND_ENDS = frozenset({What.RESERVED, What.RELEASED, What.EXPIRED, What.BOUND})

_log = structlog.get_logger(__name__)


class BookingState:
    """Owns the capacity and the bookings of one master. Only the event loop may touch it."""

    def __init__(
        self, policy: Policy, limits: Limits, metrics: PlacementMetrics, clock: Clock
    ) -> None:
        self._capacity = Capacity(policy)
        self._bookings = Bookings(self._capacity, limits)
        self._follower = HostFollower(self._capacity)
        self.room = NodeRoom()
        """What the nodes of a cluster have left beside GPUs, kept by the source of its capacity."""
        self._capacity.limit_by(self.room)
        self.cards = CardBook()
        """The cards that several pods share, kept by the same source."""
        self.saved = SavedChanges()
        self.metrics = metrics
        self.clock = clock
        self.generation = 0
        self.record: Callable[[Entry], None] | None = None
        """Takes what happens, where it is recorded."""
        self.on_hold: Callable[[HoldChange], None] | None = None
        """Called with what happens to holds, when it is told."""
        self.on_holds: Callable[[Sequence[HoldId]], None] | None = None
        """Called in the same turn with holds that came or ended, however that happened."""
        self._limits = limits
        self._usage: NodeUsage | None = None
        self._judged: tuple[object, CapacityView] | None = None
        """The last view without holds whose time is over, and what it was made of."""

    # Views for readers: no call below changes the state.

    @property
    def most_holds(self) -> int:
        """How many holds there may be at once."""
        return self._limits.holds

    @property
    def capacity(self) -> CapacityView:
        """The capacity now, for questions within one turn of the loop; `copy` it for a thread.

        Holds whose time is over take nothing in it, also before the timer ends them.
        """
        expired = self._bookings.expired(self.clock())
        if not expired:
            return self._capacity
        made_of = self._capacity.version, expired
        if self._judged is None or self._judged[0] != made_of:
            self._judged = made_of, self._capacity.with_changes(released=expired)
        return self._judged[1]

    @property
    def version(self) -> int:
        """The version of what is booked. Documents are tagged with it."""
        return self._capacity.version + self._bookings.opened_version

    @property
    def policy(self) -> Policy:
        """The operator's policy of placement."""
        return self._capacity.policy

    @property
    def bookings(self) -> BookingsView:
        """Holds and pods."""
        return self._bookings

    @property
    def forest(self) -> Forest:
        """The forest that the hosts are taken from."""
        return self._follower.forest

    @property
    def cluster(self) -> Mapping[NodeName, ClusterNode]:
        """The nodes of the cluster that the hosts are taken from."""
        return self._follower.cluster

    def holds(self) -> list[Hold]:
        """Return the holds whose time is not over, the oldest first; O(holds)."""
        return self._bookings.running(self.clock())

    def find_hold(self, hold_id: HoldId) -> Hold | Ended | None:
        """Return the hold, how it ended, or None if it never was or ended long ago; O(1)."""
        return self._bookings.find(hold_id, self.clock())

    def usage(self) -> NodeUsage:
        """Return which GPUs are free, used and held, frozen; the same value until that changes.

        O(hosts) of plain copying after a change.
        """
        if self._usage is None or self._usage.version != self.version:
            usage = self._capacity.usage(
                (hold.id for hold in self._bookings), self._bookings.shared_used()
            )
            opened = self._bookings.opened()
            self._usage = replace(usage, version=self.version, opened=opened)
        return self._usage

    def header(self) -> LogHeader:
        """Return where a log that begins now starts; O(hosts and bookings)."""
        hosts = tuple(self._capacity.hosts())
        bookings = self._bookings.state()
        return LogHeader(policy=self.policy, limits=self._limits, hosts=hosts, bookings=bookings)

    def persistent_state(self) -> HoldsMemory:
        """Return what the state file keeps of the holds."""
        return self._bookings.persistent_state(self._now())

    # What changes them. This is the only place that does.

    def follow(self, snapshot: Snapshot) -> None:
        """Follow a published forest; O(changes), and O(groups) if nodes moved."""
        self.generation = snapshot.generation
        if snapshot.forest is self._follower.forest:
            self.settle()
        else:
            self._record_hosts(self._follower.follow(snapshot.forest))
        self._capacity.layout()  # now, so that no decision waits until groups are in order

    async def follow_in_turns(self, snapshot: Snapshot) -> None:
        """Follow a forest before it is published, in turns, so that a large one blocks nobody."""
        before, after = self._follower.forest, snapshot.forest
        found = await asyncio.to_thread(differences, before, after)
        if self._follower.forest is not before:
            return  # something else was published: this will be followed at once
        self._follower.begin(after, found)
        while self._follower.has_pending:
            self._record_hosts(self._follower.join(TURN))
            await asyncio.sleep(0)

    def settle(self) -> None:
        """Finish at once what `follow_in_turns` has left."""
        self._record_hosts(self._follower.join_all())

    def follow_cluster(
        self, changed: Iterable[ClusterNode], removed: Iterable[NodeName] = ()
    ) -> None:
        """Follow nodes of the cluster that came, changed or went; O(nodes given)."""
        self._record_hosts(self._follower.follow_cluster(changed, removed))

    def recount(self, moved: Sequence[Difference]) -> tuple[Difference, ...]:
        """Count everything from nothing and correct what differs, which is returned.

        `moved`: the hosts that are known to differ. Raises `BrokenInvariantError` where bookings
        contradict themselves. O(hosts x classes).
        """
        nodes = [each.node for each in moved]
        if nodes:
            self._follower.restore(nodes)
            self._record_hosts(nodes)
        corrected = (*moved, *self._bookings.recount(), *self._capacity.recount())
        self.usage().validate()
        return corrected

    def note_touched(self) -> None:
        """Begin to note the nodes of which something changes, for `take_touched`."""
        self._capacity.touched = set()

    def take_touched(self) -> set[NodeName]:
        """Return the nodes of which something changed since the last call; for one caller."""
        touched, self._capacity.touched = self._capacity.touched or set(), set()
        return touched

    def advance(self, *events: Event) -> tuple[Change, ...]:
        """End the holds whose time is over, then take up events; return what came of both.

        The changes are counted at once, and logged and on disk soon. Without events it is called by
        the timer of `BookingMaintenance` alone. Raises `SharedStateError` for whatever a step of
        the bookings raised, since they may be half changed: that ends the process.
        """
        now_s = self.clock()
        with owned_state("bookings"):
            changes = self._bookings.advance(now_s, *events)
        if self.record is not None and (events or changes):
            self.record(Advanced.of(now_s, events, changes))
        for change in changes:
            if isinstance(change, HoldRefused):
                self.metrics.declined(change.obstacle)
            elif isinstance(change, HoldChange):
                self._note(change)
        self._announce(
            [
                change.hold.id
                for change in changes
                if isinstance(change, HoldChange) and change.what in _COMINGS_AND_ENDS
            ]
        )
        return changes

    def restore(self, memory: HoldsMemory) -> None:
        """Restore the holds of an earlier process; log those that ended in between."""
        dropped = self._replace_holds(memory)
        for hold in dropped:
            self.metrics.count(What.EXPIRED)
            _log.info("hold expired while the master was away", hold=hold.id, pods=_pod_count(hold))
        if len(self._bookings):
            _log.info("holds restored", holds=len(self._bookings))
        for _ in self._bookings:
            self.metrics.count("restored")
        if dropped:
            self.saved.count()

    def replicate(self, memory: HoldsMemory) -> None:
        """Replace all holds by those of another process."""
        self._replace_holds(memory)

    def _replace_holds(self, memory: HoldsMemory) -> tuple[Hold, ...]:
        """Replace all holds; return those whose time is over."""
        before = dict.fromkeys(hold.id for hold in self._bookings)
        dropped = self._bookings.restore(memory, self._now())
        after = dict.fromkeys(hold.id for hold in self._bookings)
        self._announce([each for each in before | after if (each in before) != (each in after)])
        return dropped

    def _announce(self, holds: Sequence[HoldId]) -> None:
        if holds and self.on_holds is not None:
            self.on_holds(holds)

    def _now(self) -> ClockReading:
        return ClockReading(boot_id(), self.clock(), time.time())

    def _record_hosts(self, names: Sequence[NodeName]) -> None:
        if self.record is not None and names:
            hosts = {name: self._capacity.host(name) for name in names}
            changed = tuple(host for host in hosts.values() if host is not None)
            gone = tuple(name for name, host in hosts.items() if host is None)
            self.record(HostsChanged(changed, gone))

    def _note(self, change: HoldChange) -> None:
        """Count a change; log it once the loop is free, since that costs more than a booking."""
        self.metrics.count(change.what)
        if change.what is What.REPEATED:
            return
        self.saved.count()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._tell(change)
        else:
            loop.call_soon(self._tell, change)

    def _tell(self, change: HoldChange) -> None:
        if self.on_hold is not None:
            self.on_hold(change)
        hold = change.hold
        gpus = sum(hold.gpus.values())
        strayed = {"elsewhere": dict(change.elsewhere)} if change.elsewhere else {}
        _log.info(f"hold {change.what}", hold=hold.id, pods=_pod_count(hold), gpus=gpus, **strayed)


def _pod_count(hold: Hold) -> int:
    return hold.wish.request.pods
