"""The bucket that bounds how often the API server is asked."""

import asyncio

import pytest

from master.kube.rate import RequestRate

pytestmark = pytest.mark.virtual_time


def bucket(qps: float, burst: int) -> RequestRate:
    return RequestRate(qps, burst, asyncio.get_running_loop().time)


async def passed_at(bucket: RequestRate, callers: int) -> list[float]:
    """When each of so many callers passed, in the order in which they passed."""
    loop, times = asyncio.get_running_loop(), list[float]()

    async def call() -> None:
        await bucket.take()
        times.append(loop.time())

    await asyncio.gather(*(call() for _ in range(callers)))
    return times


async def test_a_burst_passes_at_once_and_the_rest_at_the_rate():
    times = await passed_at(bucket(qps=10, burst=3), 6)
    assert times == pytest.approx([0, 0, 0, 0.1, 0.2, 0.3])


async def test_a_rested_bucket_holds_no_more_than_its_burst():
    rested = bucket(qps=10, burst=3)
    await passed_at(rested, 3)
    await asyncio.sleep(3600)
    times = await passed_at(rested, 5)
    assert times == pytest.approx([3600, 3600, 3600, 3600.1, 3600.2])


async def test_callers_pass_in_the_order_in_which_they_came():
    shared, order = bucket(qps=1, burst=1), list[int]()

    async def call(number: int) -> None:
        await shared.take()
        order.append(number)

    await asyncio.gather(*(call(number) for number in range(5)))
    assert order == [0, 1, 2, 3, 4]


async def test_a_caller_that_is_cancelled_takes_nothing_and_holds_nobody_up():
    shared = bucket(qps=1, burst=1)
    await shared.take()
    waiting = [asyncio.create_task(shared.take()) for _ in range(3)]
    await asyncio.sleep(0.5)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await passed_at(shared, 2) == pytest.approx([1, 2])


async def test_a_rate_that_would_let_nobody_pass_is_refused():
    for qps, burst in ((0, 1), (-1, 1), (1, 0)):
        with pytest.raises(ValueError, match="lets nobody pass"):
            bucket(qps, burst)
