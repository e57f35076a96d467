"""A pod of another namespace that names the job of somebody as its owner changes nothing for it."""

import asyncio
import copy
import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import pytest

from master.kube.objects import PODS
from tests.controllers.nomination.masters import (
    FLIES,
    NODE_NAMES,
    PODS_OF_GANG,
    GangCluster,
    Scheduler,
    Way,
    leader,
)
from tests.controllers.nomination.objects import GANG, JOB, LABEL, WORDS, gated_pod
from topo.gangs.stamp import Stamp
from topo.model.conditions.gang_states import GangState

pytestmark = pytest.mark.virtual_time

SOON_S = 15.0
STAMP = Stamp(pods=PODS_OF_GANG, rank_offset=0, pods_per_group=2)
NOTE = {
    "certified": True,
    "gang": GANG,
    "generation": 1,
    "group": 0,
    "hold": "hold-x",
    "node": NODE_NAMES[7],
    "selection": "hold-x",
}
"""A note as the master writes it, which nobody wrote for the pods of the job."""
Moment = Literal["before", "while it waits", "once it is open"]
Pods = Sequence[dict[str, Any]]


def stranger(rank: int = 0, kind: str = "") -> dict[str, Any]:
    """A gated pod of the namespace `evil`, whose controller is the job by its own words."""
    made = gated_pod(rank, STAMP, **({WORDS.kind: kind} if kind else {}))
    made["metadata"]["namespace"] = "evil"
    return made


def opened(made: dict[str, Any], note: Any) -> dict[str, Any]:
    """The same without a gate, as if the master had written the note."""
    made["metadata"]["annotations"][WORDS.placement] = json.dumps(note)
    made["spec"]["schedulingGates"] = []
    return made


def unplanned(_victim: Pods) -> Pods:
    return [opened(stranger(), {"unplanned": "x"})]


def rank_twice(_victim: Pods) -> Pods:
    return [stranger(0), stranger(0)]


def rank_beyond(_victim: Pods) -> Pods:
    return [stranger(900000)]


def note_copied(victim: Pods) -> Pods:
    """The whole first pod of the job, if it is there: its note and what it selects, too."""
    written = [each for each in victim if WORDS.placement in each["metadata"]["annotations"]]
    made = opened(stranger(), NOTE)
    if written:
        made["metadata"]["annotations"] |= written[0]["metadata"]["annotations"]
        made["spec"] |= {"nodeSelector": written[0]["spec"].get("nodeSelector", {})}
    return [made]


def note_copied_and_gated(victim: Pods) -> Pods:
    (made,) = note_copied(victim)
    return [made | {"spec": {**made["spec"], "schedulingGates": [{"name": WORDS.gate}]}}]


def of_a_deployment(_victim: Pods) -> Pods:
    made = stranger(kind="deployment")
    owner = {**JOB, "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train-5d8f"}
    made["metadata"] |= {"ownerReferences": [owner], "labels": {"pod-template-hash": "5d8f"}}
    return [opened(made, {"unplanned": "x"})]


def of_a_replica_set(_victim: Pods) -> Pods:
    made = stranger()
    owner = {**JOB, "apiVersion": "apps/v1", "kind": "ReplicaSet"}
    made["metadata"]["ownerReferences"] = [owner]
    return [opened(made, {"unplanned": "x"})]


def of_a_job_set(_victim: Pods) -> Pods:
    made = stranger(kind="jobset")
    prefix = "jobset.sigs.k8s.io"
    labels = {f"{prefix}/jobset-uid": JOB["uid"], f"{prefix}/jobset-name": JOB["name"]}
    made["metadata"]["labels"] = labels
    return [opened(made, {"unplanned": "x"})]


STRANGERS: Sequence[Callable[[Pods], Pods]] = (
    unplanned,
    rank_twice,
    rank_beyond,
    note_copied,
    note_copied_and_gated,
    of_a_deployment,
    of_a_replica_set,
    of_a_job_set,
)


class Course(NamedTuple):
    """What became of the gang: its states, and by rank each pod's note, label and node."""

    states: Sequence[GangState]
    planned: Sequence[tuple[str, int, bool]]
    selecting: Sequence[bool]
    labelled: set[str]
    holds: int
    bound: dict[str, str]


async def course(
    scheduler: Scheduler, moment: Moment, strangers: Callable[[Pods], Pods] = lambda _: ()
) -> Course:
    """Place the gang while these pods come."""
    cluster = GangCluster(scheduler, binds=False)

    async def come() -> None:
        for at, made in enumerate(strangers([pod.document for pod in cluster.pods])):
            status = {"phase": "Pending"}
            cluster.api.add(PODS, f"stranger-{at}", **copy.deepcopy(made), status=status)
        await asyncio.sleep(SOON_S)

    async with leader(cluster, Way(cluster.api)) as made:
        if moment == "before":
            await come()
        if moment == "while it waits":
            for node in NODE_NAMES:
                cluster.take(node)
        cluster.submit()
        await asyncio.sleep(SOON_S)
        if moment == "while it waits":
            assert not cluster.is_open
            await come()
            for node in NODE_NAMES:
                cluster.api.remove(PODS, f"taker-{node}", "others")
            await asyncio.sleep(SOON_S)
        if moment == "once it is open":
            assert cluster.is_open
            await come()
        holds = len(made.nomination.answers.holds_of(GANG))
        cluster.binds = True
        cluster.schedule()
        await asyncio.sleep(SOON_S)
        pods = [pod.document for pod in cluster.pods]
        return Course(
            [each.state for each in made.nomination.view.history(GANG)],
            [_planned(pod) for pod in pods],
            [LABEL in pod["spec"].get("nodeSelector", {}) for pod in pods],
            cluster.labelled(),
            holds,
            dict(cluster.bound),
        )


def _planned(pod: Any) -> tuple[str, int, bool]:
    note = json.loads(pod["metadata"]["annotations"][WORDS.placement])
    return note["node"], note["group"], note["certified"]


@pytest.mark.parametrize("moment", ["before", "while it waits", "once it is open"])
@pytest.mark.parametrize("scheduler", ["volcano", "kube-scheduler"])
async def test_a_gang_is_placed_whole_where_no_stranger_is(
    scheduler: Scheduler, moment: Moment
) -> None:
    found = await course(scheduler, moment)
    assert found.states[-3:] == [GangState.PLACED, GangState.OPENED, GangState.BOUND]
    assert all(found.selecting)
    assert len(found.bound) == PODS_OF_GANG
    for pair in (("pod-0", "pod-1"), ("pod-2", "pod-3")):
        assert {found.bound[name] for name in pair} in FLIES


@pytest.mark.parametrize("strangers", STRANGERS)
@pytest.mark.parametrize("moment", ["before", "while it waits", "once it is open"])
@pytest.mark.parametrize("scheduler", ["volcano", "kube-scheduler"])
async def test_a_pod_of_another_namespace_that_names_the_job_changes_nothing_for_its_gang(
    scheduler: Scheduler, moment: Moment, strangers: Callable[[Pods], Pods]
) -> None:
    """Planned, held, opened and bound as without it, whatever rank, note and kind it states."""
    assert await course(scheduler, moment, strangers) == await course(scheduler, moment)
