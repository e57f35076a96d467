"""A simulated manager over real TLS, the source that polls it, and an ear for secrets.

Both live on the test's loop and by its clock, so that they can run in virtual time.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import prometheus_client as prom
import pytest
import structlog

from master.settings.cluster_manager import ClusterManagerSettings
from master.sources.cluster_manager.source import ClusterManager
from tests.clustermanager.control import command
from tests.support.waiting import CEILING_S, eventually
from topo.kit.secrets import read_credential
from topo.model.observation import (
    Event,
    ManagedTopology,
    ManagerReported,
    SourceFailed,
    SourceRecovered,
)
from topo.sim.clustermanager.api import LoginSessions
from topo.sim.clustermanager.server import Simulator, SimulatorSettings, simulator
from topo.sim.worlds.presets import demo_world, managed_topology

E = TypeVar("E")


@dataclass(slots=True)
class Ear:
    """A sink that remembers what it took; a full one takes nothing.

    `confirmed` counts the recoveries from nothing: full answers without a change.
    """

    full: bool = False
    events: list[Event] = field(default_factory=list)
    confirmed: int = 0
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    def submit(self, event: Event) -> bool:
        if self.full:
            return False
        if isinstance(event, SourceRecovered) and not isinstance(self.events[-1], SourceFailed):
            self.confirmed += 1
            return True
        self.events.append(event)
        self._came.set()
        return True

    async def hear(
        self, kind: type[E], wanted: Callable[[E], bool] = lambda _: True, *, after: int = 0
    ) -> E:
        """The first event of that kind that is wanted, from place `after` on; waits for it."""
        async with asyncio.timeout(CEILING_S):
            while True:
                for event in self.events[after:]:
                    if isinstance(event, kind) and wanted(event):
                        return event
                self._came.clear()
                await self._came.wait()

    @property
    def last_topology(self) -> ManagedTopology:
        """What the core would hold now."""
        return [e.topology for e in self.events if isinstance(e, ManagerReported)][-1]


@dataclass(slots=True)
class Running:
    """A source at work: what it told, what it measured."""

    ear: Ear
    registry: prom.CollectorRegistry
    task: "asyncio.Task[None]"

    def count(self, name: str, **labels: str) -> float:
        """A sample of the source's metrics, 0 where it was never set."""
        return self.registry.get_sample_value(f"topo_master_cluster_manager_{name}", labels) or 0.0

    async def counted(self, name: str, least: float, **labels: str) -> None:
        """Waits until the sample has reached that value."""
        await eventually(lambda: self.count(name, **labels) >= least)


@dataclass(slots=True)
class Bench:
    """Starts sources against managers, with short periods, and stops them all at the end."""

    tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    def start(self, manager: Simulator, ear: Ear | None = None, **changes: Any) -> Running:
        """A running source with these settings changed."""
        return self.run(replace(quick_settings(manager), **changes), ear)

    async def known(self, manager: Simulator, **changes: Any) -> Running:
        """A running source that has reported once."""
        running = self.start(manager, **changes)
        await running.ear.hear(ManagerReported)
        return running

    def run(self, settings: ClusterManagerSettings, ear: Ear | None = None) -> Running:
        """A running source with these settings."""
        ear = ear or Ear()
        registry = prom.CollectorRegistry()
        source = ClusterManager(settings, ear, registry, asyncio.get_running_loop().time)
        task = asyncio.create_task(source.run())
        self.tasks.append(task)
        return Running(ear, registry, task)


def quick_settings(manager: Simulator) -> ClusterManagerSettings:
    """The manager's address and files, and periods that suit a test."""
    return ClusterManagerSettings(
        address=manager.url,
        credentials_dir=manager.credentials_dir,
        ca_file=manager.ca_file,
        poll_topology_s=0.1,
        poll_events_s=0.03,
        connect_timeout_s=CEILING_S,
        read_timeout_s=CEILING_S,
        request_timeout_s=CEILING_S,
        max_answer_bytes=256 * 1024,
        backoff_base_s=0.01,
        backoff_ceiling_s=0.05,
        refused_login_wait_s=0.05,
    )


@pytest.fixture
def topology() -> ManagedTopology:
    """The demo cluster as a manager sees it."""
    return managed_topology(demo_world())


@pytest.fixture
async def manager(tmp_path: Path, topology: ManagedTopology) -> AsyncIterator[Simulator]:
    """A simulated manager in a directory of its own."""
    settings = SimulatorSettings(directory=tmp_path / "manager", topology=topology)
    async with simulator(settings, asyncio.get_running_loop().time) as running:
        yield running


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """Starts sources; a source that died by itself fails the test."""
    bench = Bench()
    yield bench
    for task in bench.tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def control(manager: Simulator) -> Callable[..., Any]:
    """Sends a call to the manager's control port."""

    async def call(method: str, path: str, /, **body: Any) -> dict[str, Any]:
        return await command(manager.directory, method, path, body or None)

    return call


@dataclass(slots=True)
class Secrets:
    """Every secret of a test, and everything that was said while it ran."""

    known: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def leaked(self) -> list[str]:
        """What was said that holds a secret."""
        return [line for line in self.said if any(secret in line for secret in self.known)]


@pytest.fixture(autouse=True)
def secrets(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> Iterator[Secrets]:
    """Fails any test of this part whose logs or events show a password or a token."""
    secrets = Secrets()
    login, submit = LoginSessions.login, Ear.submit

    def listening_login(self: LoginSessions, username: str, password: str) -> str | None:
        token = login(self, username, password)
        secrets.known += [password, *([token] if token else [])]
        return token

    def listening_submit(self: Ear, event: Event) -> bool:
        secrets.said.append(repr(event))
        return submit(self, event)

    monkeypatch.setattr(LoginSessions, "login", listening_login)
    monkeypatch.setattr(Ear, "submit", listening_submit)
    caplog.set_level(0)
    with structlog.testing.capture_logs() as entries:
        yield secrets
    password_file = tmp_path / "manager" / "secret" / "password"
    if password_file.exists():
        secrets.known.append(read_credential(password_file))
    secrets.said += [repr(entry) for entry in entries]
    secrets.said += [record.getMessage() for record in caplog.records]
    assert secrets.leaked() == []
