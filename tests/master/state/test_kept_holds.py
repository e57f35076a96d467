"""Which holds of a kept state are served again."""

from dataclasses import replace
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


def with_slack(*slack: tuple[str, int]) -> Hold:
    return replace(hold(2, 1), slack=tuple((NodeName(node), gpus) for node, gpus in slack))


@pytest.mark.parametrize("slack", [[("n0", 8)], [("n0", 16), ("n1", 4)]])
def test_what_pods_do_not_ask_for_of_a_hold_is_kept_with_it(slack: list[tuple[str, int]]) -> None:
    made = with_slack(*slack)
    found = kept(HoldsMemory(FORMAT, (made,), None))
    assert found.memory is not None
    assert found.memory.holds == (made,)


@pytest.mark.parametrize(
    "slack",
    [[("n0", 17)], [("n0", 0)], [("n0", -8)], [("n9", 8)], [("n0", 8), ("n0", 8)]],
)
def test_a_hold_that_books_less_than_none_of_a_node_is_left_out(
    slack: list[tuple[str, int]],
) -> None:
    found = kept(HoldsMemory(FORMAT, (with_slack(*slack),), None))
    assert found.memory is not None
    assert found.memory.holds == ()
    assert "its slack is not of its places" in found.flaw


@pytest.mark.parametrize(("namespace", "kept_ones"), [("team-a", 1), ("", 1), ("Team A", 0)])
def test_a_hold_is_kept_with_the_namespace_whose_pods_have_it(
    namespace: str, kept_ones: int
) -> None:
    made = hold(2, 1)
    of_pods = replace(made, wish=replace(made.wish, namespace=namespace))
    found = kept(HoldsMemory(FORMAT, (of_pods,), None))
    assert found.memory is not None
    assert found.memory.holds == (of_pods,) * kept_ones
    assert ("its namespace is none" in found.flaw) is not bool(kept_ones)


def test_a_hold_of_an_earlier_release_is_for_the_pods_of_no_namespace() -> None:
    document = orjson.loads(TypeAdapter(HoldsMemory).dump_json(HoldsMemory(FORMAT, (hold(2, 1),))))
    del document["holds"][0]["wish"]["namespace"]
    found = kept_holds(document)
    assert found.memory is not None
    assert found.memory.holds == (hold(2, 1),)
