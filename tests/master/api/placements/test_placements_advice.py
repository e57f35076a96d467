"""Advice to refused jobs: tried out, found once for all who ask, never a queue without end."""

import asyncio

import pytest

from master.booking import advice
from master.booking.advice import Adviser
from tests.support.capacity import leaves
from topo.model.ids import NodeName
from topo.placement.advice.explain import explain
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import Request

pytestmark = pytest.mark.virtual_time


def refused(capacity: Capacity, pods: int = 9) -> NoFit:
    found = place(capacity, Request(pods=pods, gpus_per_pod=8, group_size=8))
    assert isinstance(found, NoFit)
    return found


async def test_what_is_advised_fits() -> None:
    capacity = leaves(8, per_group=4)
    found = (await Adviser(lambda: capacity).advice(refused(capacity))).would_fit
    requests = [suggestion.request for suggestion in found if suggestion.request is not None]
    assert requests
    for request in requests:
        assert isinstance(place(capacity, request), Plan)


async def test_those_who_ask_for_the_same_get_the_same_until_something_changes() -> None:
    capacity = leaves(8, per_group=4)
    adviser = Adviser(lambda: capacity)
    refusal = refused(capacity)
    first, second = await asyncio.gather(adviser.advice(refusal), adviser.advice(refusal))
    assert first is second is await adviser.advice(refusal)
    capacity.book("job", {NodeName("n0"): 8})
    third = await adviser.advice(refused(capacity))
    assert [one.request.pods for one in first.would_fit if one.request] == [8]
    assert [one.request.pods for one in third.would_fit if one.request] == [7]


async def test_when_too_many_ask_at_once_the_later_ones_go_without() -> None:
    capacity = leaves(8, per_group=4)
    adviser = Adviser(lambda: capacity)
    asked = [adviser.advice(refused(capacity, 9 + n)) for n in range(advice.AT_ONCE + 4)]
    found = await asyncio.gather(*asked)
    assert all(each.would_fit for each in found[: advice.AT_ONCE])
    assert not any(each.would_fit for each in found[advice.AT_ONCE :])
    assert found[-1].reasons == (refused(capacity, 9 + len(asked) - 1).text,)
    later = await adviser.advice(refused(capacity, 1000))
    assert later.would_fit, "later there is room again"


async def test_a_plan_is_explained_aside_on_the_capacity_that_it_was_made_on() -> None:
    capacity = leaves(8, per_group=4)
    adviser = Adviser(lambda: capacity)
    plan = place(capacity, Request(pods=4, gpus_per_pod=8))
    assert isinstance(plan, Plan)
    seen = capacity.copy()
    capacity.book("job", {NodeName(f"n{number}"): 8 for number in range(8)})
    asked = [adviser.explanation(seen, plan) for _ in range(advice.AT_ONCE + 1)]
    *found, late = await asyncio.gather(*asked)
    assert all(tuple(each) == explain(seen, plan) for each in found)
    assert late == (advice.NOT_EXPLAINED,), "no queue without end"


async def test_the_reasons_have_the_numbers_of_the_refusal() -> None:
    capacity = leaves(8, per_group=4)
    why = (await Adviser(lambda: capacity).advice(refused(capacity))).reasons
    assert "8 missing of 72" in why[0]
    assert len(why) > 1


async def test_what_is_remembered_is_bounded() -> None:
    capacity = leaves(8, per_group=4)
    adviser = Adviser(lambda: capacity)
    for pods in range(9, 9 + advice.KEPT + 5):
        await adviser.advice(refused(capacity, pods))
    assert len(adviser) == advice.KEPT
