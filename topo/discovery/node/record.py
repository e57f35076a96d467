"""What the discovery state keeps of one node, and how one reading changes it."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from topo.discovery.modes import DiscoverySettings
from topo.discovery.node.fabric import judge_fabric, with_failed_gpus
from topo.discovery.node.fabric_ports import UPLINKS, Cabling, FabricPorts
from topo.discovery.node.hardware import GPUS, NICS, ShownHardware, is_missing
from topo.discovery.node.health import SLOW, Subject, Verdict, judge, unmentioned
from topo.discovery.node.inside_links import judge_cut_off
from topo.discovery.node.memory import NodeMemory
from topo.discovery.node.peer_claims import (
    CABLES,
    Claim,
    Claims,
    cables_subject,
    judge_links,
    link_subject,
    merge,
)
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Reason
from topo.model.ids import BootId, NodeName, ServerUuid
from topo.model.isolation import ObjectError
from topo.model.machine import FabricDomain, FabricKind, Gpu, NodeFacts, NodeIdentity

DOMAIN: Subject = ("domain", "")
"""The subject of a node that no longer states the NVLink domain it counts into."""


_DEGRADED = frozenset({SLOW, CABLES})
"""The kinds of subjects that make no node NotReady."""


class JudgedGpu(NamedTuple):
    """A GPU, and whether it is judged broken, with hysteresis."""

    gpu: Gpu
    is_broken: bool


@dataclass(slots=True)
class NodeRecord:
    """One node that a worker has spoken for. Mutable; owned by the discovery state.

    `facts` is None after a restart until the worker sends them. `seen_at_s` is the time of the last
    report, `stale` whether that is too long ago. `domain` is the NVLink domain that the node counts
    into, `stated` what its GPUs said last: several entries if they disagree. `cables` is the most
    remotes shown at once, `fabric_ports` what joins it to switches. `error`: why its last report
    could not be used; all else is then as before that report.
    """

    name: NodeName
    identity: NodeIdentity
    verdict: Verdict
    seen_at_s: float
    facts: NodeFacts | None = None
    gpus: int = 0
    gpu_type: str = ""
    hardware: ShownHardware = field(default_factory=ShownHardware)
    local: ServerUuid | None = None
    claims: Claims = field(default_factory=dict)
    cables: int = 0
    domain: FabricDomain | None = None
    stated: tuple[FabricDomain, ...] = ()
    stale: bool = False
    fabric_ports: FabricPorts = field(default_factory=FabricPorts)
    error: ObjectError | None = None
    _reading: dict[Subject, Reason] = field(default_factory=dict)

    def copy(self) -> "NodeRecord":
        """Return a record that changes by itself. Some microseconds for a healthy node."""
        made = copy(self)
        made.verdict = self.verdict.copy()
        made.hardware, made.fabric_ports = copy(self.hardware), copy(self.fabric_ports)
        made.claims = dict(self.claims)
        return made

    def take(self, facts: NodeFacts, settings: DiscoverySettings) -> bool:
        """Take one reading; True if the reasons changed.

        Of a part that was bad and of which nothing is said now, the reading is bad until another
        boot. The server UUID stays when a reading lacks it: a probe that fails does not take a
        board out.
        """
        rebooted = facts.identity.boot_id != self.identity.boot_id
        self.identity, self.facts = facts.identity, with_failed_gpus(facts)
        self.gpus, self.gpu_type = len(facts.gpus), _gpu_type(facts)
        is_known_anew = self.hardware.see(facts, self.gpu_type, rebooted=rebooted)
        # A probe that fails states no peers; the server UUID of the board stays.
        if facts.peers is not None:
            self.local = facts.peers.local
            self.cables = max(self.cables, len({p.uuid for p in facts.peers.remotes}))
        self.stated = _domains(facts)
        # After a reboot the driver states connections again: an old "not connected" is void.
        if rebooted:
            self.claims = {
                u: claim._replace(connected=claim.seen) for u, claim in self.claims.items()
            }
        self._see_wiring()
        # Silence about a bad part is a bad reading, or a failing probe would heal it.
        silent = {} if self.verdict.settled else unmentioned(facts, self.verdict.down)
        if rebooted:
            for subject in silent:
                self._forget(subject)
        self._reading = self._judge_hardware(facts, settings)
        self._reading |= judge_fabric(facts)
        self._reading |= judge_links(self.claims)
        self._reading |= self._judge_domain()
        self.fabric_ports.see(facts.nics, rebooted=rebooted)
        if (dark := self._dark(facts, settings)) is not None:
            self._reading[UPLINKS] = dark
        if silent and not rebooted:
            self._reading = silent | self._reading
        return self.read_again() or is_known_anew or (rebooted and bool(silent))

    def _judge_hardware(
        self, facts: NodeFacts, settings: DiscoverySettings
    ) -> dict[Subject, Reason]:
        shown = self.hardware.gpus if GPUS[0] in settings.missed else 0
        bad = judge(facts, settings.gpus_per_node or shown or 0)
        bad |= judge_cut_off(facts)
        bad |= self.hardware.missing(facts, settings.missed)
        return bad

    def _dark(self, facts: NodeFacts, settings: DiscoverySettings) -> Reason | None:
        """Return why no port of the fabric is up; None also where nobody misses network ports."""
        if NICS[0] not in settings.missed:
            return None
        return self.fabric_ports.judge(facts.nics, self.verdict.down.get(UPLINKS))

    def recable(self, cabling: Cabling, settings: DiscoverySettings) -> bool:
        """Take where the cables of the adapters lead; whether the reasons changed.

        That is another question about the last reading, which is answered at once.
        """
        if not self.fabric_ports.recable(cabling) or self.facts is None:
            return False
        dark = self._dark(self.facts, settings)
        self._reading = {s: r for s, r in self._reading.items() if s != UPLINKS}
        if dark is not None:
            self._reading[UPLINKS] = dark
        return self.verdict.decide(UPLINKS, dark)

    def judged_gpus(self) -> tuple[JudgedGpu, ...] | None:
        """Return the GPUs of the last reading; None before the first one. O(GPUs)."""
        if self.facts is None:
            return None
        down = {which for kind, which in self.verdict.down if kind == "gpu"}
        return tuple(JudgedGpu(gpu, f"{gpu.index:03}" in down) for gpu in self.facts.gpus)

    def read_again(self) -> bool:
        """Take a reading equal to the last one; True if the reasons or claims changed.

        What that says of the hardware shown is for `hardware.see_again`.
        """
        # Healthy before and now: no claim or domain can change by one more equal reading.
        if not self._reading and self.verdict.settled:
            return self.verdict.read(self._reading)
        dead = self.is_wiring_dead
        changed = self.verdict.read(self._reading)
        if self.facts is not None and (dead or self.is_wiring_dead):
            self._see_wiring()
        return changed

    def _see_wiring(self) -> None:
        self._see_links()
        if self.domain is None or self.verdict.is_down(DOMAIN):
            self._adopt_domain()

    def _adopt_domain(self) -> None:
        """Count into the one domain stated; a lost one is kept until another is stated."""
        if len(self.stated) == 1 and self.stated[0] != self.domain:
            self.domain = self.stated[0]
            self._forget(DOMAIN)

    def _judge_domain(self) -> dict[Subject, Reason]:
        if self.domain is None or self.stated == (self.domain,):
            return {}
        kind = "" if self.domain.kind is FabricKind.SUPER_POD else "NVLink domain "
        now = " and ".join(map(str, self.stated)) or "none"
        text = f"its GPUs belonged to {kind}{self.domain} and now state {now}"
        return {DOMAIN: Reason(NodeCondition.DOMAIN_LOST, text)}

    def _see_links(self) -> None:
        """Merge what the last reading shows of the links; dropped claims lose their verdict."""
        before = self.claims
        peers = self.facts.peers if self.facts is not None else None
        self.claims = merge(before, peers, self.dead_claims(), self.cables)
        for uuid in [uuid for uuid in before if uuid not in self.claims]:
            self._forget(link_subject(uuid))
            self._forget(cables_subject(uuid))

    def _forget(self, subject: Subject) -> None:
        self.verdict.forget(subject)
        self._reading = {s: r for s, r in self._reading.items() if s != subject}

    def dead_claims(self) -> tuple[ServerUuid, ...]:
        """Return the claims whose link is judged down."""
        if self.verdict.settled:
            return ()
        return tuple(u for u in self.claims if self.verdict.is_down(link_subject(u)))

    @property
    def is_wiring_dead(self) -> bool:
        """Whether a link or the NVLink domain is judged down."""
        if self.verdict.settled:
            return False
        return bool(self.dead_claims()) or self.verdict.is_down(DOMAIN)

    @property
    def losses(self) -> AbstractSet[Subject]:
        """The losses of the node: links, the domain, hardware that was there before."""
        if self.verdict.settled:
            return frozenset()
        wiring = {link_subject(uuid) for uuid in self.dead_claims()}
        down = self.verdict.down
        return wiring | {s for s in down if s == DOMAIN or s[0] == CABLES or is_missing(s)}

    def drop(self, losses: AbstractSet[Subject], settings: DiscoverySettings) -> None:
        """Forget what has been gone for too long, unless it is shown again."""
        self._drop_dead_wiring(losses)
        missing = set(filter(is_missing, losses))
        if self.facts is None or not missing:
            return
        self.hardware.accept(missing, self.gpus)
        for subject in missing - self._judge_hardware(self.facts, settings).keys():
            self._forget(subject)

    def _drop_dead_wiring(self, losses: AbstractSet[Subject]) -> None:
        for uuid in self.dead_claims():
            if link_subject(uuid) in losses and not self.claims[uuid].seen:
                del self.claims[uuid]
                self._forget(link_subject(uuid))
        for uuid, claim in self.claims.items():
            if cables_subject(uuid) in losses:
                self.claims[uuid] = claim._replace(more=self._shown_slots(claim)[1:], lost=())
                self._forget(cables_subject(uuid))
        if DOMAIN in losses and not self.stated:
            self.domain = None
            self._forget(DOMAIN)

    def _shown_slots(self, claim: Claim) -> tuple[int, ...]:
        """Return the slots at which the last reading shows this claim."""
        peers = self.facts.peers if self.facts is not None else None
        remotes = peers.remotes if peers is not None else ()
        return tuple(sorted(peer.slot for peer in remotes if peer.uuid == claim.uuid))

    @property
    def troubles(self) -> Mapping[Subject, Reason]:
        """What of the node's own hardware is down, by subject; empty when it is well."""
        if self.verdict.settled:
            return {}
        return {s: reason for s, reason in self.verdict.down.items() if s[0] not in _DEGRADED}

    @property
    def slow_links(self) -> Mapping[Subject, Reason]:
        """The links that are up and degraded, or have lost cables, in the order of their ports."""
        if self.verdict.settled:
            return {}
        return {s: reason for s, reason in sorted(self.verdict.down.items()) if s[0] in _DEGRADED}

    def persistent_state(self) -> NodeMemory:
        """Return what a state file keeps of this node."""
        return NodeMemory(
            identity=self.identity,
            gpus=self.gpus,
            gpu_type=self.gpu_type,
            local=self.local,
            claims=tuple((c.uuid, c.slot) for c in self.claims.values()),
            slots=tuple((c.uuid, c.more, c.lost) for c in self.claims.values() if c.more),
            room=self.cables,
            domain=self.domain,
            stated=self.stated,
            reasons=tuple((*s, r) for s, r in sorted(self.verdict.down.items())),
            stale=self.stale,
            most_gpus=self.hardware.gpus,
            most_ports=self.hardware.ports,
            most_links=self.hardware.links,
            most_nics=self.hardware.nics,
            joined_by=self.fabric_ports.joining,
            were_up=() if self.fabric_ports.joining else self.fabric_ports.were_up,
        )

    @classmethod
    def first(cls, facts: NodeFacts, settings: DiscoverySettings, now_s: float) -> "NodeRecord":
        """Return a record for a node never heard of; the caller then takes the reading."""
        verdict = Verdict(settings.bad_readings, settings.good_readings)
        identity = facts.identity
        return cls(name=identity.name, identity=identity, verdict=verdict, seen_at_s=now_s)

    @classmethod
    def unread(cls, node: NodeName, settings: DiscoverySettings, now_s: float) -> "NodeRecord":
        """Return a record for a node of which no report could be used yet."""
        verdict = Verdict(settings.bad_readings, settings.good_readings)
        identity = NodeIdentity(node, BootId(""))
        return cls(name=node, identity=identity, verdict=verdict, seen_at_s=now_s)

    @classmethod
    def remembered(
        cls, memory: NodeMemory, settings: DiscoverySettings, now_s: float
    ) -> "NodeRecord":
        """Return the record as it was before a restart."""
        reading = {(kind, which): reason for kind, which, reason in memory.reasons}
        verdict = Verdict(settings.bad_readings, settings.good_readings)
        verdict.read(reading)
        return cls(
            name=memory.identity.name,
            identity=memory.identity,
            verdict=verdict,
            seen_at_s=now_s,
            gpus=memory.gpus,
            gpu_type=memory.gpu_type,
            hardware=ShownHardware(
                gpus=memory.most_gpus,
                gpu_type=memory.gpu_type,
                ports=memory.most_ports,
                links=memory.most_links,
                nics=memory.most_nics,
            ),
            local=memory.local,
            claims=_claims(memory),
            cables=memory.room,
            domain=memory.domain,
            stated=memory.stated,
            stale=memory.stale,
            fabric_ports=FabricPorts(memory.joined_by, memory.were_up),
            _reading=reading,
        )


def _gpu_type(facts: NodeFacts) -> str:
    """Return the model of the node's GPUs; several are named together, since no job asks for a
    mixture.
    """
    models = {gpu.model for gpu in facts.gpus if gpu.model}
    return models.pop() if len(models) == 1 else "+".join(sorted(models))


def _claims(memory: NodeMemory) -> Claims:
    more = {uuid: slots for uuid, slots, _ in memory.slots}
    lost = {uuid: slots for uuid, _, slots in memory.slots}
    return {
        uuid: Claim(uuid, slot, more=more.get(uuid, ()), lost=lost.get(uuid, ()))
        for uuid, slot in memory.claims
    }


def _domains(facts: NodeFacts) -> tuple[FabricDomain, ...]:
    if not facts.fabrics:
        return ()
    return tuple(sorted({d for f in facts.fabrics if (d := f.member_of) is not None}))
