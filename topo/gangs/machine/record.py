"""The machine's knowledge of one gang, as a value: observed, planned, requested and written."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from topo.gangs.machine.claims import is_borne_out, is_held, note_doubt, surplus_pods
from topo.gangs.machine.events import Checked, Vanished
from topo.gangs.machine.gang import Binding, Gang, Member, Note, PodUid, Selection
from topo.gangs.machine.instructions import (
    Instruction,
    Open,
    OpenInDomain,
    OpenUnplanned,
    Place,
)
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName
from topo.model.words import listed
from topo.placement.booking.holds import HoldId

Key = tuple[str, str]
"""The subject of a write: ("pod", uid), ("node", name) or ("hold", id)."""


class Purpose(StrEnum):
    """Which pods of a gang a placement is for."""

    FRESH = "fresh"
    """All pods of a gang of which none is opened; its turn is in the queue."""
    START = "start"
    """Enough pods to start a gang of which none is opened; its turn is in the queue."""
    GROWTH = "growth"
    """More whole groups of a gang that runs; its turn is in the queue."""
    MOVE = "move"
    """Pods that lost their node or were created again; other pods stay."""
    WHOLE = "whole"
    """All pods of a gang that is opened, while none of them runs."""


@dataclass(frozen=True, slots=True)
class PendingPlacement:
    """A placement that was requested, and when its answer is late."""

    purpose: Purpose
    place: Place
    until_s: float

    @property
    def uids(self) -> frozenset[PodUid]:
        """The uids of the pods that it is for."""
        return frozenset(pod.uid for pod in self.place.wanted)


@dataclass(frozen=True, slots=True)
class Refusals:
    """Requests outside the queue that were refused since the free capacity last grew.

    `text` is the reason of the last refusal.
    """

    requests: frozenset[tuple[Purpose, frozenset[PodUid]]]
    text: str


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write that was issued and not yet seen done; `version` is the pod's version at that time.

    `refusals` counts the refusals in that version, `why` is the last reason.
    """

    instruction: Instruction
    until_s: float
    version: str = ""
    refusals: int = 0
    why: str = ""


Writes = Mapping[Key, PendingWrite]
"""The pending writes by subject, so that there is never more than one of a pod."""


