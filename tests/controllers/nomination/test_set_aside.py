"""An error that reading, placing or writing one gang raises is that gang's; the leader goes on."""

import asyncio
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from master.controllers.nomination import gang_reader, placement_answers
from master.controllers.nomination.status.nomination_policy import NominationPolicy
from master.controllers.nomination.status.note_doubts import NoteDoubts
from master.controllers.nomination.writing import gang_writes
from master.kube.objects import NODES, PODS
from master.object_errors import ObjectErrors, ObjectKind
from tests.controllers.nomination.gang_world import GangWorld, gang_world, is_open, nominated
from tests.controllers.nomination.masters import FLIES, NODE_NAMES, leading
from tests.controllers.nomination.objects import PAIR, gang_of_job, gated_pod
from tests.kube.api_model import ApiModel
from tests.publish.forests import VENDOR
from tests.support.kubernetes import node_status
from topo.gangs.decisions.place import answer_place
from topo.gangs.machine.settings import BY_DEFAULT
from topo.model.conditions.gang_states import GangState
from topo.model.errors import SharedStateError

pytestmark = pytest.mark.virtual_time

BAD, TWIN = gang_of_job("bad"), gang_of_job("twin")
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


async def test_the_gates_are_opened_then_also_where_leaders_change_more_often(
    monkeypatch: pytest.MonkeyPatch,
):
    break_placing(monkeypatch)
    api = ApiModel(delay_s=0.005)
    for name in NODE_NAMES:
        api.add(NODES, name, metadata={"labels": {}}, spec={}, status=node_status())
    for index in range(2):
        api.add(PODS, f"bad-{index}", **gated_pod(index, PAIR, uid="bad"))
    pods = [api.objects[PODS_AT, f"bad-{n}"] for n in range(2)]
    clock = asyncio.get_running_loop().time
    began_s = time.time() - clock()
    for _ in range(4):
        assert not any(is_open(pod) for pod in pods)
        async with leading(api, api, VENDOR, server_now=lambda: began_s + clock()):
            await asyncio.sleep(0.3 * BY_DEFAULT.gate_s)
    assert all(is_open(pod) for pod in pods)


async def test_a_state_that_cannot_be_told_is_no_reason_not_to_place(
    monkeypatch: pytest.MonkeyPatch,
):
    def describe(*_: object) -> str:
        raise KeyError("evicts")

    async with gang_world() as world:
        with monkeypatch.context() as patched:
            patched.setattr(NominationPolicy, "describe", describe)
            pods = [world.add_pod(index) for index in range(2)]
            await asyncio.sleep(10)
        assert all(is_open(pod) for pod in pods)
        assert "KeyError" in "".join(world.nomination.errors.of(ObjectKind.GANG).values())
        for pod in pods:
            world.bind(pod)
        await asyncio.sleep(10)
        assert not world.nomination.errors.of(ObjectKind.GANG), "its next state was told"


async def test_a_doubt_that_cannot_be_told_is_no_reason_not_to_place(
    monkeypatch: pytest.MonkeyPatch,
):
    look = raising_for(NoteDoubts.look, lambda _, gang, *__: gang.id == BAD)
    monkeypatch.setattr(NoteDoubts, "look", look)
    async with gang_world() as world:
        pods = [world.add_pod(index, job="bad") for index in range(2)]
        await asyncio.sleep(10)
        assert all(is_open(pod) for pod in pods)


async def test_a_gang_whose_pods_are_gone_once_a_step_for_it_raises_is_gone(
    monkeypatch: pytest.MonkeyPatch,
):
    async with gang_world() as world:

        def answer(*args: Any, **kwargs: Any) -> Any:
            if args[1].id != BAD:
                return placed(*args, **kwargs)
            for n in range(2):
                world.api.remove(PODS, f"bad-{n}", "jobs")
            monkeypatch.setattr(
                reader, "pods", lambda gang_id: [] if gang_id == BAD else pods(gang_id)
            )
            raise TypeError("x")

        reader, placed = world.nomination.reader, answer_place
        pods = reader.pods
        monkeypatch.setattr(placement_answers, "answer_place", answer)
        _ = [world.add_pod(index, job="bad") for index in range(2)]
        good = [world.add_pod(index, job="good") for index in range(2)]
        await asyncio.sleep(10)
        assert all(is_open(pod) for pod in good)
        assert world.nomination.view.get(BAD) is None
        assert not world.nomination.errors.of(ObjectKind.GANG)


async def test_two_gangs_of_one_name_are_each_set_aside_once(monkeypatch: pytest.MonkeyPatch):
    told: list[tuple[str, str]] = []
    breaking(gang_reader, "build_gang", lambda gang_id, *_: gang_id in {BAD, TWIN})(monkeypatch)
    async with gang_world() as world:
        note = ObjectErrors.note

        def noting(self: ObjectErrors, kind: ObjectKind, name: str, error: Any) -> None:
            if kind is ObjectKind.GANG:
                told.append((name, str(error)))
            note(self, kind, name, error)

        monkeypatch.setattr(ObjectErrors, "note", noting)
        for job in ("bad", "twin"):
            _ = [world.add_pod(index, job=job) for index in range(2)]
        await asyncio.sleep(10)
        for n in range(5):  # other gangs have their turns
            world.add_pod(0, job=f"good-{n}")
            await asyncio.sleep(5)
        assert len(told) == 2
        assert len(world.nomination.errors.of(ObjectKind.GANG)) == 2
        for n in range(2):
            world.api.remove(PODS, f"bad-{n}", "jobs")
        await asyncio.sleep(10)
        assert len(world.nomination.errors.of(ObjectKind.GANG)) == 1


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
