"""The source that watches and parses the config file, and keeps its last good version."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import structlog

from master.sources.row import SourceContext, SourceRow
from master.tree.engine import EventSink, send_event
from topo.discovery.sources import CONFIGURED
from topo.facts import MAX_BYTES, decode, parse
from topo.kit.files import LOOK_S, WatchedFile
from topo.kit.tasks import Work
from topo.kit.threads import off_loop
from topo.model.conditions.sources import SourceCondition
from topo.model.errors import Refusal
from topo.model.forest import SourceWarning
from topo.model.observation import (
    CONFIG_FILE,
    ConfigLoaded,
    DeclaredForest,
    SourceFailed,
    SourceRecovered,
    SourceWarned,
)

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ConfigFile:
    """Polls the file every `LOOK_S` and sends changes: a forest, or why there is none."""

    sink: EventSink
    path: Path

    async def run(self) -> None:
        """Poll until cancelled."""
        watched = WatchedFile(self.path, MAX_BYTES)
        good: ConfigLoaded | None = None
        while True:
            content = await off_loop(watched.poll)
            if content is not None:
                event, warnings = await asyncio.to_thread(observed, content)
                self._log(event, warnings)
                await send_event(
                    self.sink, SourceRecovered(CONFIG_FILE) if event == good else event
                )
                if isinstance(event, ConfigLoaded):
                    good = event
                    await send_event(self.sink, _doubts(warnings))
            await asyncio.sleep(LOOK_S)

    def _log(self, event: ConfigLoaded | SourceFailed, warnings: tuple[str, ...]) -> None:
        for warning in warnings:  # once per content: the same one is not looked at again
            _log.warning("config file: is this meant?", doubt=warning, file=str(self.path))
        if isinstance(event, SourceFailed):
            _log.warning(
                "config file not used; the last good one stays", reason=event.refusal, fix=event.fix
            )
        else:
            _log.info("config file read", file=str(self.path))


def observed(content: bytes | Refusal) -> tuple[ConfigLoaded | SourceFailed, tuple[str, ...]]:
    """Return the event of the file's content, and warnings about it."""
    text = content if isinstance(content, Refusal) else decode(content)
    parsed = text if isinstance(text, Refusal) else parse(text, "nodegroup")
    if isinstance(parsed, Refusal):
        return SourceFailed.of(CONFIG_FILE, parsed), ()
    declared = [fact for fact in parsed.facts if isinstance(fact, DeclaredForest)]
    return ConfigLoaded(declared[0] if declared else DeclaredForest()), parsed.warnings


def _doubts(warnings: tuple[str, ...]) -> SourceWarned:
    """Return the warnings about the file, which last until its content changes."""
    of_each = SourceWarning.of_each(SourceCondition.DOUBTFUL_CONFIG, warnings)
    return SourceWarned(CONFIG_FILE, of_each)


def _start(context: SourceContext) -> Work:
    settings = context.settings
    return ConfigFile(context.sink, settings.config_file).run


ROW = SourceRow(CONFIGURED, _start)