@dataclass(frozen=True, slots=True)
class DeletedGang:
    """The remains of a gang whose job is gone, and the writes that remove them."""

    left: Vanished
    given: Writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One gang. `plan` has the notes of its live pods, bound ones included.

    `surplus` are live pods without a rank of their own (`surplus_pods`): they have no places.
    `asked` is the placement that is requested. `no_room` are refused requests that are not repeated
    before there is more room. `check` is the number of the pending check. `checked`: the planned
    nodes were seen free since the last change; `lost` are the nodes that were not, with the reason.
    `blocked` and `split` are results of the last check. `strayed`: since the last check a pod was
    bound elsewhere than planned, or without a plan, or its node moved to another group. `unproven`:
    the plan was read from notes, which may be of two plans, so that a check comes before any write.
    `opened_since_s` is since when pods with their places wait for their scheduler. `avoided` are
    nodes that it refused, each with the time until which the gang is not placed there.
    `evicts` names the pods of lower priority that the plan is over. `queued_since_s` is when the
    gang came into the queue. `reported` is its state and text as last reported.
    """

    gang: Gang
    surplus: frozenset[PodUid] = frozenset()
    plan: Mapping[PodUid, Note] = field(default_factory=dict)
    asked: PendingPlacement | None = None
    no_room: Refusals | None = None
    check: int | None = None
    checked: bool = False
    lost: Mapping[NodeName, str] = field(default_factory=dict)
    blocked: str = ""
    split: str = ""
    strayed: bool = False
    unproven: bool = False
    opened_since_s: float | None = None
    avoided: Mapping[NodeName, float] = field(default_factory=dict)
    evicts: str = ""
    queued_since_s: float | None = None
    given: Writes = field(default_factory=dict)
    reported: tuple[GangState, str] | None = None

    @property
    def is_released(self) -> bool:
        """Whether a pod has passed our gate, so that the other pods have to be placed near it."""
        ungated = [each for each in self.gang.members if each.live and not each.gated]
        bypassed = self.gang.bypassed_webhook() if ungated else frozenset[PodUid]()
        return any(member.uid not in bypassed for member in ungated)

    @property
    def is_running(self) -> bool:
        """Whether a pod is bound."""
        return any(member.live and member.node is not None for member in self.gang.members)

    def is_running_on(self, nodes: Container[NodeName]) -> bool:
        """Whether a pod is bound to one of these nodes; O(members)."""
        return any(m.live and m.node is not None and m.node in nodes for m in self.gang.members)

    def waiting_pods(self) -> list[tuple[Member, Note]]:
        """Return the planned pods that are not bound, with their notes, by rank; O(members)."""
        plan = self.plan
        if not plan:
            return []
        return [(m, plan[m.uid]) for m in self.gang.members if m.waits and m.uid in plan]

    def opening_pods(self) -> frozenset[PodUid]:
        """Return the gated pods that have places, and so get their gates opened unless their queue
        keeps them out, and those that get them opened whatever comes: the write is on its way.

        O(members).
        """
        planned = () if self.blocked else self.waiting_pods()
        return opened_soon(self.given) | {
            m.uid for m, _ in planned if m.gated and not m.is_expected
        }

    def with_openings_alone(self) -> "Record":
        """Return the record without the pending writes that open no gate: one may have failed."""
        opening = opened_soon(self.given)
        given = {key: each for key, each in self.given.items() if key[1] in opening}
        return replace(self, given=given)

    def is_seated(self, member: Member, note: Note) -> bool:
        """Whether the nomination and the note of the pod were observed as planned.

        Both are one write. The nomination of an opened pod may be gone: a scheduler clears it when
        an attempt fails, and would clear it again. Or it is another node that the pod selects, as
        where a scheduler evicts others for it; a node that it does not select is of an older plan.
        """
        if member.is_expected:
            return True
        if member.note != note:
            return False
        if not member.opened:
            return member.nominated == self.nominated_node(note)
        return member.nominated == note.node or not self.has_stale_nomination(member)

    def has_stale_nomination(self, member: Member) -> bool:
        """Whether a pod is nominated to a node that its selector excludes."""
        if member.nominated is None or not member.selection:
            return False
        return self.gang.labelled.get(member.nominated) != member.selection

    def has_unwanted_nomination(self, member: Member) -> bool:
        """Whether a pod without a place is nominated, and not by its scheduler.

        Its nomination is stale; or the pod selects nothing and its scheduler has not tried it yet,
        so that a master nominated it. The owner of the pod can write any note, so the machine does
        not ask the note.
        """
        if self.has_stale_nomination(member):
            return True
        return member.nominated is not None and not (member.selection or member.is_tried)

    def nominated_node(self, note: Note) -> NodeName | None:
        """Return the node to nominate a pod with this note to; None if pods are evicted first.

        Volcano evicts no pod for one whose nominated node lacks only room: it assumes that it made
        that room itself (`taskEligibleToPreempt` in pkg/scheduler/actions/preempt/preempt.go, v1.13
        and newer). kube-scheduler evicts for all of a PodGroup at once, and nominates its pods
        then. Such pods still select the planned nodes.
        """
        needs_eviction = note.over and self.gang.binding.is_together
        return None if needs_eviction else note.node

    @property
    def over(self) -> bool:
        """Whether the pods that wait are planned over pods of lower priority."""
        over = {uid for uid, note in self.plan.items() if note.over}
        return any(member.waits and member.uid in over for member in self.gang.members)

    def too_large_holds(self) -> frozenset[HoldId]:
        """Return the holds of the gang that book more places than its pods have or wait for.

        A bound pod has the place of the hold that it names itself, by which it is counted, if that
        bears its note out; its plan may be a newer one. O(places, and members if there is a hold).
        """
        holds, labelled = self.gang.holds, self.gang.labelled
        if not holds:
            return frozenset()
        has = Counter[tuple[HoldId, NodeName]]()
        for member in self.gang.members:
            is_bound = member.node is not None
            note = member.note if is_bound else self.plan.get(member.uid)
            if not member.live or note is None:
                continue
            if not is_bound or is_borne_out(note, holds, labelled):
                has[note.hold, member.node or note.node] += 1
        return frozenset(
            hold
            for hold, places in holds.items()
            if any(pods > has[hold, node] for node, pods in places.items())
        )

    def selections(self) -> dict[NodeName, Selection]:
        """Return the label value that the pods of each node select, planned, opened or bound."""
        values: dict[NodeName, Selection] = {}
        for member in self.gang.members:
            node = member.node
            if member.waits and member.uid in self.plan:
                note = self.plan[member.uid]
                # Of two pods of one node, one that is opened decides: it selects for good.
                is_settled = member.opened and member.selection == note.selection
                values[note.node] = (
                    note.selection if is_settled else values.get(note.node, note.selection)
                )
            elif node is not None and not member.finished and member.selection:
                values.setdefault(node, member.selection)
        return values


def opened_soon(given: Writes) -> frozenset[PodUid]:
    """Return the pods whose gates are opened by pending writes; O(pending writes)."""
    writes = (each.instruction for each in given.values())
    return frozenset(
        each.pod.uid for each in writes if isinstance(each, Open | OpenInDomain | OpenUnplanned)
    )


def holds_of(waiting: Iterable[tuple[Member, Note]]) -> set[HoldId]:
    """Return the holds of pods that wait; a plan over other pods has none."""
    return {note.hold for _, note in waiting if not note.over}


def update_record(record: Record, gang: Gang) -> Record:
    """Return the record after an observation; the notes of deleted pods are dropped.

    Before any pod is opened, a plan is for all pods at once, or for those that start the gang: if a
    pod or the hold is gone, or a pod was created again, the whole plan is dropped. If gates are to
    be opened without a plan, only what pods select already is completed. O(members).
    """
    by_rank = tuple(sorted(gang.members, key=lambda member: (member.rank, member.uid)))
    gang = replace(gang, members=by_rank)
    surplus = surplus_pods(by_rank, gang.request.pods)
    live = {m.uid: m for m in by_rank if m.live and m.uid not in surplus}
    plan = _hand_over(record, live)
    plan, strayed = _follow_bindings(plan, live)
    strayed = strayed or (not gang.ungated and _has_new_unplanned_binding(record, live, plan))
    checked = record.checked and plan == record.plan and not strayed
    strayed = strayed or record.strayed
    found = replace(record, gang=gang, surplus=surplus, plan=plan, checked=checked, strayed=strayed)
    if not found.is_released:
        found = found if not found.plan or _is_complete(found) else drop_plan(found)
    else:
        found = _drop_unheld(found)
    if gang.ungated and not any(member.opened and member.selection for member in by_rank):
        found = replace(found, plan={uid: n for uid, n in plan.items() if not live[uid].gated})
    if found.gang.awaits != record.gang.awaits or found.gang.request != record.gang.request:
        found = without_block(found)
    return _align_selections(found)


def _hand_over(record: Record, live: Mapping[PodUid, Member]) -> dict[PodUid, Note]:
    """Return the notes of the live pods; one that came has the place that was kept for its rank."""
    plan = {uid: note for uid, note in record.plan.items() if uid in live}
    kept = {
        member.rank: record.plan[member.uid]
        for member in record.gang.members
        if member.is_expected and member.uid in record.plan and member.uid not in live
    }
    if kept:
        for uid, member in live.items():
            if member.waits and member.gated and uid not in plan and member.rank in kept:
                plan[uid] = kept[member.rank]
    return plan


def _follow_bindings(
    plan: dict[PodUid, Note], live: Mapping[PodUid, Member]
) -> tuple[dict[PodUid, Note], bool]:
    """Return the plan with the real nodes of pods bound elsewhere, and whether there are any.

    The waiting pods of their groups lose their places and are placed again near the bound ones.
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


