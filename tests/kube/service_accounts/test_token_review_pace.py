"""Tokens are asked about seldom, believed no longer than is safe, and remembered within limits."""

import asyncio
import json

import pytest

from master.kube.service_accounts.accounts import (
    Account,
    Denied,
)
from master.kube.service_accounts.token_review import (
    AT_ONCE,
    FRESH_S,
    KEPT_PER_NODE,
    LATE_S,
    LEAST_S,
    MOST_S,
    PER_S,
    REFUSED_BURST,
    REFUSED_KEPT,
    REFUSED_S,
    REST_S,
    TIMEOUT_S,
    WAITING,
)
from tests.kube.service_accounts.reviewing import token
from tests.kube.service_accounts.reviews import GOOD, NODES, World
from topo.model.conditions.sources import ReportCondition

pytestmark = pytest.mark.virtual_time


async def test_a_known_account_is_not_asked_for_again_while_it_is_fresh(world: World) -> None:
    for _ in range(100):
        await world.accepted()
    await asyncio.sleep(FRESH_S - 1)
    await world.accepted()
    assert len(world.server.asked) == 1


async def test_a_known_account_is_asked_for_again_beside_the_call(world: World) -> None:
    """The call does not wait, and the next one knows."""
    await world.accepted()
    await asyncio.sleep(FRESH_S)
    world.server.held = asyncio.Event()
    world.server.revoked.add(GOOD)
    await world.accepted()
    assert len(world.server.asked) == 1, "asked when the call is over"
    world.server.held.set()
    await asyncio.sleep(0.1)
    assert (await world.denied()).code == ReportCondition.TOKEN_REFUSED
    assert len(world.server.asked) == 2


async def test_who_was_silent_for_long_waits_for_the_answer(world: World) -> None:
    """A token of a pod that is gone is not good for one more call."""
    await world.accepted()
    world.server.revoked.add(GOOD)
    await asyncio.sleep(LATE_S)
    assert (await world.denied()).code == ReportCondition.TOKEN_REFUSED


async def test_a_token_near_its_end_is_believed_no_longer_than_that(world: World) -> None:
    text = token(ends_s=LEAST_S + 10)
    await world.accepted(text)
    world.server.spoilt = (500, b"")
    await asyncio.sleep(LEAST_S + 9)
    await world.accepted(text)
    await asyncio.sleep(1)
    assert (await world.denied(text)).code == ReportCondition.TOKEN_NOT_REVIEWED


async def test_while_the_api_server_is_away_known_accounts_count_until_their_tokens_end(
    world: World,
) -> None:
    """And nobody new is let in, but told to come back."""
    text = token(ends_s=2000.0)
    await world.accepted(text)
    world.server.spoilt = (503, b"")
    for _ in range(19):
        await asyncio.sleep(100)
        await world.accepted(text)
    stranger = await world.denied(token("node-2"))
    assert (stranger.code, stranger.retry_after_s) == (ReportCondition.TOKEN_NOT_REVIEWED, REST_S)
    await asyncio.sleep(100)
    assert (await world.denied(text)).code == ReportCondition.TOKEN_NOT_REVIEWED
    world.server.spoilt = None
    await asyncio.sleep(REST_S)
    await world.accepted(text)


async def test_no_account_is_believed_for_more_than_an_hour_without_an_answer(world: World) -> None:
    text = token(ends_s=1e9)
    await world.accepted(text)
    world.server.spoilt = (503, b"")
    await asyncio.sleep(MOST_S - 1)
    await world.accepted(text)
    await asyncio.sleep(1)
    assert (await world.denied(text)).retry_after_s


async def test_a_clock_that_is_ahead_makes_no_question_of_each_report(world: World) -> None:
    """The API server says that the token is good, ten minutes after its end by our clock."""
    world.skew_s = 4200.0
    for _ in range(10):
        await world.accepted()
        await asyncio.sleep(LEAST_S / 10 - 0.1)
    assert len(world.server.asked) == 1


async def test_a_refused_token_is_not_asked_about_again_for_a_while(world: World) -> None:
    world.server.revoked.add(GOOD)
    for _ in range(100):
        assert (await world.denied()).code == ReportCondition.TOKEN_REFUSED
    assert len(world.server.asked) == 1
    world.server.revoked.clear()
    await asyncio.sleep(REFUSED_S)
    await world.accepted()


async def test_many_calls_with_one_token_are_one_question(world: World) -> None:
    world.server.held = asyncio.Event()
    calls = [asyncio.ensure_future(world.ask()) for _ in range(50)]
    await asyncio.sleep(0.1)
    calls[0].cancel()  # its caller hung up; the others still get their answer
    world.server.held.set()
    found = await asyncio.gather(*calls[1:])
    assert all(isinstance(each, Account) for each in found)
    assert len(world.server.asked) == 1


