"""Every node that a worker reports, and how long each has been silent or lacking something.

A worker is *fresh* once it has spoken, *awaited* while it may not have found us again (we were
away: a restart, a standstill), and *stale* when either took too long. Silence is counted from when
we could have heard: a worker that cannot reach its master waits between its tries.

Time is an argument. Each kind of lateness has an index in the order of its times, so that looking
for what is late costs what is late, not the number of nodes.

Example, 3 beats of 1 s and 18 s to reconnect: we are away from 0 s to 5 s, so the fresh a and b are
awaited until 26 s. a speaks at 9 s and is fresh until 12 s; b says nothing and is stale at 26 s.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable
from collections.abc import Set as AbstractSet
from typing import TypeVar

from topo.discovery.modes import DiscoverySettings
from topo.discovery.node.fabric_ports import Cabling
from topo.discovery.node.health import Subject
from topo.discovery.node.memory import NodeMemory
from topo.discovery.node.record import NodeRecord
from topo.model.errors import require
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError, attempt

K = TypeVar("K", bound=Hashable)


class Workers:
    """The records of all nodes that report. Mutable; owned by the discovery state.

    `records` is for reading, and so is `errors`: why the last reports of nodes could not be used.
    """

    def __init__(self, settings: DiscoverySettings) -> None:
        self._settings = settings
        self.records: dict[NodeName, NodeRecord] = {}
        self.errors: dict[NodeName, ObjectError] = {}
        self._fresh: OrderedDict[NodeName, float] = OrderedDict()
        self._awaited: dict[NodeName, float] = {}
        self._stale: OrderedDict[NodeName, float] = OrderedDict()
        self._losses: dict[tuple[NodeName, Subject], float] = {}
        self._lost: dict[NodeName, AbstractSet[Subject]] = {}

    def add(self, record: NodeRecord) -> None:
        """Take a node that no worker has spoken for before."""
        self.records[record.name] = record
        self._fresh[record.name] = record.seen_at_s

    def note_usable(self, record: NodeRecord) -> None:
        """Note that the last report of a node was taken."""
        record.error = None
        self.errors.pop(record.name, None)

    def put_back(self, record: NodeRecord, error: ObjectError) -> None:
        """Put the record of a known node in place of one that an error left half changed."""
        self.records[record.name] = record
        record.error = self.errors[record.name] = error

    def recovered(self, record: NodeRecord, now_s: float) -> NodeRecord:
        """Return what a restart would know of a node, whose record an error left half changed."""
        memory = attempt(record.persistent_state)
        if isinstance(memory, ObjectError):
            found = NodeRecord.unread(record.name, self._settings, now_s)
        else:
            found = self.remembered(memory, now_s)
        found.facts, found.stale = record.facts, record.stale
        return found

    def remembered(self, memory: NodeMemory, now_s: float) -> NodeRecord:
        """Return the record of a node as it was before a restart; one never heard, on an error."""
        settings = self._settings
        found = attempt(lambda: NodeRecord.remembered(memory, settings, now_s))
        if isinstance(found, ObjectError):
            return NodeRecord.unread(memory.identity.name, settings, now_s)
        return found

    def restore(self, record: NodeRecord, now_s: float) -> None:
        """Take up a node as an earlier process left it; one that was stale stays so until heard."""
        self.records[record.name] = record
        # Counted from now: nothing could be heard while no master ran.
        (self._stale if record.stale else self._awaited)[record.name] = now_s

    def expect_all(self, now_s: float) -> None:
        """Expect every worker again: the master was away, so silence until now proves nothing."""
        self._awaited = dict.fromkeys([*self._awaited, *self._fresh], now_s)
        self._fresh.clear()

    def note_report(self, record: NodeRecord, now_s: float) -> bool:
        """Note a report or heartbeat of a node; whether it was stale until now."""
        name = record.name
        record.seen_at_s = now_s
        self._fresh[name] = now_s
        self._fresh.move_to_end(name)
        self._awaited.pop(name, None)
        was_stale, record.stale = record.stale, False
        self._stale.pop(name, None)
        return was_stale

    def recable(self, cablings: Iterable[tuple[NodeName, Cabling]]) -> set[NodeName]:
        """Tell nodes where their cables lead; those whose reasons differ."""
        known = ((self.records.get(node), cabling) for node, cabling in cablings)
        return {
            record.name
            for record, cabling in known
            if record is not None and self._recable(record, cabling)
        }

    def _recable(self, record: NodeRecord, cabling: Cabling) -> bool:
        found = attempt(lambda: record.recable(cabling, self._settings))
        if isinstance(found, ObjectError):
            self.put_back(record, found)
            return True
        return found

    def watch_losses(self, record: NodeRecord, now_s: float) -> None:
        """Note since when each link, the NVLink domain or hardware of a node is judged gone."""
        name, lost = record.name, record.losses
        before = self._lost.get(name, frozenset())
        if lost == before:
            return
        for subject in before - lost:
            del self._losses[name, subject]
        self._losses |= {(name, subject): now_s for subject in sorted(lost - before)}
        self._set_lost(name, lost)

    def _set_lost(self, node: NodeName, lost: AbstractSet[Subject]) -> None:
        if lost:
            self._lost[node] = lost
        else:
            self._lost.pop(node, None)

    def forget(self, node: NodeName) -> bool:
        """Drop a node; whether it was known."""
        for index in (self._fresh, self._awaited, self._stale):
            index.pop(node, None)
        self.errors.pop(node, None)
        for subject in self._lost.pop(node, ()):
            del self._losses[node, subject]
        return self.records.pop(node, None) is not None

    def mark_stale(self, now_s: float) -> Collection[NodeRecord]:
        """Mark the nodes stale that have not spoken for too long; those newly marked."""
        settings = self._settings
        late = _older(self._fresh, now_s - settings.stale_s)
        # An awaited worker may be waiting between two tries, so it gets longer than a fresh one.
        late += _older(self._awaited, now_s - settings.return_s)
        silent = [self.records[node] for node in late]
        for record in silent:
            record.stale = True
            self._stale[record.name] = now_s
        return silent

    def take_long_silent(self, now_s: float) -> Collection[NodeName]:
        """Return the nodes that have been stale for `forget_s`; each is named once."""
        return _older(self._stale, now_s - self._settings.forget_s)

    def take_long_lost(self, now_s: float) -> Collection[tuple[NodeRecord, AbstractSet[Subject]]]:
        """Remove and return what has been missing for `forget_s`, by node."""
        late: dict[NodeName, set[Subject]] = {}
        for node, subject in _older(self._losses, now_s - self._settings.forget_s):
            late.setdefault(node, set()).add(subject)
        for node, gone in late.items():
            self._set_lost(node, self._lost[node] - gone)
        return [(self.records[node], gone) for node, gone in late.items()]

    def validate(self) -> None:
        """Check that each record is in one index of silence, and each index in order of time."""
        indices = (self._fresh, self._awaited, self._stale)
        watched = sorted(node for index in indices for node in index)
        require(watched == sorted(self.records), "a worker's silence is not watched exactly once")
        stale = self._stale.keys()
        require(self._lost.keys() <= self.records.keys(), "an unknown node is watched")
        pairs = {(node, subject) for node, lost in self._lost.items() for subject in lost}
        require(pairs == self._losses.keys(), "a loss has no time, or a time no loss")
        for name, record in self.records.items():
            require(record.stale == (name in stale), f"{name} is stale in one place only")
            watched_for = self._lost.get(name, frozenset())
            require(watched_for == record.losses, f"what {name} lost is not watched")
        for times in (*(list(index.values()) for index in indices), list(self._losses.values())):
            require(times == sorted(times), "an index is not in the order of its times")


def _older(index: dict[K, float], limit_s: float) -> list[K]:
    """Take out the entries at or before a time, from an index in the order of its times."""
    late: list[K] = []
    # The index is in order of time: the first entry that is not late ends the search.
    for key, at_s in index.items():
        if at_s > limit_s:
            break
        late.append(key)
    for key in late:
        del index[key]
    return late