def _has_new_unplanned_binding(
    record: Record, live: Mapping[PodUid, Member], plan: Mapping[PodUid, Note]
) -> bool:
    """Whether a pod that bypassed the webhook was bound since the last observation."""
    bound = {uid for uid, member in live.items() if member.node is not None and uid not in plan}
    known = (member.uid for member in record.gang.members if member.node is not None)
    return bool(bound) and not bound.issubset(known)


def restore_record(gang: Gang) -> Record:
    """Return the record of a gang that is observed for the first time, with the plan of its notes.

    An earlier leader may have died between any two writes. If it opened a pod, the plan in the
    notes continues. If it opened none, the plan is valid only if all pods have a note and the hold
    exists. Only notes count that the machine can have written (`note_doubt`).
    """
    stated = ((m, m.note) for m in gang.members if m.live and m.note is not None)
    notes = {
        member.uid: note
        for member, note in stated
        if not (note.withdrawn or note_doubt(gang, member, note))
    }
    found = update_record(Record(gang=replace(gang, members=()), plan=notes), gang)
    return replace(found, unproven=bool(found.waiting_pods()))


def drop_plan(record: Record) -> Record:
    """Return the record without its plan; its holds and labels are then released."""
    return replace(record, plan={}, checked=False, check=None, lost={}, split="", unproven=False)


def without_places(record: Record, uids: Container[PodUid]) -> Record:
    """Return the record without the places of these pods, which nothing books any more."""
    kept = {uid: note for uid, note in record.plan.items() if uid not in uids}
    return replace(record, plan=kept, checked=False)


def without_block(record: Record) -> Record:
    """Return the record of a gang that its queue may let in by now: the next check asks it."""
    return replace(record, blocked="", checked=False, check=None) if record.blocked else record


def with_check(record: Record, found: Checked) -> Record:
    """Return the record after a check: a plan of which no pod is opened is dropped as a whole."""
    checked = replace(record, check=None, checked=True, lost=dict(found.lost))
    checked = replace(checked, blocked=found.blocked, strayed=False, unproven=False)
    if checked.is_released:
        return drop_split_groups(checked, found)
    is_lost = bool(found.lost or found.blocked or found.split or found.apart)
    return drop_plan(checked) if is_lost else checked


