"""Every node that a worker reports, and how long each has been silent or its wiring dead.

Time is an argument. Each kind of lateness has an index in the order of its times, so that looking
for what is late costs what is late, not the number of nodes.
"""

from collections import OrderedDict
from collections.abc import Collection

from topo.discovery.modes import DiscoverySettings
from topo.discovery.node.record import NodeRecord
from topo.model.errors import require
from topo.model.ids import NodeName


class Workers:
    """The records of all nodes that report. Mutable; owned by the discovery state.

    `records` is for reading.
    """

    def __init__(self, settings: DiscoverySettings) -> None:
        self._settings = settings
        self.records: dict[NodeName, NodeRecord] = {}
        self._fresh: OrderedDict[NodeName, float] = OrderedDict()
        self._stale: OrderedDict[NodeName, float] = OrderedDict()
        self._dead_wiring: dict[NodeName, float] = {}

    def add(self, record: NodeRecord) -> None:
        """Take a node that no worker has spoken for before."""
        self.records[record.name] = record
        self._fresh[record.name] = record.seen_at_s

    def note_report(self, record: NodeRecord, now_s: float) -> bool:
        """Note a report or heartbeat of a node; whether it was stale until now."""
        record.seen_at_s = now_s
        self._fresh[record.name] = now_s
        self._fresh.move_to_end(record.name)
        was_stale, record.stale = record.stale, False
        if was_stale:
            del self._stale[record.name]
        return was_stale

    def watch_wiring(self, record: NodeRecord, now_s: float) -> None:
        """Note since when a link or the NVLink domain of a node is judged dead."""
        if record.is_wiring_dead:
            self._dead_wiring.setdefault(record.name, now_s)
        else:
            self._dead_wiring.pop(record.name, None)

    def forget(self, node: NodeName) -> bool:
        """Drop a node; whether it was known."""
        for index in (self._fresh, self._stale, self._dead_wiring):
            index.pop(node, None)
        return self.records.pop(node, None) is not None

    def fell_silent(self, now_s: float) -> Collection[NodeRecord]:
        """Mark the nodes stale that have not spoken for `stale_s`; those newly marked."""
        silent = [self.records[n] for n in _older(self._fresh, now_s - self._settings.stale_s)]
        for record in silent:
            record.stale = True
            self._stale[record.name] = now_s
        return silent

    def long_silent(self, now_s: float) -> Collection[NodeName]:
        """The nodes that have been stale for `forget_s`; each is named once."""
        return _older(self._stale, now_s - self._settings.forget_s)

    def long_dead(self, now_s: float) -> Collection[NodeRecord]:
        """The nodes whose wiring has been dead for `forget_s`; each is named once."""
        late = _older(self._dead_wiring, now_s - self._settings.forget_s)
        return [self.records[node] for node in late]

    def validate(self) -> None:
        """Every record is in one of the indices of silence, by the time of its last report."""
        fresh, stale = self._fresh.keys(), self._stale.keys()
        require(not fresh & stale, "a worker is both fresh and stale")
        require(fresh | stale == self.records.keys(), "a worker's silence is not watched")
        require(
            self._dead_wiring.keys() <= self.records.keys(), "wiring of an unknown node is watched"
        )
        for name, record in self.records.items():
            require(record.stale == (name in stale), f"{name} is stale in one place only")
            dead = name in self._dead_wiring
            require(dead == record.is_wiring_dead, f"dead wiring of {name} is not watched")
        times = list(self._fresh.values())
        require(times == sorted(times), "the fresh workers are not in the order of their reports")


def _older(index: dict[NodeName, float], limit_s: float) -> list[NodeName]:
    """Take out the entries at or before a time, from an index in the order of its times."""
    late: list[NodeName] = []
    for node, at_s in index.items():
        if at_s > limit_s:
            break
        late.append(node)
    for node in late:
        del index[node]
    return late
