"""Which holds of a kept state are served again."""

from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from master.state.checks import kept_holds
from topo.model.ids import NodeName
from topo.placement.booking.holds import FORMAT, Hold, HoldId, HoldRequest, HoldsMemory
from topo.placement.job.plan import PlannedGroup
from topo.placement.job.request import PlacementMode, Request


def hold(*sizes: int) -> Hold:
    """A hold of three pods in pairs, in groups of these sizes."""
    groups = tuple(
        PlannedGroup(at, tail=False, pods=((NodeName(f"n{at}"), pods),), domains=())
        for at, pods in enumerate(sizes)
    )
    request = Request(pods=3, gpus_per_pod=8, group_size=16)
    wish = HoldRequest(request=request, hold_s=60.0, key=None)
    return Hold(
        id=HoldId("h"),
        wish=wish,
        mode=PlacementMode.REQUIRED,
        gpu_type="",
        groups=groups,
        generation=1,
        created_s=0.0,
        deadline_s=None,
    )


def kept(memory: HoldsMemory) -> Any:
    return kept_holds(orjson.loads(TypeAdapter(HoldsMemory).dump_json(memory)))


@pytest.mark.parametrize("sizes", [(2, 1), (1, 2), (1, 1, 1)])
def test_pods_that_join_a_gang_may_be_any_parts_of_its_groups(sizes: tuple[int, ...]) -> None:
    found = kept(HoldsMemory(FORMAT, (hold(*sizes),), None))
    assert found.memory is not None
    assert found.memory.holds == (hold(*sizes),)


@pytest.mark.parametrize("sizes", [(3,), (2,), (2, 2)])
def test_a_hold_of_other_pods_than_it_asks_for_is_left_out(sizes: tuple[int, ...]) -> None:
    found = kept(HoldsMemory(FORMAT, (hold(*sizes),), None))
    assert found.memory is not None
    assert found.memory.holds == ()
    assert "its groups are not those of its request" in found.flaw
