"""One of several masters leads, and never two, whatever the server and the ways to it do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

import prometheus_client as prom
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.kube.leader_election.election import LeaseTimes
from master.kube.leader_election.lease import (
    Leadership,
    Lease,
    LeaseLostError,
    LeaseMetrics,
    LeaseName,
)
from tests.kube.leader_election.lease_server import NO_FAULT, Client, Fault, LeaseServer
from tests.support.virtual_time import in_virtual_time
from tests.support.waiting import eventually

pytestmark = pytest.mark.virtual_time

TIMES = LeaseTimes()
ADDRESS = "metax-tech.com/address"
FOR_EVER = Fault(before_s=1e9)
STEP_S = 0.25
"""Between two looks at who leads; a mistake in the times would last for seconds."""


@dataclass
class Candidate:
    """A master that stands for election; its clocks are as wrong as a test wants them to be."""

    lease: Lease
    client: Client
    registry: prom.CollectorRegistry
    seen: list[Leadership] = field(default_factory=list)
    task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self.lease.run())

    async def kill(self) -> None:
        """It does nothing any more, not even say that it ends."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})


def candidate(
    server: LeaseServer,
    name: str,
    *,
    monotonic_s: float = 0.0,
    unix_s: float = 1_800_000_000.0,
    times: LeaseTimes = TIMES,
) -> Candidate:
    loop, client, registry = asyncio.get_running_loop(), Client(server), prom.CollectorRegistry()
    lease = Lease(
        client,
        LeaseName(
            name="topo-master", namespace="topo", holder=name, annotations={ADDRESS: f"{name}:9001"}
        ),
        times,
        metrics=LeaseMetrics(registry),
        clock=lambda: loop.time() + monotonic_s,
        unix_clock=lambda: loop.time() + unix_s,
        chance=lambda: 0.5,
    )
    made = Candidate(lease, client, registry)
    lease.on_change = made.seen.append
    return made


@asynccontextmanager
async def candidates(*names: str) -> AsyncIterator[tuple[LeaseServer, list[Candidate]]]:
    """Candidates at one server, the first of which leads."""
    server = LeaseServer()
    made = [candidate(server, name) for name in names]
    for each in made:
        each.start()
        await asyncio.sleep(0.1)
    assert made[0].lease.leads()
    yield server, made
    for each in made:
        await each.kill()


async def leads(one: Candidate) -> float:
    """When it has come to lead."""
    await eventually(one.lease.leads)
    return asyncio.get_running_loop().time()


async def test_the_first_leads_and_the_others_know_whom_to_ask() -> None:
    async with candidates("a", "b", "c") as (server, [_, b, c]):
        await asyncio.sleep(60)
        assert set(server.writes) == {"a"}
        for other in (b, c):
            assert not other.lease.leads()
            assert other.seen[-1].holder == "a"
            assert other.seen[-1].annotations[ADDRESS] == "a:9001"


async def test_after_a_kill_another_leads_within_the_duration_and_two_looks() -> None:
    async with candidates("a", "b") as (_, [a, b]):
        await asyncio.sleep(30)
        await a.kill()
        killed_s = asyncio.get_running_loop().time()
        took_s = await leads(b) - killed_s
    assert TIMES.renew_deadline_s < took_s <= TIMES.duration_s + 1.25 * TIMES.retry_s <= 15


async def test_a_follower_sees_a_leader_as_long_as_its_term_is_renewed_and_no_longer() -> None:
    async with candidates("a", "b") as (_, [a, b]):
        assert a.lease.somebody_leads()
        await asyncio.sleep(5 * TIMES.duration_s)
        assert b.lease.somebody_leads()
        b.client.fault = lambda: Fault(refused=403)
        await a.kill()
        await asyncio.sleep(TIMES.duration_s + TIMES.retry_s)
        assert not b.lease.somebody_leads()


