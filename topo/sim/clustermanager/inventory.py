"""What the simulated cluster manager knows: a topology, and the bounded log of how it came to be.

A change is a whole new topology; the events are found by comparing. What no event of the contract
can say (a group with another kind or parent) starts a new log, and every cursor is gone.
"""

import secrets
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict

from topo.discovery.manager.contract import checked
from topo.model.errors import Refusal
from topo.model.observation import ManagedGroup, ManagedMachine, ManagedTopology

Json = dict[str, object]


class Inventory:
    """The manager's data base. `log_limit` is the number of events that are kept."""

    def __init__(self, topology: ManagedTopology, log_limit: int = 1000) -> None:
        self.topology = topology
        self._log: deque[Json] = deque(maxlen=log_limit)
        self._epoch = ""
        self._position = 0
        self.forget_events()

    @property
    def cursor(self) -> str:
        """The place in the log at which `topology` is true."""
        return f"{self._epoch}-{self._position}"

    def document(self) -> Json:
        """Return the answer of `GET /v1/topology`."""
        return {"cursor": self.cursor, **topology_document(self.topology)}

    def events(self, cursor: str, limit: int) -> Json | None:
        """The answer of `GET /v1/events`; None for a cursor that is gone or was never given."""
        epoch, _, position = cursor.rpartition("-")
        first = self._position - len(self._log)
        if epoch != self._epoch or not position.isdecimal():
            return None
        start = int(position) - first
        if not 0 <= start <= len(self._log):
            return None
        page = [self._log[i] for i in range(start, min(start + limit, len(self._log)))]
        return {"cursor": page[-1]["cursor"] if page else cursor, "events": page}

    def replace(self, topology: ManagedTopology) -> Refusal | None:
        """Make this the truth and logs the events that lead there; None when it is sound."""
        sound = checked(topology)
        if isinstance(sound, Refusal):
            return sound
        events = difference(self.topology, sound)
        self.topology = sound
        if events is None:
            self.forget_events()
            return None
        for event in events:
            before = self.cursor
            self._position += 1
            self._log.append({"cursor": self.cursor, "after": before, **event})
        return None

    def forget_events(self) -> None:
        """Start a new log, as a manager does that was restarted: every old cursor is gone."""
        self._epoch = secrets.token_hex(4)
        self._position = 0
        self._log.clear()


def difference(before: ManagedTopology, after: ManagedTopology) -> list[Json] | None:
    """Events that turn one sound topology into another; None where no events can say it.

    Groups come before what is in them and go after it, so every prefix that does not rename is
    sound. O(n) for n groups and machines.
    """
    old_groups = {group.id: group for group in before.groups}
    new_groups = {group.id: group for group in after.groups}
    for key in old_groups.keys() & new_groups.keys():
        old, new = old_groups[key], new_groups[key]
        if (old.kind, old.parent_id) != (new.kind, new.parent_id):
            return None
    return [
        *_groups_entered(old_groups, new_groups),
        *_machines_changed(before.machines, after.machines),
        *_groups_left(old_groups, new_groups),
    ]


def topology_document(topology: ManagedTopology) -> Json:
    """Groups and machines as they travel."""
    return {
        "groups": [asdict(group) for group in topology.groups],
        "machines": [machine_document(machine) for machine in topology.machines],
    }


def machine_document(machine: ManagedMachine) -> Json:
    """Return one machine as it travels."""
    return {**asdict(machine), "names": dict(machine.names)}


def _groups_entered(old: dict[str, ManagedGroup], new: dict[str, ManagedGroup]) -> Iterator[Json]:
    for group in _parents_first(new, old):
        yield {"type": "group-added", "group": asdict(group)}
    for key, group in new.items():
        if key in old and old[key].name != group.name:
            yield {"type": "group-renamed", "group_id": key, "name": group.name}


def _groups_left(old: dict[str, ManagedGroup], new: dict[str, ManagedGroup]) -> Iterator[Json]:
    for group in reversed(list(_parents_first(old, new))):
        yield {"type": "group-removed", "group_id": group.id}


def _parents_first(
    groups: dict[str, ManagedGroup], others: dict[str, ManagedGroup]
) -> Iterator[ManagedGroup]:
    """The groups that `others` lacks, parents first; ends because neither side has a circle."""
    waiting = [group for key, group in groups.items() if key not in others]
    known = {None, *others}
    while waiting:
        ready = [group for group in waiting if group.parent_id in known]
        known.update(group.id for group in ready)
        waiting = [group for group in waiting if group.id not in known]
        yield from ready


def _machines_changed(
    before: tuple[ManagedMachine, ...], after: tuple[ManagedMachine, ...]
) -> Iterator[Json]:
    old = {machine.id: machine for machine in before}
    for machine in after:
        known = old.pop(machine.id, None)
        if known is None:
            yield {"type": "machine-added", "machine": machine_document(machine)}
        elif (known.names, known.status) != (machine.names, machine.status):
            yield {"type": "machine-updated", "machine": machine_document(machine)}
        elif known.group_id != machine.group_id:
            yield {
                "type": "machine-moved",
                "machine_id": machine.id,
                "group_id": machine.group_id,
            }
    for key in old:
        yield {"type": "machine-removed", "machine_id": key}
