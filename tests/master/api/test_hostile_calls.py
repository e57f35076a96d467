"""Bodies that never come, bytes that are no text: refused, and nobody else notices."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.master.placing import WRITER, Caller, placing
from tests.support.waiting import CEILING_S

pytestmark = pytest.mark.virtual_time

JOB = b'{"pods":1,"gpus_per_pod":8,"hold_s":60}'


async def raw(caller: Caller, *head: bytes, content: bytes, size: int | None = None) -> bytes:
    """What comes back for bytes that no client library would send."""
    port = int(caller.master.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = (
        b"POST /v1/holds HTTP/1.1",
        b"Host: here",
        b"Authorization: Bearer " + WRITER.encode(),
        b"Content-Length: %d" % (len(content) if size is None else size),
        *head,
    )
    writer.write(b"\r\n".join((*lines, b"", content)))
    answer = await asyncio.wait_for(reader.read(65536), CEILING_S)
    writer.close()
    return answer


@pytest.mark.parametrize("key", [b"\xff\xfe", "job\u202e".encode()])
async def test_a_key_that_is_no_text_takes_nothing(tmp_path: Path, key: bytes) -> None:
    """Kept, it could be told to nobody: neither in the list of holds nor in the state file."""
    async with placing(tmp_path) as caller:
        answer = await raw(caller, b"Idempotency-Key: " + key, content=JOB)
        assert answer.startswith(b"HTTP/1.1 400"), answer
        assert b'"field":"key"' in answer
        assert await caller.holds() == []


async def test_a_body_that_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        answer = await raw(caller, content=JOB[:9], size=len(JOB))
        assert answer.startswith(b"HTTP/1.1 408"), answer
        assert b"application/problem+json" in answer


async def test_a_body_in_a_broken_encoding_is_the_callers_mistake(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        answer = await raw(caller, b"Content-Encoding: gzip", content=b"no gzip at all")
        assert answer.startswith(b"HTTP/1.1 400"), answer
        assert b'"field":"Content-Encoding"' in answer


async def test_a_caller_that_leaves_inside_its_body_is_no_mistake_of_ours(tmp_path: Path) -> None:
    async with placing(tmp_path) as caller:
        with capture_logs() as logs:
            port = int(caller.master.url.rpartition(":")[2])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/placements HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n{")
            await writer.drain()
            await caller.holds()  # the master has begun to read by then
            writer.close()
            await writer.wait_closed()
            for _ in range(5):
                await caller.holds()
        assert [log["event"] for log in logs if log["log_level"] == "error"] == []
