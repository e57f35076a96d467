"""A gang that runs is judged by the groups that its nodes stand in, whenever these change."""

import asyncio

import pytest

from master.kube.objects import PODS
from tests.controllers.nomination.masters import FLIES, GangCluster, Leader, Way, leader
from tests.controllers.nomination.objects import GPU, JOB, WORDS
from tests.publish.forests import VENDOR, forest
from topo.gangs.stamp import Stamp
from topo.model.forest import Forest, Snapshot
from topo.model.ids import Generation

pytestmark = pytest.mark.virtual_time
NODES = [*sorted(FLIES[0]), *sorted(FLIES[1])]


def bound(cluster: GangCluster) -> None:
    """A job of two pairs that was made without gates, and that its scheduler has bound whole."""
    stamp = Stamp(pods=len(NODES), rank_offset=0, pods_per_group=2)
    container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
    for rank, node in enumerate(NODES):
        said = {WORDS.size: "16", WORDS.rank: str(rank), **stamp.annotations(WORDS)}
        cluster.api.add(
            PODS,
            f"pod-{rank}",
            metadata={"namespace": "jobs", "annotations": said, "ownerReferences": [JOB]},
            spec={"nodeName": node, "schedulingGates": [], "containers": [container]},
            status={"phase": "Running"},
        )


def split(made: Leader) -> bool:
    return "gang-split" in [each.code for each in made.nomination.warnings()]


async def test_a_gang_is_told_as_split_once_its_nodes_share_no_group_and_for_as_long():
    cluster = GangCluster("volcano", binds=False)
    async with leader(cluster, Way(cluster.api)) as made:
        bound(cluster)
        await asyncio.sleep(30)
        assert not split(made)
        trees: list[tuple[Forest, bool]] = [(forest(unplaced=NODES), True), (VENDOR, False)]
        for number, (tree, is_split) in enumerate(trees, 2):
            snapshot = Snapshot(Generation(number), tree)
            made.placements.state.follow(snapshot)
            made.nomination.on_forest(snapshot)
            await asyncio.sleep(30)
            assert split(made) is is_split
            assert made.registry.get_sample_value("topo_master_gangs", {"reason": "split"}) == (
                1 if is_split else 0
            )
