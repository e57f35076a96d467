"""What a gang needs next: a placement of some of its pods, or what blocks it, or nothing.

`placement_need` compares the plan with the existing pods. It returns the one placement that is due,
the reason that blocks it, or None for a gang that has all its nodes.

Why it is right. Before a pod is opened, only the whole gang is placed, or as many whole groups as
its scheduler starts it with: its pods start together or not at all. An opened pod keeps its node,
and its selector cannot be changed, so the other pods have to be placed near it. All pods without a
node are tried first, in one request. If that is refused and no pod runs, the whole gang is tried
again; if pods run, the gang is tried group by group, since the groups of a running job may continue
without each other. A refused request is not repeated before there is more room (`Refusals`), so
every sequence of requests ends. Pods that wait for evictions are always placed as a whole gang,
because room may become free elsewhere first.

Cost: O(members).

Example: a gang of pods p0 to p3 in groups of two, p0 and p1 bound on n0 and n1, p2 and p3 planned.
    n2, the node of p2, is lost       → MOVE of p2, with p0, p1 and p3 kept
    that is refused; nothing else     → MOVE of p2 and p3: nothing of their group runs
    that is refused, too              → nothing, until there is more room
    p0 is created again, gated        → MOVE of p0, p2 and p3, beside p1
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from topo.gangs.machine.gang import Gang, Member, PodUid
from topo.gangs.machine.record import (
    PendingPlacement,
    Purpose,
    Record,
    Refusals,
    drop_lost_places,
    without_places,
)
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PlacementNeed:
    """A placement that is due: the pods that need nodes, by rank."""

    purpose: Purpose
    members: tuple[Member, ...]

    @property
    def in_queue(self) -> bool:
        """Whether the request goes through the pending queue."""
        return self.purpose in {Purpose.FRESH, Purpose.START, Purpose.GROWTH}

    @property
    def uids(self) -> frozenset[PodUid]:
        """The uids of the pods."""
        return frozenset(member.uid for member in self.members)


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why a gang may not be placed yet. `some`: existing pods may still be placed near others."""

    state: GangState
    text: str
    some: bool = False


Need = PlacementNeed | Blocker | None
"""The placement that is due, what blocks it, or None for a gang that has all its nodes."""


def placement_need(record: Record) -> Need:
    """Return the placement that is due, the reason that blocks it, or None if none is needed.

    O(members).
    """
    gang = record.gang
    if gang.ungated:
        return None
    blocker = _find_blocker(record)
    # Nothing is opened: all pods together, and only once nothing blocks any of them.
    if not record.is_released:
        return blocker or (None if record.plan else _first_need(record))
    moving, new = _moving_and_new_pods(record, blocker)
    # The first of the moves that was not refused; if all were, the last one says what is missing.
    need = None
    for need in _moves(record, moving):
        if not was_refused(record, need):
            return need
    if new and (need is None or record.is_running) and not _is_starting(record):
        return _growth(record, tuple(new))
    return need or blocker


def _is_starting(record: Record) -> bool:
    """Whether opened pods of a gang that starts in part have places, and are enough to start it.

    Its scheduler binds as many of them as it needs to start, whichever they are, so that no others
    are opened beside them. Fewer than it needs, as where pods that ran beside them are gone, it
    never binds: then the others are placed, too.
    """
    if not record.gang.starts_in_part:
        return False
    return _has_opened(record) and _missing_to_start(record) <= 0


def _has_opened(record: Record) -> bool:
    return any(member.opened for member, _ in record.waiting_pods())


def _missing_to_start(record: Record) -> int:
    """Return how many pods its scheduler lacks to bind those that have places; O(members).

    Gated ones are opened soon. Pods that have succeeded count for Volcano as those that run do
    (`ReadyTaskNum` in pkg/scheduler/api/job_info.go).
    """
    gang = record.gang
    waiting = sum(not member.is_expected for member, _ in record.waiting_pods())
    there = sum(m.succeeded or (m.live and m.node is not None) for m in gang.members)
    needed = gang.at_least if gang.binding.is_together else 1
    return needed - there - waiting