async def test_who_ends_well_gives_it_back_and_the_next_leads_at_its_next_look() -> None:
    async with candidates("a", "b") as (server, [a, b]):
        await asyncio.sleep(10)
        await a.kill()
        await a.lease.release()
        released_s = asyncio.get_running_loop().time()
        assert server.stored is not None
        assert server.stored["spec"]["holderIdentity"] == ""
        assert ADDRESS not in server.stored["metadata"]["annotations"]
        assert await leads(b) - released_s <= 1.25 * TIMES.retry_s + 0.1


async def test_who_ends_while_it_renews_gives_back_what_was_granted_meanwhile() -> None:
    """The renewal makes another version of the record than the one that was seen last."""
    async with candidates("a", "b") as (server, [a, b]):
        await asyncio.sleep(10)
        a.client.fault = lambda: Fault(after_s=TIMES.retry_s / 2)
        written = len(server.writes)
        await eventually(lambda: len(server.writes) > written)
        await a.kill()
        a.client.fault = lambda: NO_FAULT
        await a.lease.release()
        released_s = asyncio.get_running_loop().time()
        assert await leads(b) - released_s <= 1.25 * TIMES.retry_s + 0.1


async def test_who_ends_while_another_took_the_lease_leaves_it() -> None:
    async with candidates("a") as (server, [a]):
        await a.kill()
        assert server.stored is not None
        server.stored["spec"]["holderIdentity"] = "somebody"
        server.stored["metadata"]["resourceVersion"] = "by-hand"
        await a.lease.release()
        assert server.stored["spec"]["holderIdentity"] == "somebody"


async def test_a_candidate_that_does_not_lead_gives_nothing_back() -> None:
    async with candidates("a", "b") as (server, [_, b]):
        before = len(server.writes)
        await b.lease.release()
        assert len(server.writes) == before


async def test_the_lease_tells_how_often_it_changed_hands_and_when_in_utc() -> None:
    async with candidates("a", "b") as (server, [a, b]):
        assert server.stored is not None
        assert server.stored["spec"]["leaseTransitions"] == 0
        await a.kill()
        await leads(b)
        spec = server.stored["spec"]
        assert spec["leaseTransitions"] == 1
        assert b.registry.get_sample_value("topo_master_lease_transitions") == 1
        assert b.registry.get_sample_value("topo_master_leads") == 1
        acquired = datetime.strptime(spec["acquireTime"], "%Y-%m-%dT%H:%M:%S.%f%z")
        now_s = 1_800_000_000.0 + asyncio.get_running_loop().time()
        assert abs(acquired.timestamp() - now_s) < 1
        renewed = spec["renewTime"]
        await asyncio.sleep(5)
        assert server.stored["spec"]["acquireTime"] == spec["acquireTime"]
        assert server.stored["spec"]["renewTime"] > renewed


@pytest.mark.parametrize("wrong_s", [-600.0, 600.0])
@pytest.mark.parametrize("is_leader_wrong", [True, False])
async def test_a_clock_that_is_ten_minutes_wrong_changes_nothing(
    wrong_s: float, *, is_leader_wrong: bool
) -> None:
    server, unix_s = LeaseServer(), 1_800_000_000.0
    first = candidate(server, "a", unix_s=unix_s + wrong_s * is_leader_wrong)
    second = candidate(server, "b", unix_s=unix_s + wrong_s * (not is_leader_wrong))
    first.start()
    await leads(first)
    second.start()
    await asyncio.sleep(60)
    assert first.lease.leads()
    assert not second.lease.leads()
    await first.kill()
    killed_s = asyncio.get_running_loop().time()
    assert await leads(second) - killed_s > TIMES.renew_deadline_s
    await second.kill()


async def test_what_others_wrote_on_the_lease_stays() -> None:
    async with candidates("a") as (server, _):
        assert server.stored is not None
        server.stored["metadata"]["labels"] = {"theirs": "1"}
        server.stored["metadata"]["annotations"]["note"] = "hands off"
        server.stored["metadata"]["resourceVersion"] = "by-hand"
        await asyncio.sleep(10)
        assert server.stored["metadata"]["labels"] == {"theirs": "1"}
        assert server.stored["metadata"]["annotations"] == {"note": "hands off", ADDRESS: "a:9001"}
        assert server.writes[-1] == "a"


