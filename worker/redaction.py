"""What must not leave the host in a support bundle: processes, and whatever looks like a secret."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from topo.kit.logs import hide_in_text
from topo.model.errors import Refusal
from worker.host_facts import understand

_PROCESSES: Mapping[str, tuple[re.Pattern[str], str]] = MappingProxyType(
    {
        "nvidia-smi-xml": (
            re.compile(r"<(processes|accounted_processes)>.*?(?:</\1>|\Z)", re.DOTALL),
            r"<\1/>",
        ),
        "mx-smi-table": (re.compile(r"^[ \t]*\|[ \t]*Process.*\Z", re.DOTALL | re.MULTILINE), ""),
    }
)
"""Where a format lists processes with their command lines, and what stands there instead.

No parser reads them. mx-smi prints its table of processes last. Source: `nvidia-smi -q -x` (DTD
versions 12 and 13), and the table that `topo.facts.metax.mx_smi_table` documents.
"""
_MARKUP = re.compile(r"(<[^<>]*>)")
_MARKED_UP = frozenset({"nvidia-smi-xml"})


def fit_to_leave(text: str, probe_format: str) -> str | None:
    """The text without processes and with its secrets masked; None where it must be withheld.

    It is withheld where masking changes what the text says: a recording must not lie, and the
    unmasked text is no way out. A text that nobody understands is masked all the same.
    """
    listed = _PROCESSES.get(probe_format)
    bare = listed[0].sub(listed[1], text) if listed else text
    masked = _masked(bare, probe_format)
    return masked if masked == bare or reads_the_same(bare, masked, probe_format) else None


def reads_the_same(before: str, after: str, probe_format: str) -> bool:
    """Whether what is understood of a text survives in its changed form."""
    said = understand(before, probe_format)
    return isinstance(said, Refusal) or understand(after, probe_format) == said


def _masked(text: str, probe_format: str) -> str:
    """Masks secrets, between tags where the format has tags: a mask must not eat into markup."""
    if probe_format not in _MARKED_UP:
        return hide_in_text(text)
    return "".join(hide_in_text(part) for part in _MARKUP.split(text))
