"""Whatever a master answers, byte for byte: a worker goes on, at a pace that it can keep."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.answers import answers
from tests.support.peers import http, peer
from tests.support.virtual_time import in_virtual_time
from tests.worker.samples import FACTS, NODE
from topo.model.wire import RECONNECT_S, ReportAnswer
from worker.metrics import Metrics
from worker.pending_report import PendingReport
from worker.reporting import ReportLoop
from worker.session import MAX_BEAT_S, MIN_BEAT_S, Session
from worker.transport import MasterConnection

GOOD = {"seq": 0, "want": "change", "beat_s": 3.0}
PROBLEM = {"title": "Conflict", "status": 409, "detail": "another worker", "fix": "stop it"}
SEVERAL = 3
"""Of each bent answer, before the master is well."""


class Bending:
    """A master that answers so several times and then well; it counts what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self.asked = 0

    def __call__(self, _: bytes) -> bytes:
        self.asked += 1
        if self.asked <= SEVERAL:
            return self._answer
        return http(ReportAnswer(seq=0).model_dump_json().encode())


async def meets(answer: bytes, *, holds: bool) -> None:
    """A worker reports to such a master: it lives, and is heard again and again in the end."""
    master, session, pending = Bending(answer), Session(NODE, "instance-1"), PendingReport()
    pending.update("mxsml", FACTS)
    async with (
        peer(master, holds=holds) as port,
        MasterConnection(f"http://127.0.0.1:{port}", token_file=None, tls_ca=None) as connection,
    ):
        task = asyncio.create_task(ReportLoop(pending, session, connection, Metrics()).run())
        async with asyncio.timeout((SEVERAL + 2) * (MAX_BEAT_S + RECONNECT_S)):
            while master.asked < SEVERAL + 2 and not task.done():
                assert MIN_BEAT_S <= session.beat_s <= MAX_BEAT_S
                await asyncio.sleep(1)
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError), ended


bent_answers = answers(GOOD) | answers(PROBLEM)


@given(answer=bent_answers, holds=st.booleans())
@settings(max_examples=8)
def test_any_answer_is_one_or_a_lost_report(answer: bytes, *, holds: bool) -> None:
    """Also where it comes again, and where the connection then stays open."""
    in_virtual_time(meets(answer, holds=holds))


@pytest.mark.deep
@given(answer=bent_answers, holds=st.booleans())
@settings(max_examples=100)
def test_many_answers_are_ones_or_lost_reports(answer: bytes, *, holds: bool) -> None:
    """The same, for long."""
    in_virtual_time(meets(answer, holds=holds))
