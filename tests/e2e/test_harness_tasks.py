"""Tasks of the harness: none outlives its loop, and none fails unseen."""

import asyncio

import pytest

from tests.e2e.controlplane.tasks import Tasks, ended

pytestmark = pytest.mark.virtual_time


async def test_one_that_was_cancelled_before_is_waited_for_and_not_broken_off_at_its_end() -> None:
    tasks, left = Tasks(), ["the process"]

    async def life() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(1)
            left.clear()

    begun = tasks.start(life())
    await asyncio.sleep(0)
    begun.cancel()
    await asyncio.sleep(0)
    await tasks.end()
    assert left == []


async def test_what_fails_is_shown_and_kept_and_what_is_cancelled_is_no_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def fail() -> None:
        raise KeyError("of a pod")

    tasks = Tasks()
    tasks.start(fail())
    tasks.start(asyncio.sleep(3600))
    await asyncio.sleep(1)
    await tasks.end()
    assert [type(failure) for failure in tasks.failures] == [KeyError]
    assert "KeyError: 'of a pod'" in capsys.readouterr().err


async def test_tasks_that_have_ended_with_an_error_do_not_keep_others_from_ending() -> None:
    async def fail() -> None:
        raise OSError

    failed, other = asyncio.create_task(fail()), asyncio.create_task(asyncio.sleep(3600))
    await asyncio.sleep(0)
    await ended([failed, other])
    assert other.cancelled()
