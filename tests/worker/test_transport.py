"""Reports over real sockets and real TLS: tokens, refusals, patience, and answers that lie."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.peers import peer
from tests.worker.masters import TestMaster, listening
from tests.worker.samples import FACTS, NODE
from topo.kit.tls import server_context
from topo.model.wire import TRY_LIMIT_S, Report
from topo.sim.certificates import Authority
from worker import transport
from worker.transport import MasterConnection, ReportLostError, Trouble

pytestmark = pytest.mark.virtual_time
REPORT = Report(v=1, node=NODE, instance="instance-1", seq=0, kind="full", facts=FACTS)


@asynccontextmanager
async def client(
    master: TestMaster, *, scheme: str = "http", token: Path | None = None, ca: Path | None = None
) -> AsyncIterator[MasterConnection]:
    """The worker's side."""
    async with MasterConnection(
        f"{scheme}://{master.address}", token_file=token, tls_ca=ca
    ) as side:
        yield side


async def lost(side: MasterConnection) -> ReportLostError:
    """The failure of a report that must fail."""
    with pytest.raises(ReportLostError) as caught:
        await side.send(REPORT)
    return caught.value


async def test_a_report_arrives_whole_and_is_answered() -> None:
    """What the master reads is what was said; the answer sets the pace."""
    async with listening(TestMaster(beat_s=3)) as master, client(master) as side:
        answer = await side.send(REPORT)
        assert (answer.seq, answer.want, answer.beat_s) == (0, "change", 3)
        assert master.reports == [REPORT]
        assert master.tokens == [""]


async def test_the_token_is_read_anew_when_its_file_changes(tmp_path: Path) -> None:
    """Kubernetes renews projected tokens; no restart is needed."""
    token = tmp_path / "token"
    token.write_text("first\n")
    async with listening(TestMaster()) as master, client(master, token=token) as side:
        await side.send(REPORT)
        token.write_text("second-token\n")
        await side.send(REPORT)
        assert master.tokens == ["Bearer first", "Bearer second-token"]


async def test_a_token_that_kubelet_rotates_is_the_one_of_the_next_report(tmp_path: Path) -> None:
    """A projected volume: the file is a link into a folder to which another link is swapped."""
    volume = tmp_path / "volume"
    for number in (1, 2):
        (volume / f"..{number}").mkdir(parents=True)
        (volume / f"..{number}" / "token").write_text(f"token-{number}")
    (volume / "..data").symlink_to("..1")
    (volume / "token").symlink_to("..data/token")
    async with listening(TestMaster()) as master, client(master, token=volume / "token") as side:
        await side.send(REPORT)
        (volume / "..data_tmp").symlink_to("..2")
        (volume / "..data_tmp").rename(volume / "..data")
        shutil.rmtree(volume / "..1")
        await side.send(REPORT)
        assert master.tokens == ["Bearer token-1", "Bearer token-2"]


async def test_a_missing_token_file_is_told_and_mended_without_a_restart(tmp_path: Path) -> None:
    """The report is lost, with the file's name; then the file is there."""
    token = tmp_path / "token"
    async with listening(TestMaster()) as master, client(master, token=token) as side:
        error = await lost(side)
        assert error.trouble is Trouble.TOKEN_FILE
        assert str(token) in error.detail
        token.write_text("late\n")
        await side.send(REPORT)
        assert master.tokens == ["Bearer late"]


@pytest.mark.parametrize("content", ["# ours\nhush", "hush\x01hush", "hush\rhush", "h\u00fcsh"])
async def test_a_token_file_that_holds_no_token_loses_reports_not_the_worker(
    tmp_path: Path, content: str
) -> None:
    """What cannot stand in a header is never sent nor shown; mended, without a restart."""
    token = tmp_path / "token"
    token.write_text(content)
    async with listening(TestMaster()) as master, client(master, token=token) as side:
        error = await lost(side)
        assert error.trouble is Trouble.TOKEN_FILE
        assert str(token) in error.detail
        assert "hush" not in error.detail
        token.write_text("late\n")
        await side.send(REPORT)
        assert master.tokens == ["Bearer late"]


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (400, Trouble.REFUSED),
        (401, Trouble.UNAUTHORIZED),
        (403, Trouble.FORBIDDEN),
        (409, Trouble.CONFLICT),
        (429, Trouble.BUSY),
        (500, Trouble.SERVER),
        (503, Trouble.BUSY),
    ],
)
async def test_every_refusal_has_its_reason_and_its_fix(status: int, trouble: Trouble) -> None:
    """The problem's detail is passed on, and what the worker's owner can do."""

    def refuse(_: Report) -> web.Response:
        return web.json_response({"detail": "the reason"}, status=status)

    async with listening(TestMaster(reply=refuse)) as master, client(master) as side:
        error = await lost(side)
        assert (error.trouble, error.detail) == (trouble, f"status {status}: the reason")
        assert trouble.fix in str(error)


