"""Gangs while no groups are known: each is told so with the next step, and nobody is split."""

import asyncio
import json

import pytest

from master.controllers.nomination.status import pod_events
from tests.controllers.nomination.masters import (
    NODE_NAMES,
    PODS_OF_GANG,
    GangCluster,
    Leader,
    Way,
    leader,
    leading,
)
from tests.controllers.nomination.objects import WORDS, gang_of_job
from tests.publish.forests import VENDOR
from topo.model.conditions.gang_states import GangState
from topo.model.forest import Forest, Snapshot
from topo.model.ids import Generation

pytestmark = pytest.mark.virtual_time
NOT_READ = "the config file: /etc/nodegroup.yaml is not there"


def events(cluster: GangCluster) -> list[bytes]:
    return [call.body or b"" for call in cluster.api.calls if "/events" in call.path]


def known(made: Leader, tree: Forest, generation: int) -> None:
    made.placements.state.follow(Snapshot(Generation(generation), tree))


async def test_a_job_waits_while_the_tree_has_no_groups_is_told_why_and_runs_whole_once_it_has():
    cluster = GangCluster("kube-scheduler")
    async with leader(cluster, Way(cluster.api)) as made:
        known(made, Forest(), 2)
        cluster.submit()
        await asyncio.sleep(60)
        ((gang, stands),) = made.nomination.view.all()
        assert (gang.name, stands.state) == ("train", GangState.NO_GROUPS)
        assert stands.text.startswith(
            "no groups of nodes are known: 16 GPUs would have to be on one node, and the largest"
            " has 8; `topo doctor` says what to do"
        )
        (warning,) = made.nomination.warnings()
        assert (warning.code, "jobs/train" in warning.text) == ("gang-no-groups", True)
        assert "--config-file" in warning.fix
        assert WORDS.wait.rpartition("/")[2] in warning.fix
        (told,) = events(cluster)
        assert b'"GangFindsNoGroups"' in told
        (condition,) = cluster.pods[0].document["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "GangFindsNoGroups")
        assert cluster.bound == []
        known(made, VENDOR, 3)
        await asyncio.sleep(60)
        assert len(cluster.bound) == PODS_OF_GANG
        assert made.nomination.warnings() == ()


async def test_after_its_wait_a_job_runs_on_nodes_that_are_in_no_group():
    cluster = GangCluster("volcano")
    async with leader(cluster, Way(cluster.api)) as made:
        known(made, Forest(), 2)
        cluster.submit(**{WORDS.wait: "1s"})
        await asyncio.sleep(60)
        assert len(cluster.bound) == PODS_OF_GANG
        assert len(made.nomination.view.all()) == 1


async def test_while_the_groups_are_not_known_yet_each_job_says_what_is_waited_for():
    """A config file that is not there, say: this master has no tree, and places nothing."""
    is_counted = asyncio.Event()
    cluster = GangCluster("kube-scheduler")
    way = Way(cluster.api)
    async with leading(
        cluster.api,
        way,
        is_counted=is_counted.is_set,
        uncounted=lambda: (NOT_READ,),
        in_volcano=False,
    ) as made:
        cluster.submit()
        await asyncio.sleep(5)
        ((gang, stands),) = made.nomination.view.all()
        assert made.nomination.view.get(gang.id) == (gang, stands)
        assert stands.state is GangState.NO_GROUPS
        assert NOT_READ in stands.text
        assert "topo doctor" in stands.text
        assert events(cluster) == [], "it is known within seconds where nothing is wrong"
        await asyncio.sleep(60)
        (told,) = events(cluster)
        assert b'"GangFindsNoGroups"' in told
        assert NOT_READ.encode() in told
        (warning,) = made.nomination.warnings()
        assert warning.code == "gang-no-groups"
        assert cluster.bound == []
        is_counted.set()
        await asyncio.sleep(60)
        assert len(cluster.bound) == PODS_OF_GANG
        (condition,) = cluster.pods[0].document["status"]["conditions"]
        assert condition["reason"] == "GangBound"


async def test_each_gated_pod_of_a_gang_that_waits_has_an_event(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pod_events, "AFTER_S", 0.0)  # of the clock on the wall
    cluster = GangCluster("kube-scheduler")
    for node in NODE_NAMES:
        cluster.take(node)
    async with leader(cluster, Way(cluster.api)):
        cluster.submit()
        await asyncio.sleep(30)
    about = [json.loads(each)["regarding"] for each in events(cluster)]
    pods = {each["name"] for each in about if each["kind"] == "Pod"}
    assert pods == {f"pod-{rank}" for rank in range(PODS_OF_GANG)}


@pytest.mark.parametrize(("wanted", "bound"), [("job-1", PODS_OF_GANG), ("job-2", 0)])
async def test_a_person_opens_the_gates_of_one_job_also_while_the_groups_are_not_known(
    wanted: str, bound: int
):
    cluster = GangCluster("kube-scheduler")
    async with leader(cluster, Way(cluster.api), is_counted=lambda: False) as made:
        cluster.submit()
        await asyncio.sleep(5)
        made.nomination.ungate((gang_of_job(wanted),), "kim wants it")
        await asyncio.sleep(60)
        assert len(cluster.bound) == bound
