"""What the machine knows of one gang, as a value: what it saw, planned, asked and gave."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from topo.gangs.machine.events import Checked, Vanished
from topo.gangs.machine.gang import Binding, Gang, Member, Note, PodUid, Selection
from topo.gangs.machine.instructions import Instruction, Place
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId
from topo.placement.job.words import listed

Key = tuple[str, str]
"""What an instruction is about: ("pod", uid), ("node", name) or ("hold", id)."""


class Purpose(StrEnum):
    """What a placement is asked for."""

    FRESH = "fresh"
    """All of a gang of which nothing is opened; its turn is in the line."""
    GROWTH = "growth"
    """Whole groups more of a gang that runs; its turn is in the line."""
    MOVE = "move"
    """Pods that lost their node, or came again, beside those that stay."""
    WHOLE = "whole"
    """All pods of a gang that is opened, while none of them runs."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A placement that was asked for."""

    purpose: Purpose
    place: Place
    until_s: float


@dataclass(frozen=True, slots=True)
class NoRoom:
    """What was refused outside the line since there was more room, and why the last was."""

    asks: frozenset[tuple[Purpose, frozenset[PodUid]]]
    text: str


@dataclass(frozen=True, slots=True)
class Given:
    """An instruction that was given and is not seen done; `version` is that of its pod then.

    `refusals` counts how often it was refused in that version, `why` is the last reason.
    """

    instruction: Instruction
    until_s: float
    version: str = ""
    refusals: int = 0
    why: str = ""


Writes = Mapping[Key, Given]
"""What is under way, by what it is about: so there is never more than one write of a pod."""


