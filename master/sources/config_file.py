"""The configured tree: a file that is swapped under us, of which the last good version counts."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import structlog

from master.engine import EventSink
from topo.discovery.parse import parse
from topo.kit.files import WatchedFile
from topo.model.errors import Refusal
from topo.model.observation import (
    CONFIG_FILE,
    ConfigLoaded,
    DeclaredForest,
    Event,
    SourceFailed,
    SourceRecovered,
)

MAX_CONFIG_BYTES = 16 << 20
"""A tree of 100,000 nodes is about 8 MB; a ConfigMap cannot exceed 1 MiB."""


_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ConfigFile:
    """Looks at the file every `poll_s` and tells what changed: a new tree, or why there is none."""

    sink: EventSink
    path: Path
    poll_s: float

    async def run(self) -> None:
        """Runs until cancelled."""
        watched = WatchedFile(self.path, MAX_CONFIG_BYTES)
        good: ConfigLoaded | None = None
        untold: Event | None = None
        while True:
            content = await asyncio.to_thread(watched.poll)
            if content is not None:
                event = await asyncio.to_thread(observed, content)
                self._log(event)
                untold = SourceRecovered(CONFIG_FILE) if event == good else event
                good = event if isinstance(event, ConfigLoaded) else good
            if untold is not None and self.sink.submit(untold):
                untold = None  # a full queue hears it at the next look
            await asyncio.sleep(self.poll_s)

    def _log(self, event: ConfigLoaded | SourceFailed) -> None:
        if isinstance(event, SourceFailed):
            _log.warning("config file not used; the last good one stays", reason=event.refusal)
        else:
            _log.info("config file read", file=str(self.path))


def observed(content: bytes | Refusal) -> ConfigLoaded | SourceFailed:
    """What the file's content states."""
    if isinstance(content, Refusal):
        return SourceFailed(CONFIG_FILE, str(content))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        refused = Refusal("the file is not UTF-8 text", f"line {line}", "save it as UTF-8")
        return SourceFailed(CONFIG_FILE, str(refused))
    parsed = parse(text, "nodegroup")
    if isinstance(parsed, Refusal):
        return SourceFailed(CONFIG_FILE, str(parsed))
    for fact in parsed.facts:
        if isinstance(fact, DeclaredForest):
            return ConfigLoaded(fact)
    return ConfigLoaded(DeclaredForest())
