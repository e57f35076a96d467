"""Puts the worker together: its loops, and the application that serves /metrics and /health."""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from topo.facts.link_counts import link_counts
from topo.kit.tasks import Work, background
from topo.model.machine import LinkCount, LinkErrors, NodeFacts, NodeIdentity
from worker.host_facts import HostFacts
from worker.metrics import Metrics
from worker.pending_report import PendingReport
from worker.probes.catalogue import probes as probes_of_host
from worker.probes.identity import identify
from worker.probing import ProbeLoops
from worker.replay import TimelineReplay
from worker.reporting import ReportLoop
from worker.session import Session
from worker.settings import WorkerSettings
from worker.sweeping.reports import SweepReports
from worker.sweeping.sweeper import SWEEP_TIMEOUT_S, FabricSweeper
from worker.transport import MasterConnection

_STALLED_S = 60.0
"""No probe has ended for so long: something is wrong, unless all of them pause for longer."""
_MARGIN = 2
"""On a busy host a reading may be late without anything being wrong."""


@dataclass(frozen=True, slots=True)
class Agent:
    """The parts of a worker, put together and not yet started.

    `age_s`: since the last sign of its work, which is due within `due_within_s`.
    """

    metrics: Metrics
    master: MasterConnection
    works: Mapping[str, Work]
    age_s: Callable[[], float]
    due_within_s: Callable[[], float]
    close: Callable[[], None]


def build_agent(
    settings: WorkerSettings,
    replay: TimelineReplay | None,
    clock: Callable[[], float] = time.monotonic,
) -> Agent:
    """Return a worker for this host, for the recording, or for the fabric."""
    if settings.sweep_interval:
        return _sweeping_agent(settings, clock)
    identity = identity_of(settings, replay)
    probes = probes_of_host(settings) if replay is None else replay.probes(settings)
    pending, host = PendingReport(), HostFacts(identity, probes)

    def link_errors() -> Iterable[LinkErrors]:
        counted = host.link_errors()
        return replay.with_errors(identity.name, counted) if replay else counted

    def counts() -> tuple[LinkCount, ...] | None:
        return link_counts((*link_errors(), *host.port_errors())) if host.is_counted() else None

    metrics = Metrics(link_errors, host.port_errors)

    def with_faults(facts: NodeFacts) -> NodeFacts:
        return replay.with_faults(facts) if replay else facts

    def is_silent() -> bool:
        return replay is not None and replay.is_silent(identity.name)

    loops = ProbeLoops(
        probes,
        host,
        pending,
        metrics=metrics,
        clock=clock,
        with_faults=with_faults,
    )
    master = _connection(settings)
    session = Session(identity.name, secrets.token_hex(8))
    reporting = ReportLoop(pending, session, master, metrics, counts=counts, is_silent=is_silent)
    return Agent(
        metrics,
        master,
        works={**loops.works(), "reports": reporting.run},
        age_s=lambda: loops.age_s,
        due_within_s=lambda: loops.reading_due_within_s,
        close=loops.close,
    )


def _sweeping_agent(settings: WorkerSettings, clock: Callable[[], float]) -> Agent:
    """Return a worker that sweeps the fabric of this host, and reads nothing else of it."""
    metrics, master = Metrics(), _connection(settings)
    sweeper = FabricSweeper(settings.sysfs_root, settings.sweep_interval, metrics, clock)
    reports = SweepReports(sweeper, master, metrics)
    return Agent(
        metrics,
        master,
        works={"sweeps": sweeper.run, "reports": reports.run},
        age_s=lambda: sweeper.age_s,
        due_within_s=lambda: settings.sweep_interval + SWEEP_TIMEOUT_S,
        close=lambda: None,
    )


def _connection(settings: WorkerSettings) -> MasterConnection:
    return MasterConnection(
        settings.server_url, token_file=settings.token_file, tls_ca=settings.tls_ca
    )


def identity_of(settings: WorkerSettings, replay: TimelineReplay | None) -> NodeIdentity:
    """Return the recording's identity, else this host's; a node name that was given beats both."""
    if replay is None:
        return identify(
            settings.node_name,
            node_ip=settings.node_ip,
            sysfs_root=settings.sysfs_root,
        )
    return replay.identity(settings.node_name)


def build_app(agent: Agent) -> web.Application:
    """Yield the application; the agent's work runs while it does."""

    async def connections(_: web.Application) -> AsyncIterator[None]:
        async with agent.master:
            yield
        agent.close()

    async def get_metrics(_: web.Request) -> web.Response:
        page = generate_latest(agent.metrics.registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def get_health(_: web.Request) -> web.Response:
        age_s = agent.age_s()
        stalled_s = max(_STALLED_S, _MARGIN * agent.due_within_s())
        status = 200 if age_s < stalled_s else 503
        return web.Response(status=status, text=f"last reading {age_s:.1f} s ago\n")

    app = web.Application()
    app.router.add_get("/metrics", get_metrics)
    for path in ("/health", "/healthz", "/livez"):
        app.router.add_get(path, get_health)
    app.cleanup_ctx.extend((connections, background(lambda _: agent.works)))
    return app
