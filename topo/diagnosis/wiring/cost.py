"""What a finding about cables costs: groups that are NotReady, GPUs that are out, jobs.

A finding costs what the nodes at its ends cost: their groups that are NotReady, and their GPUs
while they are NotReady themselves or in no group. Jobs run across it that have pods on such a node,
whatever the state of the node: a wrong cable that is up carries their traffic. Jobs wait for it for
which the smallest change that would let them in names such a node or its group. A cable between
two switches has no node at its ends; the jobs across it are those with pods on both of its sides
(`traffic`). Of a cable that is unseen nothing is known, and it costs nothing.
O(ends of findings, words of the jobs that wait), and that of `traffic` for cables of switches.

Example: node-3 and node-4 are dragonfly-2, whose cable is out; both are NotReady with 8 GPUs each,
a job has pods on node-4. The missing cable costs dragonfly-2, 16 GPUs and that job.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from topo.diagnosis.wiring.compare import CableFinding, CableVerdict
from topo.diagnosis.wiring.seen import SeenCables, short_name, sole
from topo.diagnosis.wiring.traffic import Traffic

_WORD = re.compile(r"[\w.-]+", re.ASCII)


class NodeAt(NamedTuple):
    """A node: its GPUs, whether they can be used, and which of the groups around it cannot."""

    gpus: int
    is_usable: bool
    groups: tuple[str, ...]
    not_ready: tuple[str, ...]


class Job(NamedTuple):
    """A job with the nodes of its pods, and what would let it in while it waits."""

    name: str
    nodes: frozenset[str] = frozenset()
    would_fit: str = ""


_NOTHING = SeenCables((), frozenset())


@dataclass(frozen=True, slots=True)
class CableCost:
    """The names of groups and jobs in their order, and the number of GPUs that are out."""

    groups: tuple[str, ...] = ()
    gpus: int = 0
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether it costs anything."""
        return bool(self.groups or self.gpus or self.running or self.waiting)


class Costs:
    """Looks up what findings cost, in the nodes and jobs of one moment."""

    def __init__(
        self, nodes: Mapping[str, NodeAt], jobs: Iterable[Job], seen: SeenCables = _NOTHING
    ) -> None:
        """Take the nodes by name, and what is seen, which says what a switch leads to.

        A fabric may call a node by its short name.
        """
        self._nodes = dict(nodes)
        self._names = sole(nodes, short_name) | {name.casefold(): name for name in nodes}
        self._traffic = Traffic(seen, self._name)
        self._across: dict[tuple[str, str], tuple[str, ...]] = {}
        self._running: dict[str, list[Job]] = {}
        self._wanted: dict[str, list[str]] = {}
        for job in jobs:
            for node in sorted(job.nodes):
                self._running.setdefault(node, []).append(job)
            for word in dict.fromkeys(_WORD.findall(job.would_fit)):
                self._wanted.setdefault(word.rstrip("."), []).append(job.name)

    def of(self, finding: CableFinding) -> CableCost:
        """Return what a finding costs; nothing where no node is at its ends."""
        return self.total((finding,))

    def total(self, findings: Iterable[CableFinding]) -> CableCost:
        """Return what findings cost together: a node at the ends of several counts once."""
        found = tuple(each for each in findings if each.verdict is not CableVerdict.UNSEEN)
        ends = (end for finding in found for end in finding.ends)
        named = map(self._name, dict.fromkeys(end.device for end in ends))
        names = list(dict.fromkeys(name for name in named if name is not None))
        at = [self._nodes[name] for name in names]
        running = [job.name for name in names for job in self._running.get(name, ())]
        running += (job for finding in found for job in self._between_switches(finding))
        words = dict.fromkeys([*names, *(group for node in at for group in node.groups)])
        return CableCost(
            tuple(dict.fromkeys(group for node in at for group in node.not_ready)),
            sum(node.gpus for node in at if not node.is_usable),
            tuple(dict.fromkeys(running)),
            tuple(dict.fromkeys(job for word in words for job in self._wanted.get(word, ()))),
        )

    def _name(self, device: str) -> str | None:
        """Return the node that a fabric calls so; None where no node, or no single one, is."""
        return self._names.get(device.casefold()) or self._names.get(short_name(device))

    def _between_switches(self, finding: CableFinding) -> Iterator[str]:
        """Yield the jobs across the cables of a finding that join switches."""
        for cable in finding.cables:
            for far in (cable.planned, cable.found):
                if far is None:
                    continue
                ends = cable.end.device, far.device
                if all(map(self._traffic.is_switch, (cable.end, far))):
                    if ends not in self._across:
                        self._across[ends] = tuple(self._jobs_across(*ends))
                    yield from self._across[ends]

    def _jobs_across(self, one: str, other: str) -> Iterator[str]:
        for here, beyond in self._traffic.sides(one, other):
            jobs = {job.name: job for node in here for job in self._running.get(node, ())}
            for name in sorted(jobs):
                far = jobs[name].nodes - here
                if far if beyond is None else far & beyond:
                    yield name
