"""Warnings about files that are read again while the master runs and cannot be used.

They are among the warnings of `/v1/topology` while they last.
"""

from dataclasses import dataclass, field

import structlog

from topo.model.conditions.master import MasterCondition
from topo.model.rest.topology import WarningDocument

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class FileWarnings:
    """One warning for each kind of file, by its code."""

    _warnings: dict[MasterCondition, WarningDocument] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """The current warnings."""
        return tuple(self._warnings[code] for code in sorted(self._warnings))

    def warn(self, code: MasterCondition, text: str, fix: str, *, where: str) -> None:
        """Set the warning about the file at `where`; log it if it is new."""
        warning = WarningDocument.of(code, text, fix)
        if self._warnings.get(code) != warning:
            _log.error("a file is in trouble", code=code, what=text, where=where, fix=fix)
        self._warnings[code] = warning

    def clear(self, code: MasterCondition) -> None:
        """Remove the warning about a kind of file."""
        self._warnings.pop(code, None)
