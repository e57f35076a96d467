"""The first gang of the line waits for those that run, never for those that come after it."""

import random
import re
from dataclasses import dataclass, field

import pytest

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.machine.gang import Binding, GangId
from topo.gangs.machine.pending_queue import QueueOrder
from topo.gangs.machine.settings import GangSettings
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName

TURNS = 60
LARGE = ((8, 16), (6, 16), (4, 32), (6, 48))
SMALL = ((1, 8), (1, 16), (2, 16), (2, None), (3, 16))
"""Pods of a job, of a node each, and GPUs of a group. The vendor's shape: pairs of nodes, and some
groups of several pairs inside one switchbox."""


@dataclass(slots=True)
class Stream:
    """Jobs that come and go at random on 12 nodes in six dragonflies; drawn from the seed."""

    random: random.Random
    cluster: Cluster
    leader: Leader
    turn: int = 0
    ends: dict[GangId, int] = field(default_factory=dict)
    """The turn after which a job that runs has ended."""
    heads: dict[GangId, set[GangId]] = field(default_factory=dict)
    """Each that waits and has become the oldest of those, and what ran then."""

    def run(self) -> list[GangId]:
        """Heads that still waited when all that had run before them had ended."""
        late: list[GangId] = []
        for self.turn in range(TURNS):
            self._end()
            if self.random.random() < 0.7:
                self._come(*self.random.choice(LARGE if self.random.random() < 0.2 else SMALL))
            self.leader.settle()
            late += self._late()
        return late

    def _come(self, pods: int, size: int | None) -> None:
        name = f"j{self.turn:02}"
        binding = self.random.choice(list(Binding))
        self.cluster.submit(job(name, pods, size, created_s=float(self.turn), binding=binding))

    def _end(self) -> None:
        for gang_id in [each for each, at in self.ends.items() if at < self.turn]:
            del self.ends[gang_id]
            self.cluster.end(gang_id)

    def _late(self) -> list[GangId]:
        for gang_id, asked in self.cluster.jobs.items():
            if gang_id not in self.ends and len(self.cluster.bound(gang_id)) == asked.request.pods:
                self.ends[gang_id] = self.turn + self.random.randint(2, 9)
                self.heads.pop(gang_id, None)
        oldest = next((each for each in self.cluster.jobs if each not in self.ends), None)
        if oldest is not None:
            self.heads.setdefault(oldest, set(self.ends))
        late = [each for each, ran in self.heads.items() if not ran & self.ends.keys()]
        for gang_id in late:
            del self.heads[gang_id]
        return late


def stream(seed: int, order: QueueOrder) -> Stream:
    cluster = Cluster(dragonflies(3, 3))
    leader = Leader.over(cluster, GangSettings(order=order))
    return Stream(random.Random(seed), cluster, leader)


@pytest.mark.parametrize("order", [QueueOrder.RESERVE, QueueOrder.FIFO])
@pytest.mark.parametrize("seed", range(5))
def test_the_head_is_placed_once_all_have_ended_that_ran_when_it_became_the_head(
    seed: int, order: QueueOrder
) -> None:
    drawn = stream(seed, order)
    assert drawn.run() == []
    assert len(drawn.cluster.jobs) < TURNS / 2, "jobs come and go"


def test_the_same_is_seen_to_fail_where_others_start_wherever_there_is_room() -> None:
    assert stream(1, QueueOrder.GREEDY).run()


def test_each_gang_is_told_its_own_numbers_and_at_once_that_it_never_fits() -> None:
    """The gang before it asks for the same groups, but fewer: its refusal is not theirs."""
    cluster = Cluster(dragonflies(2))
    leader = Leader.over(cluster, GangSettings())
    cluster.intrude("f1", NodeName("n1-1-1"))
    for at, pods in enumerate((4, 6, 40)):
        cluster.submit(job(f"g{pods}", pods, created_s=float(at)))
    leader.settle()
    found = {pods: leader.gangs.status(GangId(f"g{pods}")) for pods in (4, 6, 40)}
    states = {pods: (each.state, each.text) for pods, each in found.items() if each is not None}
    assert states[4][0] is GangState.NO_ROOM
    assert states[6][0] is states[40][0] is GangState.NEVER_FITS
    needs = {pods: re.search(r"needs (\d+)", text) for pods, (_, text) in states.items()}
    assert {pods: int(need[1]) for pods, need in needs.items() if need} == {4: 32, 6: 48, 40: 320}


def test_a_gang_behind_the_head_names_the_job_that_it_waits_for() -> None:
    cluster = Cluster(dragonflies(2))
    leader = Leader.over(cluster, GangSettings(order=QueueOrder.FIFO))
    cluster.intrude("f1", NodeName("n1-1-1"))
    cluster.submit(job("g1", 4, created_s=0.0))
    cluster.submit(job("g2", 1, created_s=1.0))
    leader.settle()
    found = leader.gangs.status(GangId("g2"))
    assert found is not None
    assert found.state is GangState.BEHIND
    assert found.text == "it comes after jobs/g1, which waits for room"