def _first_need(record: Record) -> PlacementNeed | None:
    """Return the placement of all pods, or of enough to start once that was refused."""
    members = tuple(_unplaced_pods(record))
    fresh = PlacementNeed(Purpose.FRESH, members)
    gang = record.gang
    if gang.starts_in_part and len(members) == gang.request.pods and was_refused(record, fresh):
        return PlacementNeed(Purpose.START, members[: gang.start_pods])
    return fresh if members else None


def _growth(record: Record, new: tuple[Member, ...]) -> PlacementNeed:
    """Return the placement of all new groups; of the first alone once that was refused.

    The pods of a gang that cannot start in part are needed all at once. Beside opened pods that are
    too few to start it, only as many groups as it lacks are placed: of more than it needs its
    scheduler takes whichever pods fit first.
    """
    if record.gang.starts_in_part and _has_opened(record):
        new = _first_groups(record, new, _missing_to_start(record))
    growth = PlacementNeed(Purpose.GROWTH, new)
    if not (record.gang.starts_in_part and was_refused(record, growth)):
        return growth
    first = next(iter(_by_group(record.gang, new).values()))
    return PlacementNeed(Purpose.GROWTH, first)


def _first_groups(record: Record, new: tuple[Member, ...], pods: int) -> tuple[Member, ...]:
    """Return the pods of the first groups that have so many pods together, at least one group."""
    found: list[Member] = []
    for members in _by_group(record.gang, new).values():
        found += members
        if len(found) >= pods:
            break
    return tuple(found)


def without_stuck_places(record: Record) -> Record:
    """Return the record without places that no pod may keep, once each move was refused.

    Nothing else is planned on a node that a lost place still takes, or a place of no pod: a hold
    keeps such a one as long as a gated pod has another of its places, as where the rest of its
    group has no room any more. O(members).
    """
    if not _is_out_of_moves(record):
        return record
    if record.lost:
        return drop_lost_places(record)
    stuck = _pods_of_too_large_holds(record)
    return without_places(record, stuck) if stuck else record


def _is_out_of_moves(record: Record) -> bool:
    """Whether every way to move the pods that have to move was refused."""
    if record.no_room is None or not record.is_released:
        return False
    moving, _ = _moving_and_new_pods(record, _find_blocker(record))
    moves = tuple(_moves(record, moving))
    return bool(moves) and all(was_refused(record, need) for need in moves)


def was_refused(record: Record, need: PlacementNeed) -> bool:
    """Return whether the need was refused since the free capacity last grew."""
    return record.no_room is not None and (need.purpose, need.uids) in record.no_room.requests


def with_refusal(record: Record, text: str) -> Refusals:
    """Return the refusals with that of the pending placement added; `text` is the reason."""
    asked = record.asked
    assert asked is not None, "it was answered"  # noqa: S101 - for the type checker
    return _with_refused(record, (asked.purpose, asked.uids), text)


def with_refusal_of_all(record: Record) -> Record:
    """Return the record of a gang in the queue with all of its pods refused; O(members)."""
    uids = frozenset(pod.uid for pod in _unplaced_pods(record))
    refused = _with_refused(record, (Purpose.FRESH, uids), "all of its pods do not fit")
    return replace(record, no_room=refused)


def _with_refused(
    record: Record, request: tuple[Purpose, frozenset[PodUid]], text: str
) -> Refusals:
    before = record.no_room.requests if record.no_room is not None else frozenset()
    return Refusals(before | {request}, text)


def answers(asked: PendingPlacement, need: Need) -> bool:
    """Return whether the answer to a pending placement is useful for the need."""
    if not isinstance(need, PlacementNeed):
        return False
    return (need.purpose, need.uids) == (asked.purpose, asked.uids)


def _moves(record: Record, moving: tuple[Member, ...]) -> Iterator[PlacementNeed]:
    """Yield the ways to place `moving` near the pods that stay, in the order to try them.

    First all of them in one request. Then the whole gang if no pod runs, else group by group: the
    moving pods of a group, and the whole group if none of it runs. Last the pods that keep their
    places and only need a smaller hold. A gang that waits for evictions and does not run is always
    tried as a whole.
    """
    waiting = _unbound_pods(record)
    if record.over and not record.is_running:
        yield PlacementNeed(Purpose.WHOLE, waiting)
        return
    if not moving:
        return
    yield PlacementNeed(Purpose.MOVE, moving)
    if record.is_running:
        yield from _moves_of_groups(record.gang, moving, waiting)
    else:
        yield PlacementNeed(Purpose.WHOLE, waiting)
    too_large = _pods_of_too_large_holds(record)
    if on_large := tuple(member for member in moving if member.uid in too_large):
        yield PlacementNeed(Purpose.MOVE, on_large)


