"""The life of a service, and errors as problem documents."""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from structlog.testing import capture_logs

from tests.support.waiting import eventually
from topo.kit.serving.connections import Connections
from topo.kit.serving.problem import CONTENT_TYPE, problems
from topo.kit.tasks import Site, Work, background, run, serve
from topo.kit.threads import uninterrupted
from topo.model.errors import BadInputError, Refusal


async def _forever() -> None:
    await asyncio.Event().wait()


def _app(works: Mapping[str, Work]) -> web.Application:
    app = web.Application()
    app.cleanup_ctx.append(background(lambda _: works))
    return app


def _site(app: web.Application, port: int = 0) -> Site:
    connections = Connections("api", 100, 1_000_000)
    return Site(app=app, port=port, connections=connections, host="127.0.0.1")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_sigterm_ends_a_service_with_0() -> None:
    sites = _site(_app({"w": _forever}))
    with capture_logs() as logs:
        assert run(serve(sites, started=_kill)) == 0
    assert [e["event"] for e in logs] == ["listening", "stopping", "stopped"]
    assert logs[0]["port"] > 0


def test_a_background_task_that_dies_ends_the_service_with_1_and_its_reason() -> None:
    async def dies() -> None:
        raise OSError("the disk is gone")

    first = _site(_app({"w": _forever, "disk": dies}))
    second = _site(web.Application())
    with capture_logs() as logs:
        assert run(serve(first, second)) == 1
    died = next(e for e in logs if e["event"] == "background task died")
    assert (died["task"], died["reason"]) == ("disk", "the disk is gone")
    assert logs[-1]["failures"] == ["OSError: the disk is gone"]


def test_a_background_task_that_returns_is_dead_too() -> None:
    async def returns() -> None:
        await asyncio.sleep(0)

    with capture_logs() as logs:
        assert run(serve(_site(_app({"w": returns})))) == 1
    assert any(e.get("reason") == "it returned" for e in logs)


@pytest.mark.parametrize("cancels", [0, 1, 3])
async def test_who_is_cancelled_however_often_first_waits_for_what_is_uninterrupted(
    cancels: int,
) -> None:
    goes_on, done = asyncio.Event(), list[str]()

    async def work() -> str:
        await goes_on.wait()
        done.append("work")
        return "result"

    async def caller() -> str:
        try:
            return await uninterrupted(work())
        finally:
            done.append("caller")

    task = asyncio.create_task(caller())
    for _ in range(cancels):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    goes_on.set()
    (result,) = await asyncio.gather(task, return_exceptions=True)
    assert done == ["work", "caller"]
    assert isinstance(result, asyncio.CancelledError) if cancels else result == "result"


def test_a_taken_port_is_said_and_nothing_is_left_running() -> None:
    stopped = []

    async def work() -> None:
        try:
            await _forever()
        finally:
            stopped.append(True)

    with socket.create_server(("127.0.0.1", 0)) as holder, capture_logs() as logs:
        port = holder.getsockname()[1]
        site = _site(_app({"w": work}), port)

        async def after_a_moment() -> int:
            return await serve(site)

        assert run(after_a_moment()) == 1
    assert str(port) in logs[-1]["what"]


def test_requests_under_way_are_drained() -> None:
    """The signal comes while a request waits for it."""
    answers: list[str] = []

    async def slow(_: web.Request) -> web.Response:
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(lambda: any(line["event"] == "stopping" for line in logs))
        return web.Response(text="done")

    app = _app({"w": _forever})
    app.router.add_get("/", slow)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]

    async def main() -> int:
        async def ask() -> None:
            async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/") as got:
                answers.append(await got.text())

        asking: list[asyncio.Task[None]] = []

        def started() -> None:
            asking.append(asyncio.ensure_future(ask()))

        code = await serve(_site(app, port), started=started)
        await asking[0]
        return code

    with capture_logs() as logs:
        assert run(main()) == 0
    assert answers == ["done"]


@pytest.fixture
async def client() -> TestClient[web.Request, web.Application]:
    async def boom(_: web.Request) -> web.Response:
        raise RuntimeError("inner detail")

    async def refuse(_: web.Request) -> web.Response:
        raise BadInputError(Refusal("no such node 'n1'", "node", "did you mean 'n-1'?"))

    async def move(_: web.Request) -> web.Response:
        raise web.HTTPFound("/elsewhere")

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    app = web.Application(middlewares=[problems], client_max_size=10)
    app.router.add_get("/boom", boom)
    app.router.add_get("/refuse", refuse)
    app.router.add_get("/move", move)
    app.router.add_post("/echo", echo)
    client = TestClient(TestServer(app))
    await client.start_server()
    return client


@pytest.mark.parametrize(
    ("request_line", "status", "part"),
    [
        ("GET /nothere", 404, "GET /nothere"),
        ("POST /boom", 405, "POST /boom"),
        ("GET /boom", 500, "this service made a mistake"),
        ("GET /refuse", 400, "no such node"),
    ],
)
async def test_every_error_is_a_problem_document(
    client: TestClient[web.Request, web.Application],
    request_line: str,
    status: int,
    part: str,
) -> None:
    async with client, client.request(*request_line.split()) as answer:
        assert answer.status == status
        assert answer.content_type == CONTENT_TYPE
        body = await answer.json()
        assert (body["status"], body["type"]) == (status, "about:blank")
        assert part in body["detail"]
        assert body["fix"]
        assert "inner detail" not in await answer.text()
        if status == 405:
            assert "GET" in answer.headers["Allow"]


async def test_a_big_body_is_413_and_a_redirect_stays_one(
    client: TestClient[web.Request, web.Application],
) -> None:
    async with client:
        async with client.post("/echo", data=b"x" * 11) as answer:
            assert (answer.status, answer.content_type) == (413, CONTENT_TYPE)
        async with client.get("/move", allow_redirects=False) as answer:
            assert answer.status == 302


def test_a_connection_that_breaks_inside_the_loop_is_one_line_and_a_mistake_has_its_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def break_both() -> None:
        loop = asyncio.get_running_loop()
        broken = RuntimeError("the handler is closed" + "!" * 1000)
        about = {"message": "Fatal error on SSL protocol", "exception": broken}
        loop.call_exception_handler({**about, "transport": "of a peer"})
        assert not caplog.records
        loop.call_exception_handler({"message": "a callback failed", "exception": broken})

    with capture_logs() as logs:
        run(break_both())
    (told,) = logs
    assert (told["event"], told["at"]) == ("a connection broke", "Fatal error on SSL protocol")
    assert told["what"].startswith("RuntimeError: the handler is closed")
    assert len(told["what"]) <= 300
    (trace,) = caplog.records
    assert trace.exc_info
    assert "a callback failed" in trace.getMessage()
