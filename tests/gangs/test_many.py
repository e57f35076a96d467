"""Many gangs that wait are asked about once, and many pods of one are written once."""

from dataclasses import replace
from typing import Any

import pytest

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.machine import write_order
from topo.gangs.machine.events import Leading, Observed, Planned
from topo.gangs.machine.gang import Binding, Gang, GangId, Member, PodUid
from topo.gangs.machine.gangs import Gangs
from topo.gangs.machine.instructions import Nominate, Place
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Request

GANGS = 300
PODS = 16


def test_gangs_that_ask_for_the_same_are_asked_about_once() -> None:
    cluster = Cluster(dragonflies(1))
    for at in ("n1-1-1", "n1-1-2"):
        cluster.intrude(at, NodeName(at))
    leader = Leader.over(cluster)
    for number in range(GANGS):
        cluster.submit(job(f"g{number:04}", 2, created_s=float(number)))
    leader.settle()
    assert sum(isinstance(each, Place) for each in leader.given) == 1
    for at in ("n1-1-1", "n1-1-2"):
        cluster.leave(at)
    leader.settle()
    assert cluster.bound(GangId("g0000"))
    assert sum(isinstance(each, Place) for each in leader.given) <= 4


def test_a_gang_that_is_seen_while_it_is_written_has_no_write_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a large gang all but a few pods are under way each time it is seen."""
    made: list[object] = []

    def counted(*args: Any) -> Nominate:
        made.append(args)
        return Nominate(*args)

    members = tuple(
        Member(uid=PodUid(f"p{rank}"), name=f"p{rank}", rank=rank, version="1", gated=True)
        for rank in range(PODS)
    )
    gang = Gang(
        id=GangId("a"),
        namespace="jobs",
        name="train",
        kind="Job",
        binding=Binding.WHOLE,
        request=Request(pods=PODS, gpus_per_pod=8),
        at_least=PODS,
        priority=0,
        created_s=0.0,
        members=members,
        labelled={},
    )
    gangs = Gangs()
    (asked,) = (e for e in gangs.advance(0.0, Leading(), Observed(gang)) if isinstance(e, Place))
    planned = Planned(
        id=gang.id,
        ask=asked.ask,
        nodes=tuple(NodeName(f"n{rank}") for rank in range(PODS)),
        hold=HoldId("h"),
        mode=gang.request.mode,
        generation=1,
        certified=True,
    )
    monkeypatch.setattr(write_order, "Nominate", counted)
    gangs.advance(0.0, planned)
    assert len(made) == PODS
    gangs.advance(
        0.1, Observed(replace(gang, holds={HoldId("h"): dict.fromkeys(planned.nodes, 1)}))
    )
    assert len(made) == PODS


def test_all_gangs_told_at_once_have_as_many_ahead_as_one_that_is_asked_for() -> None:
    cluster = Cluster(dragonflies(1))
    cluster.intrude("other", NodeName("n1-1-1"))
    turns = {f"g{number}": (number % 3, float(number * 7 % 20)) for number in range(20)}
    for name, (priority, created_s) in turns.items():
        cluster.submit(job(name, 2, priority=priority, created_s=created_s))
    leader = Leader.over(cluster)
    leader.settle()
    told = dict(leader.gangs.statuses())
    order = sorted(turns, key=lambda name: (-turns[name][0], turns[name][1]))
    assert {name: each.ahead for name, each in told.items()} == {
        name: order.index(name) for name in turns
    }
    assert all(leader.gangs.status(name) == each for name, each in told.items())
