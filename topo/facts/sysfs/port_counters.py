"""The error counters of `/sys/class/infiniband/*/ports/*/counters` as lines `path: content`.

Names: Linux, drivers/infiniband/core/sysfs.c. They are those of the management datagram
PortCounters (InfiniBand Architecture 1.4, 16.1.3.5), which stop at 15, 255 or 65535 and rise no
further: a counter that stands there says that there were so many, and of later ones nothing.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from topo.facts.reading import folding
from topo.facts.reading.text import WHOLE_TEXT, bounded, numbered_lines, shorten, whole
from topo.facts.sysfs import infiniband, roots
from topo.model.errors import Refusal
from topo.model.machine import LinkErrorKind, PortErrors
from topo.model.observation import ParsedProbe

FORMAT = "sysfs-infiniband-counters"
KINDS: Mapping[str, LinkErrorKind] = MappingProxyType(
    {
        "symbol_error": LinkErrorKind.SYMBOL,
        "link_error_recovery": LinkErrorKind.RECOVERY,
        "link_downed": LinkErrorKind.LINK_DOWNED,
        "local_link_integrity_errors": LinkErrorKind.LINK_INTEGRITY,
        "port_rcv_errors": LinkErrorKind.RECEIVE,
        "excessive_buffer_overrun_errors": LinkErrorKind.BUFFER_OVERRUN,
    }
)
_TREE = "class/infiniband/"
_LINE = re.compile(
    rf"[ \t]*(\S{{0,160}}?){_TREE}([\w.-]{{1,64}})/ports/([0-9]{{1,3}})/counters/(\w{{1,64}}):(.*)",
    re.ASCII,
)
_COUNTED = re.compile(rf"{_TREE}[\w.-]{{1,64}}/ports/[0-9]{{1,3}}/counters/\w{{1,64}}:", re.ASCII)
_STATE = re.compile(r"/ports/[0-9]{1,3}/state:", re.ASCII)
_MAX_PORT = 256
_MAX_DIGITS = 20


def recognises(text: str) -> bool:
    """Return whether `text` has counters of ports and no port itself. O(len(text))."""
    is_tree = _TREE in text and infiniband.recognises(text)
    return is_tree and _COUNTED.search(text) is not None and _STATE.search(text) is None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the counters of every port. What is no number is left out with a warning. O(text)."""
    found: dict[tuple[str, int, LinkErrorKind], int] = {}
    trees: dict[str, None] = {}
    warnings = folding.open_paths(text, _TREE)
    for number, line in numbered_lines(text):
        match = _LINE.fullmatch(line) if _TREE in line else None
        if match is None:
            continue
        root, hca, port, name, word = match.groups()
        trees.setdefault(root)
        count = whole(word.strip(), _MAX_DIGITS)
        if name not in KINDS or int(port) > _MAX_PORT:
            continue
        if count is None:
            warnings.append(f"line {number}: {name} of {hca} is {shorten(word.strip(), 40)!r}")
        else:
            found.setdefault((hca, int(port), KINDS[name]), count)
    if (refusal := roots.conflict(trees)) is not None:
        return refusal
    if not found:
        fix = "give the lines `path: content` of /sys/class/infiniband/*/ports/*/counters"
        return Refusal("no counter of a port", WHOLE_TEXT, fix)
    errors = tuple(PortErrors(*key, count) for key, count in found.items())
    return ParsedProbe(FORMAT, (errors,), bounded(warnings))
