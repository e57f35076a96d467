"""The sweeps that nodes named by the operator report: which dumps they have, and their texts.

No I/O; `clock` is monotonic, `now` are seconds since 1970. A text is taken only from a node that is
named, for a dump that it has just listed, and only once: so what is held is bounded by the names.
The source reads the texts one by one and drops them.
"""

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from master.rate_limits import SenderLimits
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.wire import (
    MAX_DUMP_BYTES,
    MAX_SWEPT_PORTS,
    RECONNECT_S,
    SweepAnswer,
    SweepReport,
    SweptPort,
)

WAITING_BYTES = 32 << 20
"""Packed texts that are not read yet; beyond them no more are wanted."""
CALLS_PER_S = 1.0
CALLS_BURST = 40.0
"""A node reports each beat, and sends the text of each of its dumps once."""
_GZIP_BITS = 16 + zlib.MAX_WBITS


@dataclass(slots=True)
class _Host:
    """What a node said last; `held` are the digests of the texts that it sent, by port.

    `found_at`: when the last sweep of each port ended.
    """

    heard_s: float | None = None
    trouble: str = ""
    ports: dict[str, SweptPort] = field(default_factory=dict)
    found_at: dict[str, int] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SweptDump:
    """A dump that a node lists: its name, when it was found, its text if that is new."""

    name: str
    found_at: int
    packed: bytes | None


class Sweeps:
    """The sweeps of the named nodes, since this master started."""

    def __init__(
        self,
        nodes: Sequence[str],
        *,
        beat_s: float,
        stale_s: float,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.beat_s = beat_s
        self._stale_s = stale_s
        self._clock, self.now = clock, now
        self._began_s: float | None = None
        self._hosts = {NodeName(node): _Host() for node in nodes}
        self._calls = SenderLimits(CALLS_PER_S, CALLS_BURST)

    def names(self, node: NodeName) -> bool:
        """Return whether the dumps of a node count."""
        return node in self._hosts

    def admits(self, node: NodeName) -> bool:
        """Return whether this named node may call now; one call is counted."""
        return self._calls.take(node, self._clock())

    def hear(self, node: NodeName, report: SweepReport) -> SweepAnswer:
        """Take what a named node says; return which texts it should send.

        It forgets a port that the node lists no more, but not while the node has trouble, unless
        the ports are more than one report lists.
        """
        host = self._hosts[node]
        host.heard_s, host.trouble = self._clock(), report.trouble
        listed = {each.port: each for each in report.ports}
        now = self.now()
        host.found_at |= {port: int(now - each.age_s) for port, each in listed.items()}
        together = {**host.ports, **listed}
        host.ports = together if report.trouble and len(together) <= MAX_SWEPT_PORTS else listed
        for gone in host.found_at.keys() - host.ports.keys():
            del host.found_at[gone]
            host.held.pop(gone, None)
            host.waiting.pop(gone, None)
        return SweepAnswer(want=self._wanted(host), beat_s=self.beat_s)

    def deliver(
        self, node: NodeName, port: str, digest: str, packed: bytes
    ) -> SweepAnswer | Refusal:
        """Take the text of a dump that was wanted."""
        host = self._hosts[node]
        if port not in self._wanted(host) or host.ports[port].digest != digest:
            what = f"no dump of {port} with this digest is wanted"
            return Refusal(what, "path", "report the sweeps first, and send what the answer wants")
        host.held[port], host.waiting[port] = digest, packed
        return SweepAnswer(want=self._wanted(host), beat_s=self.beat_s)

    def dumps(self) -> Iterator[SweptDump]:
        """Yield all dumps that nodes list; a new text is handed out once."""
        for node, host in self._hosts.items():
            for port in sorted(host.ports.keys() & host.held.keys()):
                packed = host.waiting.pop(port, None)
                yield SweptDump(f"{node} {port}", host.found_at[port], packed)

    def warnings(self) -> Iterator[str]:
        """Yield what is wrong with the sweeps, a sentence each; none changes by time alone."""
        self._began_s = self._clock() if self._began_s is None else self._began_s
        agent = "see to its topo-worker --sweep-interval"
        for node, host in self._hosts.items():
            if host.heard_s is None:
                if self._clock() - self._began_s > self._stale_s + RECONNECT_S:
                    yield f"{node} is to sweep the fabric, and nothing came from it: {agent}"
            elif self._clock() - host.heard_s > self._stale_s:
                yield f"{node} sweeps no more; what its dumps said stays: {agent}"
            elif host.trouble:
                yield f"{node} did not sweep: {host.trouble}"
            for port, swept in sorted(host.ports.items()):
                if swept.trouble:
                    yield f"{node} {port}: {swept.trouble}"

    def _wanted(self, host: _Host) -> tuple[str, ...]:
        held = sum(len(packed) for each in self._hosts.values() for packed in each.waiting.values())
        if held > WAITING_BYTES:
            return ()
        listed = host.ports.items()
        return tuple(p for p, each in listed if each.digest and host.held.get(p) != each.digest)


def unpacked(name: str, packed: bytes) -> bytes | Refusal:
    """Return the text of a dump, `MAX_DUMP_BYTES` at most, whatever it is packed to."""
    again = "let topo-worker send it"
    member = zlib.decompressobj(_GZIP_BITS)
    try:
        text = member.decompress(packed, MAX_DUMP_BYTES)
    except zlib.error:
        return Refusal("the text is not packed by gzip", name, again)
    if member.unconsumed_tail:
        return Refusal(f"the dump has more than {MAX_DUMP_BYTES} bytes", name, again)
    if not member.eof or member.unused_data:
        return Refusal("the packed text ends too early or goes on after its end", name, again)
    return text
