"""Labels of gangs on nodes, as they are written and removed."""

import asyncio

import orjson
import pytest

from master.kube.errors import KubeError
from master.kube.objects import NODES, PODS
from tests.controllers.nomination.gang_world import gang_world, nominated
from tests.controllers.nomination.masters import NODE_NAMES
from tests.controllers.nomination.objects import LABEL, WORDS
from tests.kube.api_model import STRATEGIC

pytestmark = pytest.mark.virtual_time


async def test_a_gang_that_is_gone_leaves_no_label_and_no_hold():
    async with gang_world() as world:
        for index in range(2):
            world.add_pod(index)
        await asyncio.sleep(10)
        assert len(world.labelled()) == 2
        for index in range(2):
            world.api.remove(PODS, f"pod-{index}", "jobs")
        await asyncio.sleep(30)
        assert (world.labelled(), world.holds()) == (set(), 0)


async def test_labels_of_gangs_are_merged_into_a_node_by_their_names():
    """It costs the API server less than an apply; what is not named stays."""
    async with gang_world() as world:
        left = WORDS.node_label_prefix + "gone"  # of a gang whose master died
        world.api.edit(NODES, NODE_NAMES[7], ("metadata", "labels", left), "hold-9")
        for index in range(2):
            world.add_pod(index)
        await asyncio.sleep(10)
        written = [each for each in world.api.calls if each.path.startswith("/api/v1/nodes/")]
        assert {each.content_type for each in written} == {STRATEGIC}
        named = [orjson.loads(each.body or b"")["metadata"]["labels"] for each in written]
        own = sorted(each for labels in named for each in labels if labels[each] is not None)
        assert own == [LABEL] * 2
        assert [labels for labels in named if left in labels] == [{left: None}]
        assert left not in world.api.labels()[NODE_NAMES[7]]


async def test_a_label_that_a_dead_leader_sent_and_that_arrives_late_is_refused():
    async with gang_world() as world:
        for index in range(2):
            world.add_pod(index)
        await asyncio.sleep(10)
        late = [each for each in world.api.calls if each.path.startswith("/api/v1/nodes/")]
        assert len(late) == 2
        for index in range(2):
            world.api.remove(PODS, f"pod-{index}", "jobs")
        await asyncio.sleep(30)
        for each in late:
            with pytest.raises(KubeError, match="the object has been modified"):
                await world.api.call(each)
        assert world.labelled() == set()


@pytest.mark.parametrize("every_s", [0.003, 0.011, 0.05])
async def test_a_node_that_others_change_all_the_while_is_labelled_all_the_same(every_s: float):
    async with gang_world() as world:
        pods = [world.add_pod(index) for index in range(2)]
        for number in range(400):
            world.api.touch("/api/v1/nodes", NODE_NAMES[number % len(NODE_NAMES)])
            await asyncio.sleep(every_s)
        await asyncio.sleep(30)
        assert world.labelled() == {nominated(pod) for pod in pods}