@dataclass(frozen=True, slots=True)
class Gone:
    """What is left of a gang whose job is gone."""

    left: Vanished
    given: Writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One gang. `plan` has the places of its live pods, bound ones included.

    `checked`: the plan's nodes were seen free since the last change. `lost`: those that were not,
    with why. `check` is the number of the check under way. `strayed`: since the last one a pod was
    bound elsewhere than planned, or without a plan, or its node came into another group.
    `unproven`: the plan was read from notes, in which two plans may be mixed, and is to be checked
    before anything is written. `evicts`: the pods of lower priority that the plan is over, in
    words. `in_line_s`: since when it is in line.
    """

    gang: Gang
    plan: Mapping[PodUid, Note] = field(default_factory=dict)
    asked: Asked | None = None
    no_room: NoRoom | None = None
    check: int | None = None
    checked: bool = False
    lost: Mapping[NodeName, str] = field(default_factory=dict)
    blocked: str = ""
    split: str = ""
    strayed: bool = False
    unproven: bool = False
    evicts: str = ""
    in_line_s: float | None = None
    given: Writes = field(default_factory=dict)
    reported: tuple[GangState, str] | None = None

    @property
    def released(self) -> bool:
        """Whether a pod is out of the gate, so that the rest has to go on beside it."""
        out = [each for each in self.gang.members if each.live and not each.gated]
        slipped = self.gang.slipped() if out else frozenset[PodUid]()
        return any(member.uid not in slipped for member in out)

    @property
    def runs(self) -> bool:
        """Whether a pod is bound."""
        return any(member.live and member.node is not None for member in self.gang.members)

    def runs_on(self, nodes: Container[NodeName]) -> bool:
        """Whether a pod is bound to one of these nodes; O(members)."""
        return any(m.live and m.node is not None and m.node in nodes for m in self.gang.members)

    def planned(self) -> Iterator[tuple[Member, Note]]:
        """The pods that wait for being bound on their places, by rank."""
        for member in self.gang.members if self.plan else ():
            note = self.plan.get(member.uid)
            if note is not None and member.waits:
                yield member, note

    def plans_as(self, other: "Record") -> bool:
        """Whether nothing was seen or planned between the two; O(1)."""
        return self.plan is other.plan and self.gang is other.gang

    def seats(self, member: Member, note: Note) -> bool:
        """Whether the pod's nomination and note were seen in place.

        They are one write. The nomination of an opened pod may be gone: a scheduler clears it when
        an attempt fails, and would clear it again.
        """
        return member.note == note and (member.opened or member.nominated == self.nominee(note))

    def nominee(self, note: Note) -> NodeName | None:
        """Where a pod with this note is to be nominated; None: nowhere.

        Volcano evicts nobody for a pod whose nominated node is well in all but room: it takes that
        for room that it made (`taskEligibleToPreempt` in pkg/scheduler/actions/preempt/preempt.go,
        v1.13 and newer). What such pods select are the planned nodes all the same.
        """
        has_evicted = note.over and self.gang.binding is Binding.WHOLE
        return None if has_evicted else note.node

    @property
    def over(self) -> bool:
        """Whether the pods that wait are planned over pods of lower priority."""
        return any(note.over for _, note in self.planned())

    def holds(self) -> set[HoldId]:
        """The holds that pods still wait on."""
        return {note.hold for _, note in self.planned() if not note.over}

    def values(self) -> dict[NodeName, Selection]:
        """What each node of a pod selects, for pods that are planned, opened or bound."""
        values: dict[NodeName, Selection] = {}
        for member in self.gang.members:
            node = member.node
            if member.waits and member.uid in self.plan:
                note = self.plan[member.uid]
                opened = member.opened and member.selection == note.selection
                values[note.node] = (
                    note.selection if opened else values.get(note.node, note.selection)
                )
            elif node is not None and not member.finished and member.selection:
                values.setdefault(node, member.selection)
        return values


def observed(record: Record, gang: Gang) -> Record:
    """The record once the gang was seen so; what is planned for pods that are gone is dropped.

    Where nothing is opened a plan is for all pods at once: with a pod or the hold gone, or a
    recreated pod beside it, it is dropped as a whole. Where gates are to be opened without a plan,
    only what pods select already is finished. O(members).
    """
    by_rank = tuple(sorted(gang.members, key=lambda member: (member.rank, member.uid)))
    gang = replace(gang, members=by_rank)
    live = {member.uid: member for member in by_rank if member.live}
    plan = {uid: note for uid, note in record.plan.items() if uid in live}
    plan, strayed = _followed(plan, live)
    strayed = strayed or (not gang.ungated and _came_unplanned(record, live, plan))
    checked = record.checked and plan == record.plan and not strayed
    strayed = strayed or record.strayed
    found = replace(record, gang=gang, plan=plan, checked=checked, strayed=strayed)
    if found.plan and not found.released and not _sound(found):
        found = unplanned(found)
    if gang.ungated and not any(member.opened and member.selection for member in by_rank):
        found = replace(found, plan={uid: n for uid, n in plan.items() if not live[uid].gated})
    if found.gang.awaits != record.gang.awaits or found.gang.request != record.gang.request:
        found = replace(found, blocked="")
    return _one_selection(found)


def _followed(
    plan: dict[PodUid, Note], live: Mapping[PodUid, Member]
) -> tuple[dict[PodUid, Note], bool]:
    """The plan with the pods that were bound elsewhere where they are; whether there are any.

    Pods of their groups that wait have no place then: it is to be found beside those.
    """
    nodes = {uid: member.node for uid, member in live.items() if uid in plan}
    away = {uid: node for uid, node in nodes.items() if node not in {None, plan[uid].node}}
    if not away:
        return plan, False
    groups = {plan[uid].group for uid in away}
    return {
        uid: replace(note, node=nodes[uid] or note.node)
        for uid, note in plan.items()
        if nodes[uid] is not None or note.group not in groups
    }, True


def _came_unplanned(
    record: Record, live: Mapping[PodUid, Member], plan: Mapping[PodUid, Note]
) -> bool:
    """Whether a pod was bound without a plan since the gang was seen: nobody asked our webhook."""
    bound = {uid for uid, member in live.items() if member.node is not None and uid not in plan}
    known = (member.uid for member in record.gang.members if member.node is not None)
    return bool(bound) and not bound.issubset(known)


def adopted(gang: Gang) -> Record:
    """The record of a gang that is seen for the first time, with the plan that its notes tell.

    A leader before us may have died between any two writes. What it opened goes on as it noted;
    where it opened nothing, a plan counts if it is noted on all pods and held.
    """
    notes = {m.uid: m.note for m in gang.members if m.live and m.note is not None}
    found = observed(Record(gang=replace(gang, members=()), plan=notes), gang)
    return replace(found, unproven=any(True for _ in found.planned()))


def unplanned(record: Record) -> Record:
    """The record without its plan, which the holds and labels then follow."""
    return replace(record, plan={}, checked=False, check=None, lost={}, split="", unproven=False)


def drop_split_groups(record: Record, found: Checked) -> Record:
    """The record where groups were found split or apart: their pods that wait have no place any
    more.

    Where none of them waits, or what runs is so already, it is a fact, to be told: the others go
    where they are planned, since no place of theirs would mend it.
    """
    settled = set(found.settled)
    groups = {*found.split, *(() if settled & {*found.apart} else found.apart)} - settled
    waiting = {member.uid: note for member, note in record.planned() if note.group in groups}
    plan = {uid: note for uid, note in record.plan.items() if uid not in waiting}
    move = {note.group for note in waiting.values()}
    split, apart = (_named(groups, move) for groups in (found.split, found.apart))
    texts = [f"pods of group {split} run in several domains"] if split else []
    if apart:
        kind = record.gang.request.within
        texts.append(f"its pods share no {kind}: those of group {apart} are elsewhere")
    return replace(record, plan=plan, split="; ".join(texts))


def _named(groups: Iterable[int], but: Container[int]) -> str:
    return listed([str(group) for group in sorted(groups) if group not in but])


def _sound(record: Record) -> bool:
    """Whether the plan of a gang of which nothing is opened is for all of its pods, and held."""
    members = [m for m in record.gang.members if m.live and m.fixed is None]
    holds = {note.hold for note in record.plan.values()}
    return (
        {member.uid for member in members} == record.plan.keys()
        and {member.rank for member in record.gang.members if member.live or member.succeeded}
        == set(range(record.gang.request.pods))
        and len(holds) == 1
        and (record.over or holds <= set(record.gang.holds))
    )


def _one_selection(record: Record) -> Record:
    """Pods that are to select the same, select what those of them do that are opened.

    These may have been opened by a late write of an earlier leader, to an earlier plan.
    """
    gang = record.gang
    selected: dict[int, Selection] = {}
    for member in gang.members:
        if member.live and not member.gated and member.selection:
            selected.setdefault(share_of(gang, gang.group_of(member.rank)), member.selection)
    other = {
        uid: replace(note, selection=value)
        for uid, note in (record.plan.items() if selected else ())
        if (value := selected.get(share_of(gang, note.group), note.selection)) != note.selection
    }
    return replace(record, plan={**record.plan, **other}) if other else record


def share_of(gang: Gang, group: int) -> int:
    """What selects one value: the gang where it is bound as a whole, else each group."""
    return 0 if gang.binding is Binding.WHOLE else group
