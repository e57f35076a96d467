"""A job that Volcano placed with a group in two domains is told of, whatever Volcano was asked."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from master.kube.objects import PODS
from master.kube.schedulers.volcano import POD_GROUPS
from tests.controllers.nomination.masters import FLIES, GROUP, GangCluster, Leader, Way, leader
from tests.controllers.nomination.objects import GPU, JOB, WORDS
from tests.publish.forests import VENDOR, forest
from topo.gangs.annotation_keys import POD_GROUP
from topo.gangs.stamp import Stamp
from topo.model.forest import Snapshot
from topo.model.ids import Generation

pytestmark = pytest.mark.virtual_time
PAIRS = [sorted(pair) for pair in FLIES]
WHOLE = [*PAIRS[0], *PAIRS[1]]
SPLIT = [PAIRS[0][0], PAIRS[1][0], PAIRS[0][1], PAIRS[1][1]]
HARD = {"mode": "hard", "highestTierAllowed": 1}


def bound(cluster: GangCluster, nodes: Sequence[str], **asked: str) -> None:
    """A native job of pairs that Volcano has bound to these nodes, by rank."""
    policy = {"name": WORDS.group, "subGroupSize": 2, "networkTopology": HARD}
    spec = {"minMember": len(nodes), "queue": "default", "subGroupPolicy": [policy]}
    metadata = {"namespace": "jobs"}
    cluster.api.add(POD_GROUPS, GROUP, metadata=metadata, spec=spec, status={"phase": "Running"})
    stamp = Stamp(pods=len(nodes), rank_offset=0, pods_per_group=2)
    for rank, node in enumerate(nodes):
        add_pod(cluster, rank, node, {WORDS.size: "16", **stamp.annotations(WORDS), **asked})


def add_pod(cluster: GangCluster, rank: int, node: str, annotations: dict[str, Any]) -> None:
    own = {WORDS.way: "native", WORDS.rank: str(rank), POD_GROUP: GROUP, **annotations}
    container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
    cluster.api.add(
        PODS,
        f"pod-{rank}",
        metadata={"namespace": "jobs", "annotations": own, "ownerReferences": [JOB]},
        spec={"nodeName": node, "schedulingGates": [], "containers": [container]},
        status={"phase": "Running"},
    )


def codes(made: Leader) -> list[str]:
    return [each.code for each in made.nomination.warnings()]


def split_gangs(made: Leader) -> float | None:
    return made.registry.get_sample_value("topo_master_gangs", {"reason": "split"})


def events(cluster: GangCluster) -> list[bytes]:
    return [call.body or b"" for call in cluster.api.calls if "/events" in call.path]


async def test_a_split_group_is_in_the_doctor_in_a_metric_and_an_event_until_the_job_is_gone():
    cluster = GangCluster("volcano", binds=False)
    async with leader(cluster, Way(cluster.api)) as made:
        bound(cluster, SPLIT)
        await asyncio.sleep(30)
        (warning,) = made.nomination.warnings()
        assert (warning.code, "jobs/train" in warning.text) == ("gang-split", True)
        assert split_gangs(made) == 1
        (told,) = events(cluster)
        assert b'"GangSplit"' in told
        assert b"0 of 2 groups whole (split: group 0 and group 1)" in told
        cluster.end()
        await asyncio.sleep(30)
        assert (codes(made), split_gangs(made)) == ([], 0)


@pytest.mark.parametrize(
    ("nodes", "asked"), [(WHOLE, {}), (SPLIT, {f"{WORDS.domain}/gpu-group-mode": "preferred"})]
)
async def test_whole_and_preferred_groups_are_no_news(nodes: list[str], asked: dict[str, str]):
    cluster = GangCluster("volcano", binds=False)
    async with leader(cluster, Way(cluster.api)) as made:
        bound(cluster, nodes, **asked)
        await asyncio.sleep(30)
        assert (codes(made), split_gangs(made), events(cluster)) == ([], 0, [])


async def test_a_group_that_the_tree_shows_apart_is_told_and_no_more_once_it_is_together():
    cluster = GangCluster("volcano", binds=False)
    async with leader(cluster, Way(cluster.api)) as made:
        bound(cluster, WHOLE)
        await asyncio.sleep(30)
        assert codes(made) == []
        for number, (tree, found) in enumerate(
            [(forest(unplaced=WHOLE), ["gang-split"]), (VENDOR, [])], 2
        ):
            snapshot = Snapshot(Generation(number), tree)
            made.placements.state.follow(snapshot)
            made.nomination.on_forest(snapshot)
            await asyncio.sleep(30)
            assert codes(made) == found
