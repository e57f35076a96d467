"""The facts of the host, assembled from the last readings of all probes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from types import MappingProxyType
from typing import TypeVar

from topo.facts import parse
from topo.facts.assemble import assemble
from topo.model.errors import Refusal
from topo.model.machine import (
    MAX_LINK_ERRORS,
    Gpu,
    GpuFabric,
    LinkErrors,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NicNeighbour,
    NodeFacts,
    NodeIdentity,
    PortErrors,
    ProbeHealth,
    ProbeState,
    ServerPeers,
)
from topo.model.observation import ParsedProbe
from worker.probes.probe import Probe, Reading, shown

_T = TypeVar("_T")
DROP_AFTER_FAILURES = 3
"""After so many failures in a row the last good facts of a source are dropped. At the first failure
its stand-ins start, and its health is `failed`."""

_FIELD_OF: Mapping[type, str] = MappingProxyType(
    {
        Gpu: "gpus",
        LinkPort: "ports",
        GpuFabric: "fabrics",
        NetworkPort: "nics",
        NicNeighbour: "nic_neighbours",
        LinkMatrix: "matrix",
        ServerPeers: "peers",
    }
)


@dataclass(slots=True)
class _Source:
    """The last reading of one probe. `parsed` survives failures, see `DROP_AFTER_FAILURES`."""

    probe: Probe
    reading: Reading | None = None
    parsed: ParsedProbe | None = None
    refused: Refusal | None = None
    failures: int = 0
    has_counted: bool = False

    @property
    def health(self) -> ProbeHealth | None:
        if self.reading is None:
            return None
        if self.refused is not None:
            return ProbeHealth(self.probe.name, ProbeState.FAILED, shown(str(self.refused)))
        return ProbeHealth(self.probe.name, self.reading.state, self.reading.detail)


class HostFacts:
    """Readings in, facts out. Synchronous; the same readings give the same facts."""

    def __init__(self, identity: NodeIdentity, probes: Sequence[Probe]) -> None:
        self._identity = identity
        self._sources = {probe.name: _Source(probe) for probe in probes}
        self._facts: NodeFacts | None = None
        self._settled = False

    def add(self, name: str, reading: Reading) -> ProbeHealth:
        """Add a reading. Return the health of its probe: bad if no parser accepts the text."""
        source = self._sources[name]
        before = source.parsed, source.health, source.failures
        if reading.state is ProbeState.OK:
            if source.reading is None or source.reading.text != reading.text:
                _parse(source, reading.text)
        else:
            source.refused = None
        source.failures = source.failures + 1 if _failed(source, reading) else 0
        if any(_of_kind(source.parsed, LinkErrors)):
            source.has_counted = True
        if reading.state is ProbeState.ABSENT or source.failures >= DROP_AFTER_FAILURES:
            source.parsed = None
        source.reading = reading
        if (source.parsed, source.health, source.failures) != before:
            self._facts = None
        return source.health or ProbeHealth(name, reading.state)

    def needed(self, name: str) -> bool:
        """Return whether the probe must run: a stand-in only while its sources are incomplete.

        A source without warnings is complete: what it does not state, the host does not have. One
        with warnings (failed calls) is compared field by field. The facts of a failing source stay
        for a while, see `DROP_AFTER_FAILURES`; its stand-ins start at once, to be ready by then.
        """
        probe = self._sources[name].probe
        preferred = [self._sources[name] for name in probe.instead_of]
        if any(source.reading is None for source in preferred):
            return False
        well = [source.parsed for source in preferred if source.parsed and not source.failures]
        complete = len(well) == len(preferred) and not any(parsed.warnings for parsed in well)
        if preferred and complete:
            return False
        stated = frozenset(field for parsed in well for field in _fields(parsed))
        return not preferred or not probe.gives <= stated

    def settled(self) -> bool:
        """Return whether every probe that must run was read once; before, facts would mislead.

        Probes of counters are not awaited: a slow tool must not delay the first report.
        """
        self._settled = self._settled or all(
            source.reading is not None
            for source in self._sources.values()
            if source.probe.awaited
            and (not source.probe.instead_of or self.needed(source.probe.name))
        )
        return self._settled

    def facts(self) -> NodeFacts:
        """Return the facts of all probes that must run; the same object until something changes."""
        if self._facts is None:
            used = [source for name, source in self._sources.items() if self.needed(name)]
            parsed = [
                (source.probe.name, source.parsed) for source in used if source.reading is not None
            ]
            health = [source.health for source in used]
            self._facts = assemble(self._identity, parsed, [h for h in health if h is not None])
        return self._facts

    def link_errors(self) -> tuple[LinkErrors, ...]:
        """Return the error counters of links, at most `MAX_LINK_ERRORS`; the first source wins."""
        found: dict[tuple[int, int, str], LinkErrors] = {}
        for each in self._stated(LinkErrors):
            found.setdefault((each.gpu, each.link, each.kind), each)
        return tuple(islice(found.values(), MAX_LINK_ERRORS))

    def port_errors(self) -> tuple[PortErrors, ...]:
        """Return the error counters of the adapters' ports, at most `MAX_LINK_ERRORS`."""
        return tuple(islice(self._stated(PortErrors), MAX_LINK_ERRORS))

    def is_counted(self) -> bool:
        """Return whether every source of counters answers; else what is missing is not zero."""
        used = (source for name, source in self._sources.items() if self.needed(name))
        return all(
            source.reading is not None and not source.failures
            for source in used
            if not source.probe.awaited or source.has_counted
        )

    def _stated(self, kind: type[_T]) -> Iterator[_T]:
        used = (source for name, source in self._sources.items() if self.needed(name))
        return chain.from_iterable(_of_kind(source.parsed, kind) for source in used)


def _of_kind(parsed: ParsedProbe | None, kind: type[_T]) -> Iterator[_T]:
    for fact in parsed.facts if parsed is not None else ():
        if isinstance(fact, tuple):
            yield from (item for item in fact if isinstance(item, kind))


def _failed(source: _Source, reading: Reading) -> bool:
    if reading.state is ProbeState.OK:
        return source.refused is not None
    return reading.state is not ProbeState.ABSENT


def understand(text: str, probe_format: str) -> ParsedProbe | Refusal:
    """Parse the text of a probe. Never raises: an exception of the parser becomes a refusal."""
    try:
        return parse(text, probe_format)
    except Exception as error:  # noqa: BLE001 - one source must not stop the other probes
        return Refusal(f"our parser failed: {error!r}", probe_format, "please report this")


def _parse(source: _Source, text: str) -> None:
    """Parse a new text; a refused text keeps the facts of the one before."""
    parsed = understand(text, source.probe.format)
    if isinstance(parsed, Refusal):
        source.refused = parsed
    else:
        source.refused, source.parsed = None, parsed


def _fields(parsed: ParsedProbe) -> Iterator[str | None]:
    """Yield the fields of `NodeFacts` that a probe states."""
    for fact in parsed.facts:
        item: object = fact[0] if isinstance(fact, tuple) and fact else fact
        yield _FIELD_OF.get(type(item))
