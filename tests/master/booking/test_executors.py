"""Many who ask at once: one piece a round of the loop, a bounded queue, and readers in between."""

import asyncio
import threading
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.master.placing import config, placing
from topo.kit.executors import LoopQueue, QueueFullError, SingleThreadExecutor
from topo.model.ids import NodeName
from topo.placement.job.plan import Plan
from topo.placement.job.request import PlacementMode, Request

pytestmark = pytest.mark.virtual_time


async def rounds(seen: list[str], over: asyncio.Event) -> None:
    """Notes every round of the loop."""
    while not over.is_set():
        seen.append("round")
        await asyncio.sleep(0)


async def test_between_two_queue_the_loop_serves_everybody_else() -> None:
    queue, seen, over = LoopQueue(), list[str](), asyncio.Event()

    async def piece(name: str) -> None:
        await queue.acquire()
        seen.append(name)

    others = asyncio.create_task(rounds(seen, over))
    names = [f"piece-{number}" for number in range(20)]
    await asyncio.gather(*map(piece, names))
    over.set()
    await others
    assert [name for name in seen if name != "round"] == names, "first come, first served"
    at = [index for index, name in enumerate(seen) if name != "round"]
    assert all(later - earlier > 1 for earlier, later in pairwise(at))


async def test_who_comes_when_too_many_wait_for_a_turn_is_sent_away() -> None:
    queue = LoopQueue(limit=2)
    waiting = [asyncio.create_task(queue.acquire()) for _ in range(5)]
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(each, QueueFullError) for each in found] == [False] * 3 + [True] * 2
    await queue.acquire()


async def test_who_gives_up_waiting_holds_up_nobody() -> None:
    queue = LoopQueue()
    waiting = [asyncio.create_task(queue.acquire()) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    waiting[2].cancel()
    await asyncio.wait_for(waiting[3], 1)
    await asyncio.wait_for(queue.acquire(), 1)


async def test_one_job_at_a_time_begins_when_its_turn_has_come() -> None:
    executor, busy, begun = SingleThreadExecutor(limit=3), threading.Lock(), list[int]()

    def begin(number: int) -> int:
        assert busy.acquire(blocking=False), "two at once"
        begun.append(number)
        busy.release()
        return number

    jobs = [executor.run(partial(partial, begin, number)) for number in range(5)]
    found = await asyncio.gather(*jobs, return_exceptions=True)
    assert found[:3] == begun == [0, 1, 2]
    assert all(isinstance(each, QueueFullError) for each in found[3:])
    with pytest.raises(ValueError, match="no"):
        await executor.run(lambda: lambda: int("no"))
    assert await executor.run(lambda: lambda: 7) == 7, "a job that failed leaves no trace"


async def test_the_next_job_waits_for_the_thread_of_a_caller_that_left() -> None:
    executor, begun, let_go = SingleThreadExecutor(), asyncio.Event(), threading.Event()
    loop, seen = asyncio.get_running_loop(), list[str]()

    def work(name: str) -> None:
        loop.call_soon_threadsafe(begun.set)
        let_go.wait()
        seen.append(name)

    first = asyncio.create_task(executor.run(lambda: partial(work, "first")))
    await begun.wait()
    first.cancel()
    second = asyncio.create_task(executor.run(lambda: partial(seen.append, "second")))
    try:
        for _ in range(10):
            await asyncio.sleep(0)
        assert not seen
    finally:
        let_go.set()
    await second
    assert seen == ["first", "second"]
    assert first.cancelled()


async def test_one_too_many_is_told_to_come_back(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        placements = caller.master.service.placements
        planner = placements.planner
        planner.executor, planner.loop_queue = SingleThreadExecutor(limit=0), LoopQueue(limit=0)
        job = {"pods": 1, "gpus_per_pod": 8}
        refused = await caller.post("/v1/placements", {**job, "assume": {"down": ["n0-0-0"]}})
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert "Retry-After" in refused.json["fix"]
        asked = [caller.post("/v1/holds", {**job, "hold_s": 9}) for _ in range(6)]
        statuses = [answer.status for answer in await asyncio.gather(*asked)]
        assert statuses.count(200) == len(await caller.holds())
        assert set(statuses) <= {200, 503}


async def test_a_large_job_is_answered_from_a_thread_with_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"pods": 6, "gpus_per_pod": 8, "group_size": 16}
    async with placing(tmp_path) as caller:
        near = await caller.post("/v1/placements", job)
        refused = await caller.post("/v1/placements", {**job, "pods": 99})
        monkeypatch.setattr("master.api.placements.LARGE_PODS", 1)
        monkeypatch.setattr("master.booking.planner.LARGE_PODS", 1)
        assert (await caller.post("/v1/placements", job)).body == near.body
        assert (await caller.post("/v1/placements", {**job, "pods": 99})).body == refused.body
        monkeypatch.setattr("master.api.holds.LARGE_PODS", 1)
        given = await caller.held(**job)
        shown = await caller.master.get(f"/v1/holds/{given['hold']['id']}")
        assert shown.json["groups"] == given["groups"]


async def test_a_hold_that_takes_long_to_plan_is_planned_aside_and_given_on_what_is_free_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"pods": 2, "gpus_per_pod": 8, "group_size": 16}
    async with placing(tmp_path) as caller:
        near = (await caller.post("/v1/placements", job)).json
        monkeypatch.setattr("master.booking.planner.MANY_TYPES", 0)
        asked = [caller.held(**job) for _ in range(3)]
        first, *others = await asyncio.gather(*asked)
        for part in ("groups", "objective", "bounds", "certified"):
            assert first[part] == near[part], "nothing happened meanwhile: the plan is that of now"
        names = [
            {n["name"] for g in held["groups"] for n in g["nodes"]} for held in (first, *others)
        ]
        assert len(set.union(*names)) == 6, "each got nodes of its own"
        same = [caller.held(**job, key="again") for _ in range(3)]
        ids = {held["hold"]["id"] for held in await asyncio.gather(*same)}
        assert len(ids) == 1, "one key, one hold, though all were planned at once"


async def test_what_was_proven_aside_is_not_said_of_a_capacity_that_changed_since(
    tmp_path: Path,
) -> None:
    """Two dragonflies were the fewest while a job had a node of each; it has gone since."""
    wish = Request(pods=2, gpus_per_pod=8, group_size=16)
    async with placing(tmp_path, text=config(boxes=1, flies=2, nodes=2)) as caller:
        placements = caller.master.service.placements
        planner, capacity = placements.planner, placements.state._capacity
        taken = {NodeName("n0-0-0"): 8, NodeName("n0-1-0"): 8}
        split = replace(wish, mode=PlacementMode.PREFERRED)
        capacity.book("another", taken)
        found = await planner.plan_in_thread(split)
        refused = await planner.plan_in_thread(wish)
        capacity.release("another")
        late = planner.confirm_or_replan(split, found).result
        assert isinstance(late, Plan)
        assert late.objective.span[-1] == 2, "what was found is given: it can still be had"
        assert not any(late.certified.values()), "one dragonfly would do now"
        again = planner.confirm_or_replan(wish, refused).result
        assert isinstance(again, Plan), "what is refused is refused for what is there now"
