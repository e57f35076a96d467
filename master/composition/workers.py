"""The port of the workers, and who may call: tokens, accounts, limits."""

from collections.abc import Mapping
from dataclasses import dataclass

import prometheus_client as prom

from master.clear_text import API_TOKEN, WORKER_TOKEN, ClearText
from master.cluster import Cluster
from master.file_warnings import FileWarnings
from master.replicas.replicas import Replicas
from master.role import Replica
from master.settings import MasterSettings
from master.sources.workers.identity import WorkerAccounts, WorkerIdentities
from master.sources.workers.port import WorkerPort
from master.sources.workers.refused import RefusedReports
from master.sources.workers.sessions import Sessions
from master.tokens import API_TOKENS, WORKER_TOKENS, TokenFile, TokenFileKind, TokenMetrics, Tokens
from master.tree.engine import Clock, Engine
from topo.discovery.sources import Startup
from topo.kit.addresses import networks
from topo.kit.connections import Connections

CONNECTIONS_PER_NODE = 2
"""A worker has one; one that it lost without an end is held beside the new one for a while."""
REPORT_ANSWERS_BYTES = 16 * 1024 * 1024
"""Answers to reports that workers have not taken; each has about 60 bytes."""


@dataclass(frozen=True, slots=True)
class Callers:
    """Whose reports and changes are taken: tokens, their files, and what passed in clear."""

    workers: Tokens
    writers: Tokens
    files: Mapping[TokenFileKind, TokenFile]
    clear_text: ClearText


def known_callers(
    settings: MasterSettings, warnings: FileWarnings, registry: prom.CollectorRegistry, clock: Clock
) -> Callers:
    """Reads the files of tokens; raises `BadInputError`."""
    clear_text = ClearText(networks(settings.tls_proxies))
    clear_text.judge_manager(settings)
    files = _token_files(settings, warnings, TokenMetrics(registry), clock)
    anybody = Tokens(anonymous=settings.allow_anonymous_workers)
    workers = files[WORKER_TOKENS].tokens if WORKER_TOKENS in files else anybody
    writers = files[API_TOKENS].tokens if API_TOKENS in files else Tokens()
    workers.accepted = clear_text.accepting(WORKER_TOKEN)
    writers.accepted = clear_text.accepting(API_TOKEN)
    return Callers(workers, writers, files, clear_text)


def worker_identities(
    settings: MasterSettings, tokens: Tokens, cluster: Cluster | None
) -> WorkerIdentities:
    """Who a worker is: by its token, or by its service account."""
    return WorkerIdentities(tokens, _worker_accounts(settings, cluster))


def worker_port(
    settings: MasterSettings,
    engine: Engine,
    startup: Startup,
    *,
    identities: WorkerIdentities,
    replica: Replica,
    replicas: Replicas | None,
    reports: prom.Counter,
) -> WorkerPort:
    """What takes the reports of workers, or passes them on to the leader."""
    return WorkerPort(
        identities=identities,
        sessions=_sessions(settings, engine, startup),
        refused=RefusedReports(engine.submit),
        clock=engine.clock,
        reports=reports,
        api=f"port {settings.server_port or 'that the log names'} of this master",
        role=lambda: replica.role,
        forward=replicas.forwarder.forward if replicas is not None else None,
    )


def report_connections(settings: MasterSettings) -> Connections:
    """The connections of that port."""
    return Connections(
        "reports",
        CONNECTIONS_PER_NODE * settings.max_nodes,
        REPORT_ANSWERS_BYTES,
        setting="--max-nodes",
    )


def _token_files(
    settings: MasterSettings, warnings: FileWarnings, metrics: TokenMetrics, clock: Clock
) -> Mapping[TokenFileKind, TokenFile]:
    paths = {WORKER_TOKENS: settings.worker_token_file, API_TOKENS: settings.api_token_file}
    return {
        kind: TokenFile(path, kind, warnings=warnings, metrics=metrics, clock=clock)
        for kind, path in paths.items()
        if path is not None
    }


def _worker_accounts(settings: MasterSettings, cluster: Cluster | None) -> WorkerAccounts | None:
    wanted = settings.worker_account
    return WorkerAccounts(cluster.reviews, wanted) if cluster is not None and wanted else None


def _sessions(settings: MasterSettings, engine: Engine, startup: Startup) -> Sessions:
    return Sessions(
        submit=engine.submit,
        rate=settings.worker_rate_limit,
        beat_s=settings.beat_interval,
        stale_s=settings.discovery.stale_s,
        forget_s=settings.discovery.forget_s,
        max_nodes=settings.max_nodes,
        known=engine.knows,
        on_node=startup.node_reported,
        on_resumed=startup.worker_resumed,
    )
