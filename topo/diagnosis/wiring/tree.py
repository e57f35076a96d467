"""What the tree of a master shows of cables: wires between nodes, and what hangs on a node."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap

from topo.diagnosis.wiring.cost import Costs, Job, NodeAt
from topo.diagnosis.wiring.seen import (
    UNNAMED,
    SeenCable,
    SeenCables,
    folded,
    planned_far_ends,
    short_name,
)
from topo.facts.plans.plan import CablePlan, End
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Status
from topo.model.rest.topology import GroupDocument, TopologyDocument, is_group, walk


def seen_by(document: TopologyDocument, plan: CablePlan) -> SeenCables:
    """Return the wires between nodes that a master shows; one that is down is not there.

    Of several cables between the same two nodes nobody sees which ends are of one, so those that
    `plan` joins are. A plan of other cables of these nodes, as of their adapters, says nothing of
    these wires: then none is returned.
    """
    if _is_of_other_cables(plan, document):
        return SeenCables((), frozenset())
    cables: list[SeenCable] = []
    between: defaultdict[tuple[str, str], list[tuple[End, End]]] = defaultdict(list)
    for wire in document["wires"]:
        if wire["state"] == "down":
            continue
        near = End(wire["node"], str(wire["slot"]))
        if wire["peer"] is None or wire["peer_slot"] is None:
            cables.append(SeenCable(near, End(f"{UNNAMED}{wire['server']}", "1")))
        else:
            far = End(wire["peer"], str(wire["peer_slot"]))
            between[near.device, far.device].append((near, far))
    wanted = planned_far_ends(plan) if any(len(each) > 1 for each in between.values()) else {}
    for ends in between.values():
        cables += starmap(SeenCable, _as_planned(ends, wanted) if len(ends) > 1 else ends)
    kinds = frozenset(End(node, "") for node in _looked_at(document))
    return SeenCables(tuple(_each_slot_once(cables, plan)), frozenset(), kinds=kinds)


def _is_of_other_cables(plan: CablePlan, document: TopologyDocument) -> bool:
    """Return whether a plan has cables of the nodes, none between two and none at a wire's slot.

    O(cables + wires).
    """
    everything = walk([*document["groups"], *document["unplaced"]])
    nodes = {short_name(each["name"]) for _, each in everything if not is_group(each)}
    ends = [(short_name(p.one.device), short_name(p.other.device)) for p in plan.cables]
    found = [(one in nodes) + (other in nodes) for one, other in ends]
    if 1 not in found or 2 in found:
        return False
    slots = {folded(End(wire["node"], str(wire["slot"]))) for wire in document["wires"]}
    return not any(folded(end) in slots for each in plan.cables for end in (each.one, each.other))


def _each_slot_once(cables: Iterable[SeenCable], plan: CablePlan) -> Iterator[SeenCable]:
    """Yield the cables but for those at slots that others have, too; of these the planned ones.

    A worker may name two servers behind one slot, and the others are compared all the same.
    """
    doubled = {end for end, count in Counter(e for c in cables for e in c[:2]).items() if count > 1}
    wanted = planned_far_ends(plan) if doubled else {}
    taken: set[End] = set()
    for each in sorted(cables, key=lambda c: wanted.get(folded(c.one)) != folded(c.other)):
        ends = doubled.intersection(end for end in each[:2] if not end.device.startswith(UNNAMED))
        if taken.isdisjoint(ends):
            yield each
        taken |= ends


def _as_planned(
    ends: Sequence[tuple[End, End]], wanted: Mapping[End, End]
) -> Iterator[tuple[End, End]]:
    """Yield the ends at two nodes again, joined as the plan has it and else in their order."""
    far_ends = {folded(far): far for _, far in ends}
    left: list[End] = []
    for near, _ in ends:
        far = far_ends.pop(wanted.get(folded(near), near), None)
        if far is None:
            left.append(near)
        else:
            yield near, far
    yield from zip(left, far_ends.values(), strict=True)


def _looked_at(document: TopologyDocument) -> Iterable[str]:
    """Yield the nodes whose wires would be known: those with one, be it down, and those whose
    worker sees no other server. A node may be Ready without a worker.
    """
    for wire in document["wires"]:
        yield wire["node"]
        if wire["peer"] is not None:
            yield wire["peer"]
    for _, each in walk([*document["groups"], *document["unplaced"]]):
        if not is_group(each) and any(why.code == NodeCondition.NO_PEER for why in each["reasons"]):
            yield each["name"]


def silent_nodes(document: TopologyDocument) -> frozenset[str]:
    """Return the nodes whose worker is not heard any more: what it said is of before."""
    return frozenset(
        each["name"]
        for _, each in walk([*document["groups"], *document["unplaced"]])
        if not is_group(each)
        and any(why.code == NodeCondition.WORKER_STALE for why in each["reasons"])
    )


def costs_of(document: TopologyDocument, jobs: Sequence[Job], seen: SeenCables) -> Costs:
    """Return where findings look up what they cost."""
    nodes = {name: node for group in document["groups"] for name, node in _nodes(group, ())}
    for each in document["unplaced"]:
        nodes[each["name"]] = NodeAt(each["gpus"], False, (), ())
    return Costs(nodes, jobs, seen)


def _nodes(group: GroupDocument, above: tuple[GroupDocument, ...]) -> Iterator[tuple[str, NodeAt]]:
    """Yield the nodes of a group with the groups around them, the innermost first."""
    around = (group, *above)
    for child in group["child"]:
        if is_group(child):
            yield from _nodes(child, around)
        else:
            broken = (each["name"] for each in around if each["status"] != Status.READY)
            names = tuple(each["name"] for each in around)
            is_usable = child["status"] == Status.READY
            yield child["name"], NodeAt(child["gpus"], is_usable, names, tuple(broken))
