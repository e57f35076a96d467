"""The port of the workers: their identities, by token or account, and its connections."""

from master.authentication.tokens import Tokens
from master.cluster import Cluster
from master.composition.core import Core
from master.replicas.replicas import Replicas
from master.settings import MasterSettings
from master.sources.workers.identity import WorkerAccounts, WorkerIdentities
from master.sources.workers.port import WorkerPort
from master.sources.workers.refused import RefusedReports
from master.sources.workers.sessions import MAX_NODES, Sessions
from master.sources.workers.sweep_calls import SweepCalls
from master.tree.engine import Engine
from topo.discovery.sources import Startup
from topo.kit.serving.connections import Connections

CONNECTIONS_PER_NODE = 2
"""A worker has one connection; one that broke silently is held beside the new one for a while."""
REPORT_ANSWERS_BYTES = 16 * 1024 * 1024
"""Answers to reports that workers have not read; each has about 60 bytes."""


def worker_port(
    core: Core, tokens: Tokens, cluster: Cluster | None, replicas: Replicas | None
) -> WorkerPort:
    """Return the port that accepts the reports of workers, or forwards them to the leader."""
    settings, engine, replica = core.settings, core.engine, core.replica
    refused = RefusedReports(engine.submit)
    forward = replicas.forwarder.forward if replicas is not None else None
    return WorkerPort(
        identities=WorkerIdentities(tokens, _worker_accounts(settings, cluster)),
        sessions=_sessions(settings, engine, core.readiness.startup),
        refused=refused,
        clock=engine.clock,
        reports=core.metrics.reports,
        api=f"port {settings.server_port or 'that the log names'} of this master",
        role=lambda: replica.role,
        forward=forward,
        sweep_calls=SweepCalls(
            sweeps=core.sweeps,
            reports=core.metrics.reports,
            note=lambda code, sender, why: refused.add(code, sender, why, engine.clock()),
        ),
    )


def report_connections() -> Connections:
    """Return the connections of that port."""
    return Connections("reports", CONNECTIONS_PER_NODE * MAX_NODES, REPORT_ANSWERS_BYTES)


def _worker_accounts(settings: MasterSettings, cluster: Cluster | None) -> WorkerAccounts | None:
    wanted = settings.worker_account
    return WorkerAccounts(cluster.reviews, wanted) if cluster is not None and wanted else None


def _sessions(settings: MasterSettings, engine: Engine, startup: Startup) -> Sessions:
    return Sessions(
        submit=engine.submit,
        beat_s=settings.beat_interval,
        stale_s=settings.discovery.stale_s,
        forget_s=settings.discovery.forget_s,
        known=engine.knows,
        on_node=startup.note_first_report,
        on_resumed=startup.note_resumed_worker,
    )
