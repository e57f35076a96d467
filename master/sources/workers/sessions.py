"""The worker process of each node: sequence numbers, changes, two workers of one name.

Takes one report at a time and returns what the worker sends next, or a refusal. No socket and no
clock: the HTTP side is `port`, and time (monotonic seconds) is an argument.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, TypeVar

from master.rate_limits import TokenBucket
from topo.model.conditions.sources import ReportCondition
from topo.model.conditions.tree import ConflictCondition
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts
from topo.model.observation import Event, LinksCounted, WorkerBeat, WorkerRefused, WorkerReported
from topo.model.wire import FactsChange, Report

INTERNED_SECTIONS = 1024
"""More models and states of hosts than a cluster has at a time; each is a few kB."""
SUPERSEDED_KEPT = 8
"""Replaced instances that are kept of a node, to tell a return from a restart."""
REFUSAL_EVERY_S = 15.0
"""How often a refusal of a kind is sent to discovery, which lists it for a minute."""
NAMES_SHOWN = 3
"""Names that the refusal of a token's holder shows: the last ones it tried."""
MAX_NODES = 20_000
"""Nodes that may report: twice those of the largest tested cluster. More of them are names that
the holder of a shared token made up."""
REPORTS_PER_S = 20.0
"""Reports that one worker may send; ours sends at most five a second, while readings confirm a
change."""
BURST_FACTOR = 2.0
"""The burst that a worker may send, in seconds of its rate."""


@dataclass(frozen=True, slots=True)
class ReportTaken:
    """An accepted report: what the worker sends next."""

    want: Literal["change", "full"] = "change"


@dataclass(frozen=True, slots=True)
class ReportRefused:
    """A refused report: HTTP status, what is wrong, the fix, when to try again."""

    status: int
    code: str
    text: str
    fix: str
    retry_after_s: float | None = None


Result = ReportTaken | ReportRefused
_CHANGE = ReportTaken()
_FULL = ReportTaken("full")
_TOO_FAST = ReportRefused(429, "too-fast", "more reports than agreed", "slow down", 1.0)
_BUSY = ReportRefused(
    503, "queue-full", "the master has more events than it can take", "send it again", 1.0
)


@dataclass(slots=True)
class _Session:
    """The worker process of a node, and its last report.

    `others` is what all other processes with the node's name may send together: a duplicate that
    floods costs the rightful worker nothing, and restarting refills no allowance.
    """

    instance: str
    seq: int
    facts: NodeFacts
    reported_s: float
    own: TokenBucket
    others: TokenBucket
    superseded: tuple[str, ...] = ()

    def restart(self, report: Report, facts: NodeFacts, now_s: float) -> None:
        """Make another process the node's worker."""
        before = (*self.superseded, self.instance)[-SUPERSEDED_KEPT:]
        self.superseded = tuple(i for i in before if i != report.instance)
        self.instance, self.seq = report.instance, report.seq
        self.facts, self.reported_s = facts, now_s


@dataclass(slots=True)
class _ForeignReports:
    """Reports of one node's token for other nodes; `names` in the order of the tries."""

    allowance: TokenBucket
    names: tuple[NodeName, ...] = ()


