"""What a gang asks next: a placement, of which pods beside which others, or a look at its nodes."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from topo.gangs.machine.gang import Binding, Gang, Member, PodUid
from topo.gangs.machine.instructions import Check, Place
from topo.gangs.machine.record import Asked, NoRoom, Purpose, Record
from topo.gangs.machine.write_order import pod_of, ready_for_check
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName
from topo.placement.job.request import PlacementMode, Request

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PlacementNeed:
    """Pods that need nodes, by rank."""

    purpose: Purpose
    members: tuple[Member, ...]

    @property
    def in_line(self) -> bool:
        """Whether its turn comes by the order of gangs."""
        return self.purpose in {Purpose.FRESH, Purpose.GROWTH}

    @property
    def uids(self) -> frozenset[PodUid]:
        """The pods."""
        return frozenset(member.uid for member in self.members)


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why a gang needs no placement yet; `some`: the pods that are there may go beside others."""

    state: GangState
    text: str
    some: bool = False


def needed(record: Record) -> PlacementNeed | Blocker | None:
    """The placement that a gang needs, what it lacks before it may get one, or None: it has all.

    Pods that lost their node and pods that came again are placed beside the others; where that was
    refused and nothing of the gang runs, all of it anew; as is what waits for others to be evicted,
    since room may come elsewhere before. Where some of it runs, each group goes on by itself.
    O(members).
    """
    gang = record.gang
    if gang.ungated:
        return None
    lack = _lack(record)
    if not record.released:
        members = tuple(_unplaced(record))
        return lack or (PlacementNeed(Purpose.FRESH, members) if members else None)
    displaced = _displaced(record)
    near, new = ([], []) if lack and not lack.some else _arrived(record)
    if record.over and not record.runs:
        return PlacementNeed(Purpose.WHOLE, _waiting(record))
    moving = tuple(sorted((*displaced, *near), key=lambda member: member.rank))
    need = None
    for need in _moves(record, moving):
        if not is_in_vain(record, need):
            return need
    if new and (need is None or record.runs):
        return PlacementNeed(Purpose.GROWTH, tuple(new))
    return need or lack


def is_in_vain(record: Record, need: PlacementNeed) -> bool:
    """Whether it was refused, and nothing became free since."""
    return record.no_room is not None and (need.purpose, need.uids) in record.no_room.asks


def asked_in_vain(record: Record, text: str) -> NoRoom:
    """That what it asked for needs not be asked for again before there is more room."""
    asked = record.asked
    assert asked is not None, "it was answered"  # noqa: S101 - for the type checker
    before = record.no_room.asks if record.no_room is not None else frozenset()
    uids = frozenset(pod.uid for pod in asked.place.wanted)
    return NoRoom(before | {(asked.purpose, uids)}, text)


def is_for(asked: Asked, need: PlacementNeed | Blocker | None) -> bool:
    """Whether what was asked for is what is needed."""
    pods = frozenset(pod.uid for pod in asked.place.wanted)
    return isinstance(need, PlacementNeed) and (need.purpose, need.uids) == (asked.purpose, pods)


def _moves(record: Record, moving: tuple[Member, ...]) -> Iterator[PlacementNeed]:
    """How pods may get nodes beside those that stay, in the order in which it is tried.

    All at once; then, where nothing runs, the whole gang, else each group, and where nothing of
    that runs, all of it.
    """
    if not moving:
        return
    yield PlacementNeed(Purpose.MOVE, moving)
    waiting = _waiting(record)
    if not record.runs:
        yield PlacementNeed(Purpose.WHOLE, waiting)
        return
    gang = record.gang
    running = {gang.group_of(m.rank) for m in gang.members if m.live and m.node is not None}
    of_groups = _by_group(gang, waiting)
    for group, members in _by_group(gang, moving).items():
        yield PlacementNeed(Purpose.MOVE, members)
        if group not in running:
            yield PlacementNeed(Purpose.MOVE, of_groups[group])


def _by_group(gang: Gang, members: tuple[Member, ...]) -> dict[int, tuple[Member, ...]]:
    groups: dict[int, list[Member]] = {}
    for member in members:
        groups.setdefault(gang.group_of(member.rank), []).append(member)
    return {group: tuple(found) for group, found in groups.items()}


def place(record: Record, need: PlacementNeed, now_s: float, *, ask: int) -> Place:
    """The instruction that asks for it, without what the line adds; O(members).

    It replaces the holds of the gang: of the pods that stay those count that are seen nominated,
    which take their nodes themselves.
    """
    gang = record.gang
    uids = need.uids
    kept = tuple(
        (member.rank, node)
        for member in gang.members
        if member.uid not in uids and (node := _stays(record, member)) is not None
    )
    unseen = {
        note.hold
        for member, note in record.planned()
        if member.uid not in uids and not record.seats(member, note)
    }
    return Place(
        id=gang.id,
        ask=ask,
        request=request_of(gang, now_s),
        wanted=tuple(map(pod_of, need.members)),
        kept=kept,
        replaced=tuple(hold for hold in gang.holds if hold not in unseen),
        without=_apart(record, need),
        over=gang.priority
        if need.purpose is Purpose.WHOLE and record.over and record.lost
        else None,
        mixed=is_mixed(gang),
    )


