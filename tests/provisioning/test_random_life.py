"""Requests at random, on masters that are killed at every write: promises and GPUs stay true."""

import random

import pytest

from tests.gangs.jobs import dragonflies
from tests.provisioning.world import KilledError, Leader, World
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldsMemory
from topo.placement.job.request import Request
from topo.provisioning.course import Phase, RequestUid
from topo.provisioning.messages import WriteStatus

BOXES = (3, 2)


def a_request(rng: random.Random) -> Request:
    gpus = rng.choice((8, 8, 4))
    size = rng.choice((None, 16, 16, 8))
    return Request(pods=rng.randint(1, 5), gpus_per_pod=gpus, group_size=size)


class Life:
    """One life of a cluster, from a seed. With `forgets` a new leader may know no bookings."""

    def __init__(self, seed: int, *, forgets: bool = False) -> None:
        self.rng, self.forgets = random.Random(seed), forgets  # noqa: S311 - a seed for a test
        self.world = World(lambda: dragonflies(*BOXES))
        self.asked = 0
        self.kills = self.late_views = 0
        self.late = list[WriteStatus]()
        self.leader = self.lead()

    def lead(self) -> Leader:
        """A master leads as soon as the last one died; it may die in its first turn, too."""
        while True:
            leader = self.world.lead()
            if self.turned(leader):
                return leader

    def turned(self, leader: Leader) -> bool:
        """Return whether a leader lived through a turn; what it had sent may arrive later."""
        world = self.world
        if self.rng.random() < 0.4:
            world.dies_after = self.rng.randrange(8)
        unseen = self.unseen(leader)
        try:
            leader.turn(unseen)
        except KilledError:
            self.kills += 1
            if self.forgets and self.rng.random() < 0.5:
                world.saved = HoldsMemory(1, ())
            self.late += leader.late
            self.deliver_late()
            return False
        finally:
            world.dies_after = -1
        if unseen:
            self.late_views += 1
            world.judge()
            return True
        world.judged = True
        world.judge_settled(leader)
        return True

    def unseen(self, leader: Leader) -> list[RequestUid]:
        """Whom the watch of a leader that knows them shows later; mostly nobody."""
        known = sorted(each.request.uid for each in leader.machine.records())
        seen_late = self.rng.random() < 0.3
        return [uid for uid in known if seen_late and self.rng.random() < 0.5]

    def step(self) -> None:
        """Something happens; then the leader has its turn."""
        rng, world = self.rng, self.world
        act = rng.choice(
            (
                *(self.ask, self.ask, self.wait, self.wait, self.delete),
                *(self.consume, self.consume, self.end, self.lose, self.touch),
            )
        )
        act()
        if not self.turned(self.leader):
            self.leader = self.lead()
        self.deliver_late()
        world.judge()

    def deliver_late(self) -> None:
        """What masters had sent when they died arrives, soon or under a later one, or never."""
        while self.late and self.rng.random() < 0.5:
            self.world.api.write(self.late.pop())

    def ask(self) -> None:
        parameters = (
            ("BookingSeconds", str(self.rng.choice((30, 120)))),
            ("ValidUntilSeconds", str(self.rng.choice((0, 60)))),
        )
        self.asked += 1
        name = f"request-{self.asked}"
        self.world.ask(name, a_request(self.rng), parameters=parameters)

    def wait(self) -> None:
        self.world.now_s += self.rng.choice((0.25, 1, 29.5, 31, 200))

    def one(self, *phases: Phase) -> RequestUid | None:
        found = [r.uid for r in self.world.api.requests.values() if r.phase in phases]
        return self.rng.choice(found) if found else None

    def delete(self) -> None:
        if (uid := self.one(*Phase)) is not None:
            del self.world.api.requests[uid]
            self.world.ended.pop(uid, None)

    def touch(self) -> None:
        if (uid := self.one(*Phase)) is not None:
            self.world.api.touch(uid)

    def consume(self) -> None:
        if (uid := self.one(Phase.PROVISIONED)) is not None:
            self.leader.consume(uid)
            self.world.save(self.leader)

    def end(self) -> None:
        running = [uid for uid, pods in self.world.taken.items() if pods]
        if running:
            self.world.end(self.rng.choice(running), self.leader)

    def lose(self) -> None:
        world, rng = self.world, self.rng
        world.judged = False
        if world.lost and rng.random() < 0.7:
            world.set_ready(rng.choice(sorted(world.lost)), self.leader, ready=True)
        else:
            hosts = [host.name for host in self.leader.bookings_capacity.hosts()]
            world.set_ready(NodeName(rng.choice(hosts)), self.leader, ready=False)


def lived(seed: int, requests: int, *, forgets: bool = False) -> Life:
    life = Life(seed, forgets=forgets)
    while life.asked < requests:
        life.step()
    return life


SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 10)))


@pytest.mark.parametrize("seed", SEEDS)
def test_two_hundred_requests_keep_their_promises_on_masters_killed_at_every_write(seed: int):
    """With expiry, deletion, lost nodes and jobs that take what is booked."""
    life = lived(seed, 200)
    assert min(life.kills, life.late_views) > 50
    phases = set(life.world.ended.values())
    assert {Phase.EXPIRED, Phase.REVOKED, Phase.FAILED} <= phases


@pytest.mark.parametrize("seed", SEEDS)
def test_no_gpu_has_two_owners_where_masters_also_lose_what_they_had_booked(seed: int):
    lived(seed, 60, forgets=True)
