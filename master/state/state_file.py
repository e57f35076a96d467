"""The state file: a `StateStore` on the local disk, readable by its owner only."""

import shutil
from pathlib import Path

import structlog

from master.state.document import SavedDiscovery, State, Unusable, decode
from topo.discovery.modes import Mode
from topo.kit.files import read_bounded, replace_whole
from topo.model.errors import Refusal
from topo.placement.booking.holds import HoldsMemory

MAX_STATE_BYTES = 1 << 30

_log = structlog.get_logger(__name__)


class StateFile:
    """Keeps the state in one file of JSON, which is replaced at once."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.is_new = False
        self._path = path
        self._saved_at_s: float | None = None

    def load(self, mode: Mode, now_s: float) -> State | HoldsMemory | None:
        """See `StateStore`; a file that is unusable is renamed to `NAME.<Unix time>.unusable`."""
        content = read_bounded(self._path, MAX_STATE_BYTES)
        if isinstance(content, Refusal):
            self.is_new = not self._path.exists()
            if not self.is_new:
                _log.warning("state file not used", reason=str(content))
            return None
        found = decode(content, mode)
        if isinstance(found, Unusable):
            self._set_aside(found, now_s)
            return found.holds
        if found.saved_at_s > now_s:
            _log.warning("state file is from the future; is the clock right?", file=self.name)
        self._saved_at_s = found.saved_at_s
        return found

    def _set_aside(self, found: Unusable, now_s: float) -> None:
        aside = self._path.with_name(f"{self._path.name}.{int(now_s)}.unusable")
        if found.holds is None:
            self._path.replace(aside)
        else:  # a master that ends before its first write must find the holds again
            shutil.copy2(self._path, aside)
        _log.warning("state file not used", reason=found.reason, moved_to=str(aside))

    def save(self, content: bytes, discovery: SavedDiscovery) -> None:
        """See `StateStore`; makes the directory where it is missing."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(self._path, content)
        self._saved_at_s = discovery.saved_at_s

    def age_s(self, now_s: float) -> float | None:
        """See `StateStore`."""
        return None if self._saved_at_s is None else max(0.0, now_s - self._saved_at_s)
