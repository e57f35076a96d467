"""Suspicions as findings: one for a node, one for a cable, one for what many nodes share.

What is suspected at most nodes of a switch has its cause there (`switches`): the switch is one
finding, with its nodes, whose other links are told by themselves. What is suspected at most nodes
of a group has a cause that they share (a rack, a room), so the outermost group of which at least
half of the nodes, and `TOGETHER` of them, have a suspected link is one finding, and its nodes are
none of their own; so are `TOGETHER` and more switches below it. A cable that is suspected at both
ends is one finding. A node in quarantine is a note: an operator knows of it.

Cost: O(suspected nodes x depth), and the nodes of the groups in question, each up to twice its
suspected ones, when the tree or a suspicion differs; else nothing.

Example: of the 32 nodes of a leaf 30 have a suspected port: one finding, which names the leaf and
the port that most of them have in common, in the place of 30.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

from topo.discovery.groups.fabric.uplinks import NodeUplinks
from topo.discovery.suspicion.link_states import slot
from topo.discovery.suspicion.machine import Suspicions
from topo.discovery.suspicion.switches import TOGETHER, SwitchCause, switch_causes
from topo.discovery.tree.placed import PlacedNodes
from topo.model.conditions.tree import ConflictCondition
from topo.model.errors import require
from topo.model.forest import Conflict, Group, Node, NodeSuspicion, Path, Unplaced
from topo.model.ids import GroupName, NodeName, natural_key
from topo.model.words import counted, listed

_Held = Mapping[NodeName, NodeSuspicion]


class SuspicionFindings:
    """The findings, made anew only when what they are made of differs. Mutable; one owner."""

    def __init__(self) -> None:
        self._made_of: tuple[tuple[int, int], Sequence[Group], Sequence[Unplaced]]
        self._made_of = (0, 0), (), ()
        self._found: tuple[Conflict, ...] = ()

    def of(
        self,
        suspicions: Suspicions,
        roots: Sequence[Group],
        placed: PlacedNodes,
        uplinks: NodeUplinks,
    ) -> tuple[Conflict, ...]:
        """Return the findings, in the order of their nodes.

        Subtrees that nothing touched are the same objects, so roots and the list of the unplaced
        tell whether a node stands elsewhere or has other cables. O(1) while they are the same.
        """
        known, unplaced = self._made_of, placed.unplaced
        version = suspicions.version, uplinks.version if suspicions.suspected else 0
        if known[0] != version or known[1] is not roots or known[2] is not unplaced:
            self._made_of = version, roots, unplaced
            self._found = self._made(suspicions, roots, placed, uplinks)
        return self._found

    def _made(
        self,
        suspicions: Suspicions,
        roots: Sequence[Group],
        placed: PlacedNodes,
        uplinks: NodeUplinks,
    ) -> tuple[Conflict, ...]:
        causes = switch_causes(suspicions, uplinks)
        held = suspicions.suspected
        return conflicts(held, roots, placed.nodes, placed.path, causes=causes)

    def validate(
        self,
        suspicions: Suspicions,
        roots: Sequence[Group],
        placed: PlacedNodes,
        uplinks: NodeUplinks,
    ) -> None:
        """Check that the findings are what is made of these now."""
        found = self._made(suspicions, roots, placed, uplinks)
        require(found == self._found, "the findings about suspicions are out of date")


def conflicts(
    held: _Held,
    roots: Sequence[Group],
    nodes: Mapping[NodeName, Node],
    path_of: Callable[[NodeName], Path],
    *,
    causes: Sequence[SwitchCause] = (),
) -> tuple[Conflict, ...]:
    """Return the findings, in the order of their nodes; `causes` are the switches among them."""
    return tuple(_conflicts(held, roots, nodes, path_of, causes=causes)) if held else ()


def _conflicts(
    held: _Held,
    roots: Sequence[Group],
    nodes: Mapping[NodeName, Node],
    path_of: Callable[[NodeName], Path],
    *,
    causes: Sequence[SwitchCause],
) -> Iterator[Conflict]:
    in_order = sorted(held, key=natural_key)
    for name in in_order:
        if (reason := held[name].quarantine) is not None:
            yield _quarantined(name, reason, held[name])
    left = [name for name in in_order if held[name].quarantine is None]
    told: set[tuple[NodeName, str]] = set()
    if causes:
        wide = [
            each
            for each in _shared(left, roots, path_of)
            if sum(not cause.links.keys().isdisjoint(each[1]) for cause in causes) >= TOGETHER
        ]
        of_wide = {name for _, members, _ in wide for name in members}
        yield from (_together(*each, held) for each in wide)
        for cause in causes:
            if not cause.links.keys() <= of_wide:
                yield _at_switches(cause, held)
                told.update((name, link) for name, links in cause.links.items() for link in links)
        left = [name for name in left if name not in of_wide and not _is_told(name, held, told)]
    for group, members, size in _shared(left, roots, path_of):
        yield _together(group, members, size, held)
        of_group = frozenset(members)
        left = [name for name in left if name not in of_group]
    for name in left:
        for conflict, ends in _cables(name, held, nodes, told):
            yield conflict
            told |= ends
        links = [each for each in held[name].links if (name, each[0]) not in told]
        if links:
            yield _conflict(ConflictCondition.LINK_SUSPECTED, (name,), _of_links(name, links))


def _conflict(code: ConflictCondition, names: tuple[NodeName, ...], text: str) -> Conflict:
    return Conflict(code, names, text, code.next_step(NODE=names[0]))


def _quarantined(name: NodeName, reason: str, held: NodeSuspicion) -> Conflict:
    text = f"no new job starts on {name}, which an operator put in quarantine: {reason}"
    if held.links:
        text += f"; {_of_links(name, held.links)}"
    return _conflict(ConflictCondition.QUARANTINED, (name,), text)


def _of_links(name: NodeName, links: Sequence[tuple[str, str]]) -> str:
    each = [f"{link or 'several links at once'}: {text}" for link, text in links]
    return f"{name} has {counted(len(links), 'link')} not to be trusted: {listed(each)}"


def _cables(
    name: NodeName,
    held: _Held,
    nodes: Mapping[NodeName, Node],
    told: Collection[tuple[NodeName, str]],
) -> Iterator[tuple[Conflict, set[tuple[NodeName, str]]]]:
    """Yield the cables of a node that are suspected at both ends, with their ends."""
    links = dict(held[name].links)
    for wire in nodes[name].wires if name in nodes else ():
        end, peer = (name, slot(wire.slot)), wire.peer
        if peer is None or end in told or end[1] not in links or peer not in held:
            continue
        there = dict(held[peer].links)
        for far in nodes[peer].wires if peer in nodes else ():
            other = peer, slot(far.slot)
            if far.peer == name and other[1] in there and other not in told:
                text = f"the cable from {name} {end[1]} to {peer} {other[1]} is not to be trusted: "
                text += f"{links[end[1]]} here, {there[other[1]]} there"
                code = ConflictCondition.LINK_SUSPECTED
                yield _conflict(code, (name, peer), text), {end, other}
                break


def _is_told(name: NodeName, held: _Held, told: Collection[tuple[NodeName, str]]) -> bool:
    return all((name, link) in told for link, _ in held[name].links)


def _at_switches(cause: SwitchCause, held: _Held) -> Conflict:
    members = tuple(cause.links)
    common = Counter(link for links in cause.links.values() for link in links)
    link, times = common.most_common(1)[0]
    first = next(name for name in members if link in cause.links[name])
    text = f"{len(members)} of {counted(cause.size, 'node')} at {listed(cause.names, 3)} have "
    text += "links there that are not to be trusted; they share a cause rather than have one each: "
    text += f"{link or 'several links at once'} on {times} of them, "
    text += f"as on {first}: {dict(held[first].links)[link]}"
    return _of_many(cause.names, members, text)


def _together(
    group: tuple[GroupName, ...], members: Sequence[NodeName], size: int, held: _Held
) -> Conflict:
    common = Counter(link for name in members for link, _ in held[name].links)
    link, times = common.most_common(1)[0]
    text = f"{len(members)} of {counted(size, 'node')} of {'/'.join(group)} have links that are "
    text += "not to be trusted; they share a cause rather than have one each: "
    text += f"{link or 'several links at once'} on {times} of them, "
    text += f"as on {members[0]}: {held[members[0]].links[0][1]}"
    return _of_many(("/".join(group),), members, text)


def _of_many(shared: Sequence[str], members: Sequence[NodeName], text: str) -> Conflict:
    """Return what nodes have in common as a finding, whose first subjects are what they share."""
    code = ConflictCondition.SUSPECTED_TOGETHER
    return Conflict(code, (*shared, *members), text, code.next_step(NODE=members[0]))


def _shared(
    names: Sequence[NodeName], roots: Sequence[Group], path_of: Callable[[NodeName], Path]
) -> Iterator[tuple[tuple[GroupName, ...], list[NodeName], int]]:
    """Yield the outermost groups of which most nodes are suspected, with these and their size."""
    below: defaultdict[tuple[GroupName, ...], list[NodeName]] = defaultdict(list)
    for name in names if len(names) >= TOGETHER else ():
        path = tuple(group.name for group in path_of(name))
        for depth in range(1, len(path) + 1):
            below[path[:depth]].append(name)
    taken: set[tuple[GroupName, ...]] = set()
    for path, members in sorted(below.items(), key=lambda each: len(each[0])):
        is_within = any(path[:depth] in taken for depth in range(1, len(path)))
        if len(members) < TOGETHER or is_within:
            continue
        group = _find(path, roots)
        size = _size(group, 2 * len(members) + 1) if group is not None else 0
        if 0 < size <= 2 * len(members):
            taken.add(path)
            yield path, members, size


def _find(path: tuple[GroupName, ...], roots: Sequence[Group | Node]) -> Group | None:
    found: Group | None = None
    children = roots
    for name in path:
        groups = (each for each in children if isinstance(each, Group) and each.name == name)
        found = next(groups, None)
        if found is None:
            return None
        children = found.children
    return found


def _size(group: Group, most: int) -> int:
    """Return how many nodes a group has, counted up to `most`."""
    leaves = (1 for _, vertex in group.walk() if isinstance(vertex, Node))
    return sum(islice(leaves, most))
