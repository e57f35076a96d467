"""Random lives of a small cluster in which one tenant's pods state anything."""

import pytest

from tests.gangs.hostile import Tenant, WaryCluster, WaryLeader, is_evil
from tests.gangs.jobs import dragonflies
from tests.gangs.leader import Leader
from tests.gangs.test_random_life import (
    ELASTIC,
    GROUPED,
    UNLIKE,
    Life,
    none_is_planned_twice,
    reasons_are_true,
    something_runs,
)

STEPS = 120
FOUND = (
    *(1_100_693, 100_407, 2_100_973, 2_103_067, 202_704),
    *(2_202_853, 2_408_155, 1_502_972, 2_503_222, 2_510_786, 6_000_222),
    *(2_011_166, 16_168),
)
"""Lives that broke a promise once, each for a reason of its own.

An opened pod alone, too few for Volcano to start, kept the other pods of its gang from their
places; a nomination of a dead leader stayed where the pod's owner wrote another note over its own;
the same in a PodGroup; a hold kept a place that no pod of its gang had any more, while others were
open; the same while others were gated, with room beside and without; a bound pod named an older
hold than that of its plan; a bound pod too many made a check drop what was placed without it, for
ever, in two ways; a hold kept a place that a bound pod had, whose note named the hold and a node
that it does not book; a hold kept a place that others had taken, as the rest of its group had no
room. In the last two the judge was wrong: a pod was opened beside one that ran and died meanwhile;
a pod that its scheduler had tried kept its nomination to a node that a foreign pod took.
"""


class HostileLife(Life):
    """The same life, and what the tenant does between its steps."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.cluster = WaryCluster(dragonflies(2, 2), preempts=self.cluster.preempts)
        self.leader = self.new_leader()
        self.tenant = Tenant(self.cluster, self.random, self.drawn_sizes)

    def new_leader(self) -> Leader:
        return WaryLeader.over(self.cluster, self.settings)

    def step(self) -> None:
        if self.random.random() < 0.4:
            self.tenant.act()
            self.judge()
        super().step()
        assert not [*self.leader.gangs.errors()], "a gang is set aside"

    def submit(self) -> None:
        victims = [each for each in self.cluster.jobs if not is_evil(each)]
        if len(victims) < 4:
            self.names += 1
            self.cluster.submit(self.drawn_job())

    def end_tenant(self) -> None:
        """Its gangs are deleted with their pods."""
        for gang_id in [each for each in self.cluster.jobs if is_evil(each)]:
            self.cluster.end(gang_id)


@pytest.mark.parametrize(
    "seed",
    [
        *range(8),
        *range(ELASTIC, ELASTIC + 4),
        *range(GROUPED, GROUPED + 8),
        *range(UNLIKE, UNLIKE + 8),
        *FOUND,
        *(pytest.param(each, marks=pytest.mark.slow) for each in range(8, 200)),
    ],
)
def test_a_tenant_whose_pods_state_anything_ends_no_leader_and_touches_no_other_gang(
    seed: int,
) -> None:
    live(seed)


def live(seed: int) -> None:
    """One life, with the tenant's pods to its end, and then without them."""
    life = HostileLife(seed)
    for _ in range(STEPS):
        life.step()
    life.late.clear()
    life.rest()
    none_is_planned_twice(life)
    reasons_are_true(life, but=is_evil)
    life.end_tenant()
    for name in sorted(life.cluster.foreign):
        life.cluster.leave(name)
    for host in list(life.cluster.capacity.hosts()):
        life.cluster.cordon(host.name, cordoned=False)
    life.cluster.starved.clear()
    life.rest()
    reasons_are_true(life)
    none_is_planned_twice(life)
    something_runs(life)
    for gang_id in sorted(life.cluster.jobs):
        life.cluster.end(gang_id)
    life.rest()
    assert not any(life.cluster.labels.values())
    assert not list(life.cluster.bookings)
    assert not life.cluster.capacity.bookings()
