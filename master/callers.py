"""Whose reports and changes are taken: tokens, their files, and what passed in clear."""

from collections.abc import Mapping
from dataclasses import dataclass

import prometheus_client as prom

from master.clear_text import API_TOKEN, WORKER_TOKEN, ClearText
from master.file_warnings import FileWarnings
from master.settings import MasterSettings
from master.tokens import API_TOKENS, WORKER_TOKENS, TokenFile, TokenFileKind, TokenMetrics, Tokens
from master.tree.engine import Clock
from topo.kit.addresses import networks


@dataclass(frozen=True, slots=True)
class Callers:
    """The tokens of each port, and the files that they come from."""

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


def _token_files(
    settings: MasterSettings, warnings: FileWarnings, metrics: TokenMetrics, clock: Clock
) -> Mapping[TokenFileKind, TokenFile]:
    paths = {WORKER_TOKENS: settings.worker_token_file, API_TOKENS: settings.api_token_file}
    return {
        kind: TokenFile(path, kind, warnings=warnings, metrics=metrics, clock=clock)
        for kind, path in paths.items()
        if path is not None
    }
