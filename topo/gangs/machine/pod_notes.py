"""The notes of a plan: the place of each pod, and the value that the label of its node gets.

All pods of a gang that is bound as a whole select one value. In a gang that is bound pod by pod,
each group has its own value, except that groups which share a node share its value; such groups are
in one domain, because a node is in one. The selector of an opened pod cannot be changed, so its new
node must not have another value.

A scheduler nominates pods, too, as Volcano's `gangpreempt` does where it evicts for them. Pods of a
group are alike, so an opened one that is nominated to a node of its group keeps it, and nobody
writes over what the other wrote:

    group 0 gets n1, n2; p0 is nominated to n2, p1 to nothing → p0 n2, p1 n1
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from topo.gangs.machine.events import Planned
from topo.gangs.machine.gang import Binding, Member, Note, PodUid, Selection
from topo.gangs.machine.placement_needs import with_refusal
from topo.gangs.machine.record import Purpose, Record, opened_selections, selection_scope
from topo.model.errors import require
from topo.model.ids import NodeName
from topo.placement.job.request import PlacementMode


def with_plan(record: Record, planned: Planned) -> Record | None:
    """Return the record with the plan that answers its request; O(members).

    None if the waiting pods select different nodes. Raises `BrokenInvariantError` for a plan that
    splits groups which are required whole.
    """
    asked = record.asked
    assert asked is not None, "a plan is an answer"  # noqa: S101 - for the type checker
    may_split = asked.place.request.mode is PlacementMode.PREFERRED
    is_split = planned.mode is PlacementMode.PREFERRED and not may_split
    require(not is_split, f"gangs: a plan of {planned.id} splits groups that are required whole")
    new = plan_notes(record, planned)
    if new is None:
        return None
    is_only_over_others = bool(planned.evicts) and asked.purpose is Purpose.WHOLE
    no_room = with_refusal(record, "there is none but over others") if is_only_over_others else None
    return replace(
        record,
        plan={**record.plan, **new},
        lost={node: why for node, why in record.lost.items() if node not in planned.nodes},
        evicts=planned.evicts,
        no_room=no_room,
        asked=None,
        check=None,
        checked=False,
        opened_since_s=None,
    )


def plan_notes(record: Record, planned: Planned) -> Mapping[PodUid, Note] | None:
    """Return the notes of the placed pods and of the others that the hold is for; O(members).

    None if a node would need two values.
    """
    assert record.asked is not None, "a plan is an answer"  # noqa: S101 - for the type checker
    gang, wanted = record.gang, record.asked.place.wanted
    nodes = _as_nominated(record, wanted, planned.nodes)
    placed = {pod.uid: node for pod, node in zip(wanted, nodes, strict=True)}
    selecting = (m for m in gang.members if m.opened and m.selection)
    opened = {m.uid: m.selection for m in selecting if m.uid in placed}
    by_node = _values_of_others(record, placed)
    for uid, selection in opened.items():
        if by_node.setdefault(placed[uid], selection) != selection:
            return None
    by_group = _values_of_groups(record, by_node, opened)
    found: dict[PodUid, Note] = {}
    for pod, node in zip(wanted, nodes, strict=True):
        group = gang.group_of(pod.rank)
        scope = selection_scope(gang, group)
        value = by_group.get(scope)
        if value is None:
            value = by_group[scope] = by_node.get(node) or _new(record, planned, group)
        found[pod.uid] = Note(
            node=node,
            group=group,
            hold=planned.hold,
            selection=by_node.setdefault(node, value),
            generation=planned.generation,
            certified=planned.certified,
            inside=planned.inside,
            over=bool(planned.evicts),
        )
    for pod, _ in record.asked.place.held:
        if (note := record.plan.get(pod.uid)) is not None:
            found[pod.uid] = replace(note, hold=planned.hold)
    return found


def _as_nominated(
    record: Record, wanted: Sequence[Member], nodes: Sequence[NodeName]
) -> Sequence[NodeName]:
    """Return the nodes of these pods, in each group in the order of nominations; O(members).

    Pods that may use different nodes stay where they were planned.
    """
    nominated = {m.uid: m.nominated for m in record.gang.members if m.opened and m.node is None}
    if record.gang.request.by_rank or not any(nominated.values()):
        return nodes
    places: dict[int, list[int]] = {}
    for at, pod in enumerate(wanted):
        places.setdefault(record.gang.group_of(pod.rank), []).append(at)
    found = list(nodes)
    for of_group in places.values():
        left = [nodes[at] for at in of_group]
        others = []
        for at in of_group:
            node = nominated.get(wanted[at].uid)
            if node is not None and node in left:
                left.remove(node)
                found[at] = node
            else:
                others.append(at)
        for at, node in zip(others, left, strict=True):
            found[at] = node
    return found


def _new(record: Record, planned: Planned, group: int) -> Selection:
    """Return a value that no earlier plan used: the names of holds are never reused."""
    whole = record.gang.binding is Binding.WHOLE
    return Selection(planned.hold if whole else f"{planned.hold}-{group}")


def _values_of_others(
    record: Record, placed: Mapping[PodUid, NodeName]
) -> dict[NodeName, Selection]:
    """Return the label values of the nodes of the gang's other pods, bound or planned."""
    values: dict[NodeName, Selection] = {}
    for member in record.gang.members:
        note = record.plan.get(member.uid)
        if not member.live or member.uid in placed:
            continue
        if member.node is not None and member.node in record.gang.labelled:
            values[member.node] = record.gang.labelled[member.node]
        elif member.node is None and note is not None:
            values[note.node] = note.selection
    return values


def _values_of_groups(
    record: Record,
    by_node: Mapping[NodeName, Selection],
    opened: Mapping[PodUid, Selection],
) -> dict[int, Selection]:
    """Return the values that pods of each group already select, opened pods first."""
    values = opened_selections(record.gang)
    for member in record.gang.members:
        note = record.plan.get(member.uid)
        if member.uid not in opened and note is not None and note.node in by_node:
            share = selection_scope(record.gang, record.gang.group_of(member.rank))
            values.setdefault(share, note.selection)
    return values