def _moves_of_groups(
    gang: Gang, moving: tuple[Member, ...], waiting: tuple[Member, ...]
) -> Iterator[PlacementNeed]:
    """Yield for each group its moving pods, and all of its waiting pods if none of it runs."""
    running = {gang.group_of(m.rank) for m in gang.members if m.live and m.node is not None}
    of_groups = _by_group(gang, waiting)
    for group, members in _by_group(gang, moving).items():
        yield PlacementNeed(Purpose.MOVE, members)
        if group not in running:
            yield PlacementNeed(Purpose.MOVE, of_groups[group])


def _pods_of_too_large_holds(record: Record) -> frozenset[PodUid]:
    """Return the gated pods with usable places of holds that also keep places of no pod.

    O(members).
    """
    too_large = record.too_large_holds()
    if not too_large:
        return frozenset()
    return frozenset(
        member.uid
        for member, note in record.waiting_pods()
        if member.gated and note.hold in too_large and note.node not in record.lost
    )


def _by_group(gang: Gang, members: tuple[Member, ...]) -> dict[int, tuple[Member, ...]]:
    groups: dict[int, list[Member]] = {}
    for member in members:
        groups.setdefault(gang.group_of(member.rank), []).append(member)
    return {group: tuple(found) for group, found in groups.items()}


def _find_blocker(record: Record) -> Blocker | None:
    """Return the reason that keeps gated pods from being placed; None if there is none."""
    gang = record.gang
    live = [member for member in gang.members if member.live]
    gated = [member for member in live if member.gated and member.fixed is None]
    gated += (member for member in gang.choosers if member.waits and member.gated)
    foreign = [member.name for member in gated if member.other_gates]
    expected = range(gang.request.pods)
    if twice := {m.rank for m in live if m.uid in record.surplus and m.rank in expected}:
        names = [member.name for member in live if member.rank in twice][:_SHOWN]
        text = f"pods {', '.join(names)} have ranks that others have"
        return Blocker(GangState.PODS_MISSING, text)
    if gated and gang.awaits:
        return Blocker(GangState.NEVER_LET_IN if gang.hopeless else GangState.QUEUE, gang.awaits)
    if record.blocked:
        return Blocker(GangState.QUEUE, record.blocked)
    if foreign:
        text = f"another scheduling gate is on {len(foreign)} of {len(gated)} pods ({foreign[0]})"
        return Blocker(GangState.OTHER_GATE, text)
    return _missing_pods(record, live, is_any_awaited=bool(gated)) or _pods_too_early(record)


def _missing_pods(
    record: Record, live: Sequence[Member], *, is_any_awaited: bool
) -> Blocker | None:
    """Return which ranks have no pod yet; `is_any_awaited`: a gated pod names no node itself."""
    gang, expected = record.gang, range(record.gang.request.pods)
    # One pod says how many there are: what is counted are those that are there.
    ranks = {member.rank for member in live if member.rank in expected}
    there = ranks | gang.done_ranks | gang.later
    name_nodes = not is_any_awaited and any(member.gated for member in live)
    is_short = len(there) < len(expected)
    if is_short and not name_nodes and not (gang.is_elastic and record.is_released):
        first = next(rank for rank in expected if rank not in there)
        pods = f"{len(there - gang.later)} of {len(expected) - len(gang.later)} pods"
        text = f"{pods} are there; rank {first} is missing"
        return Blocker(GangState.PODS_MISSING, text, some=True)
    return None


