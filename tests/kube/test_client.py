"""Calls to an API server: what comes back, and what is made of what should not."""

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from master.kube.advice import next_step
from master.kube.client import Call, KubeClient
from master.kube.credentials.config import KubeConfig
from master.kube.errors import MAX_MESSAGE_CHARS, Failure, KubeError
from tests.kube.plain import client_of, kubeconfig, serving
from topo.model.errors import BadInputError, BrokenInvariantError

NODES = Call(method="GET", path="/api/v1/nodes")
STATUS = {
    "kind": "Status",
    "code": 403,
    "reason": "Forbidden",
    "message": 'nodes is forbidden: User "x" cannot list resource "nodes"',
}


def status(code: int, **fields: object) -> web.Response:
    return web.json_response({**STATUS, "code": code, **fields}, status=code)


async def failure_of(folder: Path, handler, call: Call = NODES) -> KubeError:
    """What a call raises where the server answers so."""
    async with serving(handler) as url, client_of(kubeconfig(folder, url)) as client:
        with pytest.raises(KubeError) as raised:
            await client.call(call)
        return raised.value


async def read(client: KubeClient, into: list[bytes]) -> None:
    """Reads a watch to its end."""
    async with client.lines(NODES, idle_s=70) as lines:
        async for line in lines:
            into.append(line)  # noqa: PERF401 - what came before a failure counts, too


async def test_a_call_carries_its_query_body_type_and_token(tmp_path: Path) -> None:
    seen: dict[str, object] = {}

    async def handler(request: web.Request) -> web.Response:
        seen.update(path=request.raw_path, body=await request.read(), **request.headers)
        return web.json_response({"ok": 1})

    call = Call(
        method="PATCH",
        path="/api/v1/nodes/a%2Fb",
        query={"fieldManager": "topo-master/labels", "force": "true"},
        body=b"{}",
        content_type="application/apply-patch+yaml",
    )
    async with serving(handler) as url:
        path = kubeconfig(tmp_path, url, user={"token": "token-of-a-user"})
        async with client_of(path) as client:
            assert json.loads(await client.call(call)) == {"ok": 1}
    assert seen["path"] == "/api/v1/nodes/a%2Fb?fieldManager=topo-master/labels&force=true"
    assert (seen["body"], seen["Content-Type"]) == (b"{}", "application/apply-patch+yaml")
    assert seen["Authorization"] == "Bearer token-of-a-user"