def check(record: Record, now_s: float, *, ask: int) -> Check | None:
    """The look at its nodes that is due before more of it is opened; None: none is. O(members)."""
    gang = record.gang
    if record.checked or record.check is not None:
        return None
    if not (record.unproven or ready_for_check(record)):
        return None
    waiting = tuple((pod_of(member), note.node) for member, note in record.planned())
    bound = tuple((m.rank, m.node) for m in gang.members if m.live and m.node is not None)
    if not (waiting or record.strayed):
        return None
    return Check(
        id=gang.id,
        ask=ask,
        request=request_of(gang, now_s),
        waiting=waiting,
        bound=bound,
        holds=tuple(sorted(record.holds())),
        over=gang.priority if record.over else None,
    )


def is_mixed(gang: Gang) -> bool:
    """Whether its scheduler may exchange its pods among nodes that it clears for them.

    Volcano's action `preempt` goes by the score of a node, not by nominations (`normalPreempt` in
    pkg/scheduler/actions/preempt/preempt.go, v1.14); kube-scheduler's pods select their group.
    """
    required = gang.request.mode is PlacementMode.REQUIRED
    return gang.binding is Binding.WHOLE and required


def request_of(gang: Gang, now_s: float) -> Request:
    """What the gang asks for by now: after its wait its groups may be split."""
    if gang.wait_s is not None and now_s >= gang.created_s + gang.wait_s:
        return replace(gang.request, mode=PlacementMode.PREFERRED)
    return gang.request


def _lack(record: Record) -> Blocker | None:
    """What keeps gated pods from being placed."""
    gang = record.gang
    live = [member for member in gang.members if member.live]
    gated = [member for member in live if member.gated and member.fixed is None]
    foreign = [member.name for member in gated if member.other_gates]
    ranks = Counter(member.rank for member in live)
    expected = range(gang.request.pods)
    if twice := [rank for rank, pods in ranks.items() if pods > 1 or rank not in expected]:
        names = [member.name for member in live if member.rank in twice][:_SHOWN]
        text = f"pods {', '.join(names)} have ranks that others have or that the gang has not"
        return Blocker(GangState.PODS_MISSING, text)
    if gated and gang.awaits:
        return Blocker(GangState.NEVER_LET_IN if gang.hopeless else GangState.QUEUE, gang.awaits)
    if record.blocked:
        return Blocker(GangState.QUEUE, record.blocked)
    if foreign:
        text = f"another scheduling gate is on {len(foreign)} of {len(gated)} pods ({foreign[0]})"
        return Blocker(GangState.OTHER_GATE, text)
    done = {member.rank for member in gang.members if member.succeeded}
    if missing := [rank for rank in expected if rank not in ranks and rank not in done]:
        there = len(expected) - len(missing)
        text = f"{there} of {len(expected)} pods are there; rank {missing[0]} is missing"
        return Blocker(GangState.PODS_MISSING, text, some=True)
    return None


def _displaced(record: Record) -> list[Member]:
    """Opened pods without a place; pods whose node is lost, or labelled for others of the gang."""
    values, plan = record.values(), record.plan
    return [
        member
        for member in record.gang.members
        if member.waits
        and (
            (member.opened and bool(member.selection))
            if (note := plan.get(member.uid)) is None
            else (note.node in record.lost or values[note.node] != note.selection)
        )
    ]


def _unplaced(record: Record) -> list[Member]:
    """Pods without a place: gated ones, and those that were made without a gate among them."""
    slipped = record.gang.slipped()
    return [
        member
        for member in record.gang.members
        if member.waits
        and (member.gated or member.uid in slipped)
        and member.fixed is None
        and member.uid not in record.plan
    ]


def _arrived(record: Record) -> tuple[list[Member], list[Member]]:
    """Unplanned pods: those of groups that have kept pods, and those of whole new groups."""
    gang = record.gang
    kept = {gang.group_of(m.rank) for m in gang.members if _stays(record, m) is not None}
    arrived = _unplaced(record)
    ranks = {member.rank for member in arrived}
    ranks |= {member.rank for member in gang.members if member.succeeded}
    there = Counter(map(gang.group_of, ranks))
    sizes = gang.request.group_pods
    near = [member for member in arrived if gang.group_of(member.rank) in kept]
    new = [
        member
        for member in arrived
        if (group := gang.group_of(member.rank)) not in kept and there[group] == sizes[group]
    ]
    return near, new


def _stays(record: Record, member: Member) -> NodeName | None:
    """Where a pod stays, bound or planned; None for one that has no place or lost it."""
    if not member.live:
        return None
    if member.node is not None:
        return member.node
    note = record.plan.get(member.uid)
    if note is not None:
        return note.node if note.node not in record.lost else None
    return member.fixed


def _waiting(record: Record) -> tuple[Member, ...]:
    """All that is not bound, planned or not."""
    unplaced = {member.uid for member in _unplaced(record)}
    return tuple(
        member
        for member in record.gang.members
        if member.waits
        and (member.uid in record.plan or bool(member.selection) or member.uid in unplaced)
    )


def _apart(record: Record, need: PlacementNeed) -> tuple[NodeName, ...]:
    """Nodes that opened pods could not go to: they have another value than these select."""
    selected = {each.selection for each in need.members if each.opened and each.selection}
    if not selected:
        return ()
    values = {} if need.purpose is Purpose.WHOLE else record.values()
    return tuple(sorted(node for node, value in values.items() if {value} != selected))
