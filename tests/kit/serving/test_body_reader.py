"""Bodies of a port: bounded before they are parsed, and interpreted off the loop, one at a time."""

import asyncio
import threading

import pytest
from aiohttp import web

from tests.support.waiting import eventually
from topo.kit.serving.body import TooLargeError
from topo.kit.serving.body_reader import COUNTED_BYTES, BodyLimits, BodyReader

LIMITS = BodyLimits(
    max_bytes=4 << 20,
    values=100_000,
    objects=20_000,
    members=50_000,
    inline_bytes=1000,
    inline_opened=8,
    waiting=2,
    fix="send names",
)


def thread_of(_content: bytes) -> int:
    return threading.get_ident()


def never(_content: bytes) -> None:
    pytest.fail("it is parsed")


@pytest.mark.parametrize("content", [b"", b"0" * 1000, b"{" * 8 + b"[" * 8])
async def test_a_small_body_is_interpreted_on_the_loop(content: bytes) -> None:
    assert await BodyReader(LIMITS).interpreted(content, thread_of) == threading.get_ident()


@pytest.mark.parametrize("content", [b"0" * 1001, b"{" * 9, b"[" * 9])
async def test_any_other_body_is_interpreted_in_a_thread(content: bytes) -> None:
    assert await BodyReader(LIMITS).interpreted(content, thread_of) != threading.get_ident()


@pytest.mark.parametrize("unit", [b"0,", b"[],", b'"",', b"{},", b'{"a":0},', b":"])
async def test_a_body_of_more_values_than_the_limit_is_refused_before_it_is_parsed(
    unit: bytes,
) -> None:
    content = unit * ((4 << 20) // len(unit))
    with pytest.raises(TooLargeError) as refused:
        await BodyReader(LIMITS).interpreted(content, never)
    found = refused.value.refusal
    assert ("100000 values" in found.what, "20000 objects" in found.what) == (True, True)
    assert found.fix == "send names"


@pytest.mark.parametrize("begins", [0, COUNTED_BYTES - 1, COUNTED_BYTES])
async def test_a_body_at_the_limits_is_interpreted_wherever_its_values_stand(begins: int) -> None:
    """Values are counted in steps, and none of them twice or never."""
    most = b"{" * LIMITS.objects + b"," * (LIMITS.values - LIMITS.objects)
    assert await BodyReader(LIMITS).interpreted(b" " * begins + most, len) == begins + len(most)
    with pytest.raises(TooLargeError):
        await BodyReader(LIMITS).interpreted(b" " * begins + most + b",", len)
    with pytest.raises(TooLargeError):
        await BodyReader(LIMITS).interpreted(b" " * begins + b"{" * (LIMITS.objects + 1), len)


async def test_other_tasks_run_while_a_body_is_counted() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.ensure_future(other())
    await BodyReader(LIMITS).interpreted(bytes(4 << 20), len)
    task.cancel()
    assert turns >= (4 << 20) // COUNTED_BYTES


class Slow:
    """An interpretation that a test ends."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.may_end = threading.Event()

    def __call__(self, _content: bytes) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        self.may_end.wait(30)
        self.running -= 1
        return self.most


async def test_one_large_body_is_interpreted_at_a_time_and_few_may_wait() -> None:
    reader, slow = BodyReader(LIMITS), Slow()
    tasks = [asyncio.ensure_future(reader.interpreted(b"[" * 9, slow)) for _ in range(2)]
    await eventually(lambda: slow.running == 1)
    with pytest.raises(web.HTTPServiceUnavailable) as refused:
        await reader.interpreted(b"[" * 9, slow)
    assert refused.value.headers["Retry-After"] == "1"
    assert await reader.interpreted(b"0", len) == 1, "a small one waits for none"
    slow.may_end.set()
    assert await asyncio.gather(*tasks) == [1, 1]


async def test_the_next_one_waits_for_a_thread_whose_caller_left() -> None:
    reader, slow = BodyReader(LIMITS), Slow()
    first = asyncio.ensure_future(reader.interpreted(b"[" * 9, slow))
    await eventually(lambda: slow.running == 1)
    first.cancel()
    second = asyncio.ensure_future(reader.interpreted(b"[" * 9, slow))
    for _ in range(50):
        await asyncio.sleep(0)
    assert slow.running == 1
    slow.may_end.set()
    assert await second == 1
    assert first.cancelled() or await _cancelled(first)


async def _cancelled(task: "asyncio.Future[int]") -> bool:
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False
