"""A cluster manager's events, and a topology with them applied.

The events are those of our contract (docs/cluster-manager.openapi.yaml). Each names the cursor
before it (`after`) and the one past it (`cursor`): a page is believed only if it is one unbroken
chain from the cursor that was asked. Whatever does not fit is a `Refusal`, and the caller then
reads the whole topology again; nothing is ever half applied.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import FailFast, Field, ValidationError

from topo.discovery.manager.contract import (
    Cursor,
    GroupRow,
    Key,
    Label,
    MachineRow,
    ManagerRow,
    checked,
    refusal_of,
)
from topo.model.errors import Refusal
from topo.model.ids import GroupName
from topo.model.observation import ManagedGroup, ManagedMachine, ManagedTopology

MAX_EVENTS = 10_000
"""Events in one page; a manager with more to say sends the next page when asked."""


class _Event(ManagerRow):
    cursor: Cursor
    after: Cursor


class MachineStated(_Event):
    """A machine that was not there before, or all facts of a known one."""

    type: Literal["machine-added", "machine-updated"]
    machine: MachineRow


class MachineMoved(_Event):
    """A known machine is in another group now (None: in no group)."""

    type: Literal["machine-moved"]
    machine_id: Key
    group_id: Key | None


class MachineRemoved(_Event):
    """A machine is gone."""

    type: Literal["machine-removed"]
    machine_id: Key


class GroupAdded(_Event):
    """A group that was not there before."""

    type: Literal["group-added"]
    group: GroupRow


class GroupRenamed(_Event):
    """A known group has another name now."""

    type: Literal["group-renamed"]
    group_id: Key
    name: Label


class GroupRemoved(_Event):
    """A group is gone; nothing may be in it any more."""

    type: Literal["group-removed"]
    group_id: Key


ManagerEvent = (
    MachineStated | MachineMoved | MachineRemoved | GroupAdded | GroupRenamed | GroupRemoved
)


class EventPage(ManagerRow):
    """A page of the manager's log and the cursor past it: an unbroken chain."""

    cursor: Cursor
    events: Annotated[
        list[Annotated[ManagerEvent, Field(discriminator="type")]],
        FailFast(),
        Field(max_length=MAX_EVENTS),
    ]


def read_events(document: object, asked: str) -> EventPage | Refusal:
    """Return the answer of `GET /v1/events?cursor=asked`, or the gap or mistake in it."""
    try:
        page = EventPage.model_validate(document)
    except ValidationError as error:
        return refusal_of(error)
    position = asked
    for index, event in enumerate(page.events):
        if event.after != position:
            return _gap(f"events[{index}].after", event.after, position)
        position = event.cursor
    return page if page.cursor == position else _gap("cursor", page.cursor, position)


def apply_events(
    topology: ManagedTopology, events: Sequence[ManagerEvent]
) -> ManagedTopology | Refusal:
    """Return what a full poll would say after these events, or the first event that cannot have
    happened.

    Only the end is checked as a whole: between two events of one page a group may lie empty or a
    machine wait for its group. O(n log n) for n groups and machines, once per page.
    """
    if not events:
        return topology
    draft = _Draft(
        {group.id: group for group in topology.groups},
        {machine.id: machine for machine in topology.machines},
    )
    for event in events:
        refusal = draft.take(event)
        if refusal is not None:
            return refusal
    return checked(ManagedTopology(tuple(draft.groups.values()), tuple(draft.machines.values())))


@dataclass(slots=True)
class _Draft:
    """A topology while events are applied to it; lives inside one call of `apply_events`."""

    groups: dict[str, ManagedGroup]
    machines: dict[str, ManagedMachine]

    def take(self, event: ManagerEvent) -> Refusal | None:
        """Apply one event; return why it contradicts what is known."""
        match event:
            case MachineStated():
                known, subject = event.machine.id in self.machines, event.machine.id
            case MachineMoved() | MachineRemoved():
                known, subject = event.machine_id in self.machines, event.machine_id
            case GroupAdded():
                known, subject = event.group.id in self.groups, event.group.id
            case _:
                known, subject = event.group_id in self.groups, event.group_id
        if known != event.type.endswith("-added"):
            self._apply(event)
            return None
        return Refusal(
            f"{event.type} for {subject!r}, which is {'known already' if known else 'not known'}",
            f"the event with cursor {event.cursor!r}",
            "the whole topology is read again",
        )

    def _apply(self, event: ManagerEvent) -> None:
        match event:
            case MachineStated():
                self.machines[event.machine.id] = event.machine.value()
            case MachineMoved():
                known = self.machines[event.machine_id]
                self.machines[event.machine_id] = replace(known, group_id=event.group_id)
            case MachineRemoved():
                del self.machines[event.machine_id]
            case GroupAdded():
                self.groups[event.group.id] = event.group.value()
            case GroupRenamed():
                group = self.groups[event.group_id]
                self.groups[event.group_id] = replace(group, name=GroupName(event.name))
            case GroupRemoved():
                del self.groups[event.group_id]


def _gap(where: str, found: str, wanted: str) -> Refusal:
    return Refusal(
        f"a gap in the events: {found!r} where {wanted!r} must follow",
        where,
        "the whole topology is read again",
    )