@pytest.mark.parametrize("status", [401, 403, 409, 429, 503])
async def test_the_masters_own_next_step_is_told_where_it_has_one(status: int) -> None:
    """It knows for whom the token is; the worker only that it was refused."""

    def refuse(_: Report) -> web.Response:
        problem = {"detail": "it is for others", "fix": "project one for topo-master"}
        return web.json_response(problem, status=status)

    async with listening(TestMaster(reply=refuse)) as master, client(master) as side:
        error = await lost(side)
        assert str(error) == f"status {status}: it is for others; project one for topo-master"
        assert error.fix == "project one for topo-master"


@pytest.mark.parametrize("fix", [None, 7, [], {}, "", "x" * 10_000])
async def test_a_next_step_that_is_none_is_not_told(fix: object) -> None:
    """Nor more of it than a line."""

    def refuse(_: Report) -> web.Response:
        return web.json_response({"detail": "no", "fix": fix}, status=401)

    async with listening(TestMaster(reply=refuse)) as master, client(master) as side:
        expected = fix[:200] if isinstance(fix, str) and fix else Trouble.UNAUTHORIZED.fix
        assert (await lost(side)).fix == expected


@pytest.mark.parametrize(("status", "seconds"), [(503, 7.0), (429, 7.0), (409, 7.0)])
async def test_retry_after_is_passed_on(status: int, seconds: float) -> None:
    """The master may ask for patience."""

    def refuse(_: Report) -> web.Response:
        return web.Response(status=status, headers={"Retry-After": "7"}, text="no problem document")

    async with listening(TestMaster(reply=refuse)) as master, client(master) as side:
        error = await lost(side)
        assert error.retry_after_s == seconds
        assert error.detail == f"status {status}"


async def test_where_only_a_person_can_help_the_worker_is_patient() -> None:
    """A conflict is not asked about several times a second."""

    def refuse(_: Report) -> web.Response:
        return web.Response(status=409)

    async with listening(TestMaster(reply=refuse)) as master, client(master) as side:
        assert (await lost(side)).retry_after_s == transport._PATIENCE_S


@pytest.mark.parametrize(
    "body", ["", "[]", "<html>", '{"seq": "x"}', '{"seq": 1, "want": "cake"}', "x" * 100_000]
)
async def test_an_answer_that_is_none_is_found_out(body: str) -> None:
    """Somebody else listens there."""

    def nonsense(_: Report) -> web.Response:
        return web.Response(text=body)

    async with listening(TestMaster(reply=nonsense)) as master, client(master) as side:
        assert (await lost(side)).trouble is Trouble.ANSWER


@pytest.mark.parametrize("beat", ["NaN", "Infinity", "-Infinity", "1e999", '"inf"', "9" * 5000])
async def test_a_pace_that_is_no_number_loses_the_answer_not_the_worker(beat: str) -> None:
    """JSON for Python has numbers that no clock has."""

    def endless(_: Report) -> web.Response:
        return web.Response(text=f'{{"seq": 0, "beat_s": {beat}}}')

    async with listening(TestMaster(reply=endless)) as master, client(master) as side:
        assert (await lost(side)).trouble is Trouble.ANSWER


async def test_a_refusal_nested_too_deeply_to_be_told_is_told_without_it() -> None:
    """Only a sentence is passed on."""

    def nested(_: Report) -> web.Response:
        return web.Response(status=500, text='{"detail": ' + "[" * 1000 + "]" * 1000 + "}")

    async with listening(TestMaster(reply=nested)) as master, client(master) as side:
        error = await lost(side)
        assert (error.trouble, error.detail) == (Trouble.SERVER, "status 500")


async def test_what_is_no_http_is_told_as_that() -> None:
    """Another service at that port; what it says is not shown."""
    async with (
        peer(lambda _: b"SSH-2.0-OpenSSH_9.6\r\n") as port,
        MasterConnection(f"http://127.0.0.1:{port}", token_file=None, tls_ca=None) as side,
    ):
        error = await lost(side)
        assert error.trouble is Trouble.ANSWER
        assert error.detail == "what answers does not keep to HTTP"


