"""What the discovery state keeps of one node, and how one reading changes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from topo.discovery.health import Reading, Subject, Verdict, judge
from topo.discovery.links import Claim, Claims, judge_links, link_subject, merge
from topo.discovery.memory import NodeMemory
from topo.discovery.modes import DiscoverySettings
from topo.model.forest import Reason
from topo.model.ids import NodeName, ServerUuid
from topo.model.machine import NodeFacts, NodeIdentity

Domain = tuple[str, int]
"""(clusterUuid, cliqueId) that a node's GPUs state."""


@dataclass(slots=True)
class NodeRecord:
    """One node that a worker has spoken for. Mutable; owned by the discovery state.

    `facts` is None after a restart until the worker sends them. `seen_at_s` is the time of the last
    word, `stale` whether that is too long ago. `domains` has several entries if GPUs disagree.
    """

    identity: NodeIdentity
    verdict: Verdict
    seen_at_s: float
    facts: NodeFacts | None = None
    gpus: int = 0
    most_gpus: int = 0
    local: ServerUuid | None = None
    claims: Claims = field(default_factory=dict)
    domains: tuple[Domain, ...] = ()
    stale: bool = False
    _reading: Reading = field(default_factory=dict)

    @property
    def name(self) -> NodeName:
        """The node's name."""
        return self.identity.name

    def take(self, facts: NodeFacts, expected_gpus: int) -> bool:
        """Take one reading; True if the reasons changed.

        Another boot may have other hardware, so it resets what counts as all GPUs. The server UUID
        stays when a reading lacks it: a probe that fails does not take a board out.
        """
        if facts.identity.boot_id != self.identity.boot_id:
            self.most_gpus = 0
        self.identity, self.facts = facts.identity, facts
        self.gpus = len(facts.gpus)
        self.most_gpus = max(self.most_gpus, self.gpus)
        if facts.peers is not None:
            self.local = facts.peers.local
        self.domains = _domains(facts)
        self._see_links()
        hardware = judge(facts, expected_gpus or self.most_gpus)
        self._reading = {**hardware, **judge_links(self.claims)}
        return self._read()

    def beat(self) -> bool:
        """Take a reading equal to the last one; True if the reasons or claims changed."""
        return self._read()

    def _read(self) -> bool:
        if not self._reading and self.verdict.settled:
            return self.verdict.read(self._reading)
        dead = self.dead_claims()
        changed = self.verdict.read(self._reading)
        if self.dead_claims() != dead and self.facts is not None:
            self._see_links()
        return changed

    def _see_links(self) -> None:
        """Merge what the last reading shows of the links; dropped claims lose their verdict."""
        before = self.claims
        peers = self.facts.peers if self.facts is not None else None
        self.claims = merge(before, peers, self.dead_claims())
        for uuid in before.keys() - self.claims.keys():
            self._forget_link(uuid)

    def _forget_link(self, uuid: ServerUuid) -> None:
        subject = link_subject(uuid)
        self.verdict.forget(subject)
        self._reading = {s: r for s, r in self._reading.items() if s != subject}

    def dead_claims(self) -> tuple[ServerUuid, ...]:
        """The claims whose link is judged down."""
        if self.verdict.settled:
            return ()
        return tuple(u for u in self.claims if self.verdict.is_down(link_subject(u)))

    def drop_claim(self, uuid: ServerUuid) -> None:
        """Forget a claim that has been dead for too long, unless it is shown again."""
        claim = self.claims[uuid]
        if not claim.seen:
            del self.claims[uuid]
            self._forget_link(uuid)

    @property
    def troubles(self) -> Mapping[Subject, Reason]:
        """What of the node's own hardware is down, by subject; empty when it is well."""
        return {} if self.verdict.settled else self.verdict.down

    def memory(self) -> NodeMemory:
        """What a state file keeps of this node."""
        return NodeMemory(
            identity=self.identity,
            gpus=self.gpus,
            local=self.local,
            claims=tuple((c.uuid, c.slot) for c in self.claims.values()),
            domain=self.domains[0] if len(self.domains) == 1 else None,
            reasons=tuple((*s, r) for s, r in sorted(self.verdict.down.items())),
        )

    @classmethod
    def first(cls, facts: NodeFacts, settings: DiscoverySettings, now_s: float) -> "NodeRecord":
        """A record for a node never heard of; the caller then takes the reading."""
        verdict = Verdict(settings.bad_readings, settings.good_readings)
        return cls(identity=facts.identity, verdict=verdict, seen_at_s=now_s)

    @classmethod
    def remembered(
        cls, memory: NodeMemory, settings: DiscoverySettings, now_s: float
    ) -> "NodeRecord":
        """The record as it was before a restart; its silence counts from now."""
        reading = {(kind, which): reason for kind, which, reason in memory.reasons}
        return cls(
            identity=memory.identity,
            verdict=Verdict.held(settings.bad_readings, settings.good_readings, reading),
            seen_at_s=now_s,
            gpus=memory.gpus,
            most_gpus=memory.gpus,
            local=memory.local,
            claims={uuid: Claim(uuid, slot) for uuid, slot in memory.claims},
            domains=(memory.domain,) if memory.domain is not None else (),
            _reading=reading,
        )


def _domains(facts: NodeFacts) -> tuple[Domain, ...]:
    return tuple(sorted({d for f in facts.fabrics if (d := f.member_of) is not None}))