def drop_lost_places(record: Record) -> Record:
    """Return the record without the places of waiting pods that cannot be bound any more.

    These are the pods whose nodes are lost, but for those that wait for evictions and book nothing.
    Of a gang that is bound together they are all waiting pods, if none of its pods runs and those
    that keep their nodes are too few to start. O(members).
    """
    gang = record.gang
    waiting = [(member, note) for member, note in record.waiting_pods() if not note.over]
    dropped = {member.uid for member, note in waiting if note.node in record.lost}
    is_together = gang.binding.is_together and not (record.is_running or record.over)
    if dropped and is_together and len(waiting) - len(dropped) < gang.at_least:
        dropped = {member.uid for member, _ in waiting}
    if not dropped:
        return record
    plan = {uid: note for uid, note in record.plan.items() if uid not in dropped}
    return replace(record, plan=plan, checked=False, check=None)


def drop_split_groups(record: Record, found: Checked) -> Record:
    """Return the record without the places of waiting pods in groups that are split or apart.

    If none of those pods waits, or running pods alone are the cause, the split is only reported:
    the other pods keep their planned nodes, since other places would not repair it.
    """
    settled = set(found.settled)
    groups = {*found.split, *(() if settled & {*found.apart} else found.apart)} - settled
    waiting = {m.uid: note for m, note in record.waiting_pods() if note.group in groups}
    plan = {uid: note for uid, note in record.plan.items() if uid not in waiting}
    moving = {note.group for note in waiting.values()}
    split, apart = (_named(groups, moving) for groups in (found.split, found.apart))
    texts = [f"pods of group {split} run in several domains"] if split else []
    if apart:
        kind = record.gang.request.within
        texts.append(f"its pods share no {kind}: those of group {apart} are elsewhere")
    return replace(record, plan=plan, split="; ".join(texts))


def _named(groups: Iterable[int], but: Container[int]) -> str:
    return listed([str(group) for group in sorted(groups) if group not in but])


def _drop_unheld(record: Record) -> Record:
    """Return the record without the places of gated pods whose hold is gone: nothing books them."""
    unheld = {
        member.uid
        for member, note in record.waiting_pods()
        if member.gated and not note.over and not is_held(note, record.gang.holds)
    }
    if not unheld:
        return record
    plan = {uid: note for uid, note in record.plan.items() if uid not in unheld}
    return replace(record, plan=plan, checked=False)


def is_covered(record: Record) -> bool:
    """Whether the plan covers all pods of the gang, or exactly those that start it; O(members)."""
    gang = record.gang
    members = [m for m in gang.members if m.live and m.fixed is None]
    if {member.uid for member in members} == record.plan.keys():
        return True
    first = {member.uid for member in members if member.rank < gang.start_pods}
    return gang.starts_in_part and first == record.plan.keys()


def _is_complete(record: Record) -> bool:
    """Whether a plan without opened pods is for enough pods of the gang, and is held."""
    holds, gang = {note.hold for note in record.plan.values()}, record.gang
    ranks = {member.rank for member in gang.members if member.live} | gang.done_ranks | gang.later
    return (
        is_covered(record)
        and len(ranks) == gang.request.pods == max(ranks) + 1
        and len(holds) == 1
        and (record.over or all(is_held(note, gang.holds) for note in record.plan.values()))
    )


def _align_selections(record: Record) -> Record:
    """Return the record with notes changed to the values that opened pods select.

    A late write of an earlier leader may have opened pods for an earlier plan. Where no pod selects
    anything, as none was gated, the notes of several plans take the value of the lowest rank.
    """
    gang = record.gang
    selected = opened_selections(gang)
    wanted = {
        uid: selected.get(selection_scope(gang, note.group), note.selection)
        for uid, note in record.plan.items()
    }
    for member, note in record.waiting_pods():
        scope = selection_scope(gang, note.group)
        wanted[member.uid] = selected.setdefault(scope, note.selection)
    changed = {
        uid: replace(note, selection=wanted[uid])
        for uid, note in record.plan.items()
        if wanted[uid] != note.selection
    }
    return replace(record, plan={**record.plan, **changed}) if changed else record


def opened_selections(gang: Gang) -> dict[int, Selection]:
    """Return the value that pods without a gate select, by scope; O(members)."""
    selected: dict[int, Selection] = {}
    for member in gang.members:
        if member.live and not member.gated and member.selection:
            scope = selection_scope(gang, gang.group_of(member.rank))
            selected.setdefault(scope, member.selection)
    return selected


def selection_scope(gang: Gang, group: int) -> int:
    """Return the set of pods that select one value: 0 for the whole gang, else the group."""
    return 0 if gang.binding is Binding.WHOLE else group
