"""What a node has shown of its hardware, and what of it is missing now.

Result: for one reading the subjects that vanished: GPUs, wired link ports of a GPU, fast links
between GPUs of the node, network ports.

Why counts and not names: a driver that loses a GPU renumbers the others, and the names of
network ports change with the rules of the host, so a name that is gone proves nothing; fewer than
before do. A port counts as wired while it is up or down: one that turns `unused` has vanished like
one that is no longer listed. Virtual functions come and go with the pods and are not counted.

Why a reboot forgets nothing: a GPU that fell off the bus is mostly still gone after it. What was
there is missed until the node shows GPUs of another type in another boot (then it is another
machine), or until it has been gone for so long that it was taken out.

Why two readings in a row: one that shows too much would make the node lack it for a day, and its
equals with it. What counts is what two readings in a row show at least; a beat is a reading like
the last one.

Cost: O(GPUs + ports) of a reading.

Example: a node twice shows 8 GPUs with 7 wired ports each, then 7 GPUs with 7 ports each: one GPU
is missing, no port. Then 8 GPUs, of which GPU 2 lists 5 wired ports: 2 ports of GPU 2 are missing.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

from topo.discovery.modes import MISSED
from topo.discovery.node.health import Subject, failing_probes
from topo.discovery.node.inside_links import LinkCounts, fast_links
from topo.discovery.node.per_object import once_per_object
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Reason
from topo.model.machine import LinkPort, NodeFacts, PortState

T = TypeVar("T", int, str)
_Counted = tuple[tuple[T, int], ...]
Ports = tuple[LinkPort, ...]
PortCounts = tuple[tuple[int, int], ...]

GPUS: Subject = ("gpus", "")
NICS: Subject = ("nics", "")
_PORTS, _LINKS = "ports", "links"


class _Counts(NamedTuple):
    """What one reading shows."""

    gpus: int
    ports: PortCounts
    links: LinkCounts
    nics: int


_NOTHING = _Counts(0, (), (), 0)


@dataclass(slots=True)
class ShownHardware:
    """The most that two readings in a row have shown. Mutable.

    `ports`: (GPU, its wired link ports). `gpus` is None before there were two readings.
    """

    gpus: int | None = None
    gpu_type: str = ""
    ports: PortCounts = ()
    nics: int = 0
    links: LinkCounts = ()
    _now: _Counts = _NOTHING
    _before: _Counts | None = None

    def see(self, facts: NodeFacts, gpu_type: str, *, rebooted: bool) -> bool:
        """Take one reading; whether more is known now to be there, or less."""
        known = self.gpus
        # Another GPU type after a reboot is another machine: what the old one had is not missing.
        if rebooted and "" not in {gpu_type, self.gpu_type} and gpu_type != self.gpu_type:
            self.gpus, self.nics = None, 0
            self.ports = self.links = ()
            self._before = None
        self.gpu_type = gpu_type or self.gpu_type
        links, ports = fast_links(facts.matrix), _wired(facts.ports)
        self._now = _Counts(len(facts.gpus), ports, links, _nic_count(facts))
        if self._before is not None:
            self._count(self._before)
        self._before = self._now
        return self.gpus != known

    def see_again(self) -> bool:
        """Take a reading equal to the last one; whether more is known now to be there."""
        # Two equal readings were counted already; a third one adds nothing.
        if self._before is None:
            return False
        known, self._before = self.gpus, None
        self._count(self._now)
        return self.gpus != known

    def _count(self, before: _Counts) -> None:
        """Count what both the last reading and the one before it show."""
        now = self._now
        self.gpus = max(self.gpus or 0, min(now.gpus, before.gpus))
        self.nics = max(self.nics, min(now.nics, before.nics))
        # Equal counts, the usual case, skip the merge of hundreds of ports.
        if now.ports != self.ports:
            self.ports = _shared(tuple(sorted(_most(self.ports, _least(now.ports, before.ports)))))
        if now.links != self.links:
            self.links = _most(self.links, _least(now.links, before.links))

    def accept(self, missing: Collection[Subject], gpus: int) -> None:
        """Accept that the last reading has all there is of these subjects; it showed `gpus` GPUs.

        Fewer GPUs have fewer links to each other.
        """
        if GPUS in missing:
            self.gpus, self.links = gpus, self._now.links
        if NICS in missing:
            self.nics = self._now.nics
        # Accept only what was asked for: other GPUs keep the most that they have shown.
        ports, links = dict(self._now.ports), dict(self._now.links)
        self.ports = _shared(
            tuple(
                (gpu, wired)
                for gpu, most in self.ports
                if (wired := ports.get(gpu, 0) if _port_subject(gpu) in missing else most)
            )
        )
        self.links = tuple(
            (gpu, links.get(gpu, 0) if (_LINKS, gpu) in missing else most)
            for gpu, most in self.links
        )

    def missing(self, facts: NodeFacts, missed: Collection[str]) -> dict[Subject, Reason]:
        """Return what the last reading, `facts`, lacks of ports; of GPUs `health.judge` says it."""
        bad: dict[Subject, Reason] = {}
        if "ports" in missed and self._now.ports != self.ports:
            now, listed = dict(self._now.ports), {gpu.index for gpu in facts.gpus}
            for gpu, most in self.ports:
                if (wired := now.get(gpu, 0)) < most and gpu in listed:
                    text = _shortfall_text(f"GPU {gpu}: {wired} of {most} link ports", facts)
                    bad[_port_subject(gpu)] = Reason(NodeCondition.PORTS_MISSING, text)
        if "links" in missed and self._now.links != self.links:
            bad |= self._missing_links(facts)
        if "nics" in missed and self._now.nics < self.nics:
            text = _shortfall_text(f"{self._now.nics} of {self.nics} network ports", facts)
            bad[NICS] = Reason(NodeCondition.NICS_MISSING, text)
        return bad

    def _missing_links(self, facts: NodeFacts) -> dict[Subject, Reason]:
        """Return the missing fast links; none without a matrix, or while GPUs are missing."""
        if not self._now.links or len(facts.gpus) < (self.gpus or 0):
            return {}
        now = dict(self._now.links)
        return {
            (_LINKS, gpu): Reason(
                NodeCondition.LINKS_MISSING,
                f"{gpu} has fast links to {now[gpu]} of {most} GPUs of its node",
            )
            for gpu, most in self.links
            if now.get(gpu, most) < most
        }


def _port_subject(gpu: int) -> Subject:
    return _PORTS, f"{gpu:03}"


def is_missing(subject: Subject) -> bool:
    """Return whether a subject stands for hardware that vanished."""
    return subject[0] in MISSED


@once_per_object
def _wired(ports: Ports) -> PortCounts:
    """Return how many ports of each GPU are wired."""
    counts: dict[int, int] = {}
    unused = PortState.UNUSED
    for port in ports:
        if port.state is not unused:
            counts[port.gpu] = counts.get(port.gpu, 0) + 1
    return _shared(tuple(sorted(counts.items())))


def _most(one: _Counted[T], other: _Counted[T]) -> _Counted[T]:
    if not one:
        return other
    counts = dict(one)
    for key, count in other:
        counts[key] = max(count, counts.get(key, 0))
    return tuple(counts.items())


def _least(one: _Counted[T], other: _Counted[T]) -> _Counted[T]:
    if one == other:
        return one
    counts = dict(other)
    return tuple((key, min(count, counts[key])) for key, count in one if key in counts)


@lru_cache(maxsize=256)
def _shared(counts: PortCounts) -> PortCounts:
    """Return one object for equal counts, which equal hosts show."""
    return counts


def _nic_count(facts: NodeFacts) -> int:
    return sum([not nic.virtual for nic in facts.nics])


def _shortfall_text(what: str, facts: NodeFacts) -> str:
    why = failing_probes(facts)
    return f"{what} reported ({why})" if why else f"{what} reported"
