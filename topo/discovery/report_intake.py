"""How reports change what is known of their nodes; an error of one report is that of its node.

What can raise by the facts of one node: the reading itself, and feeding it to the indices that all
nodes share. Then the node gets back the record that it had, and the indices are fed with that: they
take one node's statement in the place of its earlier one. If they do not take what they had taken
before, nobody knows what they say: a `SharedStateError`, which ends the process.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

from topo.discovery.marks import Marks
from topo.discovery.modes import DiscoverySettings
from topo.discovery.node.health import Subject
from topo.discovery.node.record import NodeRecord
from topo.discovery.node.workers import Workers
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError, attempt, owned_state
from topo.model.machine import NodeFacts

Feed = Callable[[NodeRecord, float], None]
"""Tells all others what a record says now."""


@dataclass(slots=True, kw_only=True)
class ReportIntake:
    """Changes records of `workers`, one by one; the discovery state owns it.

    `marks` returns what is marked for this generation. `has_error`: a node could not be placed or
    judged. `note_heard` notes that a node has spoken, `feed` tells the indices what it states.
    """

    settings: DiscoverySettings
    workers: Workers
    marks: Callable[[], Marks]
    has_error: Callable[[NodeName], bool]
    note_heard: Feed
    feed: Feed

    def report(self, facts: NodeFacts, now_s: float) -> bool:
        """Take a report; return whether it could be used."""
        node = facts.identity.name
        known = self.workers.records.get(node)
        if known is None:
            record = NodeRecord.first(facts, self.settings, now_s)
            kept = NodeRecord.unread(node, self.settings, now_s)
            self.workers.add(record)
            self.marks().moved.add(node)
        else:
            record, kept = known, known.copy()
        found = attempt(partial(self._report, record, facts, now_s))
        if isinstance(found, ObjectError):
            self._set_aside(kept, found, now_s)
            return False
        return True

    def beat(self, node: NodeName, now_s: float) -> None:
        """Take that a node's reading is equal to its last one."""
        record = self.workers.records.get(node)
        if record is None:
            return
        if record.error is not None:  # equal to a report that could not be used
            self.note_heard(record, now_s)
            return
        found = attempt(partial(self._beat, record, now_s))
        if isinstance(found, ObjectError):
            self._set_aside(self.workers.recovered(record, now_s), found, now_s)

    def restore(self, record: NodeRecord, now_s: float) -> None:
        """Take up a node as an earlier process left it, or as one that was never heard."""
        self.workers.restore(record, now_s)
        self.marks().moved.add(record.name)
        found = attempt(partial(self.feed, record, now_s))
        if isinstance(found, ObjectError):
            kept = NodeRecord.unread(record.name, self.settings, now_s)
            kept.stale = record.stale
            self._set_aside(kept, found, now_s, is_heard=False)

    def drop(self, record: NodeRecord, gone: AbstractSet[Subject], now_s: float) -> None:
        """Have a node forget what it has lacked for too long."""
        found = attempt(partial(self._drop, record, gone, now_s))
        if isinstance(found, ObjectError):
            kept = self.workers.recovered(record, now_s)
            self._set_aside(kept, found, now_s, is_heard=False)

    def _report(self, record: NodeRecord, facts: NodeFacts, now_s: float) -> None:
        if record.take(facts, self.settings) or record.error is not None:
            self.marks().judged.add(record.name)
        if self.has_error(record.name):
            self.marks().moved.add(record.name)
        self.note_heard(record, now_s)
        self.feed(record, now_s)
        self.workers.note_usable(record)

    def _beat(self, record: NodeRecord, now_s: float) -> None:
        # A beat is a reading equal to the last one, and counts as such.
        if record.hardware.see_again():
            self.marks().judged.add(record.name)
        if record.read_again():
            self.marks().judged.add(record.name)
            self.feed(record, now_s)
        self.note_heard(record, now_s)

    def _drop(self, record: NodeRecord, gone: AbstractSet[Subject], now_s: float) -> None:
        record.drop(gone, self.settings)
        self.marks().judged.add(record.name)
        self.feed(record, now_s)

    def _set_aside(
        self, kept: NodeRecord, error: ObjectError, now_s: float, *, is_heard: bool = True
    ) -> None:
        """Set the last report of a node aside: all get what was known of it before."""
        self.workers.put_back(kept, error)
        self.marks().moved.add(kept.name)
        with owned_state("what is known of nodes"):
            if is_heard:
                self.note_heard(kept, now_s)
            self.feed(kept, now_s)
