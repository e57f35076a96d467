"""A leader's shell around the machine: tells it what there is, and carries out what it says."""

from dataclasses import dataclass, field

from tests.gangs.schedulers import scheduled
from tests.gangs.world import Cluster
from topo.gangs.machine.events import (
    CapacityChanged,
    Event,
    Leading,
)
from topo.gangs.machine.gang import GangId
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.instructions import (
    Check,
    Instruction,
    Place,
    ReportStatus,
)
from topo.gangs.machine.settings import GangSettings
from topo.model.ids import GroupPath, NodeName


@dataclass(slots=True)
class Leader:
    """The shell: tells the machine all that there is, and carries out what it says."""

    cluster: Cluster
    gangs: Gangs = field(default_factory=Gangs)
    now_s: float = 0.0
    said: list[ReportStatus] = field(default_factory=list)
    given: list[Instruction] = field(default_factory=list)
    before: dict[NodeName, int] = field(default_factory=dict)
    changed: dict[NodeName, None] = field(default_factory=dict)
    has_grown: bool = False
    stood: dict[NodeName, GroupPath] = field(default_factory=dict)
    known: set[GangId] = field(default_factory=set)
    unsent: list[Instruction] = field(default_factory=list)
    """What came of taking over."""
    log: list[tuple[float, tuple[Event, ...], tuple[Instruction, ...]]] = field(
        default_factory=list
    )

    @classmethod
    def over(cls, cluster: Cluster, settings: GangSettings | None = None) -> "Leader":
        """One that has just taken over, and read everything."""
        leader = cls(cluster, Gangs(settings or GangSettings()))
        cluster.list_pods()
        found = [cluster.seen(gang_id) for gang_id in cluster.jobs]
        ghosts = cluster.with_remains() - cluster.jobs.keys()
        leader.known = {*cluster.jobs, *ghosts}
        leader.before, leader.stood = leader.free_now(), cluster.homes()  # nothing is news yet
        left = [cluster.left(gang_id) for gang_id in sorted(ghosts)]
        leader.unsent = leader.take(*found, *left, Leading())
        return leader

    def free_now(self) -> dict[NodeName, int]:
        """What is left on each node, less than none where too much is booked or it is closed."""
        hosts, used = self.cluster.capacity.hosts(), self.cluster.capacity.used
        return {host.name: host.gpus - used(host.name) if host.is_open else -99 for host in hosts}

    def take(self, *events: Event) -> list[Instruction]:
        """One step of the machine; questions are answered, the writes that are left come back."""
        writes: list[Instruction] = []
        pending = list(events)
        while True:
            out = self.gangs.advance(self.now_s, *pending)
            self.log.append((self.now_s, tuple(pending), out))
            self.check()
            self.given += out
            pending = []
            for each in out:
                if isinstance(each, Place):
                    pending.append(self.cluster.place(each))
                    self.look()
                elif isinstance(each, Check):
                    pending.append(self.cluster.check(each))
                elif isinstance(each, ReportStatus):
                    self.said.append(each)
                else:
                    writes.append(each)
            if not pending:
                return writes

    def check(self) -> None:
        """Fail where an invariant of the machine does not hold."""
        self.gangs.validate()

    def news(self) -> list[Event]:
        """All gangs as they are, those that are gone, and where the capacity changed."""
        cluster = self.cluster
        self.look()
        nodes, self.changed = tuple(self.changed), {}
        requeue_all, self.has_grown = self.has_grown, False
        stand = self.cluster.homes()
        moved = tuple(node for node in stand if stand[node] != self.stood.get(node))
        self.stood = stand
        events: list[Event] = [cluster.seen(gang_id) for gang_id in cluster.jobs]
        # A late write of an earlier leader may label nodes for a gang that this one never saw.
        self.known |= cluster.with_remains()
        events += (cluster.left(gang_id) for gang_id in sorted(self.known - cluster.jobs.keys()))
        self.known |= cluster.jobs.keys()
        if nodes or moved:
            events.append(CapacityChanged(nodes, requeue_all, moved))
        return events

    def look(self) -> None:
        """Reads the capacity: what is free from now on grows from there."""
        before, self.before = self.before, self.free_now()
        for node in {**self.before, **before}:
            old, new = before.get(node, -99), self.before.get(node, -99)
            if old != new:
                self.changed[node] = None
                self.has_grown = self.has_grown or new > old

    def turn(self) -> bool:
        """Tells all news and carries out what comes of it; whether anything was written."""
        writes = self.unsent + self.take(*self.news())
        self.unsent = []
        for each in writes:
            lost = self.cluster.write(each)
            if lost is not None:
                self.take(lost)
        return bool(writes)

    def settle(self, *, schedule: bool = True) -> None:
        """Turns until nothing is written and nothing is bound any more."""
        for _ in range(100):
            wrote = self.turn()
            bound = schedule and scheduled(self.cluster)
            if not wrote and not bound:
                return
        raise AssertionError("it never comes to rest")