@pytest.mark.parametrize(
    "fault",
    [FOR_EVER, Fault(after_s=1e9), Fault(refused=503), Fault(is_cut=True, before_s=1.0)],
    ids=["stalled", "answers never", "5xx", "cut"],
)
async def test_a_leader_that_cannot_renew_ends_by_its_deadline_and_says_why(fault: Fault) -> None:
    async with candidates("a") as (_, [a]):
        await asyncio.sleep(20)
        a.client.fault = lambda: fault
        until_s = a.lease.leader_until_s
        with pytest.raises(LeaseLostError, match="not renewed within 8 s") as lost:
            await (a.task or asyncio.sleep(0))
        ended_s = asyncio.get_running_loop().time()
        assert not a.lease.leads()
    if fault.refused == 503 or fault == FOR_EVER:
        assert ended_s == until_s
    assert ("refused" in str(lost.value)) == (fault.refused is not None)
    assert a.registry.get_sample_value("topo_master_leads") == 0


async def test_a_stall_of_two_calls_ends_nothing() -> None:
    async with candidates("a", "b") as (_, [a, b]):
        await asyncio.sleep(20)
        a.client.fault = lambda: FOR_EVER
        await asyncio.sleep(TIMES.renew_deadline_s - 2 * TIMES.retry_s)
        a.client.fault = lambda: NO_FAULT
        await asyncio.sleep(30)
        assert a.lease.leads()
        assert not b.lease.leads()


async def test_a_leader_that_finds_another_in_its_place_ends_at_once() -> None:
    async with candidates("a") as (server, [a]):
        assert server.stored is not None
        server.stored["spec"]["holderIdentity"] = "somebody"
        server.stored["metadata"]["resourceVersion"] = "by-hand"
        with pytest.raises(LeaseLostError, match="somebody holds the lease"):
            await (a.task or asyncio.sleep(0))
    assert asyncio.get_running_loop().time() < 2 * TIMES.retry_s


async def test_who_lost_the_lease_to_another_neither_leads_nor_gives_it_back() -> None:
    """As when a clean-up takes it: a lease given back would be the next candidate's."""
    async with candidates("a") as (server, [a]):
        assert server.stored is not None
        server.stored["spec"]["holderIdentity"] = "somebody"
        server.stored["metadata"]["resourceVersion"] = "by-hand"
        with pytest.raises(LeaseLostError):
            await (a.task or asyncio.sleep(0))
        assert not a.lease.leads()
        await a.lease.release()
        assert server.stored["spec"]["holderIdentity"] == "somebody"


async def test_a_deleted_lease_is_written_anew_by_its_leader_and_taken_by_nobody() -> None:
    async with candidates("a", "b") as (server, [a, b]):
        await asyncio.sleep(5)
        server.stored = None
        await asyncio.sleep(5)
        assert server.spec()["holderIdentity"] == "a"
        assert a.lease.leads()
        assert not b.lease.leads()


@pytest.mark.parametrize(
    ("status", "advice"),
    [(403, "allow get, create and update of leases"), (401, "has it expired")],
)
async def test_a_candidate_that_is_denied_goes_on_asking_and_says_it_once(
    capsys: pytest.CaptureFixture[str], status: int, advice: str
) -> None:
    server = LeaseServer()
    one = candidate(server, "a")
    one.client.fault = lambda: Fault(refused=status)
    one.start()
    await asyncio.sleep(60)
    assert not one.lease.leads()
    assert 20 <= len(one.client.calls) <= 31
    assert capsys.readouterr().out.count(advice) == 1
    one.client.fault = lambda: NO_FAULT
    await leads(one)
    await one.kill()


async def test_what_is_no_lease_is_a_failed_call(capsys: pytest.CaptureFixture[str]) -> None:
    server = LeaseServer(stored={"metadata": [], "spec": {"leaseDurationSeconds": "soon"}})
    one = candidate(server, "a")
    one.start()
    await asyncio.sleep(10)
    assert not one.lease.leads()
    assert "what is no Lease" in capsys.readouterr().out
    await one.kill()


