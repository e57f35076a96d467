"""Reports that cannot be read: a sender of many is told to wait, without its reports being read."""

import asyncio
from pathlib import Path

import pytest

from master.rate_limits import SENDERS_KEPT, SenderLimits
from master.sources.workers.malformed import (
    MALFORMED_BURST,
    MALFORMED_RATE,
    sender_of,
)
from tests.master.world import TOKEN, Answer, Master, Worker, facts, running
from tests.support.raw_http import answered, bomb, packed_head
from topo.kit.serving.problem import CONTENT_TYPE
from topo.kit.tokens import Identity
from topo.model.ids import NodeName

pytestmark = pytest.mark.virtual_time

BURST = int(MALFORMED_BURST)
JSON = b"{not json"
SCHEMA = b'{"node":"n1","instance":"i","seq":-1,"kind":"beat"}'
NAME = b'{"node":"a/b","instance":"i","seq":0,"kind":"beat"}'


def _told_to_wait(answer: Answer) -> None:
    assert answer.status == 429, answer.body
    assert answer.headers["Content-Type"].startswith(CONTENT_TYPE)
    assert answer.headers["Retry-After"] == "1"
    assert answer.json["fix"]


async def _spent(worker: Worker, body: bytes) -> None:
    """Sends so many that no other is read."""
    for _ in range(BURST):
        assert (await worker.post(body)).status == 400


@pytest.mark.parametrize("body", [JSON, SCHEMA, NAME])
async def test_after_so_many_no_report_is_read_until_time_has_passed(
    token_flag: str, body: bytes
) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        worker = master.worker("n1")
        await _spent(worker, body)
        _told_to_wait(await worker.post(body))
        _told_to_wait(await worker.full(facts("n1")))
        await asyncio.sleep(1 / MALFORMED_RATE)
        assert (await worker.full(facts("n1"))).status == 200
        assert (await worker.beat()).status == 200, "a good one takes nothing of the allowance"


async def test_who_has_to_wait_is_answered_before_its_body_is_there(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        await _spent(master.worker("n1"), JSON)
        port = int(master.reports_url.rpartition(":")[2])
        token = f"Authorization: Bearer {TOKEN}"
        answer = await answered(port, packed_head("POST", "/v1/reports", 1000, token))
        assert answer.startswith(b"HTTP/1.1 429 ")


async def test_many_at_once_are_read_no_more_often_than_one_after_another(token_flag: str) -> None:
    """All are let in before the first has come whole."""
    async with running("--mode=dragonfly", token_flag) as master:
        port = int(master.reports_url.rpartition(":")[2])
        head = (
            b"POST /v1/reports HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
            b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n" % (TOKEN.encode(), len(JSON))
        )
        begun = []
        for _ in range(3 * BURST):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + JSON[:-1])
            begun.append((reader, writer))
        await master.get("/health")
        for _, writer in begun:
            writer.write(JSON[-1:])
        answers = [await reader.read() for reader, _ in begun]
        for _, writer in begun:
            writer.close()
        statuses = sorted(int(answer.split()[1]) for answer in answers)
        assert statuses == [400] * BURST + [429] * 2 * BURST


async def test_bombs_and_unknown_codings_count_too(token_flag: str) -> None:
    packed = bomb(2)
    async with running("--mode=dragonfly", token_flag) as master:
        for coding, status in (("gzip", 413), ("br", 415)):
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Encoding": coding}
            url = master.reports_url + "/v1/reports"
            for _ in range(BURST // 2):
                async with master.session.post(url, data=packed, headers=headers) as answer:
                    assert answer.status == status
        _told_to_wait(await master.worker("n1").beat())


async def test_one_node_costs_another_nothing_where_each_has_a_token(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("n1 token-of-n1\nn2 token-of-n2\n")
    async with running("--mode=dragonfly", f"--worker-token-file={path}") as master:
        await _spent(master.worker("n1", "token-of-n1"), JSON)
        _told_to_wait(await master.worker("n1", "token-of-n1").beat())
        assert (await master.worker("n2", "token-of-n2").full(facts("n2"))).status == 200


async def test_those_that_are_not_read_are_counted_and_the_doctor_still_knows(
    token_flag: str,
) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        await _spent(master.worker("n1"), SCHEMA)
        for _ in range(5):
            await master.worker("n1").post(SCHEMA)
        assert await _counted(master, "too-many-malformed") == 5
        assert await _counted(master, "malformed") == BURST
        await master.generation()
        sources = (await master.get("/v1/topology")).json["sources"]
        codes = [warned["code"] for source in sources for warned in source["warnings"]]
        assert "malformed-report" in codes


async def _counted(master: Master, result: str) -> float:
    page = (await master.get("/metrics")).body.decode()
    name = f'topo_master_reports_total{{kind="unknown",result="{result}"}} '
    return next(float(line[len(name) :]) for line in page.splitlines() if line.startswith(name))


def test_without_a_token_of_its_own_a_sender_is_its_address() -> None:
    assert sender_of(Identity(NodeName("n1")), "10.0.0.1") == "node n1"
    assert sender_of(Identity(), "10.0.0.1") == "address 10.0.0.1"


def test_made_up_senders_are_bounded_and_the_one_that_goes_on_is_not_forgotten() -> None:
    reports = SenderLimits(MALFORMED_RATE, MALFORMED_BURST)
    for number in range(SENDERS_KEPT + BURST * 100):
        reports.add(f"address {number}", 0.0)
        if number % 100 == 0:
            reports.add("address steady", 0.0)
    assert not reports.has_room("address steady", 0.0)
    assert reports.has_room("address steady", 1.0)