@pytest.mark.parametrize(
    ("code", "failure", "passing"),
    [
        (400, Failure.OTHER, False),
        (401, Failure.DENIED, False),
        (403, Failure.DENIED, False),
        (404, Failure.MISSING, False),
        (409, Failure.CONFLICT, False),
        (410, Failure.GONE, False),
        (422, Failure.OTHER, False),
        (429, Failure.BUSY, True),
        (500, Failure.SERVER, True),
        (503, Failure.SERVER, True),
    ],
)
async def test_every_status_but_2xx_is_an_error_of_its_kind(
    tmp_path: Path, code: int, failure: Failure, *, passing: bool
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return status(code)

    error = await failure_of(tmp_path, handler)
    assert (error.status, error.failure, error.is_passing) == (code, failure, passing)
    assert (error.reason, error.message) == ("Forbidden", STATUS["message"])


async def test_a_redirect_is_not_followed_and_is_an_error(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/elsewhere")

    error = await failure_of(tmp_path, handler)
    assert (error.status, error.failure) == (302, Failure.OTHER)


async def test_a_body_of_another_kind_is_not_shown(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=502, text="<html>the inside of a proxy</html>")

    error = await failure_of(tmp_path, handler)
    assert (error.status, "proxy" in str(error)) == (502, False)


async def test_a_message_is_one_short_printable_line(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.Response:
        return status(500, message="a\nb\x1b" + "c" * 2000)

    error = await failure_of(tmp_path, handler)
    assert error.message.startswith("a b?ccc")
    assert len(error.message) == MAX_MESSAGE_CHARS


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        ({"Retry-After": "7"}, None, 7),
        ({}, {"retryAfterSeconds": 5}, 5),
        ({"Retry-After": "3"}, {"retryAfterSeconds": 5}, 3),
        ({"Retry-After": "soon"}, None, None),
        ({}, {"retryAfterSeconds": -1}, None),
    ],
)
async def test_the_wait_that_the_server_asks_for_is_known(
    tmp_path: Path, headers: dict[str, str], details: object, expected: float | None
) -> None:
    async def handler(_: web.Request) -> web.Response:
        body = {**STATUS, "code": 429, **({"details": details} if details else {})}
        return web.json_response(body, status=429, headers=headers)

    error = await failure_of(tmp_path, handler)
    assert (error.status, error.retry_after_s) == (429, expected)


async def test_no_answer_is_a_passing_error_without_a_status(tmp_path: Path) -> None:
    async with client_of(kubeconfig(tmp_path, "http://127.0.0.1:1")) as client:
        with pytest.raises(KubeError) as raised:
            await client.call(NODES)
    error = raised.value
    assert (error.status, error.failure, error.is_passing) == (None, Failure.CONNECT, True)
    assert "GET /api/v1/nodes" in error.message


@pytest.mark.parametrize(
    "failure", sorted(set(Failure) - {Failure.GONE, Failure.CONFLICT, Failure.OTHER})
)
def test_each_failure_that_can_last_has_a_next_step_of_its_own(failure: Failure) -> None:
    others = [next_step(KubeError("m", failure=each)) for each in Failure if each is not failure]
    assert next_step(KubeError("m", failure=failure)) not in others


@pytest.mark.virtual_time
async def test_a_call_ends_within_its_time_however_slowly_bytes_drip(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(1)

    loop = asyncio.get_running_loop()
    began_s = loop.time()
    error = await failure_of(tmp_path, handler)
    assert error.failure is Failure.TIMEOUT
    assert 10 <= loop.time() - began_s < 15


async def test_an_answer_that_breaks_off_is_a_cut(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return response

    error = await failure_of(tmp_path, handler)
    assert error.status is None
    assert error.failure in {Failure.CUT, Failure.CONNECT}


async def test_lines_come_as_they_are_and_end_with_the_answer(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"a":1}\n{"b"')
        await response.write(b":2}\n")
        return response

    got: list[bytes] = []
    async with serving(handler) as url, client_of(kubeconfig(tmp_path, url)) as client:
        await read(client, got)
    assert got == [b'{"a":1}\n', b'{"b":2}\n']


@pytest.mark.parametrize("code", [401, 410, 429, 503])
async def test_a_watch_that_is_refused_is_an_error_and_never_a_line(
    tmp_path: Path, code: int
) -> None:
    async def handler(_: web.Request) -> web.Response:
        return status(code)

    async with serving(handler) as url, client_of(kubeconfig(tmp_path, url)) as client:
        with pytest.raises(KubeError) as raised:
            async with client.lines(NODES, idle_s=70):
                raise AssertionError("a refused watch began")
    assert raised.value.status == code


@pytest.mark.virtual_time
@pytest.mark.parametrize("dripping", [False, True])
async def test_a_line_that_does_not_come_in_time_is_a_timeout(
    tmp_path: Path, *, dripping: bool
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{}\n")
        while dripping:
            await response.write(b" ")
            await asyncio.sleep(1)
        await asyncio.sleep(3600)
        return response

    loop = asyncio.get_running_loop()
    async with serving(handler) as url, client_of(kubeconfig(tmp_path, url)) as client:
        began_s = loop.time()
        with pytest.raises(KubeError) as raised:
            await read(client, [])
        assert 70 <= loop.time() - began_s < 75
    assert raised.value.failure is Failure.TIMEOUT


async def test_what_the_reader_of_lines_raises_is_not_taken_for_a_failure(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text="{}\n")

    async with serving(handler) as url, client_of(kubeconfig(tmp_path, url)) as client:
        with pytest.raises(TimeoutError, match="of the reader"):
            async with client.lines(NODES, idle_s=70):
                raise TimeoutError("of the reader")


async def test_a_line_cut_in_the_middle_is_no_line(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text='{}\n{"type":"ADD')

    got: list[bytes] = []
    async with serving(handler) as url, client_of(kubeconfig(tmp_path, url)) as client:
        with pytest.raises(KubeError) as raised:
            await read(client, got)
    assert (got, raised.value.failure) == ([b"{}\n"], Failure.CUT)


async def test_a_line_without_end_is_too_large(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(5):
            await response.write(b"x" * (1 << 20))
        return response

    async with serving(handler) as url, client_of(kubeconfig(tmp_path, url)) as client:
        with pytest.raises(KubeError) as raised:
            await read(client, [])
    assert raised.value.failure is Failure.TOO_LARGE


async def test_calls_wait_for_the_rate_and_urgent_ones_and_watches_do_not(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text="{}\n")

    waited = []

    async def rate() -> None:
        waited.append(1)

    async with serving(handler) as url, client_of(kubeconfig(tmp_path, url), rate=rate) as client:
        await client.call(NODES)
        assert len(waited) == 1
        await client.call(Call(method="GET", path="/x", urgent=True))
        async with client.lines(NODES, idle_s=70):
            pass
    assert len(waited) == 1


async def test_a_call_before_the_client_is_open_is_our_own_mistake() -> None:
    with pytest.raises(BrokenInvariantError):
        await KubeClient(KubeConfig()).call(NODES)


async def test_each_exchange_is_told_once_with_its_status(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="{}") if request.method == "GET" else status(409)

    told = []
    async with serving(handler) as url:
        path = kubeconfig(tmp_path, url)
        async with client_of(path, observe=lambda *seen: told.append(seen)) as client:
            await client.call(NODES)
            with pytest.raises(KubeError):
                await client.call(Call(method="PUT", path="/x", body=b"{}"))
    async with client_of(path, observe=lambda *seen: told.append(seen)) as client:
        with pytest.raises(KubeError):
            await client.call(NODES)
    assert told == [("GET", 200), ("PUT", 409), ("GET", None)]


async def test_nobody_is_asked_without_the_credentials_that_there_should_be(
    tmp_path: Path,
) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", user={"tokenFile": str(tmp_path / "no")})
    with pytest.raises(BadInputError):
        await KubeClient(KubeConfig(kubeconfig=path)).open()