def _pods_too_early(record: Record) -> Blocker | None:
    """Return which gated pods wait for others that are made once pods of their gang have ended.

    So does one of a rank that the job has not, or not yet; a bound one is about to leave.
    """
    gang, pods = record.gang, record.gang.request.pods
    if beyond := [m.name for m in gang.members if m.waits and m.gated and m.rank >= pods]:
        names = ", ".join(beyond[:_SHOWN])
        text = f"pods {names} have ranks that a job of {pods} pods has not"
        return Blocker(GangState.PODS_MISSING, text, some=True)
    if not (gang.later and record.is_released):
        return None
    groups = {gang.group_of(rank): rank for rank in sorted(gang.later, reverse=True)}
    waiting = (m for m in _unplaced_pods(record) if m.gated and gang.group_of(m.rank) in groups)
    if (first := next(waiting, None)) is None:
        return None
    group = gang.group_of(first.rank)
    text = f"rank {groups[group]} of group {group} is made once others of its job have ended"
    return Blocker(GangState.PODS_MISSING, text, some=True)


def _moving_and_new_pods(
    record: Record, blocker: Blocker | None
) -> tuple[tuple[Member, ...], list[Member]]:
    """Return the pods to place near those that stay, by rank, and those of entirely new groups."""
    near, new = ([], []) if blocker and not blocker.some else _new_pods(record)
    moving = sorted((*_displaced_pods(record), *near), key=lambda member: member.rank)
    return tuple(moving), new


def _displaced_pods(record: Record) -> list[Member]:
    """Return opened pods that have no place, and pods whose node is lost or has another label.

    Also gated ones whose hold keeps places that no pod has any more: they get one of their own.
    """
    values, plan = record.selections(), record.plan
    bypassed, too_large = record.gang.bypassed_webhook(), _pods_of_too_large_holds(record)
    return [
        member
        for member in record.gang.members
        if member.waits
        and member.uid not in record.surplus
        and (
            ((member.opened and bool(member.selection)) or member.uid in bypassed)
            if (note := plan.get(member.uid)) is None
            else (
                note.node in record.lost
                or values[note.node] != note.selection
                or member.uid in too_large
            )
        )
    ]


def _unplaced_pods(record: Record) -> list[Member]:
    """Return the gated pods that need a place, and those that bypassed the webhook."""
    bypassed = record.gang.bypassed_webhook()
    return [
        member
        for member in record.gang.members
        if member.waits
        and (member.gated or member.uid in bypassed)
        and member.fixed is None
        and member.uid not in record.plan
        and member.uid not in record.surplus
    ]


def _new_pods(record: Record) -> tuple[list[Member], list[Member]]:
    """Return the unplanned pods of groups with kept pods, and those of entirely new groups."""
    gang = record.gang
    kept = {gang.group_of(m.rank) for m in gang.members if kept_node(record, m) is not None}
    arrived = [member for member in _unplaced_pods(record) if member.gated]
    ranks = {member.rank for member in arrived}
    there = Counter(map(gang.group_of, ranks | gang.done_ranks))
    size_of = gang.request.pods_of_group
    near = [member for member in arrived if gang.group_of(member.rank) in kept]
    new = [
        member
        for member in arrived
        if (group := gang.group_of(member.rank)) not in kept
        and (gang.is_elastic or there[group] == size_of(group))
    ]
    return near, new


def kept_node(record: Record, member: Member) -> NodeName | None:
    """Return the node that a pod keeps, bound or planned; None if it has none or lost it."""
    if not member.live or member.uid in record.surplus:
        return None
    if member.node is not None:
        return member.node
    note = record.plan.get(member.uid)
    if note is not None:
        return note.node if note.node not in record.lost else None
    return member.fixed


def _unbound_pods(record: Record) -> tuple[Member, ...]:
    """Return all pods that are not bound, planned or not; of a gang that started in part no new
    groups.
    """
    unplaced = {member.uid for member in _unplaced_pods(record)}
    if record.gang.starts_in_part:
        gang = record.gang
        begun = {gang.group_of(m.rank) for m in gang.members if m.live and not m.gated}
        begun |= {note.group for note in record.plan.values()}
        unplaced = {
            m.uid for m in gang.members if m.uid in unplaced and gang.group_of(m.rank) in begun
        }
    return tuple(
        member
        for member in record.gang.members
        if member.waits
        and member.uid not in record.surplus
        and (member.uid in record.plan or bool(member.selection) or member.uid in unplaced)
    )
