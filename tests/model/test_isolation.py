"""An error of one object is a value; an error of what all objects share is none."""

import asyncio

import pytest

from topo.model.errors import BrokenInvariantError, SharedStateError
from topo.model.isolation import MOST_REASON_CHARS, ObjectError, attempt, attempt_async


def raises(error: BaseException) -> None:
    raise error


def test_the_result_of_a_step_is_returned_as_it_is() -> None:
    assert attempt(lambda: 7) == 7


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), RecursionError("deep"), BrokenInvariantError("of this one"), StopIteration()],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_one_object_is_returned(error: Exception) -> None:
    found = attempt(lambda: raises(error))
    assert isinstance(found, ObjectError)
    assert found.reason.startswith(type(error).__name__)
    assert found.place.startswith("test_isolation.py:")
    assert "Traceback" in found.trace


@pytest.mark.parametrize(
    "error",
    [
        SharedStateError("bookings"),
        MemoryError(),
        ExceptionGroup("tasks", [KeyError("x"), SharedStateError("bookings")]),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_all_objects_passes(error: BaseException) -> None:
    with pytest.raises(type(error)):
        attempt(lambda: raises(error))


async def test_awaited_work_is_isolated_the_same_way() -> None:
    async def work(error: BaseException) -> None:
        await asyncio.sleep(0)
        raise error

    assert isinstance(await attempt_async(work(KeyError("x"))), ObjectError)
    with pytest.raises(SharedStateError):
        await attempt_async(work(SharedStateError("bookings")))


def test_a_reason_is_one_short_plain_line() -> None:
    found = attempt(lambda: raises(ValueError("a\n\x1b[31m" + "b" * 10_000)))
    assert isinstance(found, ObjectError)
    assert len(found.reason) <= MOST_REASON_CHARS
    assert found.reason.isprintable()


def test_an_error_that_cannot_be_shown_is_isolated_as_well() -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    found = attempt(lambda: raises(UnprintableError()))
    assert isinstance(found, ObjectError)
    assert "cannot be shown" in found.reason