@pytest.mark.parametrize("status", [301, 302, 307, 308, 503])
async def test_a_token_goes_to_no_address_that_an_answer_names(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of a redirect, of a refusal that names the leader, nor of a proxy of the environment."""
    (tmp_path / "token").write_text("secret")
    async with listening(TestMaster()) as thief:
        url = f"http://{thief.address}"
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, url)

        def elsewhere(_: Report) -> web.Response:
            headers = {"Location": f"{url}/v1/reports", "Retry-After": "0"}
            return web.json_response({"leader": url, "detail": url}, status=status, headers=headers)

        async with (
            listening(TestMaster(reply=elsewhere)) as master,
            client(master, token=tmp_path / "token") as side,
        ):
            for _ in range(2):
                await lost(side)
            assert master.tokens == ["Bearer secret"] * 2
        assert thief.tokens == []


async def test_nobody_there_is_a_network_trouble(away: TestMaster) -> None:
    """The master is down; when it is back, the same client reaches it."""
    async with client(away) as side:
        assert (await lost(side)).trouble is Trouble.NETWORK
        async with listening(away):
            await side.send(REPORT)


async def test_a_master_that_accepts_and_says_nothing_times_out() -> None:
    """A connection is no answer."""
    held: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with MasterConnection(
            f"http://127.0.0.1:{port}", token_file=None, tls_ca=None
        ) as side:
            assert (await lost(side)).trouble is Trouble.TIMEOUT
        for writer in held:
            writer.close()


async def test_a_try_ends_in_time_whatever_is_found_out_about_it() -> None:
    """Masters count on it: to ask whether a port speaks TLS is a part of the try."""
    held: list[asyncio.StreamWriter] = []

    async def break_the_first(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        if len(held) == 1:
            await asyncio.sleep(TRY_LIMIT_S - 0.5)
            writer.close()

    async with await asyncio.start_server(break_the_first, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with MasterConnection(
            f"http://127.0.0.1:{port}", token_file=None, tls_ca=None
        ) as side:
            began_s = asyncio.get_running_loop().time()
            await lost(side)
            assert asyncio.get_running_loop().time() - began_s < TRY_LIMIT_S + 1
        assert len(held) == 2
        for writer in held:
            writer.close()


Certify = Callable[[str], tuple[ssl.SSLContext, Path]]


@pytest.fixture
def certify(tmp_path: Path) -> Certify:
    """A server's certificate and its authority."""

    def make(name: str) -> tuple[ssl.SSLContext, Path]:
        authority = Authority.at(tmp_path / name)
        return server_context(*authority.leaf(name, "127.0.0.1")), authority.certificate_file

    return make


async def test_tls_with_the_right_authority_works(certify: Certify) -> None:
    """Verified against the file that was given."""
    context, ca = certify("master")
    async with (
        listening(TestMaster(), context) as master,
        client(master, scheme="https", ca=ca) as side,
    ):
        await side.send(REPORT)
        assert master.reports == [REPORT]


async def test_tls_with_a_wrong_authority_sends_nothing_until_it_is_mended(
    certify: Certify,
) -> None:
    """Neither report nor token leaves; a renewed authority file is taken up without a restart."""
    context, right = certify("master")
    _, wrong = certify("stranger")
    right_text, chosen = right.read_text(), wrong
    async with (
        listening(TestMaster(), context) as master,
        client(master, scheme="https", ca=chosen) as side,
    ):
        assert (await lost(side)).trouble is Trouble.TLS
        assert master.reports == []
        chosen.write_text(right_text)
        await side.send(REPORT)


async def test_plain_http_to_a_port_with_tls_is_told_as_that(certify: Certify) -> None:
    """The connection breaks in the same way as where a master dies; the fix is another one."""
    context, _ = certify("master")
    async with listening(TestMaster(), context) as master, client(master) as side:
        error = await lost(side)
        assert error.trouble is Trouble.TLS
        assert "the master speaks TLS" in error.detail
        assert "--server-tls" in str(error)


async def test_an_unusable_authority_file_is_told(tmp_path: Path) -> None:
    """The file's name is in the message."""
    side = MasterConnection("https://127.0.0.1:1", token_file=None, tls_ca=tmp_path / "none.pem")
    error = await lost(side)
    assert error.trouble is Trouble.TLS
    assert "none.pem" in error.detail
