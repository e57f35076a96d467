"""Every fault of the simulator: it is named, nothing known is lost, and it passes.

In virtual time: "not before" is exact, and a slow machine is no fault.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectionResetError, web
from aiohttp.test_utils import TestServer

from master.sources.cluster_manager.client import ManagerClient
from tests.clustermanager.conftest import Bench
from topo.discovery.manager.contract import ManagerAnswer, checked
from topo.discovery.manager.rules import TopologyRule
from topo.kit import backoff
from topo.model.observation import (
    ManagedTopology,
    ManagerReported,
    SourceFailed,
    SourceRecovered,
)
from topo.sim.clustermanager.faults import ManagerFault, ManagerFaultKind
from topo.sim.clustermanager.server import Simulator, SimulatorSettings, simulator

pytestmark = pytest.mark.virtual_time
Control = Callable[..., Awaitable[dict[str, Any]]]

TOPOLOGY_FAULTS = {
    ManagerFaultKind.UNAUTHORIZED: ("unauthorized", "refuses us (401)"),
    ManagerFaultKind.ERROR: ("status", "answers 500"),
    ManagerFaultKind.BUSY: ("busy", "busy (503)"),
    ManagerFaultKind.STALL: ("timeout", "no answer in time"),
    ManagerFaultKind.CUT: ("cut", "broke off"),
    ManagerFaultKind.GARBAGE: ("malformed", "not JSON"),
    ManagerFaultKind.EMPTY: ("content", "no machine at all"),
    ManagerFaultKind.REDIRECT: ("redirect", "https://elsewhere.invalid"),
    ManagerFaultKind.OVERSIZE: ("too-large", "larger than"),
    ManagerFaultKind.BOMB: ("too-large", "larger than"),
    ManagerFaultKind.DRIP: ("timeout", "no answer in time"),
    ManagerFaultKind.CURSOR_GONE: ("status", "answers 410"),
    ManagerFaultKind.EXPIRED_CERTIFICATE: ("tls", "certificate has expired"),
    ManagerFaultKind.OTHER_HOST_CERTIFICATE: ("tls", "mismatch"),
}
"""Faults of a full poll: the kind of trouble they become, and the words of the sentence."""
HARMLESS = {ManagerFaultKind.CLOCK_SKEW, ManagerFaultKind.HALF}
"""Faults that are no failure of an answer."""
SIZES = {"size_bytes": 1 << 20, "seconds": 0.02}
TIMES = {ManagerFaultKind.STALL: 30, ManagerFaultKind.BUSY: 0}

LIMITS: dict[str, Any] = {"read_timeout_s": 5.0, "request_timeout_s": 20.0}
"""Of an answer, where slowness is the fault."""


def fault(kind: ManagerFaultKind, **more: Any) -> dict[str, Any]:
    """The body that sets a fault, in sizes that suit a test."""
    seconds = TIMES.get(kind, SIZES["seconds"])
    return {"kind": kind.value, **SIZES, "seconds": seconds, **more}


def test_every_fault_is_tried() -> None:
    assert set(ManagerFaultKind) == {*TOPOLOGY_FAULTS, *HARMLESS, ManagerFaultKind.RESET}


@pytest.mark.parametrize("kind", TOPOLOGY_FAULTS)
async def test_a_full_poll_that_fails_is_said_loses_nothing_and_heals(
    *,
    kind: ManagerFaultKind,
    manager: Simulator,
    bench: Bench,
    control: Control,
    topology: ManagedTopology,
) -> None:
    running = await bench.known(manager, **LIMITS)
    await control("PUT", "/faults", **fault(kind, path="/v1/topology"))
    failed = await running.ear.hear(SourceFailed)
    label, words = TOPOLOGY_FAULTS[kind]
    assert words in failed.refusal
    await running.counted("polls_total", 2, asked="topology", result=label)
    assert running.ear.last_topology == checked(topology)
    await control("DELETE", "/faults")
    await running.ear.hear(SourceRecovered)
    told = [event for event in running.ear.events if isinstance(event, SourceFailed)]
    if kind == "drip":  # lifting the fault may break off the answer that still drips
        told = [event for event in told if "the answer broke off" not in event.refusal]
    assert told == [failed]
    assert isinstance(running.ear.events[-1], SourceRecovered)
    assert not running.task.done()


async def test_a_connection_that_is_reset_is_made_again(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    running = await bench.known(manager)
    await control("PUT", "/faults", kind="reset")
    failed = await running.ear.hear(SourceFailed)
    assert "broke off" in failed.refusal or "no connection" in failed.refusal
    await control("DELETE", "/faults")
    await running.ear.hear(SourceRecovered)


@pytest.mark.parametrize(
    "kind",
    [
        ManagerFaultKind.ERROR,
        ManagerFaultKind.STALL,
        ManagerFaultKind.GARBAGE,
        ManagerFaultKind.CUT,
        ManagerFaultKind.REDIRECT,
    ],
)
async def test_events_that_fail_are_said_while_full_polls_go_on(
    kind: ManagerFaultKind, manager: Simulator, bench: Bench, control: Control
) -> None:
    running = await bench.known(manager, **LIMITS)
    await control("PUT", "/faults", **fault(kind, path="/v1/events"))
    failed = await running.ear.hear(SourceFailed)
    assert "/v1/events" in failed.refusal
    await control("PATCH", "/machines/machine-1", group_id="box-2")
    await running.ear.hear(ManagerReported, after=2)
    await running.ear.hear(SourceFailed, after=3)
    await control("DELETE", "/faults")
    await running.ear.hear(SourceRecovered)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (ManagerFaultKind.UNAUTHORIZED, "refuses our user name or password"),
        (ManagerFaultKind.ERROR, "answers 500"),
        (ManagerFaultKind.BUSY, "busy (503)"),
        (ManagerFaultKind.STALL, "no answer in time"),
        (ManagerFaultKind.GARBAGE, "not JSON"),
        (ManagerFaultKind.CUT, "broke off"),
        (ManagerFaultKind.REDIRECT, "a redirect to https://elsewhere.invalid"),
    ],
)
async def test_a_login_that_fails_is_said_and_tried_again(
    *, kind: ManagerFaultKind, words: str, manager: Simulator, bench: Bench, control: Control
) -> None:
    await control("PUT", "/faults", **fault(kind, path="/v1/login"))
    running = bench.start(manager, **LIMITS)
    failed = await running.ear.hear(SourceFailed)
    assert words in failed.refusal
    assert "POST /v1/login" in failed.refusal
    await control("DELETE", "/faults")
    await running.ear.hear(ManagerReported)


async def test_a_health_that_fails_too_leaves_the_first_failure_as_it_is(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    await control("PUT", "/faults", kind="error", path="/v1/topology")
    await control("PUT", "/faults", kind="garbage", path="/v1/health")
    failed = await bench.start(manager).ear.hear(SourceFailed)
    assert failed.refusal.startswith("the manager answers 500 (at GET /v1/topology)")


async def test_a_short_stall_is_waited_for(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    await control("PUT", "/faults", kind="stall", seconds=4)
    running = bench.start(manager, read_timeout_s=5.0)
    await running.counted("polls_total", 1, asked="topology", result="unchanged")
    assert len(running.ear.events) == 1


async def test_retry_after_is_heeded(manager: Simulator, bench: Bench, control: Control) -> None:
    await control("PUT", "/faults", kind="busy", path="/v1/topology", seconds=60)
    running = bench.start(manager)
    await running.ear.hear(SourceFailed)
    await asyncio.sleep(59)
    assert running.count("polls_total", asked="topology", result="busy") == 1
    await running.counted("polls_total", 2, asked="topology", result="busy")


async def test_a_manager_that_was_away_for_long_is_heard_within_two_polls(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    """Its back-off has grown to a minute where it is polled every 5 s, as the demo does."""
    pace = {"poll_topology_s": 5.0, "poll_events_s": 5.0, "backoff_base_s": 1.0}
    running = await bench.known(manager, backoff_ceiling_s=60.0, **pace)
    await control("PUT", "/faults", kind="error")
    await running.ear.hear(SourceFailed)
    for _ in range(20):
        await asyncio.sleep(7)
        tries = running.count("polls_total", asked="topology", result="status")
        await asyncio.sleep(10.5)
        assert running.count("polls_total", asked="topology", result="status") > tries


async def test_a_login_that_asks_for_endless_patience_does_not_switch_us_off(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    """The ceiling of `Retry-After` holds for the login too."""
    await control("PUT", "/faults", kind="busy", path="/v1/login", seconds=86_400)
    running = bench.start(manager)
    await running.ear.hear(SourceFailed)
    await asyncio.sleep(backoff.RETRY_AFTER_CEILING_S - 1)
    assert running.count("logins_total", result="busy") == 1
    await control("DELETE", "/faults")
    await running.ear.hear(ManagerReported)


async def test_events_that_ask_for_patience_hold_up_no_full_poll(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    """They get the patience that they ask for; the full polls come when they are due."""
    running = await bench.known(manager)
    await control("PUT", "/faults", kind="busy", path="/v1/events", seconds=60)
    await running.ear.hear(SourceFailed)
    await control("PATCH", "/machines/machine-1", group_id="box-2")
    await running.ear.hear(ManagerReported, after=2)
    unchanged = running.count("polls_total", asked="topology", result="unchanged")
    await running.counted("polls_total", unchanged + 3, asked="topology", result="unchanged")
    assert running.count("polls_total", asked="events", result="busy") == 1


async def test_a_manager_that_gives_up_its_events_has_no_trouble_with_them(
    bench: Bench, manager: Simulator, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await bench.known(manager)
    await control("PUT", "/faults", kind="error", path="/v1/events")
    await running.ear.hear(SourceFailed)
    topology = ManagerClient.topology

    async def without_cursor(self: ManagerClient, rule: TopologyRule) -> ManagerAnswer:
        return replace(await topology(self, rule), cursor=None)

    monkeypatch.setattr(ManagerClient, "topology", without_cursor)
    await running.ear.hear(SourceRecovered)


async def test_half_of_the_machines_gone_is_passed_on_as_the_manager_says_it(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    """The core keeps machines that vanish for a while; the source does not judge."""
    running = await bench.known(manager)
    await control("PUT", "/faults", kind="half", path="/v1/topology")
    half = await running.ear.hear(ManagerReported, after=1)
    assert len(half.topology.machines) == 4
    await control("DELETE", "/faults")
    await running.ear.hear(ManagerReported, lambda e: len(e.topology.machines) == 8, after=2)


@pytest.mark.parametrize("seconds", [-864_000.0, 864_000.0])
async def test_a_wrong_clock_changes_nothing(
    seconds: float, manager: Simulator, bench: Bench, control: Control
) -> None:
    await control("PUT", "/faults", kind="clock-skew", seconds=seconds)
    running = await bench.known(manager)
    await running.counted("polls_total", 2, asked="topology", result="unchanged")
    assert len(running.ear.events) == 1
    assert running.count("logins_total", result="ok") == 1


async def test_cursors_that_are_always_gone_cost_one_full_poll_per_period(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    running = await bench.known(manager, poll_topology_s=60.0, poll_events_s=0.1)
    await control("PUT", "/faults", kind="cursor-gone", path="/v1/events")
    await running.counted("polls_total", 3, asked="events", result="gap")
    assert running.count("polls_total", asked="topology", result="unchanged") <= 4
    assert len(running.ear.events) == 1


async def test_an_untrusted_authority_is_refused_before_anything_is_sent(
    tmp_path: Path, manager: Simulator, bench: Bench, topology: ManagedTopology
) -> None:
    other = SimulatorSettings(directory=tmp_path / "other", topology=topology)
    async with simulator(other) as impostor:
        running = bench.start(manager, address=impostor.url)
        failed = await running.ear.hear(SourceFailed)
    assert "not trusted" in failed.refusal
    assert "--cluster-manager-ca-file" in failed.fix
    assert running.count("logins_total", result="tls") >= 1


async def test_a_replaced_authority_is_read_again(
    tmp_path: Path, manager: Simulator, bench: Bench, topology: ManagedTopology
) -> None:
    """A CA file is a mounted ConfigMap: it changes while we run."""
    other = SimulatorSettings(directory=tmp_path / "other", topology=topology)
    async with simulator(other) as renewed:
        ca_file = tmp_path / "mounted-ca.pem"
        ca_file.write_bytes(manager.ca_file.read_bytes())
        running = bench.start(renewed, ca_file=ca_file)
        await running.ear.hear(SourceFailed)
        ca_file.write_text("half written")
        await asyncio.sleep(0.1)
        ca_file.write_bytes(renewed.ca_file.read_bytes())
        await running.ear.hear(ManagerReported)


async def test_an_unverified_certificate_needs_the_flag(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    await control("PUT", "/faults", kind="expired-certificate")
    running = bench.start(manager, insecure=True, ca_file=None)
    await running.ear.hear(ManagerReported)


class Elsewhere:
    """A server that must never see a credential."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.server = TestServer(self._app())

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._note)
        return app

    async def _note(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        return web.json_response({})


@pytest.fixture
async def elsewhere() -> AsyncIterator[Elsewhere]:
    server = Elsewhere()
    await server.server.start_server()
    yield server
    await server.server.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", ["/v1/login", "/v1/topology"])
async def test_credentials_never_follow_a_redirect_to_another_place(
    *,
    status: int,
    path: str,
    manager: Simulator,
    bench: Bench,
    control: Control,
    elsewhere: Elsewhere,
) -> None:
    """Plain http on the same host is another place too: it would be a downgrade."""
    target = str(elsewhere.server.make_url("/take"))
    await control("PUT", "/faults", kind="redirect", path=path, to=target, status=status)
    running = bench.start(manager)
    failed = await running.ear.hear(SourceFailed)
    assert "a redirect to http://127.0.0.1" in failed.refusal
    assert elsewhere.requests == []


async def test_a_redirect_within_the_manager_is_followed(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    await control("PUT", "/faults", kind="redirect", path="/v1/login", to="/v1/login", times=2)
    await bench.start(manager).ear.hear(ManagerReported)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"to": "/v1/login"}, "more than 3 redirects"),
        ({"to": "/v1/login", "status": 303}, "would drop the body"),
        ({"to": "https://["}, "a redirect to nowhere"),
        ({"to": "/v1/login", "status": 300}, "answers 300"),
    ],
)
async def test_redirects_that_lead_nowhere_are_refused(
    *, changes: dict[str, Any], words: str, manager: Simulator, bench: Bench, control: Control
) -> None:
    await control("PUT", "/faults", kind="redirect", path="/v1/login", **changes)
    failed = await bench.start(manager).ear.hear(SourceFailed)
    assert words in failed.refusal


async def test_an_address_where_nobody_listens_is_said(bench: Bench, manager: Simulator) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"https://127.0.0.1:{unused.getsockname()[1]}"
        running = bench.start(manager, address=address)
        failed = await running.ear.hear(SourceFailed)
    assert "no connection" in failed.refusal


def test_a_fault_that_is_misspelt_is_refused() -> None:
    with pytest.raises(ValueError, match="kind"):
        ManagerFault.model_validate({"kind": "explode"})


async def test_a_caller_that_leaves_a_dripping_answer_is_no_mistake_of_the_simulator(
    manager: Simulator,
    bench: Bench,
    control: Control,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which of two ends of a connection sees first that it is closing is for the loop to say."""

    async def closing(_: web.StreamResponse, __: bytes) -> None:
        raise ClientConnectionResetError("Cannot write to closing transport")

    running = await bench.known(manager, **LIMITS)
    monkeypatch.setattr(web.StreamResponse, "write", closing)
    await control("PUT", "/faults", **fault(ManagerFaultKind.DRIP, path="/v1/topology"))
    failed = await running.ear.hear(SourceFailed)
    assert "broke off" in failed.refusal
    assert not [each for each in caplog.records if each.name == "aiohttp.server"]
