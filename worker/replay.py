"""Replay of a recording instead of the host: its raw texts as readings, and simulated faults.

Beside the bundle may be `timeline.txt` (sentences with times, counted from the start of the
worker) and `faults.txt` (sentences that hold as long as they stand there; the file is watched).
"""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import structlog

from topo.kit.files import AbsentFile, WatchedFile, read_bounded
from topo.model.errors import BadInputError, Refusal
from topo.model.ids import NodeName
from topo.model.machine import LinkErrorKind, LinkErrors, NodeFacts, NodeIdentity
from topo.recording import bundle, timeline
from topo.recording.bundle import Bundle, RecordedProbe
from topo.recording.timeline import Fault, Timeline
from worker.probes.probe import READING_TIMEOUT_S, Probe, Reading
from worker.probes.sources import COMMAND_INTERVAL_S
from worker.settings import WorkerSettings

TIMELINE_FILE = "timeline.txt"
FAULTS_FILE = "faults.txt"
ERRORS_PER_S = 10
"""Rate of a simulated link that counts errors: enough for the alert on it."""
_MENDED = frozenset({LinkErrorKind.CORRECTED, LinkErrorKind.SYMBOL, LinkErrorKind.CRC})
_MAX_FILE_BYTES = 1 << 20

_log = structlog.get_logger(__name__)


class TimelineReplay:
    """A recording that plays from its construction on."""

    def __init__(
        self,
        directory: Path,
        recording: Bundle,
        script: Timeline,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bundle = recording
        self._script = script
        self._clock = clock
        self._begun_s = clock()
        self._file = WatchedFile(directory / FAULTS_FILE, _MAX_FILE_BYTES)
        self._standing: frozenset[Fault] = frozenset()
        self._risen: defaultdict[tuple[int, int], float] = defaultdict(float)
        self._counted_s = self._begun_s

    def probes(self, settings: WorkerSettings) -> tuple[Probe, ...]:
        """Return a probe per recording; only the first is read often: that applies the faults."""
        return tuple(
            Probe(
                name=recorded.probe,
                format=recorded.format,
                interval_s=COMMAND_INTERVAL_S if place else settings.probe_interval,
                timeout_s=READING_TIMEOUT_S,
                read=_repeated(recorded),
            )
            for place, recorded in enumerate(self.bundle.probes)
        )

    def identity(self, node_name: str) -> NodeIdentity:
        """Return the recorded identity, with another name if one is given."""
        found = self.bundle.identity
        return replace(found, name=NodeName(node_name)) if node_name else found

    def with_faults(self, facts: NodeFacts) -> NodeFacts:
        """Return the facts changed by the active faults."""
        faults = self._faults()
        return timeline.apply(faults, facts) if faults else facts

    def with_errors(self, node: NodeName, errors: Iterable[LinkErrors]) -> Iterator[LinkErrors]:
        """Yield the counters, increased on links that count errors; increases stay."""
        now_s = self._clock()
        for link in timeline.counting(self._faults(), node):
            self._risen[link] += (now_s - self._counted_s) * ERRORS_PER_S
        self._counted_s = now_s
        for each in errors:
            risen = self._risen.get((each.gpu, each.link), 0) if each.kind in _MENDED else 0
            yield replace(each, count=each.count + int(risen))

    def is_silent(self, node: NodeName) -> bool:
        """Return whether the worker of the node must send nothing now."""
        return timeline.is_silent(self._faults(), node)

    def _faults(self) -> frozenset[Fault]:
        self._read_faults_file()
        return self._standing | self._script.faults_at(self._clock() - self._begun_s)

    def _read_faults_file(self) -> None:
        """Read the faults file if it changed; an unreadable file changes nothing."""
        content = self._file.poll()
        if content is None:
            return
        if isinstance(content, AbsentFile):
            found: frozenset[Fault] | Refusal = frozenset()
        elif isinstance(content, Refusal):
            found = content
        else:
            found = timeline.parse_faults(content.decode("utf-8", "replace"))
        if isinstance(found, Refusal):
            _log.warning("faults file ignored", what=found.what, where=found.where, fix=found.fix)
            return
        self._standing = found


def open_replay(directory: Path) -> TimelineReplay:
    """Return the recording in a directory, with its timeline. Raises `BadInputError`."""
    recording = bundle.read(directory)
    if isinstance(recording, Refusal):
        raise BadInputError(recording)
    return TimelineReplay(directory, recording, _script(directory / TIMELINE_FILE))


def _script(path: Path) -> Timeline:
    content = read_bounded(path, _MAX_FILE_BYTES)
    if isinstance(content, AbsentFile):
        return Timeline()
    if not isinstance(content, Refusal):
        script = timeline.parse_timeline(content.decode("utf-8", "replace"))
        if not isinstance(script, Refusal):
            return script
        content = Refusal(script.what, f"{path}, {script.where}", script.fix)
    raise BadInputError(content)


def _repeated(recorded: RecordedProbe) -> Callable[[], Awaitable[Reading]]:
    reading = Reading(recorded.state, recorded.text, recorded.detail)

    async def read() -> Reading:
        return reading

    return read
