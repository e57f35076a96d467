"""Answers of the API that nobody reads: parts of the topology, events, refusals."""

from pathlib import Path

import pytest

from master.composition import api_limits
from tests.master.placing import config, placing
from tests.master.world import Master, running
from tests.support.readers import slow_readers
from tests.support.waiting import eventually
from topo.kit.serving.in_flight import PIECE_BYTES

_MIB = 1024 * 1024
_WIDE = config(40, 20, 4)
"""3,200 nodes: the topology has 0.7 MB, more than the kernel takes ahead of a reader."""


async def _measured(master: Master, name: str) -> float:
    lines = (await master.get("/metrics")).body.decode().splitlines()
    return float(next(line for line in lines if line.startswith(name + " ")).split()[1])


async def test_parts_that_nobody_reads_stay_within_the_budget_beside_a_reader_that_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_limits, "UNREAD_BYTES", 2 * _MIB)
    async with placing(tmp_path, text=_WIDE) as caller:
        master = caller.master
        whole = len((await master.get("/v1/topology?depth=9")).body)
        assert whole > _MIB / 2
        with slow_readers(master.url) as asking:
            for number in range(12):
                reader = await asking(f"/v1/topology?depth={9 + number}")
                assert (await reader.take(12)) == b"HTTP/1.1 200"
                held = await _measured(master, 'topo_master_unread_bytes{port="api"}')
                assert held <= 2 * _MIB + whole + PIECE_BYTES
            cut = 'topo_master_connections_ended_total{port="api",reason="budget"}'
            assert await _measured(master, cut) >= 12 - 2 * _MIB // (_MIB / 2) - 1
            answer = await master.get("/v1/topology?depth=9")
            assert answer.status == 200
            assert len(answer.body) >= whole, "seconds may have got more digits"
            assert (await master.get("/health")).status == 200


@pytest.mark.slow
async def test_a_listener_that_takes_nothing_loses_its_connection_and_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_limits, "STREAMS", 2)
    async with placing(tmp_path, "--mode=config", text=_WIDE) as caller:
        master = caller.master
        with slow_readers(master.url) as asking:
            stuck = [await asking("/v1/topology/events?since=0") for _ in range(2)]
            assert [await each.take(12) for each in stuck] == [b"HTTP/1.1 200"] * 2
            assert (await master.get("/v1/topology/events")).status == 503

            async def made_room() -> bool:
                return await _measured(master, "topo_master_event_streams") == 0

            await eventually(made_room)
            assert [await each.was_cut() for each in stuck] == [True] * 2
            next_one = await asking("/v1/topology/events")
            assert await next_one.take(12) == b"HTTP/1.1 200"


async def test_a_listener_beyond_the_limit_is_told_so_and_its_connection_ends(
    token_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_limits, "STREAMS", 1)
    async with running("--mode=dragonfly", token_flag) as master:
        with slow_readers(master.url) as asking:
            first = await asking("/v1/topology/events")
            assert await first.take(12) == b"HTTP/1.1 200"
            refused = [await (await asking("/v1/topology/events")).rest() for _ in range(3)]
        for answer in refused:
            head = answer.partition(b"\r\n\r\n")[0]
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"Connection: close" in head
            assert b"Retry-After: 10" in head
