"""The event stream: parsed, resumed, lost and found again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from yarl import URL

from tests.cli import samples
from tests.cli.conftest import FakeMaster
from tests.support.waiting import CEILING_S, eventually
from topo.cli.client import client, sse
from topo.cli.client.client import MasterClient, Target, connect
from topo.cli.client.sse import ServerEvent
from topo.cli.client.watch import Connected, MasterLost, follow, resume_point
from topo.model.rest.generation_id import GenerationId


async def _bytewise(text: str) -> AsyncIterator[bytes]:
    for char in text:
        yield char.encode()


def events(text: str) -> list[ServerEvent]:
    async def read() -> list[ServerEvent]:
        return [event async for event in sse.events(_bytewise(text))]

    return asyncio.run(read())


def test_an_event_has_its_type_its_id_and_its_lines() -> None:
    assert events("event: change\nid: 7\ndata: a\ndata:b\n\n") == [
        ServerEvent("change", "7", "a\nb")
    ]


def test_comments_retries_unknown_fields_and_empty_events_say_nothing() -> None:
    assert events(": hello\nretry: 10\ncolour: red\n\nevent: x\n\ndata: 1\n\n") == [
        ServerEvent("message", "", "1")
    ]


def test_the_id_stays_until_another_one_comes() -> None:
    assert [event.id for event in events("id: 1\ndata: a\n\ndata: b\n\n")] == ["1", "1"]


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_DATA_CHARS", 10)
    with pytest.raises(ValueError, match="more than 10"):
        events("data: 123456\ndata: 123456\n")


@pytest.fixture
async def master(fake_master: FakeMaster) -> AsyncIterator[MasterClient]:
    async with connect(Target(URL(fake_master.url))) as connected:
        yield connected


async def heard(stream: AsyncIterator[Any]) -> Any:
    async with asyncio.timeout(CEILING_S):
        return await anext(stream)


async def listening(fake: FakeMaster) -> None:
    await eventually(fake.has_listener)


async def test_changes_come_as_they_are_published(
    master: MasterClient, fake_master: FakeMaster
) -> None:
    stream = follow(master, retry_s=0.01)
    assert await heard(stream) == Connected(12)
    news = asyncio.create_task(heard(stream))
    await listening(fake_master)
    await asyncio.to_thread(fake_master.publish, samples.troubled(), samples.changes())
    step = await news
    assert [
        {key: change[key] for key in told}
        for change, told in zip(step["changes"], samples.changes(), strict=True)
    ] == samples.changes()


async def test_what_happened_while_the_master_was_away_is_told_afterwards(
    master: MasterClient, fake_master: FakeMaster
) -> None:
    stream = follow(master, retry_s=0.01)
    assert await heard(stream) == Connected(12)
    news = asyncio.create_task(heard(stream))
    await listening(fake_master)
    await asyncio.to_thread(fake_master.stop)
    lost = await news
    while isinstance(lost, Connected):
        lost = await heard(stream)
    assert isinstance(lost, MasterLost)
    fake_master.document = samples.troubled()
    fake_master.changes = samples.changes(13)
    await asyncio.to_thread(fake_master.start)
    seen = [await heard(stream)]
    while isinstance(seen[-1], MasterLost):
        seen.append(await heard(stream))
    assert seen[-1] == Connected(13)
    assert (await heard(stream))["generation"] == 13


async def test_a_master_that_counts_anew_is_followed_from_where_it_is(
    master: MasterClient, fake_master: FakeMaster
) -> None:
    stream = follow(master, retry_s=0.01)
    await heard(stream)
    news = asyncio.create_task(heard(stream))
    await listening(fake_master)
    fake_master.document = {**samples.healthy(), "generation": 2}
    await asyncio.to_thread(fake_master.say, None)
    assert await news == Connected(2)
    news = asyncio.create_task(heard(stream))
    await listening(fake_master)
    assert fake_master.asked[-1].query["since"] == "2"
    await asyncio.to_thread(fake_master.say, 'event: reset\ndata: {"generation": 2}\n\n')
    assert await news == Connected(2)


async def test_a_restarted_master_is_not_asked_for_what_another_run_counted(
    master: MasterClient, fake_master: FakeMaster
) -> None:
    """It counts again from 1, and may be further than we were: its 13 is not the 13 we saw."""
    fake_master.document = {**samples.healthy(), "run": "aaaaaaaa"}
    stream = follow(master, retry_s=0.01)
    assert await heard(stream) == Connected(12)
    news = asyncio.create_task(heard(stream))
    await listening(fake_master)
    document = {**samples.troubled(), "run": "aaaaaaaa"}
    await asyncio.to_thread(fake_master.publish, document, samples.changes())
    assert (await news)["generation"] == 13
    news = asyncio.create_task(heard(stream))
    await asyncio.to_thread(fake_master.say, None)
    assert await news == Connected(13)
    news = asyncio.create_task(heard(stream))
    await listening(fake_master)
    assert fake_master.asked[-1].query["since"] == "13.aaaaaaaa", "the same run goes on"
    fake_master.document = {**samples.troubled(), "run": "bbbbbbbb", "generation": 40}
    await asyncio.to_thread(fake_master.say, None)
    assert await news == Connected(40)
    news = asyncio.create_task(heard(stream))
    await listening(fake_master)
    assert fake_master.asked[-1].query["since"] == "40.bbbbbbbb"
    await asyncio.to_thread(fake_master.say, None)
    assert await news == Connected(40)


@pytest.mark.parametrize(
    ("last", "now", "start"),
    [
        (None, "7.aaaaaaaa", "7.aaaaaaaa"),
        ("5.aaaaaaaa", "7.aaaaaaaa", "5.aaaaaaaa"),
        ("5.aaaaaaaa", "7.bbbbbbbb", "7.bbbbbbbb"),
        ("5.aaaaaaaa", "7", "7"),
        ("5", "7", "5"),
        ("9", "7", "7"),
    ],
)
def test_a_stream_goes_on_where_it_broke_if_it_is_the_same(
    last: str | None, now: str, start: str
) -> None:
    known = None if last is None else GenerationId.read(last)
    present = GenerationId.read(now)
    assert present is not None
    assert str(resume_point(known, present)) == start


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('data: {"generation": 13, "changes": []}', "no id to resume"),
        ("data: gibberish", "not JSON"),
        ('data: {"changes": 7}', "not the document expected"),
    ],
)
async def test_an_event_that_makes_no_sense_is_a_lost_stream(
    master: MasterClient, fake_master: FakeMaster, text: str, words: str
) -> None:
    stream = follow(master, retry_s=0.01)
    await heard(stream)
    news = asyncio.create_task(heard(stream))
    await listening(fake_master)
    await asyncio.to_thread(fake_master.say, f"event: change\n{text}\n\n")
    assert words in (await news).refusal.what


async def test_events_of_other_names_are_passed_over(
    master: MasterClient, fake_master: FakeMaster
) -> None:
    """Of holds, of capacity, and of what a later release tells."""
    stream = follow(master, retry_s=0.01)
    await heard(stream)
    news = asyncio.create_task(heard(stream))
    await listening(fake_master)
    for name in ("hold", "capacity", "from-the-future"):
        await asyncio.to_thread(fake_master.say, f"event: {name}\ndata: {{}}\n\n")
    await asyncio.to_thread(fake_master.publish, samples.troubled(), samples.changes(13))
    assert (await news)["generation"] == 13


async def test_a_refused_stream_is_said(master: MasterClient, fake_master: FakeMaster) -> None:
    fake_master.broken["/v1/topology/events"] = (503, '{"detail": "too many streams"}', {})
    stream = follow(master, retry_s=0.01)
    await heard(stream)
    assert (await heard(stream)).refusal.what == "too many streams"


async def test_a_silent_master_is_given_up(
    master: MasterClient, fake_master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No comment for a minute is a dead connection; here a fifth of a second."""
    monkeypatch.setattr(client, "_SILENCE_S", 0.2)
    stream = follow(master, retry_s=0.01)
    await heard(stream)
    assert "did not answer in time" in (await heard(stream)).refusal.what
    assert fake_master.asked
