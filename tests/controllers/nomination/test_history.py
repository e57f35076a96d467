"""The history of a gang, over the life of a job and over a new leader."""

import asyncio
import copy
import time
from typing import Any

import pytest

from master.kube.objects import PODS
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


def condition_of(cluster: GangCluster, rank: int = 0) -> tuple[str, str]:
    """The status and the reason of a pod's condition, which must be its only one."""
    (found,) = cluster.pods[rank].document["status"]["conditions"]
    return found["status"], found["reason"]


async def wait_for_room(cluster: GangCluster) -> None:
    """A leader tells the job that it does not fit, then others give their nodes back."""
    for node in NODE_NAMES:
        cluster.take(node)
    async with leader(cluster, Way(cluster.api)):
        cluster.submit()
        await asyncio.sleep(30)
        assert condition_of(cluster) == ("False", "GangDoesNotFit")
    for node in NODE_NAMES:
        cluster.api.remove(PODS, f"taker-{node}", "others")


@pytest.mark.parametrize("bound_by", ["the second leader", "nobody that leads"])
async def test_a_condition_ends_with_the_wait_whichever_leader_wrote_it(bound_by: str):
    """The second leader opens the gates and dies; the third one, or none, sees the pods bound."""
    cluster = GangCluster("kube-scheduler", binds=False)
    await wait_for_room(cluster)
    async with leader(cluster, Way(cluster.api)):
        await until(lambda: cluster.is_open)
    if bound_by == "nobody that leads":
        cluster.binds = True
        cluster.schedule()
    async with leader(cluster, Way(cluster.api)) as third:
        await asyncio.sleep(10)
        cluster.binds = True
        cluster.schedule()
        await until(lambda: GangState.BOUND in states(third))
        await asyncio.sleep(10)
        assert condition_of(cluster) == ("True", "GangBound")


async def test_a_condition_on_a_pod_that_is_no_more_the_first_ends_too():
    cluster = GangCluster("kube-scheduler")
    await wait_for_room(cluster)
    said = cluster.pods[0].document["status"].pop("conditions")
    cluster.pods[1].document["status"]["conditions"] = said
    for rank in range(2):
        cluster.api.touch("/api/v1/namespaces/jobs/pods", f"pod-{rank}")
    async with leader(cluster, Way(cluster.api)) as second:
        await until(lambda: GangState.BOUND in states(second))
        await asyncio.sleep(10)
        assert condition_of(cluster, 1) == ("True", "GangBound")


async def test_a_condition_says_no_more_that_a_gang_does_not_fit_while_some_of_its_pods_run():
    """Two pods are bound; the planned nodes of the others are lost, and there are no more."""
    cluster = GangCluster("kube-scheduler", binds=False)
    await wait_for_room(cluster)
    async with leader(cluster, Way(cluster.api)) as second:
        await until(lambda: cluster.is_open)
        for rank in range(2):
            cluster.bind(f"pod-{rank}", cluster.nominated[rank])
        for node in {*NODE_NAMES} - {node for _, node in cluster.bound}:
            cluster.take(node)
        await until(lambda: GangState.HALF_BOUND in states(second))
        await asyncio.sleep(10)
        assert condition_of(cluster) == ("False", "GangHalfBound")


async def half_bound(cluster: GangCluster) -> None:
    """Three of four pods are bound, of which the first one waited."""
    await until(lambda: cluster.is_open)
    for rank in range(3):
        cluster.bind(f"pod-{rank}", cluster.nominated[rank])
    await asyncio.sleep(5)


async def test_a_pod_that_runs_says_that_another_one_of_its_gang_is_missing():
    cluster = GangCluster("kube-scheduler", binds=False)
    await wait_for_room(cluster)
    async with leader(cluster, Way(cluster.api)) as second:
        await half_bound(cluster)
        assert condition_of(cluster) == ("False", "GangOpened")
        cluster.api.remove(PODS, "pod-3", "jobs")
        await until(lambda: GangState.PODS_MISSING in states(second))
        await asyncio.sleep(10)
        assert condition_of(cluster) == ("False", "GangPodsMissing")


@pytest.mark.parametrize("reason", ["GangDoesNotFit", "GangOfALaterRelease"])
@pytest.mark.parametrize("after_s", [0.0, 10.0])
async def test_what_a_dead_leader_writes_after_the_end_does_not_stay(reason: str, after_s: float):
    """Its write may land between that of its successor and the next look at the pod."""
    cluster = GangCluster("kube-scheduler")
    await wait_for_room(cluster)
    (late,) = copy.deepcopy(cluster.pods[0].document["status"]["conditions"])
    way = Way(cluster.api)
    async with leader(cluster, way):
        await until(lambda: condition_of(cluster) == ("True", "GangBound"), 300)
        await asyncio.sleep(after_s)
        cluster.pods[0].document["status"]["conditions"] = [late | {"reason": reason}]
        cluster.api.touch("/api/v1/namespaces/jobs/pods", "pod-0")
        before = way.written.count("condition")
        await asyncio.sleep(5)
        assert condition_of(cluster) == ("True", "GangBound")
        await asyncio.sleep(3600)
        assert way.written.count("condition") == before + 1, "once"


async def test_a_gang_whose_pods_say_what_it_is_gets_no_further_writes():
    cluster = GangCluster("kube-scheduler")
    await wait_for_room(cluster)
    way = Way(cluster.api)
    async with leader(cluster, way):
        await asyncio.sleep(3600)
    assert way.written.count("condition") <= 2
    again = Way(cluster.api)
    async with leader(cluster, again):
        await asyncio.sleep(3600)
    assert "condition" not in again.written