async def test_a_record_for_a_hundred_years_is_respected_for_an_hour() -> None:
    spec = {"holderIdentity": "gone", "leaseDurationSeconds": 3_153_600_000}
    server = LeaseServer(stored={"metadata": {"resourceVersion": "1"}, "spec": spec})
    one = candidate(server, "a")
    one.start()
    await asyncio.sleep(3590)
    assert not one.lease.leads()
    await asyncio.sleep(15)
    assert one.lease.leads()
    await one.kill()


FAULTS = st.builds(
    Fault,
    before_s=st.sampled_from([0.0, 0.0, 0.3, 1.9, 2.5, 7.0, 14.9, 16.0, 30.0]),
    after_s=st.sampled_from([0.0, 0.0, 0.3, 1.9, 2.5, 12.0]),
    refused=st.sampled_from([None, None, None, 503, 429]),
    is_cut=st.booleans(),
)


@dataclass(frozen=True, slots=True)
class Spell:
    """A fault of the way of one candidate: of one call, or of all in so many seconds."""

    fault: Fault
    lasts_s: float


SPELLS = st.builds(Spell, FAULTS, st.sampled_from([0.0, 0.0, 0.0, 11.0, 18.0, 40.0]))


class Way:
    """What happens to the calls of one candidate, one spell after another, then nothing."""

    def __init__(self, spells: list[Spell]) -> None:
        self._left = list(reversed(spells))
        self._lasting = Spell(NO_FAULT, 0.0)
        self._until_s = 0.0

    def fault(self) -> Fault:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._until_s:
            self._lasting = self._left.pop() if self._left else Spell(NO_FAULT, 0.0)
            self._until_s = now_s + self._lasting.lasts_s
        return self._lasting.fault


class Storm:
    """Candidates with faults, each of which is begun anew under another name when it ends."""

    def __init__(self, spells: list[list[Spell]]) -> None:
        self._server = LeaseServer()
        self._ways = [Way(each) for each in spells]
        self._lives = count()
        self._running = [self._begin(number) for number in range(len(spells))]

    def _begin(self, number: int) -> Candidate:
        one = candidate(self._server, f"{number}-{next(self._lives)}", monotonic_s=1000.0 * number)
        one.client.fault = self._ways[number].fault
        one.start()
        return one

    async def kill(self, number: int) -> None:
        number %= len(self._running)
        await self._running[number].kill()
        self._running[number] = self._begin(number)

    async def watch(self, for_s: float) -> bool:
        """Whether one led at the end. Two never do."""
        loop = asyncio.get_running_loop()
        end_s, leading = loop.time() + for_s, list[Candidate]()
        while loop.time() < end_s:
            await asyncio.sleep(STEP_S)
            leading = [one for one in self._running if one.lease.leads()]
            assert len(leading) <= 1
            for number, one in enumerate(self._running):
                if one.task is not None and one.task.done():
                    assert isinstance(one.task.exception(), LeaseLostError)
                    self._running[number] = self._begin(number)
        return bool(leading)

    async def end(self) -> None:
        for one in self._running:
            await one.kill()


@pytest.mark.slow
@settings(max_examples=150)
@given(
    spells=st.lists(st.lists(SPELLS, max_size=12), min_size=2, max_size=3),
    kills=st.lists(st.tuples(st.floats(0.1, 25), st.integers(0, 2)), max_size=4),
)
def test_never_do_two_lead_whatever_is_late_lost_refused_or_killed(
    spells: list[list[Spell]], kills: list[tuple[float, int]]
) -> None:
    async def run() -> None:
        storm = Storm(spells)
        for after_s, number in kills:
            await storm.watch(after_s)
            await storm.kill(number)
        await storm.watch(max(sum(spell.lasts_s + 6 for spell in each) for each in spells) + 1)
        assert await storm.watch(4 * TIMES.duration_s), "one leads once the storm is over"
        await storm.end()

    in_virtual_time(run())
