"""The tokens of both ports, their files, and the check for clear text."""

from collections.abc import Mapping
from dataclasses import dataclass

import prometheus_client as prom

from master.authentication.cleartext import API_TOKEN, WORKER_TOKEN, CleartextSecrets
from master.authentication.tokens import (
    API_TOKENS,
    WORKER_TOKENS,
    TokenFile,
    TokenFileKind,
    TokenMetrics,
    Tokens,
)
from master.file_warnings import FileWarnings
from master.settings import MasterSettings
from master.tree.engine import Clock
from topo.kit.addresses import parse_networks


@dataclass(frozen=True, slots=True)
class PortTokens:
    """The tokens of each port, and the files that they come from."""

    workers: Tokens
    writers: Tokens
    files: Mapping[TokenFileKind, TokenFile]
    cleartext: CleartextSecrets


def read_port_tokens(
    settings: MasterSettings, warnings: FileWarnings, registry: prom.CollectorRegistry, clock: Clock
) -> PortTokens:
    """Read the files of tokens. Raises `BadInputError`."""
    cleartext = CleartextSecrets(parse_networks(settings.tls_proxies))
    cleartext.judge_manager(settings)
    files = _token_files(settings, warnings, TokenMetrics(registry), clock)
    anybody = Tokens(anonymous=settings.allow_anonymous_workers)
    workers = files[WORKER_TOKENS].tokens if WORKER_TOKENS in files else anybody
    writers = files[API_TOKENS].tokens if API_TOKENS in files else Tokens()
    workers.accepted = cleartext.accepting(WORKER_TOKEN)
    writers.accepted = cleartext.accepting(API_TOKEN)
    return PortTokens(workers, writers, files, cleartext)


def _token_files(
    settings: MasterSettings, warnings: FileWarnings, metrics: TokenMetrics, clock: Clock
) -> Mapping[TokenFileKind, TokenFile]:
    paths = {WORKER_TOKENS: settings.worker_token_file, API_TOKENS: settings.api_token_file}
    return {
        kind: TokenFile(path, kind, warnings=warnings, metrics=metrics, clock=clock)
        for kind, path in paths.items()
        if path is not None
    }