async def test_new_tokens_are_asked_about_a_few_at_once_and_no_more_than_so_many_wait(
    world: World,
) -> None:
    world.server.held = asyncio.Event()
    texts = [token(f"node-{n}", number=n) for n in range(WAITING + 10)]
    senders = [f"10.0.0.{n}" for n in range(len(texts))]
    calls = [
        asyncio.ensure_future(world.ask(text, sender=sender))
        for text, sender in zip(texts, senders, strict=True)
    ]
    await asyncio.sleep(1)
    assert world.server.most_at_once == AT_ONCE
    too_many = [call.result() for call in calls if call.done()]
    assert len(too_many) == 10
    assert {each.code for each in too_many if isinstance(each, Denied)} == {
        ReportCondition.TOKEN_NOT_REVIEWED
    }
    world.server.held.set()
    found = await asyncio.gather(*calls[:WAITING])
    assert all(isinstance(each, Account) for each in found)


async def test_the_workers_of_a_new_master_are_known_at_the_agreed_pace(
    world: World,
) -> None:
    """Each comes back as the master asks; of 10,000 the last is known before any could be stale."""

    async def worker(number: int) -> None:
        text, sender = token(number=number), f"10.0.{number % 256}.{number // 256}"
        while isinstance(found := await world.ask(text, sender=sender), Denied):
            assert found.retry_after_s
            await asyncio.sleep(found.retry_after_s)

    await asyncio.gather(*(worker(number) for number in range(2_000)))
    assert world.unix() < 6
    assert 10_000 / PER_S < 30
    assert len(world.server.asked) == 2_000


async def test_who_sends_refused_tokens_without_end_is_not_asked_for(world: World) -> None:
    """Forged ones that say all that is right of themselves; others go on."""
    forged = [token(number=n) for n in range(1, 200)]
    world.server.revoked.update(forged)
    codes = [(await world.denied(text)).code for text in forged]
    assert codes[: int(REFUSED_BURST)] == [ReportCondition.TOKEN_REFUSED] * int(REFUSED_BURST)
    assert set(codes[int(REFUSED_BURST) :]) == {ReportCondition.TOO_MANY_REFUSED}
    assert len(world.server.asked) == REFUSED_BURST
    await world.accepted(sender="10.0.0.2")
    assert (await world.denied(token("node-3"))).retry_after_s == 1
    await asyncio.sleep(1)
    await world.accepted(token("node-3"))


async def test_who_sends_many_at_once_has_few_asked_about(world: World) -> None:
    """Before the first of them is refused."""
    world.server.held = asyncio.Event()
    forged = [token(number=n) for n in range(1, 200)]
    world.server.revoked.update(forged)
    calls = [asyncio.ensure_future(world.ask(text)) for text in forged]
    await asyncio.sleep(0.1)
    world.server.held.set()
    await asyncio.gather(*calls)
    assert len(world.server.asked) == REFUSED_BURST


async def test_a_stranger_behind_the_same_address_keeps_no_revoked_token_alive(
    world: World,
) -> None:
    await world.accepted()
    forged = [token(number=n) for n in range(1, 60)]
    world.server.revoked.update((GOOD, *forged))
    await asyncio.sleep(LATE_S)
    for text in forged:
        await world.denied(text)
    assert (await world.denied()).code == ReportCondition.TOKEN_REFUSED


async def test_after_a_failure_nothing_is_asked_for_a_while(world: World) -> None:
    world.server.spoilt = (500, b"")
    for number in range(50):
        assert (await world.denied(token(number=number))).code == ReportCondition.TOKEN_NOT_REVIEWED
    assert len(world.server.asked) == 1
    await asyncio.sleep(REST_S)
    await world.denied()
    assert len(world.server.asked) == 2
    assert world.count("failed") == 2


async def test_how_long_the_api_server_asks_to_wait_is_heeded_within_reason(world: World) -> None:
    details = {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 9}}
    world.server.spoilt = (429, json.dumps(details).encode())
    assert (await world.denied()).retry_after_s == 9


async def test_an_api_server_that_does_not_answer_is_given_up(world: World) -> None:
    world.server.held = asyncio.Event()
    began_s = world.clock()
    assert (await world.denied()).code == ReportCondition.TOKEN_NOT_REVIEWED
    assert world.clock() - began_s == pytest.approx(TIMEOUT_S)


async def test_accounts_are_remembered_within_a_limit(
    world: World,
) -> None:
    """The newest are kept."""
    most = NODES * KEPT_PER_NODE
    for number in range(most + 10):
        await world.accepted(token(number=number))
    assert world.registry.get_sample_value("topo_master_kube_known_tokens") == most
    await world.accepted(token(number=most + 9))
    assert len(world.server.asked) == most + 10
    await world.accepted(token(number=0))
    assert len(world.server.asked) == most + 11


@pytest.mark.slow
async def test_refused_tokens_are_remembered_within_a_limit(world: World) -> None:
    """The newest are kept: the oldest is asked about again, before its time."""
    texts = [token(number=number) for number in range(REFUSED_KEPT + 1)]
    world.server.revoked.update(texts)
    for number, text in enumerate(texts):
        await world.denied(text, sender=f"10.1.{number // 256}.{number % 256}")
    assert world.unix() < REFUSED_S
    await world.denied(texts[-1])
    assert len(world.server.asked) == len(texts)
    await world.denied(texts[0])
    assert len(world.server.asked) == len(texts) + 1
