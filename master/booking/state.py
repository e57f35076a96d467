"""The one owner of free capacity: it follows the forest and the cluster, and books.

Everything here runs on the event loop and none of it waits, so between looking and booking nobody
else can take what was found.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from master.booking.metrics import PlacementMetrics
from master.booking.saved_changes import SavedChanges
from master.tree.engine import Clock
from topo.kit.process.boot import boot_id
from topo.model.cluster import ClusterNode
from topo.model.forest import Snapshot
from topo.model.ids import NodeName
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import Change, Event, HoldChange, What
from topo.placement.booking.holds import ClockReading, Hold, HoldRefused, HoldsMemory, Limits
from topo.placement.booking.log import Advanced, Entry, HostsChanged, LogHeader
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host_follower import HostFollower, differences
from topo.placement.capacity.node_usage import NodeUsage
from topo.placement.capacity.recount import restore_hosts
from topo.placement.job.policy import Policy

TURN = 256
"""Hosts that are joined anew before everybody else has a turn: some 10 ms."""

_log = structlog.get_logger(__name__)


class BookingState:
    """Owns the capacity and the bookings of one master. Only the event loop may touch it."""

    def __init__(
        self, policy: Policy, limits: Limits, metrics: PlacementMetrics, clock: Clock
    ) -> None:
        self.capacity = Capacity(policy)
        self.bookings = Bookings(self.capacity, limits)
        self.follower = HostFollower(self.capacity)
        self.saved = SavedChanges()
        self.metrics = metrics
        self.clock = clock
        self.generation = 0
        self.record: Callable[[Entry], None] | None = None
        """Takes what happens, where it is recorded."""
        self.on_hold: Callable[[HoldChange], None] | None = None
        """Called with what happens to holds, when it is told."""
        self._limits = limits
        self._usage: NodeUsage | None = None

    def follow(self, snapshot: Snapshot) -> None:
        """Takes over what is published; O(changes), and O(groups) where nodes moved."""
        self.generation = snapshot.generation
        if snapshot.forest is self.follower.forest:
            self.settle()
        else:
            self._record_hosts(self.follower.follow(snapshot.forest))
        self.capacity.layout()  # now, so that no decision waits until groups are in order

    async def follow_ahead(self, snapshot: Snapshot) -> None:
        """Takes over in turns what is about to be published, where much in it may be new."""
        before, after = self.follower.forest, snapshot.forest
        found = await asyncio.to_thread(differences, before, after)
        if self.follower.forest is not before:
            return  # something else was published: this will be followed at once
        self.follower.begin(after, found)
        while self.follower.waits:
            self._record_hosts(self.follower.join(TURN))
            await asyncio.sleep(0)

    def settle(self) -> None:
        """Takes over at once what is left of the turns of `follow_ahead`."""
        self._record_hosts(self.follower.join_all())

    def follow_cluster(
        self, changed: Iterable[ClusterNode], removed: Iterable[NodeName] = ()
    ) -> None:
        """Takes over nodes of the cluster that came or changed, and that went; O(nodes given)."""
        self._record_hosts(self.follower.follow_cluster(changed, removed))

    def restore_hosts(self, nodes: Sequence[NodeName]) -> None:
        """Joins the hosts of these nodes anew: a recount found them to be others."""
        restore_hosts(self.capacity, self.follower.forest, self.follower.cluster, nodes)
        self._record_hosts(nodes)

    def advance(self, *events: Event) -> tuple[Change, ...]:
        """Takes up events now; what came of them is counted, and soon told and on disk."""
        now_s = self.clock()
        changes = self.bookings.advance(now_s, *events)
        if self.record is not None and (events or changes):
            self.record(Advanced.of(now_s, events, changes))
        for change in changes:
            if isinstance(change, HoldRefused):
                self.metrics.declined(change.obstacle)
            elif isinstance(change, HoldChange):
                self._note(change)
        return changes

    def usage(self) -> NodeUsage:
        """Which GPUs are free, used and held now, frozen; the same value until that changes.

        O(hosts) of plain copying after a change.
        """
        if self._usage is None or self._usage.version != self.capacity.version:
            self._usage = self.capacity.usage(
                (hold.id for hold in self.bookings), self.bookings.shared_used()
            )
        return self._usage

    def header(self) -> LogHeader:
        """Where a log that begins now starts; O(hosts and bookings)."""
        hosts = tuple(self.capacity.hosts())
        bookings = self.bookings.state()
        return LogHeader(
            policy=self.capacity.policy, limits=self._limits, hosts=hosts, bookings=bookings
        )

    def memory(self) -> HoldsMemory:
        """What the state file keeps of the holds."""
        self.advance()
        return self.bookings.memory(self._now())

    def restore(self, memory: HoldsMemory) -> None:
        """Takes up the holds of an earlier process; those that ended meanwhile are said."""
        dropped = self.bookings.restore(memory, self._now())
        for hold in dropped:
            self.metrics.count(What.EXPIRED)
            _log.info("hold expired while the master was away", hold=hold.id, pods=_pods(hold))
        if len(self.bookings):
            _log.info("holds restored", holds=len(self.bookings))
        for _ in self.bookings:
            self.metrics.count("restored")
        if dropped:
            self.saved.count()

    def replicate(self, memory: HoldsMemory) -> None:
        """Shows the holds of another process, in the place of all that are shown."""
        self.bookings.restore(memory, self._now())

    def _now(self) -> ClockReading:
        return ClockReading(boot_id(), self.clock(), time.time())

    def _record_hosts(self, names: Sequence[NodeName]) -> None:
        if self.record is not None and names:
            hosts = {name: self.capacity.host(name) for name in names}
            changed = tuple(host for host in hosts.values() if host is not None)
            gone = tuple(name for name, host in hosts.items() if host is None)
            self.record(HostsChanged(changed, gone))

    def _note(self, change: HoldChange) -> None:
        """Counts a change. Its line takes longer than all of the booking, and nobody waits for it.

        It is told when the loop is free next, also by one that is about to end.
        """
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
        gpus = _pods(hold) * hold.wish.request.gpus_per_pod
        strayed = {"elsewhere": dict(change.elsewhere)} if change.elsewhere else {}
        _log.info(f"hold {change.what}", hold=hold.id, pods=_pods(hold), gpus=gpus, **strayed)


def _pods(hold: Hold) -> int:
    return hold.wish.request.pods
