"""A promise is given when it is on disk, refused when it cannot get there, never left open."""

import asyncio

import pytest

from master.booking.saved_changes import SavedChanges

pytestmark = pytest.mark.virtual_time


def kept_on_disk() -> SavedChanges:
    book = SavedChanges()
    book.required = True
    return book


async def test_without_a_state_file_nothing_is_waited_for() -> None:
    book = SavedChanges()
    book.count()
    assert await book.wait() == ""


async def test_a_change_during_a_write_waits_for_the_next_one() -> None:
    book = kept_on_disk()
    book.count()
    first = asyncio.create_task(book.wait())
    await asyncio.sleep(0)
    copied = book.start_save()
    book.count()
    second = asyncio.create_task(book.wait())
    await asyncio.sleep(0)
    book.save_succeeded(copied)
    assert await first == ""
    assert not second.done()
    assert book.changed.is_set()
    book.save_succeeded(book.start_save())
    assert await second == ""


async def test_while_the_disk_fails_all_are_told_at_once_and_then_no_more() -> None:
    book = kept_on_disk()
    book.count()
    waiting = asyncio.create_task(book.wait())
    await asyncio.sleep(0)
    book.start_save()
    book.save_failed("No space left on device")
    assert await waiting == await book.wait() == "No space left on device"
    assert book.changed.is_set(), "it is tried again"
    book.save_succeeded(book.start_save())
    assert await book.wait() == ""


async def test_a_disk_that_hangs_is_not_waited_for_without_end() -> None:
    book = kept_on_disk()
    book.count()
    assert "more than" in await book.wait()
