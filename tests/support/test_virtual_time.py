"""The clock of a virtual loop jumps when nothing can run, and not before."""

import asyncio
import threading
import time

import pytest
from aiohttp import ClientSession, web

pytestmark = pytest.mark.virtual_time
DAY_S = 86_400.0


async def test_a_day_passes_at_once_and_in_order() -> None:
    loop, seen = asyncio.get_running_loop(), list[tuple[float, str]]()

    async def beats(name: str, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            seen.append((loop.time(), name))

    tasks = [asyncio.create_task(beats("a", DAY_S / 4)), asyncio.create_task(beats("b", DAY_S / 3))]
    await asyncio.sleep(DAY_S - 1)
    assert loop.time() == DAY_S - 1
    assert seen == [
        (DAY_S / 4, "a"),
        (DAY_S / 3, "b"),
        (DAY_S / 2, "a"),
        (DAY_S * 2 / 3, "b"),
        (DAY_S * 3 / 4, "a"),
    ]
    for task in tasks:
        task.cancel()


async def test_a_thread_takes_no_virtual_time() -> None:
    loop, release = asyncio.get_running_loop(), threading.Event()
    timer = threading.Timer(0.05, release.set)
    timer.start()
    async with asyncio.timeout(1):
        await asyncio.to_thread(release.wait)
    assert loop.time() == 0
    timer.join()


async def test_answers_over_sockets_come_before_the_next_timer() -> None:
    """Also large ones, and many at a time: the timeout is shorter than they take in real time."""

    async def get(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 3_000_000)

    app = web.Application()
    app.router.add_get("/", get)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"

    async def ask(session: ClientSession) -> int:
        async with session.get(url) as answer:
            return len(await answer.read())

    async with ClientSession() as session, asyncio.timeout(1e-6):
        sizes = await asyncio.gather(*(ask(session) for _ in range(10)))
    assert sizes == [3_000_000] * 10
    await runner.cleanup()


async def test_a_reader_that_does_not_read_is_no_reason_to_wait_for_ever() -> None:
    began_s = time.monotonic()
    reading = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reading.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"x" * 50_000_000)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writer.drain(), DAY_S)
    assert time.monotonic() - began_s < DAY_S
    writer.transport.abort()
    reading.set()
    server.close()
