"""The workers' door over real sockets: who gets in, and what becomes of it."""

import asyncio
import gzip
import io
import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.master.world import Answer, Master, Worker, facts, running
from tests.support.waiting import CEILING_S, eventually
from topo.kit.serving.problem import CONTENT_TYPE
from topo.model.ids import NodeName
from topo.model.observation import NodeRemoved
from topo.model.wire import MAX_REPORT_BYTES, ReportAnswer

pytestmark = pytest.mark.virtual_time


def _refused(answer: Answer, status: int) -> str:
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"].startswith(CONTENT_TYPE)
    assert answer.json["fix"]
    return str(answer.json["detail"])


async def test_two_that_see_each_other_become_a_dragonfly(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        first, _ = await master.pair("n1", "n2")
        answer = ReportAnswer.model_validate((await first.beat()).json)
        assert (answer.seq, answer.want, answer.beat_s) == (1, "change", 10.0)
        (group,) = await master.tree()
        assert [child["name"] for child in group["child"]] == ["n1", "n2"]


async def test_a_change_is_visible_in_a_tenth_of_a_second(token_flag: str) -> None:
    """Two bad readings, as a worker sends them, and the tree says so well within the second."""
    async with running("--mode=dragonfly", token_flag) as master:
        first, _ = await master.pair("n1", "n2")
        await master.tree()
        gpus = [{"index": 0, "healthy": False, "trouble": "lost"}]
        await first.change(gpus=gpus)
        await first.change(gpus=gpus)

        async def seen() -> bool:
            (group,) = (await master.get("/node_group")).json
            return bool(group["child"][0]["status"] == "NotReady")

        async with asyncio.timeout(0.1):
            await eventually(seen)


@pytest.mark.parametrize("token", [None, "wrong", "worker-secret-1 ", "worker-secret-11"])
async def test_without_the_right_token_nothing_gets_in(token_flag: str, token: str | None) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        worker = master.worker("n1", token)
        answer = await worker.full(facts("n1"))
        if token == "worker-secret-1 ":
            assert answer.status == 200, "blanks around a header's value are not part of it"
            return
        _refused(answer, 401)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert await master.generation() == 0


async def test_without_a_token_file_reports_need_an_explicit_leave() -> None:
    async with running("--mode=dragonfly") as master:
        assert "--allow-anonymous-workers" in (await master.worker("n1").beat()).json["fix"]
    async with running("--mode=dragonfly", "--allow-anonymous-workers") as master:
        assert (await master.worker("n1", None).full(facts("n1"))).status == 200
        assert (await master.worker("n2", "any").full(facts("n2"))).status == 200


async def test_a_nodes_own_token_speaks_for_no_other_node(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("n1 token-of-one\nn2 token-of-two\n")
    async with running("--mode=dragonfly", f"--worker-token-file={path}") as master:
        assert (await master.worker("n1", "token-of-one").full(facts("n1"))).status == 200
        liar = master.worker("n2", "token-of-one")
        assert "n1" in _refused(await liar.full(facts("n2", "n1")), 403)
        await master.generation()
        story = (await master.get("/v1/topology")).json
        (conflict,) = story["conflicts"]
        assert (conflict["code"], conflict["subjects"]) == ("foreign-report", ["n1"])
        assert "n2" in conflict["text"]
        assert [u["name"] for u in story["unplaced"]] == ["n1"], "nothing of the lie was used"


async def test_made_up_names_neither_flood_the_conflicts_nor_reach_them(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("n1 token-of-one\n")
    async with running("--mode=dragonfly", f"--worker-token-file={path}") as master:
        for number in range(30):
            await master.worker(f"made-up-{number}", "token-of-one").beat()
            answer = await master.worker(f"a\n\x1b[{number}m", "token-of-one").beat()
            assert answer.status in (400, 429)
        await master.generation()
        (conflict,) = (await master.get("/v1/topology")).json["conflicts"]
        assert conflict["subjects"] == ["n1"]
        assert conflict["text"].isprintable()


async def test_a_node_that_was_removed_comes_back_while_its_worker_lives(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        first, _ = await master.pair("n1", "n2")
        await master.tree()
        master.service.engine.submit(NodeRemoved(NodeName("n1")))
        await master.generation()
        assert (await master.get("/v1/topology?node=n1")).status == 404
        assert (await first.beat()).json["want"] == "change"
        await master.generation()
        (group,) = await master.tree()
        assert [child["name"] for child in group["child"]] == ["n1", "n2"]


async def test_two_workers_with_one_name_are_a_conflict_that_is_listed(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        first, _ = await master.pair("n1", "n2")
        other = master.worker("n1")
        answer = await other.full(facts("n1", "n9", system="another"))
        _refused(answer, 409)
        assert int(answer.headers["Retry-After"]) == 10
        assert (await first.beat()).status == 200
        await master.generation()
        (conflict,) = (await master.get("/v1/topology")).json["conflicts"]
        assert conflict["code"] == "duplicate-worker"
        (group,) = await master.tree()
        assert len(group["child"]) == 2


def _body(**fields: object) -> bytes:
    report = {"node": "n1", "instance": "instance-x", "seq": 0, "kind": "beat"}
    return json.dumps({**report, **fields}).encode()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"\xff\xfe", "body"),
        (b"{", "body"),
        (b"[" * 60_000, "body"),
        (b"null", "body"),
        (_body(node=""), "node"),
        (_body(node="n" * 254), "node"),
        (_body(seq=-1), "seq"),
        (_body(seq=1.5), "seq"),
        (_body(instance="short"), "instance"),
        (_body(v=2), "v"),
        (_body(kind="boo"), "kind"),
        (_body(kind="full"), "body"),
        (_body(facts={}), "facts.identity"),
        (_body(kind="change", change={"gpus": [{"index": 500}]}), "change.gpus.0.index"),
        (
            _body(kind="full", facts={"identity": {"name": "n2", "boot_id": "b"}}),
            "body",
        ),
    ],
)
async def test_a_malformed_report_is_refused_with_the_field(
    token_flag: str, body: bytes, field: str
) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        answer = await master.worker("n1").post(body)
        _refused(answer, 400)
        assert answer.json["field"] == field
        assert (await master.get("/health")).status == 200


@pytest.mark.parametrize("node", ["a/b", "-a", "a\nb", "a b", "é", "a\u0000"])
async def test_a_name_that_no_node_can_have_is_refused(token_flag: str, node: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        assert "node name" in _refused(await master.worker(node).beat(), 400)


async def test_unknown_keys_are_left_to_workers_of_another_version(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        assert (await master.worker("n1").post(_body(novelty=1))).status == 200


async def test_a_body_beyond_the_bound_is_refused_also_when_it_is_packed(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        big = b" " * (MAX_REPORT_BYTES + 1)
        token = {"Authorization": "Bearer worker-secret-1"}
        packed = {**token, "Content-Encoding": "gzip"}
        for body, headers in ((big, token), (gzip.compress(big * 20), packed)):
            async with master.session.post(
                master.reports_url + "/v1/reports", data=io.BytesIO(body), headers=headers
            ) as answer:
                assert answer.status == 413
                assert answer.content_type == CONTENT_TYPE


async def test_a_report_that_never_comes_is_not_waited_for(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        reader, writer = await _begun(master)
        answer = await asyncio.wait_for(reader.readuntil(b"}"), CEILING_S)
        assert answer.startswith(b"HTTP/1.1 408"), answer
        assert CONTENT_TYPE.encode() in answer
        writer.close()


async def test_a_report_in_a_broken_encoding_is_malformed(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        headers = {"Authorization": "Bearer worker-secret-1", "Content-Encoding": "gzip"}
        url = master.reports_url + "/v1/reports"
        async with master.session.post(url, data=io.BytesIO(b"no gzip"), headers=headers) as answer:
            assert (answer.status, answer.content_type) == (400, CONTENT_TYPE)
            assert (await answer.json(content_type=None))["field"] == "Content-Encoding"


async def test_a_worker_that_leaves_inside_its_report_is_no_mistake_of_ours(
    token_flag: str,
) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        with capture_logs() as logs:
            _, writer = await _begun(master)
            await master.worker("n1").beat()  # the master has begun to read by then
            writer.close()
            await writer.wait_closed()
            for _ in range(5):
                await master.worker("n1").beat()
        assert [log["event"] for log in logs if log["log_level"] == "error"] == []


async def _begun(master: Master) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which a report was begun."""
    port = int(master.reports_url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /v1/reports HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer worker-secret-1\r\n"
        b"Content-Length: 99\r\n\r\n{"
    )
    await writer.drain()
    return reader, writer


async def test_other_calls_on_the_workers_port_are_problems_too(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        async with master.session.get(master.reports_url + "/v1/reports") as answer:
            assert (answer.status, answer.content_type) == (405, CONTENT_TYPE)
        async with master.session.get(master.reports_url + "/node_group") as answer:
            assert (answer.status, answer.content_type) == (404, CONTENT_TYPE)


async def test_a_flood_of_one_worker_is_429_with_a_time_to_come_back(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        master.service.worker_port.sessions.rate = 1.0
        worker = master.worker("n1")
        await worker.full(facts("n1"))
        statuses = [(await worker.beat()) for _ in range(5)]
        assert statuses[-1].status == 429
        assert statuses[-1].headers["Retry-After"] == "1"
        text = (await master.get("/metrics")).body.decode()
        assert 'topo_master_reports_total{kind="beat",result="too-fast"}' in text


async def test_a_full_queue_is_503_and_is_counted(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        master.service.engine._queue_limit = 1
        workers = [master.worker(f"n{i}") for i in range(20)]
        sent = [w.full(facts(w.node)) for w in workers]
        answers = await asyncio.gather(*sent)
        refused = [a for a in answers if a.status == 503]
        assert refused
        assert refused[0].headers["Retry-After"] == "1"
        assert b"topo_master_events_dropped_total" in (await master.get("/metrics")).body


async def test_a_worker_from_before_the_masters_start_is_asked_for_everything(
    token_flag: str,
) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        worker = Worker(master.reports_url, master.session, "n1", seq=40)
        assert (await worker.beat()).json["want"] == "full"
        assert (await worker.full(facts("n1"))).json["want"] == "change"
        assert (await worker.beat()).json["want"] == "change"
