"""What is said to the master: everything once, then differences, then beats; and what is owed."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import CEILING_S
from tests.worker.samples import CUT, EMPTY, FACTS, NODE, OTHER_BOOT, SLOW
from topo.model.machine import LinkCount, NodeFacts
from topo.model.wire import FactsChange, Report, ReportAnswer
from worker.pending_report import CONFIRMATIONS, PendingReport
from worker.session import MAX_BEAT_S, MIN_BEAT_S, Session

ALL = [FACTS, CUT, SLOW, EMPTY, OTHER_BOOT]


def answer(report: Report, want: str = "change", beat_s: float = 10.0) -> ReportAnswer:
    """A master that is content."""
    return ReportAnswer.model_validate({"seq": report.seq, "want": want, "beat_s": beat_s})


def fields(change: FactsChange | None) -> set[str]:
    """The sections that a change carries."""
    assert change is not None
    return change.model_fields_set


def test_everything_once_then_only_what_differs() -> None:
    """Full, beat, a change of one section, beat; numbers without gaps."""
    session = Session(NODE, "instance-1")
    said = []
    for facts in (FACTS, FACTS, CUT, CUT):
        report = session.report(facts)
        session.accepted(facts, answer(report))
        said.append(report)
    assert [report.kind for report in said] == ["full", "beat", "change", "beat"]
    assert [report.seq for report in said] == [0, 1, 2, 3]
    assert fields(said[2].change) == {"peers"}


def test_counters_travel_when_they_differ_and_again_when_the_master_may_not_know() -> None:
    """With whatever report is due; None is no news, also after some were said."""
    session = Session(NODE, "instance-1")
    some, more = (LinkCount("mlx5_0 port 1", "recovery", count) for count in (1, 2))
    said = []
    for counts in (None, (), (), (some,), None, (some,), (more,)):
        report = session.report(FACTS, counts)
        session.accepted(FACTS, answer(report))
        said.append(report.counts)
    assert said == [None, (), None, (some,), None, None, (more,)]
    session.lost()
    assert session.report(FACTS, (more,)).counts == (more,)


def test_a_section_that_vanished_is_said_and_not_left_out() -> None:
    """None is a value: the sections that emptied travel as such."""
    session = Session(NODE, "instance-1")
    session.accepted(FACTS, answer(session.report(FACTS)))
    sent = session.report(EMPTY).model_dump_json(exclude_unset=True)
    change = Report.model_validate_json(sent).change
    assert fields(change) == {"gpus", "ports", "peers", "probes"}
    assert change is not None
    assert change.peers is None


@pytest.mark.parametrize("reason", ["lost", "asked", "rebooted"])
def test_everything_is_said_again_when_the_master_may_not_know(reason: str) -> None:
    """After a lost report, when it asks, and when the host is not the one it was."""
    session = Session(NODE, "instance-1")
    session.accepted(FACTS, answer(session.report(FACTS)))
    report = session.report(FACTS)
    if reason == "lost":
        session.lost()
    else:
        session.accepted(FACTS, answer(report, want="full" if reason == "asked" else "change"))
    again = session.report(OTHER_BOOT if reason == "rebooted" else FACTS)
    assert (again.kind, again.seq) == ("full", 2)


@pytest.mark.parametrize(("asked", "kept"), [(10, 10), (0, MIN_BEAT_S), (1e9, MAX_BEAT_S)])
def test_the_master_sets_the_pace_within_reason(asked: float, kept: float) -> None:
    """Neither a flood nor silence."""
    session = Session(NODE, "instance-1")
    session.accepted(FACTS, answer(session.report(FACTS), beat_s=asked))
    assert session.beat_s == kept


@given(st.lists(st.tuples(st.sampled_from(ALL), st.sampled_from(["ok", "full", "lost", "cut"]))))
def test_a_master_that_applies_what_it_gets_knows_our_facts(
    steps: list[tuple[NodeFacts, str]],
) -> None:
    """Whatever is lost on the way, there or back: after an accepted report both sides agree."""
    session = Session(NODE, "instance-1")
    known: NodeFacts | None = None
    for facts, fate in steps:
        sent = session.report(facts).model_dump_json(exclude_unset=True)
        report = Report.model_validate_json(sent)
        if fate == "lost":
            session.lost()
            continue
        known = _apply(known, report)
        assert known == facts
        if fate == "cut":
            session.lost()
        else:
            session.accepted(facts, answer(report, want="full" if fate == "full" else "change"))


def _apply(known: NodeFacts | None, report: Report) -> NodeFacts:
    if report.facts is not None:
        return report.facts
    assert known is not None
    if report.change is None:
        return known
    return replace(known, **{f: getattr(report.change, f) for f in report.change.model_fields_set})


async def owed(pending: PendingReport) -> int:
    """How many reports are sent until none is due."""
    count = 0
    while await pending.wait(0):
        assert pending.facts is not None
        pending.acknowledged(pending.facts)
        count += 1
    return count


async def test_equal_readings_are_not_reported() -> None:
    """The first facts are owed once; the same again owe nothing."""
    pending = PendingReport()
    assert not pending.update("mxsml", FACTS)
    assert await owed(pending) == 1
    assert not pending.update("mxsml", FACTS)
    assert await owed(pending) == 0


async def test_a_change_is_confirmed_by_two_quick_readings_of_its_probe() -> None:
    """Three equal readings are told, those of other probes do not count."""
    pending = PendingReport()
    pending.update("mxsml", FACTS)
    await owed(pending)
    assert pending.update("mxsml", CUT)
    assert not pending.update("sysfs-pci", CUT)
    quick = [pending.update("mxsml", CUT) for _ in range(CONFIRMATIONS + 1)]
    assert quick == [True, False, False]
    assert await owed(pending) == 1 + CONFIRMATIONS


async def test_a_probe_that_fares_badly_is_reported_and_not_confirmed() -> None:
    """Its health is news, but no reason to ask a hanging library five times a second."""
    pending = PendingReport()
    pending.update("mxsml", FACTS)
    await owed(pending)
    assert not pending.update("mxsml", SLOW)
    assert await owed(pending) == 1


async def test_facts_put_down_while_others_travel_are_still_owed() -> None:
    """The report under way does not pay for what came after it."""
    pending = PendingReport()
    pending.update("mxsml", FACTS)
    travelling = pending.facts
    pending.update("mxsml", CUT)
    assert travelling is not None
    pending.acknowledged(travelling)
    assert await owed(pending) == 1


async def test_what_is_owed_never_grows_beyond_the_confirmations() -> None:
    """A master that is away for long is owed three reports, not a queue."""
    pending = PendingReport()
    pending.update("mxsml", FACTS)
    for _ in range(50):
        pending.update("mxsml", CUT)
        pending.update("mxsml", CUT)
        pending.update("mxsml", FACTS)
    assert await owed(pending) <= 1 + CONFIRMATIONS


async def test_the_desk_waits_no_longer_than_told() -> None:
    """A beat falls due although nothing happened."""
    pending = PendingReport()
    async with asyncio.timeout(CEILING_S):
        await pending.wait(0.01)
