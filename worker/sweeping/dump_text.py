"""The output of a sweep while it is printed: packed, its digest, and what it reaches.

A dump may have 64 MB, so only the packed text is kept. The digest leaves out comments: the title
has the time of the sweep, and a fabric that stayed as it was need not travel again.
"""

import hashlib
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from topo.model.fabric import normalized_guid
from topo.model.machine import NetworkPort

_GZIP_BITS = 16 + zlib.MAX_WBITS
_LONGEST_LINE = 64 << 10
"""Longer ones are none of the program, and are not kept until they end."""
_COMMENT = re.compile(rb"^#.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PackedDump:
    """A dump packed by gzip, its digest, and those ports of this host that are in it."""

    packed: bytes
    digest: str
    reached: frozenset[NetworkPort]


class DumpText:
    """Takes the pieces of one output. A port is reached if a device names it as its far end:

    `[3] "H-b83fd20300c00006"[1](…)`, the adapter's node GUID and the number of its port.
    """

    def __init__(self, ports: Iterable[NetworkPort]) -> None:
        self._packer = zlib.compressobj(wbits=_GZIP_BITS)
        self._packed = bytearray()
        self._digest = hashlib.sha256()
        self._line = b""
        guids = ((port, normalized_guid(port.node_guid)) for port in ports)
        self._sought = {f'"H-{guid}"[{p.port}]'.encode(): p for p, guid in guids if guid}
        self._reached: set[NetworkPort] = set()

    def take(self, piece: bytes) -> None:
        """Take the next piece, which may end inside a line."""
        self._packed += self._packer.compress(piece)
        lines, end, rest = (self._line + piece).rpartition(b"\n")
        self._line = rest if len(rest) < _LONGEST_LINE else b""
        self._look(lines + end if self._line == rest else lines + end + rest)

    def end(self) -> PackedDump:
        """Return the dump once the output has ended."""
        self._look(self._line)
        self._packed += self._packer.flush()
        return PackedDump(bytes(self._packed), self._digest.hexdigest(), frozenset(self._reached))

    def _look(self, lines: bytes) -> None:
        self._digest.update(_COMMENT.sub(b"", lines))
        self._reached |= {port for far_end, port in self._sought.items() if far_end in lines}
