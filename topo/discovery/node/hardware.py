"""What a node has shown of its hardware, and what of it is missing now.

Result: for one reading the subjects that vanished: GPUs, wired link ports of a GPU, fast links
between GPUs of the node, network ports.

Why counts and not names: a driver that loses a GPU numbers the others anew, and the names of
network ports change with the rules of the host, so a name that is gone proves nothing; fewer than
before do. A port counts as wired while it is up or down: one that turns `unused` has vanished like
one that is no longer listed. Virtual functions come and go with the pods and are not counted.

Why a reboot forgets nothing: a GPU that fell off the bus is mostly still gone after it. What was
there is missed until the node shows GPUs of another type in another boot (then it is another
machine), or until it has been gone for so long that it was taken out.

Cost: O(GPUs + ports) of a reading.

Example: a node shows 8 GPUs with 7 wired ports each, then 7 GPUs with 7 ports each: one GPU is
missing, no port. Then 8 GPUs, of which GPU 2 lists 5 wired ports: 2 ports of GPU 2 are missing.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from topo.discovery.modes import MISSED
from topo.discovery.node.health import Subject, failing
from topo.discovery.node.inside_links import LinkCounts, fast_links
from topo.discovery.node.per_object import once_per_object
from topo.model.forest import Reason
from topo.model.machine import LinkPort, NodeFacts, PortState

T = TypeVar("T", int, str)
Ports = tuple[LinkPort, ...]
PortCounts = tuple[tuple[int, int], ...]

GPUS: Subject = ("gpus", "")
NICS: Subject = ("nics", "")
_PORTS, _LINKS = "ports", "links"


@dataclass(slots=True)
class ShownHardware:
    """The most that a node has shown. `ports`: (GPU, its wired link ports). Mutable."""

    gpus: int = 0
    gpu_type: str = ""
    ports: PortCounts = ()
    nics: int = 0
    links: LinkCounts = ()
    _now: PortCounts = ()
    _nics_now: int = 0
    _links_now: LinkCounts = ()

    def see(self, facts: NodeFacts, gpu_type: str, *, rebooted: bool) -> None:
        """Take one reading."""
        self._now, self._nics_now = _wired(facts.ports), _nics(facts)
        self._links_now = fast_links(facts.matrix)
        if rebooted and "" not in {gpu_type, self.gpu_type} and gpu_type != self.gpu_type:
            self.gpus = self.nics = 0
            self.ports = self.links = ()
        self.gpus = max(self.gpus, len(facts.gpus))
        self.gpu_type = gpu_type or self.gpu_type
        if self._now != self.ports:
            most = _shared(tuple(sorted(_most(self.ports, self._now)))) if self.ports else self._now
            self.ports = most
        self.nics = max(self.nics, self._nics_now)
        if self._links_now != self.links:
            links = tuple(_most(self.links, self._links_now)) if self.links else self._links_now
            self.links = links

    def accept(self, missing: Collection[Subject], gpus: int) -> None:
        """Of these subjects the last reading, which showed so many GPUs, has all there is.

        Fewer GPUs have fewer links to each other.
        """
        if GPUS in missing:
            self.gpus, self.links = gpus, self._links_now
        if NICS in missing:
            self.nics = self._nics_now
        ports, links = dict(self._now), dict(self._links_now)
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
        """What the last reading, `facts`, lacks of ports; of GPUs `health.judge` says it."""
        bad: dict[Subject, Reason] = {}
        if "ports" in missed and self._now != self.ports:
            now, listed = dict(self._now), {gpu.index for gpu in facts.gpus}
            for gpu, most in self.ports:
                if (wired := now.get(gpu, 0)) < most and gpu in listed:
                    text = _with_failing(f"GPU {gpu}: {wired} of {most} link ports", facts)
                    bad[_port_subject(gpu)] = Reason("ports-missing", text)
        if "links" in missed and self._links_now != self.links:
            bad |= self._missing_links(facts)
        if "nics" in missed and self._nics_now < self.nics:
            text = _with_failing(f"{self._nics_now} of {self.nics} network ports", facts)
            bad[NICS] = Reason("nics-missing", text)
        return bad

    def _missing_links(self, facts: NodeFacts) -> dict[Subject, Reason]:
        """Fast links inside the node; nothing where the matrix is not told, or GPUs are missing."""
        if not self._links_now or len(facts.gpus) < self.gpus:
            return {}
        now = dict(self._links_now)
        return {
            (_LINKS, gpu): Reason(
                "links-missing", f"{gpu} has fast links to {now[gpu]} of {most} GPUs of its node"
            )
            for gpu, most in self.links
            if now.get(gpu, most) < most
        }


def _port_subject(gpu: int) -> Subject:
    return _PORTS, f"{gpu:03}"


def is_missing(subject: Subject) -> bool:
    """Whether a subject stands for hardware that vanished."""
    return subject[0] in MISSED


@once_per_object
def _wired(ports: Ports) -> PortCounts:
    """How many ports of each GPU are wired."""
    counts: dict[int, int] = {}
    unused = PortState.UNUSED
    for port in ports:
        if port.state is not unused:
            counts[port.gpu] = counts.get(port.gpu, 0) + 1
    return _shared(tuple(sorted(counts.items())))


def _most(one: Iterable[tuple[T, int]], other: Iterable[tuple[T, int]]) -> Iterable[tuple[T, int]]:
    counts = dict(one)
    for key, count in other:
        counts[key] = max(count, counts.get(key, 0))
    return counts.items()


@lru_cache(maxsize=256)
def _shared(counts: PortCounts) -> PortCounts:
    """Equal hosts show equal counts: one object for all of them."""
    return counts


def _nics(facts: NodeFacts) -> int:
    return sum([not nic.virtual for nic in facts.nics])


def _with_failing(what: str, facts: NodeFacts) -> str:
    why = failing(facts)
    return f"{what} reported ({why})" if why else f"{what} reported"
