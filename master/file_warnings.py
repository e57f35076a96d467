"""Files that are read again while the master runs, and cannot be used as they are.

They are among the warnings of `/v1/topology` for as long as that is so.
"""

from dataclasses import dataclass, field

import structlog

from topo.model.conditions.master import MasterCondition
from topo.model.rest.topology import WarningDocument

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class FileWarnings:
    """One for each kind of file, by its code."""

    _warnings: dict[MasterCondition, WarningDocument] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """Those that stand now."""
        return tuple(self._warnings[code] for code in sorted(self._warnings))

    def warn(self, code: MasterCondition, text: str, fix: str, *, where: str) -> None:
        """The file at `where` is in trouble; it is logged where this is new."""
        warning = WarningDocument.of(code, text, fix)
        if self._warnings.get(code) != warning:
            _log.error("a file is in trouble", code=code, what=text, where=where, fix=fix)
        self._warnings[code] = warning

    def well(self, code: MasterCondition) -> None:
        """The file of this kind is as it should be."""
        self._warnings.pop(code, None)
