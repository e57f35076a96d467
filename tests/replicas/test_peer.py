"""The leader has to show the certificate that all masters share, and nothing else will do."""

import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from master.replicas.peer import NoAnswerError, PeerMaster

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate that signed itself, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-subj", f"/CN={name}")
    curve = ("-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", str(key), "-out", str(cert))
    subprocess.run([*command, *curve], check=True, capture_output=True)
    return cert, key


async def served(pair: tuple[Path, Path], answer: Answer) -> TestServer:
    """A server that shows the certificate."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    return server


async def asked(url: str, certificate_file: Path | None) -> bytes:
    """What a master with that certificate gets from there."""
    peer = PeerMaster(certificate_file)
    await peer.open()
    headers = {"Authorization": "Bearer x"}
    try:
        answer = await peer.ask("GET", url, headers=headers, limit_bytes=1000, timeout_s=30)
        return answer.body
    finally:
        await peer.close()


async def test_a_leader_with_our_certificate_is_asked(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"hello")

    pair = certificate(tmp_path, "ours")
    server = await served(pair, answer)
    assert await asked(str(server.make_url("/")), pair[0]) == b"hello"
    await server.close()


async def test_a_leader_with_another_certificate_is_sent_nothing(tmp_path: Path) -> None:
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request)
        return web.Response()

    ours, other = certificate(tmp_path, "ours"), certificate(tmp_path, "other")
    server = await served(other, answer)
    with pytest.raises(NoAnswerError, match="ServerFingerprintMismatch"):
        await asked(str(server.make_url("/")), ours[0])
    assert not seen
    await server.close()


async def test_without_a_certificate_of_our_own_nobody_is_believed(tmp_path: Path) -> None:
    with pytest.raises(NoAnswerError, match="--tls-cert"):
        await asked("https://127.0.0.1:1/", tmp_path / "absent")


async def test_a_redirect_is_an_answer_and_no_way_to_go() -> None:
    async def answer(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/")

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app) as server:
        peer = PeerMaster()
        await peer.open()
        url = str(server.make_url("/"))
        found = await peer.ask("GET", url, headers={}, limit_bytes=1000, timeout_s=30)
        assert found.status == 302
        with pytest.raises(NoAnswerError, match="more than 1 bytes"):
            await peer.ask("GET", url, headers={}, limit_bytes=1, timeout_s=30)
        await peer.close()
