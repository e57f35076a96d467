"""An error that reading, placing or writing one gang raises is that gang's; the leader goes on."""

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from master.controllers.nomination import gang_reader, placement_answers
from master.controllers.nomination.status.nomination_policy import NominationPolicy
from master.controllers.nomination.writing import gang_writes
from master.object_errors import ObjectKind
from tests.controllers.nomination.gang_world import GangWorld, gang_world, is_open, nominated
from tests.controllers.nomination.masters import FLIES
from tests.controllers.nomination.objects import gang_of_job
from topo.gangs.machine.settings import BY_DEFAULT
from topo.model.conditions.gang_states import GangState
from topo.model.errors import SharedStateError

pytestmark = pytest.mark.virtual_time

BAD = gang_of_job("bad")
PODS_AT = "/api/v1/namespaces/jobs/pods"


def raising_for(real: Callable[..., Any], is_bad: Callable[..., bool]) -> Callable[..., Any]:
    def step(*args: Any, **kwargs: Any) -> Any:
        if is_bad(*args):
            raise TypeError("unhashable type: 'list'")
        return real(*args, **kwargs)

    return step


def breaking(
    module: ModuleType, name: str, is_bad: Callable[..., bool]
) -> Callable[[pytest.MonkeyPatch], None]:
    """What makes a step of that name raise for the bad gang."""

    def break_step(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, name, raising_for(getattr(module, name), is_bad))

    return break_step


break_placing = breaking(placement_answers, "answer_place", lambda _, asked, *__: asked.id == BAD)
WAYS = {
    "reading": breaking(gang_reader, "build_gang", lambda gang_id, *_: gang_id == BAD),
    "placing": break_placing,
    "checking": breaking(placement_answers, "lost_nodes", lambda _, asked, *__: asked.id == BAD),
    "writing": breaking(gang_writes, "pod_patch", lambda asked, *_: asked.id == BAD),
}


async def settled(world: GangWorld) -> None:
    bad = [world.add_pod(index, job="bad") for index in range(2)]
    good = [world.add_pod(index, job="good") for index in range(2)]
    await asyncio.sleep(10)
    assert {nominated(pod) for pod in good} in FLIES
    assert all(is_open(pod) for pod in good)
    assert not any(is_open(pod) for pod in bad)


@pytest.mark.parametrize("broken", WAYS.values(), ids=WAYS)
async def test_the_others_are_placed_and_the_gang_says_why_it_is_not(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    async with gang_world() as world:
        await settled(world)
        found = world.nomination.view.get(BAD)
        assert found is not None
        assert found[1].state is GangState.UNREADABLE
        assert "unhashable type" in found[1].text
        [(name, why)] = world.nomination.errors.of(ObjectKind.GANG).items()
        assert name.startswith("jobs/")
        assert "TypeError" in why
        assert [each.code for each in world.nomination.warnings()] == ["gang-unreadable"]
        assert world.holds() <= 1, "what is held is of the good one"


@pytest.mark.parametrize("broken", WAYS.values(), ids=WAYS)
async def test_it_is_placed_once_the_step_succeeds_and_it_changed(
    broken: Callable[[pytest.MonkeyPatch], None],
) -> None:
    async with gang_world() as world:
        with pytest.MonkeyPatch.context() as monkeypatch:
            broken(monkeypatch)
            await settled(world)
        pods = [world.api.objects[PODS_AT, f"bad-{n}"] for n in range(2)]
        for pod in pods:
            pod.document["metadata"]["labels"] = {"changed": "yes"}
            world.api.touch(PODS_AT, pod.document["metadata"]["name"])
        await asyncio.sleep(700)  # a resync, and the longest pause between tries
        assert {nominated(pod) for pod in pods} in FLIES
        assert all(is_open(pod) for pod in pods)
        assert not world.nomination.errors.of(ObjectKind.GANG)


async def test_the_gates_are_opened_after_the_gate_timeout(monkeypatch: pytest.MonkeyPatch):
    break_placing(monkeypatch)
    async with gang_world() as world:
        await settled(world)
        await asyncio.sleep(BY_DEFAULT.gate_s + 10)
        pods = [world.api.objects[PODS_AT, f"bad-{n}"] for n in range(2)]
        assert all(is_open(pod) for pod in pods)
        assert not any(pod.document["spec"].get("nodeSelector") for pod in pods)


async def test_a_state_that_cannot_be_told_is_no_reason_not_to_place(
    monkeypatch: pytest.MonkeyPatch,
):
    def describe(*_: object) -> str:
        raise KeyError("evicts")

    monkeypatch.setattr(NominationPolicy, "describe", describe)
    async with gang_world() as world:
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(10)
        assert all(is_open(pod) for pod in pods)
        assert "KeyError" in "".join(world.nomination.errors.of(ObjectKind.GANG).values())


async def test_an_error_of_the_bookings_ends_the_loop(monkeypatch: pytest.MonkeyPatch):
    def answer(*_: object, **__: object) -> None:
        raise SharedStateError("bookings: a GPU has two owners")

    monkeypatch.setattr(placement_answers, "answer_place", answer)

    async def live() -> None:
        async with gang_world() as world:
            world.add_pod(0)
            world.add_pod(1)
            await asyncio.sleep(10)

    with pytest.raises(AssertionError, match="a work ended"):
        await live()
