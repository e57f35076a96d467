"""The health of a node, from several readings in a row: a flapping one changes nothing.

Result: the subjects of a node (a GPU, a link, a port) that are down, each with its latest reason.

A *reading* maps each bad subject to its reason; every subject that is not named is good. A subject
goes down after `bad_readings` bad ones in a row and up after `good_readings` good ones.

Why that is right: a subject that flickers faster than these counts never completes a run, so it
stays in the state it had, and the forest does not change with it. Readings are counted, not
seconds: a worker that sees a change reads again at once, so three readings take under a second.
The first reading of a node decides at once, because there is no state to keep.

Cost: O(1) for a healthy node; only subjects that are down or in doubt take memory.

Example, 2 bad and 3 good: link L reads ok, bad, ok, bad, bad, ok, ok, ok.
It is up through the single bad reading, down after the second bad one in a row, and up again after
the third good one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from topo.discovery.node.per_object import once_per_object
from topo.model.conditions.tree import ConflictCondition, NodeCondition
from topo.model.forest import Reason
from topo.model.machine import LinkPort, NodeFacts, PortState, ProbeState

Subject = tuple[str, str]
"""(kind, which one): a part (`gpu`, `port`, `slow`, `fabric`, `member`, `cut-off`), what is missing
(`gpus`, `ports`, `links`, `nics`), or where it leads (`link`, `domain`, `uplinks`)."""
Reading = Mapping[Subject, Reason]
SLOW = "slow"
"""The kind of a link that is up and slower than it should be: no reason to be NotReady."""
_PARTS = frozenset({"gpu", "port", SLOW, "fabric", "member"})
_BY_MATRIX = frozenset({"links", "cut-off"})
"""What a reading can be silent about; the rest is judged by what was there before."""


@dataclass(slots=True)
class _Doubt:
    """A subject that is down, or that was read against its state `count` times in a row."""

    reason: Reason
    down: bool
    count: int = 0


@dataclass(slots=True)
class Verdict:
    """The debounced health of one node. Mutable; owned by the discovery state.

    Only subjects that are down or in doubt take memory, and `read` is O(1) for a healthy node.
    """

    bad_readings: int
    good_readings: int
    _doubts: dict[Subject, _Doubt] = field(default_factory=dict)
    _seen: bool = False

    def copy(self) -> "Verdict":
        """Return a verdict that changes by itself. O(subjects that are down or in doubt)."""
        doubts = {subject: replace(doubt) for subject, doubt in self._doubts.items()}
        return replace(self, _doubts=doubts)

    def read(self, reading: Reading) -> bool:
        """Count one reading; True if a subject went up or down, or is down for another reason."""
        # A healthy node with a healthy reading: nothing to count and nothing to remember.
        if not self._doubts and not reading:
            self._seen = True
            return False
        before = self.down
        for subject, reason in reading.items():
            self._read_bad(subject, reason)
        for subject in [s for s in self._doubts if s not in reading]:
            self._read_good(subject)
        self._seen = True
        return self.down != before

    def _read_bad(self, subject: Subject, reason: Reason) -> None:
        doubt = self._doubts.setdefault(subject, _Doubt(reason, down=False))
        doubt.reason = reason
        if doubt.down:
            doubt.count = 0
            return
        doubt.count += 1
        # The first reading of a node decides at once: there is no state to keep.
        if not self._seen or doubt.count >= self.bad_readings:
            doubt.down, doubt.count = True, 0

    def _read_good(self, subject: Subject) -> None:
        doubt = self._doubts[subject]
        # A good reading breaks a run of bad ones; of a subject that is down it counts towards up.
        doubt.count = doubt.count + 1 if doubt.down else 0
        if not doubt.down or not self._seen or doubt.count >= self.good_readings:
            del self._doubts[subject]

    def decide(self, subject: Subject, reason: Reason | None) -> bool:
        """Settle a subject without a reading, down for a reason or up; whether that differs."""
        was = self.down.get(subject)
        self.forget(subject)
        if reason is not None:
            self._doubts[subject] = _Doubt(reason, down=True)
        return was != reason

    def forget(self, subject: Subject) -> None:
        """Drop a subject that no longer exists, whatever its state."""
        self._doubts.pop(subject, None)

    def is_down(self, subject: Subject) -> bool:
        """Return whether the subject is settled in its bad state."""
        doubt = self._doubts.get(subject)
        return doubt is not None and doubt.down

    @property
    def settled(self) -> bool:
        """True if another equal reading would change nothing."""
        return not self._doubts

    @property
    def down(self) -> dict[Subject, Reason]:
        """The subjects that are down, each with its latest reason."""
        return {s: d.reason for s, d in self._doubts.items() if d.down}


def judge(facts: NodeFacts, expected_gpus: int) -> dict[Subject, Reason]:
    """Return the bad subjects of one reading, links to other nodes excepted (see `peer_claims`).

    `expected_gpus` is the setting, or the most GPUs this node has shown; 0 expects nothing.
    """
    bad: dict[Subject, Reason] = {}
    # No GPU while a probe fails is a fault; without a failing probe the machine may have none.
    unread = not facts.gpus and bool(failing_probes(facts))
    if len(facts.gpus) < expected_gpus or unread:
        bad["gpus", ""] = Reason(NodeCondition.GPUS_MISSING, _missing(facts, expected_gpus))
    for gpu in facts.gpus:
        if gpu.healthy is False:
            text = _with_trouble(f"GPU {gpu.index} is unhealthy", gpu.trouble)
            bad["gpu", f"{gpu.index:03}"] = Reason(NodeCondition.GPU_UNHEALTHY, text)
    for port in _bad_ports(facts.ports):
        where = f"GPU {port.gpu} link port {port.port}"
        if port.state is PortState.DOWN:
            text = _with_trouble(f"{where} is down", port.trouble)
            bad["port", _which(port)] = Reason(NodeCondition.PORT_DOWN, text)
        else:
            bad[SLOW, _which(port)] = Reason(
                ConflictCondition.LINK_DEGRADED, f"{where} is {port.trouble}"
            )
    for fabric in facts.fabrics:
        if fabric.healthy is False:
            text = _with_trouble(f"GPU {fabric.gpu} NVLink fabric is unhealthy", fabric.trouble)
            bad["fabric", f"{fabric.gpu:03}"] = Reason(NodeCondition.FABRIC_UNHEALTHY, text)
    return bad


@once_per_object
def _bad_ports(ports: tuple[LinkPort, ...]) -> tuple[LinkPort, ...]:
    """Return those that are down, or up with a trouble."""
    down, up = PortState.DOWN, PortState.UP
    return tuple([p for p in ports if p.state is down or (p.trouble and p.state is up)])


def _which(port: LinkPort) -> str:
    return f"{port.gpu:03}/{port.port:04}"


def unmentioned(facts: NodeFacts, down: Mapping[Subject, Reason]) -> dict[Subject, Reason]:
    """Return the parts that are down and that a reading does not mention: silence heals none.

    A GPU is said to be well by its health, a port by being up, a fabric by its health or domain;
    of links inside the node the matrix says it.
    O(parts) where something is down.
    """
    said: set[Subject] = {("gpu", f"{g.index:03}") for g in facts.gpus if g.healthy is not None}
    told = [_which(port) for port in facts.ports if port.state is not PortState.UNUSED]
    said |= {(kind, which) for which in told for kind in ("port", SLOW)}
    said |= {("fabric", f"{f.gpu:03}") for f in facts.fabrics if f.healthy is not None}
    said |= {("member", f"{f.gpu:03}") for f in facts.fabrics}
    kinds = _PARTS if facts.matrix is not None else _PARTS | _BY_MATRIX
    return {s: reason for s, reason in down.items() if s[0] in kinds and s not in said}


def _missing(facts: NodeFacts, expected: int) -> str:
    found = f"{len(facts.gpus)} of {expected}" if expected else "no"
    why = failing_probes(facts)
    return f"{found} GPUs reported ({why})" if why else f"{found} GPUs reported"


def failing_probes(facts: NodeFacts) -> str:
    """Return the probes that fail, with their words; empty where none does."""
    return "; ".join(
        f"probe {p.probe}: {p.detail or p.state}"
        for p in facts.probes
        if p.state in (ProbeState.FAILED, ProbeState.TIMED_OUT)
    )


def _with_trouble(what: str, trouble: str) -> str:
    return f"{what}: {trouble}" if trouble else what
