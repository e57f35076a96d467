"""The history of a gang, over the life of a job and over a new leader."""

import asyncio
import time
from typing import Any

import pytest

from tests.controllers.nomination.masters import (
    NODE_NAMES,
    GangCluster,
    Leader,
    Way,
    leader,
    until,
)
from tests.controllers.nomination.objects import WORDS, gang_of_job, pod
from topo.gangs.status import Transition
from topo.model.conditions.gang_states import GangState

pytestmark = pytest.mark.virtual_time
A = gang_of_job()


def history(made: Leader) -> tuple[Transition, ...]:
    return made.nomination.view.history(A)


def states(made: Leader) -> list[GangState]:
    return [each.state for each in history(made)]


async def test_a_job_that_is_placed_at_once_has_the_states_that_it_went_through():
    cluster = GangCluster("kube-scheduler", binds=False)
    async with leader(cluster, Way(cluster.api)) as made:
        cluster.submit()
        await until(lambda: GangState.OPENED in states(made))
        cluster.binds = True
        cluster.schedule()
        await until(lambda: GangState.BOUND in states(made))
        assert states(made) == [GangState.PLACED, GangState.OPENED, GangState.BOUND]
        assert all(each.text and not each.is_read for each in history(made))
        cluster.end()
        await until(lambda: not history(made))
        assert made.nomination.view.get(A) is None


async def test_a_new_leader_knows_since_when_a_gang_waits_and_that_it_was_read_from_the_pod():
    cluster = GangCluster("kube-scheduler")
    for node in NODE_NAMES:
        cluster.take(node)
    began_s = time.time()
    async with leader(cluster, Way(cluster.api)) as first:
        cluster.submit()
        await asyncio.sleep(30)
        assert states(first) == [GangState.NO_ROOM]
        (condition,) = cluster.pods[0].document["status"]["conditions"]
    condition["lastTransitionTime"] = "2026-01-02T03:04:05Z"
    cluster.api.touch("/api/v1/namespaces/jobs/pods", "pod-0")
    async with leader(cluster, Way(cluster.api)) as second:
        await until(lambda: bool(history(second)))
        (known,) = history(second)
        assert (known.state, known.at_s, known.is_read) == (GangState.NO_ROOM, 1767323045.0, True)
        assert known.text == condition["message"]
        assert second.nomination.view.known_from_s() >= began_s
        await asyncio.sleep(30)
        (written,) = cluster.pods[0].document["status"]["conditions"]
        assert written["lastTransitionTime"] == "2026-01-02T03:04:05Z", "it waits since then"


@pytest.mark.parametrize(
    ("condition", "known"),
    [
        ({"reason": "GangWaitsInLine", "lastTransitionTime": "1970-01-01T00:00:07Z"}, True),
        ({"reason": "GangWaitsInLine", "lastTransitionTime": None}, False),
        ({"reason": "GangWaitsInLine"}, False),
        ({"reason": "OfALaterRelease", "lastTransitionTime": "1970-01-01T00:00:07Z"}, False),
        ({"type": "other.io/Placed", "reason": "GangWaitsInLine"}, False),
        ({"type": "Ready", "lastProbeTime": None, "lastTransitionTime": None}, False),
    ],
)
def test_a_condition_without_time_or_of_another_program_is_no_history_and_no_fault(
    condition: dict[str, Any], *, known: bool
):
    """The API server writes a time that nobody gave as null."""
    found = pod(0, status={"conditions": [{"type": WORDS.condition, "message": "m", **condition}]})
    expected = Transition(7.0, GangState.BEHIND, "m", is_read=True) if known else None
    assert found.reported == expected
