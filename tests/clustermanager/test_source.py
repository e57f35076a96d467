"""The source against a real HTTPS server: what it tells the core, and when it is silent.

In virtual time: how often it asks is exact.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import prometheus_client as prom
import pytest

from master.sources.cluster_manager import source
from master.sources.cluster_manager.source import ClusterManager
from tests.clustermanager.conftest import Bench, Ear, Secrets, quick_settings
from topo.discovery.manager.contract import checked
from topo.model.errors import BadInputError
from topo.model.observation import (
    ManagedTopology,
    ManagerReported,
    SourceFailed,
    SourceRecovered,
)
from topo.sim.clustermanager.server import Simulator, SimulatorSettings, simulator

pytestmark = pytest.mark.virtual_time
Control = Callable[..., Awaitable[dict[str, Any]]]


async def test_the_first_answer_is_reported_whole(
    manager: Simulator, bench: Bench, topology: ManagedTopology
) -> None:
    running = bench.start(manager)
    reported = await running.ear.hear(ManagerReported)
    assert reported.topology == checked(topology)
    assert running.count("machines") == 8
    assert running.count("groups") == 2


async def test_unchanged_answers_are_not_reported_again(manager: Simulator, bench: Bench) -> None:
    running = bench.start(manager)
    await running.counted("polls_total", 3, asked="topology", result="unchanged")
    await running.counted("polls_total", 3, asked="events", result="unchanged")
    assert len(running.ear.events) == 1
    assert running.ear.confirmed >= 2, "the core's age of what it holds starts again"
    assert running.count("logins_total", result="ok") == 1
    assert running.count("last_good_age_seconds") < 1


async def test_a_moved_machine_arrives_as_an_event(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    running = bench.start(manager, poll_topology_s=60.0)
    await running.ear.hear(ManagerReported)
    await control("PATCH", "/machines/machine-1", group_id="box-2")
    await running.ear.hear(ManagerReported, after=1)
    moved = {m.id: m.group_id for m in running.ear.last_topology.machines}
    assert moved["machine-1"] == "box-2"
    assert running.count("polls_total", asked="topology", result="changed") == 1


async def test_a_renamed_switchbox_arrives_as_an_event(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    running = bench.start(manager, poll_topology_s=60.0)
    await running.ear.hear(ManagerReported)
    await control("PATCH", "/groups/box-1", name="switchbox-renamed")
    await running.ear.hear(ManagerReported, after=1)
    assert {group.name for group in running.ear.last_topology.groups} == {
        "switchbox-renamed",
        "switchbox-sample2",
    }


async def test_more_events_than_a_page_are_all_read(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    running = bench.start(manager, poll_topology_s=60.0, poll_events_s=0.2, event_page=2)
    await running.ear.hear(ManagerReported)
    for number in range(1, 6):
        await control("PATCH", f"/machines/machine-{number}", status="NotReady")
    await running.ear.hear(
        ManagerReported,
        lambda event: sum(m.status == "NotReady" for m in event.topology.machines) == 5,
        after=1,
    )
    assert running.count("polls_total", asked="topology", result="changed") == 1


async def test_a_forgotten_cursor_leads_to_a_full_poll(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    running = bench.start(manager, poll_topology_s=60.0)
    await running.ear.hear(ManagerReported)
    await control("DELETE", "/events")
    await control("PATCH", "/machines/machine-1", group_id="box-2")
    await running.ear.hear(ManagerReported, after=1)
    assert running.count("polls_total", asked="events", result="gap") == 1
    assert running.count("polls_total", asked="topology", result="changed") == 2


async def test_an_event_that_contradicts_what_is_known_leads_to_a_full_poll(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    await control("PUT", "/faults", kind="half", path="/v1/topology", times=1)
    running = bench.start(manager, poll_topology_s=60.0)
    await running.ear.hear(ManagerReported)
    await control("PATCH", "/machines/machine-8", status="NotReady")
    await running.ear.hear(ManagerReported, lambda e: len(e.topology.machines) == 8)
    assert running.count("polls_total", asked="events", result="gap") == 1


async def test_a_manager_with_endless_events_is_read_as_a_whole(
    manager: Simulator, bench: Bench, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_PAGES", 2)
    running = bench.start(manager, poll_topology_s=60.0, poll_events_s=0.2, event_page=1)
    await running.ear.hear(ManagerReported)
    for number in range(1, 4):
        await control("PATCH", f"/machines/machine-{number}", status="NotReady")
    await running.counted("polls_total", 2, asked="topology", result="changed")


async def test_a_full_queue_is_told_later(manager: Simulator, bench: Bench) -> None:
    ear = Ear(full=True)
    running = bench.start(manager, ear)
    await running.counted("polls_total", 2, asked="topology", result="unchanged")
    assert ear.events == []
    ear.full = False
    await ear.hear(ManagerReported)


async def test_a_token_that_ends_is_renewed_before_it_is_refused(
    tmp_path: Path, topology: ManagedTopology, bench: Bench
) -> None:
    settings = SimulatorSettings(directory=tmp_path / "manager", topology=topology, token_ttl_s=3.0)
    async with simulator(settings, asyncio.get_running_loop().time) as manager:
        running = bench.start(manager)
        await running.counted("logins_total", 3, result="ok")
        assert not [e for e in running.ear.events if isinstance(e, SourceFailed)]


async def test_a_revoked_token_is_renewed_once_and_nobody_hears_of_it(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    running = bench.start(manager)
    await running.ear.hear(ManagerReported)
    await control("DELETE", "/tokens")
    await running.counted("logins_total", 2, result="ok")
    await control("PATCH", "/machines/machine-1", group_id="box-2")
    await running.ear.hear(ManagerReported, after=1)
    assert running.count("logins_total", result="ok") == 2
    assert [type(event) for event in running.ear.events] == [ManagerReported, ManagerReported]


async def test_a_manager_that_refuses_fresh_tokens_is_not_asked_in_a_loop(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    await control("PUT", "/faults", kind="unauthorized", path="/v1/topology")
    running = bench.start(manager, refused_login_wait_s=30.0)
    failed = await running.ear.hear(SourceFailed)
    assert "refuses us (401)" in failed.refusal
    await asyncio.sleep(61)
    assert running.count("logins_total", result="ok") <= 4
    await control("DELETE", "/faults")
    await running.ear.hear(ManagerReported)


async def test_events_that_refuse_every_token_cost_one_login_per_wait(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    """Though every full poll takes the token, and would make a next login look harmless."""
    running = await bench.known(manager, refused_login_wait_s=30.0)
    await control("PUT", "/faults", kind="unauthorized", path="/v1/events")
    failed = await running.ear.hear(SourceFailed)
    assert "refuses us (401)" in failed.refusal
    polls = running.count("polls_total", asked="topology", result="unchanged")
    await running.counted("polls_total", polls + 4, asked="topology", result="unchanged")
    assert running.count("logins_total", result="ok") == 2, "the first, and one for the refusal"


async def test_every_question_is_timed_whatever_comes_of_it(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    running = await bench.known(manager)
    assert running.count("poll_seconds_count", asked="topology") == 1
    await control("PUT", "/faults", kind="unauthorized", path="/v1/events")
    await running.ear.hear(SourceFailed)
    failed = running.count("polls_total", asked="events", result="unauthorized")
    assert running.count("poll_seconds_count", asked="events") >= failed >= 1


async def test_a_refused_login_is_not_repeated_by_another_poll(
    manager: Simulator, bench: Bench, control: Control
) -> None:
    """Events and full polls share the patience: an account is not locked by their taking turns."""
    running = await bench.known(manager, refused_login_wait_s=30.0)
    await control("PUT", "/faults", kind="unauthorized", path="/v1/login")
    await control("DELETE", "/tokens")
    await running.ear.hear(SourceFailed)
    await asyncio.sleep(29)
    assert running.count("logins_total", result="credentials") == 1


async def test_a_wrong_password_is_said_and_a_rotated_one_is_found(
    manager: Simulator, bench: Bench
) -> None:
    password = manager.credentials_dir / "password"
    right = password.read_text()
    password.write_text("wrong-and-secret\n")
    running = bench.start(manager, refused_login_wait_s=0.1)
    failed = await running.ear.hear(SourceFailed)
    assert "refuses our user name or password" in failed.refusal
    assert "wrong-and-secret" not in failed.refusal
    password.write_text(right)
    await running.ear.hear(ManagerReported)


async def test_missing_credentials_are_named_and_found_when_they_come(
    manager: Simulator, bench: Bench
) -> None:
    username = manager.credentials_dir / "username"
    content = username.read_text()
    username.unlink()
    running = bench.start(manager)
    failed = await running.ear.hear(SourceFailed)
    assert str(username) in failed.refusal
    username.write_text(content)
    await running.ear.hear(ManagerReported)


async def test_credentials_as_the_manual_makes_them_are_understood(
    manager: Simulator, bench: Bench
) -> None:
    """`echo value | base64` leaves a newline inside, and one more outside."""
    for name in ("username", "password"):
        file = manager.credentials_dir / name
        file.write_bytes(base64.b64encode(file.read_text().strip().encode() + b"\n") + b"\n")
    await bench.start(manager).ear.hear(ManagerReported)


async def test_a_manager_that_comes_back_at_its_port_is_found(
    tmp_path: Path, topology: ManagedTopology, bench: Bench
) -> None:
    settings = SimulatorSettings(directory=tmp_path / "manager", topology=topology)
    async with simulator(settings) as manager:
        running = bench.start(manager)
        await running.ear.hear(ManagerReported)
        port = int(manager.url.rpartition(":")[2])
    failed = await running.ear.hear(SourceFailed)
    assert "no connection" in failed.refusal
    again = SimulatorSettings(directory=tmp_path / "manager", topology=topology, port=port)
    async with simulator(again):
        await running.ear.hear(SourceRecovered)
    assert sum(isinstance(event, ManagerReported) for event in running.ear.events) == 1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"address": "http://127.0.0.1:1"}, "plain http"),
        ({"address": "https://user:pw@127.0.0.1"}, "carries credentials"),
        ({"address": "https://127.0.0.1/?q=1"}, "a query"),
        ({"address": "ftp://127.0.0.1"}, "is no URL"),
        ({"address": "htps://user:s3cret@127.0.0.1"}, "is no URL"),
        ({"address": "https://["}, "is no URL"),
        ({"ca_file": Path("/nonexistent/ca.pem")}, "CA file"),
        ({"mapping_file": Path("/nonexistent/mapping.yaml")}, "does not exist"),
    ],
)
async def test_settings_that_cannot_work_are_refused_at_start(
    manager: Simulator, changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(BadInputError, match=text) as error:
        ClusterManager(replace(quick_settings(manager), **changes), Ear(), prom.CollectorRegistry())
    assert "s3cret" not in str(error.value)


async def test_the_ear_for_secrets_hears_every_log_and_event(
    manager: Simulator, bench: Bench, control: Control, secrets: Secrets
) -> None:
    """Every test of this part fails if one of these lines holds a password or a token."""
    running = bench.start(manager)
    await running.ear.hear(ManagerReported)
    await control("PUT", "/faults", kind="error", path="/v1/topology")
    await running.ear.hear(SourceFailed)
    said = "\n".join(secrets.said)
    assert "ManagerReported" in said
    assert "SourceFailed" in said
    assert secrets.known
    assert secrets.leaked() == []
    secrets.said.append(f"Authorization: Bearer {secrets.known[-1]}")
    assert secrets.leaked() == [secrets.said.pop()]