@dataclass(slots=True, kw_only=True)
class Sessions:
    """All workers that report.

    After `stale_s` of silence another worker may take a node's name, after `forget_s` its place
    among `max_nodes`. `known` returns whether discovery still has the node: it forgets nodes on its
    own terms (removed from the cluster, silent for long), and then needs more than a beat.
    `on_node` is called with the first facts of a node, `on_resumed` when an unknown worker
    continues its sequence: it reported to a master before this one, or to none, and so did others.
    """

    submit: Callable[[Event], bool]
    rate: float = REPORTS_PER_S
    beat_s: float
    stale_s: float
    forget_s: float
    known: Callable[[NodeName], bool]
    on_node: Callable[[float], None]
    on_resumed: Callable[[], None]
    max_nodes: int = MAX_NODES
    _sessions: dict[NodeName, _Session] = field(default_factory=dict)
    _foreign: dict[NodeName, _ForeignReports] = field(default_factory=dict)
    _refused_at_s: dict[tuple[NodeName, str], float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._sessions)

    def receive(self, report: Report, now_s: float) -> Result:
        """Accept a report of an authenticated worker with its counters, or refuse it."""
        result = self._received(report, now_s)
        if result is not _CHANGE or report.counts is None:
            return result
        return _CHANGE if self.submit(LinksCounted(report.node, report.counts)) else _BUSY

    def _received(self, report: Report, now_s: float) -> Result:
        session = self._sessions.get(report.node)
        if session is None or session.instance != report.instance:
            if session is not None and not session.others.take(now_s):
                return _TOO_FAST
            return self._new_instance(report, session, now_s)
        if not session.own.take(now_s):
            return _TOO_FAST
        session.reported_s = now_s
        return self._next(report, session)

    def _next(self, report: Report, session: _Session) -> Result:
        """Handle one more report of the node's worker."""
        if report.seq == session.seq:
            return _CHANGE  # the answer was lost on its way; the reading counts once
        if report.facts is not None and report.seq > session.seq:
            return self._accept(session, report.seq, report.facts)
        if report.seq != session.seq + 1:
            return _FULL
        if report.change is not None:
            return self._accept(session, report.seq, merged(session.facts, report.change))
        return self._beat(report, session)

    def _beat(self, report: Report, session: _Session) -> Result:
        if not self.known(report.node):
            # A beat says that all is as it was, and that we know; where the first report is only
            # still on its way through the queue, this is one more reading like any beat.
            return self._accept(session, report.seq, session.facts)
        if not self.submit(WorkerBeat(report.node)):
            return _BUSY
        session.seq = report.seq
        return _CHANGE

    def foreign(self, report: Report, holder: NodeName, now_s: float) -> ReportRefused:
        """Refuse a report whose token belongs to another node; one refusal per holder is listed.

        The list is bounded by the holders, which are as many as tokens, not by the names that they
        invent.
        """
        sent = self._foreign.get(holder)
        if sent is None:
            _drop_oldest(self._foreign, self.max_nodes)
            sent = self._foreign[holder] = _ForeignReports(self._allowance(now_s))
        if not sent.allowance.take(now_s):
            return _TOO_FAST
        if report.node not in sent.names:
            sent.names = (*sent.names, report.node)[-NAMES_SHOWN:]
        text = f"the worker of {holder} sent reports for {', '.join(sorted(sent.names))}"
        code = ConflictCondition.FOREIGN_REPORT
        fix = code.next_step(HOLDER=holder, REPORTED=report.node)
        self._report_refusal(WorkerRefused(holder, code, text, fix), now_s)
        return ReportRefused(403, code, f"the token belongs to {holder}", fix)

    def _accept(self, session: _Session, seq: int, facts: NodeFacts) -> Result:
        facts = interned(facts)
        if not self.submit(WorkerReported(facts)):
            return _BUSY
        session.seq, session.facts = seq, facts
        return _CHANGE

    def _new_instance(self, report: Report, known: _Session | None, now_s: float) -> Result:
        fresh = known is not None and now_s - known.reported_s < self.stale_s
        if known is not None and fresh and report.instance in known.superseded:
            return self._duplicate(report, now_s)
        facts = report.facts
        if known is None and report.seq > 0:
            self.on_resumed()
        if facts is None:
            return _FULL
        facts = interned(facts)
        if known is not None and fresh and not same_machine(known.facts, facts):
            return self._duplicate(report, now_s)
        if known is None and not self._has_room(now_s):
            text = f"{self.max_nodes} nodes report already"
            code = ReportCondition.TOO_MANY_NODES
            fix = "give each node a token of its own: with a shared one anybody invents nodes"
            return ReportRefused(503, code, text, fix, self.beat_s)
        if not self.submit(WorkerReported(facts)):
            return _BUSY
        if known is None:
            self.on_node(now_s)
            own, others = (self._allowance(now_s) for _ in range(2))
            new = _Session(report.instance, report.seq, facts, now_s, own, others)
            self._sessions[report.node] = new
        else:
            known.restart(report, facts, now_s)
        return _CHANGE

    def _has_room(self, now_s: float) -> bool:
        """Return whether one more node fits, if need be in place of long silent ones."""
        if len(self._sessions) >= self.max_nodes:
            gone = [n for n, s in self._sessions.items() if now_s - s.reported_s > self.forget_s]
            for node in gone:
                del self._sessions[node]
        return len(self._sessions) < self.max_nodes

    def _allowance(self, now_s: float) -> TokenBucket:
        return TokenBucket(self.rate, self.rate * BURST_FACTOR, now_s)

    def _duplicate(self, report: Report, now_s: float) -> ReportRefused:
        text = f"two workers report as {report.node}; the one that was there first is believed"
        code = ConflictCondition.DUPLICATE_WORKER
        self._report_refusal(WorkerRefused(report.node, code, text, code.step), now_s)
        return ReportRefused(409, code, text, code.step, self.beat_s)

    def _report_refusal(self, refused: WorkerRefused, now_s: float) -> None:
        key = (refused.node, refused.code)
        before_s = self._refused_at_s.get(key)
        if before_s is not None and now_s - before_s < REFUSAL_EVERY_S:
            return
        if self.submit(refused):
            self._refused_at_s.pop(key, None)
            _drop_oldest(self._refused_at_s, self.max_nodes)
            self._refused_at_s[key] = now_s


def _drop_oldest(index: dict[Any, Any], limit: int) -> None:
    """Remove an entry where one more would be too many."""
    while len(index) >= limit:
        del index[next(iter(index))]


_Section = TypeVar("_Section", bound=Hashable)


@lru_cache(maxsize=INTERNED_SECTIONS)
def _interned(section: _Section) -> _Section:
    return section


def interned(facts: NodeFacts) -> NodeFacts:
    """Return the same facts, with bulky sections shared between equal hosts.

    Hosts of one model show the same matrix, ports and probes: at 10,000 nodes this is a quarter of
    the master's memory.
    """
    return replace(
        facts,
        matrix=_interned(facts.matrix),
        ports=_interned(facts.ports),
        probes=_interned(facts.probes),
    )


def merged(facts: NodeFacts, change: FactsChange) -> NodeFacts:
    """Return the facts with the sections that the change sets, `None` included."""
    return replace(facts, **{name: getattr(change, name) for name in change.model_fields_set})


def same_machine(one: NodeFacts, other: NodeFacts) -> bool:
    """Return whether two reports for one name come from one machine: a restarted worker or a
    reboot.

    Hardware identities (system UUID, server UUID) decide where both state one: a single difference
    means two machines, since cloned system UUIDs exist. Where none can be compared, the boot id
    does, which is random per boot of one kernel.
    """
    pairs = [(one.identity.system_uuid.lower(), other.identity.system_uuid.lower())]
    if one.peers is not None and other.peers is not None:
        pairs.append((one.peers.local, other.peers.local))
    stated = [(a, b) for a, b in pairs if a and b]
    if stated:
        return all(a == b for a, b in stated)
    return bool(one.identity.boot_id) and one.identity.boot_id == other.identity.boot_id
