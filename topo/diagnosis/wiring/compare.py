"""What differs between a plan of cables and the cables that are there, with the moves that mend it.

Found: for each cable that is not as planned one finding, and for cables whose plugs are exchanged
one finding for all of them.

How: a port takes one plug, so the plan is a matching of ports, and what is seen another. A port
that both have has two neighbours at most, one of each; so the two matchings together fall into
circles and chains in which planned and seen cables alternate.

- A circle of one planned and one seen cable is a cable as planned.
- A circle of two is a swap: the four plugs are those of two cables, joined the other way. One
  exchange of two plugs mends both. A circle of k needs k - 1 exchanges.
- A chain pairs each planned cable with the seen one beside it: one end is right, the other is
  elsewhere, one plug moves. Chains are told from the end where the planned port is free, so that
  each move has a free port to go to. What is left over at an end is a missing or an unplanned
  cable. Where both ends are alike the chain has two readings; told is the one whose plugs are
  nearer to where they belong (port, rail, switch), and in switches rather than in hosts.
- A chain of several cables that ends at an adapter without a name is the ring that it would be with
  the one that is seen nowhere, and says that this is likely.

Why that is right: each exchange of two plugs opens one circle into two, and a circle of one is
mended; so k - 1 are needed and enough. Each planned cable that is not there needs a plug of its own
moved, so the moves of a chain cannot be fewer. Different circles and chains share no port: their
faults are independent. What is said does not depend on which end of a cable the plan names first.
O(cables): 90,000 (10,000 hosts with eight adapters) in 1.8 s of processor time and 140 MB.

Example: planned a-1, b-2, c-3; seen a-2, b-1, c-4. The circle a-1-b-2 is a swap of a and b:
exchange the plugs in 1 and 2. The chain 3-c-4: the plug of c is in 4, move it to 3.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise, zip_longest
from typing import NamedTuple

from topo.diagnosis.wiring.seen import (
    UNNAMED,
    EndNames,
    SeenCable,
    SeenCables,
    is_number,
)
from topo.facts.plans.plan import CablePlan, End, PlannedCable, checked
from topo.model.errors import Refusal
from topo.model.fabric import SLOWER
from topo.model.ids import natural_key
from topo.model.words import counted, listed

_FEWEST = 3
"""A cable or two at a device of another name: it was exchanged, and the plan not yet told."""
_DOUBLED = "give a dump of one moment, in which no two ports of a device have one name"


class CableVerdict(StrEnum):
    """What is wrong with a cable, worst first."""

    SWAP = "swap"
    WRONG_END = "wrong-end"
    WRONG_RAIL = "wrong-rail"
    WRONG_PORT = "wrong-port"
    MISSING = "missing"
    UNPLANNED = "unplanned"
    SLOW = "slow"
    UNNAMED = "unnamed"
    UNSEEN = "unseen"


_FAR = {CableVerdict.WRONG_PORT: 1, CableVerdict.WRONG_RAIL: 2, CableVerdict.WRONG_END: 3}


class Move(NamedTuple):
    """A plug to be moved from a port to a free one, or to be exchanged with the plug there."""

    source: End
    target: End
    is_exchange: bool = False


class CableState(NamedTuple):
    """What an end should be connected with and what it is; None for nothing.

    `plan` is the cable of the plan, `rate` that of the one that is there.
    """

    end: End
    planned: End | None
    found: End | None
    plan: PlannedCable | None = None
    rate: str = ""


@dataclass(frozen=True, slots=True)
class CableFinding:
    """Cables that are not as planned, for one reason; `moves` in the order of their making."""

    verdict: CableVerdict
    cables: tuple[CableState, ...]
    text: str
    moves: tuple[Move, ...] = ()

    @property
    def ends(self) -> tuple[End, ...]:
        """The ports that have to do with it, each once."""
        found = (end for cable in self.cables for end in cable[:3] if end is not None)
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class CableComparison:
    """The findings, and how many cables of the plan are there as planned.

    `unjoined` says in words that the names of the plan are not those that are seen.
    """

    findings: tuple[CableFinding, ...]
    planned: int
    right: int
    unjoined: tuple[str, ...] = ()


class _Edge(NamedTuple):
    """A cable with its ends in words that are equal for equal ports."""

    ends: tuple[End, End]
    planned: PlannedCable | None = None
    seen: SeenCable | None = None

    def far(self, end: End) -> End:
        return self.ends[1] if self.ends[0] == end else self.ends[0]


_Ends = Mapping[End, _Edge]


def compare(plan: CablePlan, seen: SeenCables) -> CableComparison | Refusal:
    """Return what differs; findings in the order of the plan. O(cables).

    Refused: a port in two cables, be it under two words, because then neither is a matching.
    """
    names = EndNames(seen)
    in_words = checked(
        each._replace(one=names.key(each.one), other=names.key(each.other)) for each in plan.cables
    )
    if isinstance(in_words, Refusal):
        return in_words
    planned = [_Edge((each.one, each.other), planned=each) for each in in_words.cables]
    there = [_Edge((names.key(each.one), names.key(each.other)), seen=each) for each in seen.cables]
    there = [edge for edge in there if edge.ends[0] != edge.ends[1]]  # a loopback plug is no cable
    unjoined = _find_unjoined(planned, there, seen.devices - seen.hosts)
    count, dropped = len(planned), set(map(id, unjoined.edges))
    planned, there = (
        [edge for edge in edges if id(edge) not in dropped] for edges in (planned, there)
    )
    wanted = {end: edge for edge in planned for end in edge.ends}
    found: dict[End, _Edge] = {}
    for edge in there:
        for end in edge.ends:
            is_named = not end.device.startswith(UNNAMED)
            if found.setdefault(end, edge) is not edge and is_named:
                return Refusal(f"{end} is in two cables", "what is seen", _DOUBLED)
    judge = _Judge(
        wanted, seen.covers, *({*map(names.key, ends)} for ends in (seen.dark, seen.lit))
    )
    findings = [_unjoined(edge) for edge in unjoined.edges if edge.planned is not None]
    right: list[_Edge] = []
    done: set[End] = set()
    for edge in (*planned, *there):
        one, other = edge.ends
        if one in done:
            continue
        if edge.planned and (at := found.get(one)) is not None and at.far(one) == other:
            done.update(edge.ends)
            right.append(_Edge(edge.ends, edge.planned, at.seen))
            continue
        chain = _chain(edge, wanted, found)
        done.update(end for each in chain for end in each.ends)
        if _is_circle(chain):
            findings.append(_circle(chain))
        elif (closed := _closed(chain, seen)) is not None:
            findings.append(_circle(*closed))
        else:
            findings += judge.chain(chain)
    findings += _slow(right)
    return CableComparison(tuple(findings), count, len(right), unjoined.notes)


class _Unjoined(NamedTuple):
    """Cables at devices that have other names in the plan than those that are seen.

    Each would be at a wrong end, and each move mean nothing. None of their other ends is in a cable
    of the other side, so without them the others are judged as before.
    """

    edges: tuple[_Edge, ...]
    notes: tuple[str, ...]


def _find_unjoined(
    planned: Sequence[_Edge], there: Sequence[_Edge], switches: AbstractSet[str]
) -> _Unjoined:
    """Return the cables where the plan has a name that is not seen, and a port one not planned.

    Judged apart for switches and for others, and only where nine of ten are so. If no name at all
    is in both, that is told, and no cable is anywhere.
    """
    wanted, found = (
        {end.device for edge in edges for end in edge.ends} for edges in (planned, there)
    )
    at = {end: edge for edge in there for end in edge.ends}
    odd: dict[bool, list[tuple[_Edge, str, str]]] = {False: [], True: []}
    number = Counter[bool]()
    for edge in planned:
        for near in edge.ends:
            actual = at[near].far(near).device if near in at else UNNAMED
            if not actual.startswith(UNNAMED):
                kind, name = actual in switches, edge.far(near).device
                number[kind] += 1
                if name not in found and actual not in wanted:
                    odd[kind] += ((each, name, actual) for each in (edge, at[near]))
    edges, notes = list[_Edge](), list[str]()
    for kind, several in odd.items():
        count = len(several) // 2
        if count >= _FEWEST and 10 * count >= 9 * number[kind]:
            edges += (edge for edge, _, _ in several)
            planned_names, others = {each[1] for each in several}, {each[2] for each in several}
            notes.append(_other_names(planned_names, others))
    named = {name for name in found if not name.startswith(UNNAMED)}
    if len(planned) >= _FEWEST and named and not wanted & (named | switches):
        notes.append(_other_names(wanted, named))
    return _Unjoined(tuple(edges), tuple(notes))


def _other_names(wanted: AbstractSet[str], found: AbstractSet[str]) -> str:
    here, seen = (listed(sorted(each, key=natural_key)[:2]) for each in (wanted, found))
    fix = "call them in the plan as the fabric does; till then nothing is said of their cables"
    what = f"unknown to the fabric: {counted(len(wanted), 'name')} of the plan, as {here}"
    return f"{what}, where it has {seen}; {fix}"


def _unjoined(edge: _Edge) -> CableFinding:
    text = "the plan calls a device at its ends otherwise than the fabric does"
    return CableFinding(CableVerdict.UNSEEN, (CableState(*edge.ends, None, edge.planned),), text)


def _chain(start: _Edge, wanted: _Ends, found: _Ends) -> list[_Edge]:
    """Return the cables that hang together, planned and seen in turn, from an end of the chain."""
    chain = deque([start])
    for is_forward in (True, False):
        end, last = start.ends[1 if is_forward else 0], start
        while (following := (found if last.planned else wanted).get(end)) is not None:
            if following is start:
                return list(chain)
            (chain.append if is_forward else chain.appendleft)(following)
            end, last = following.far(end), following
    return list(chain)


def _is_circle(chain: list[_Edge]) -> bool:
    ends = Counter(end for edge in chain for end in edge.ends)
    return all(count == 2 for count in ends.values())


def _closed(chain: list[_Edge], seen: SeenCables) -> tuple[list[_Edge], str] | None:
    """Return the ring that a chain is if what has no name at its end is what is not seen there.

    A single cable is none: it is connected as planned. What has no name is an adapter, or a node
    whose slots nobody knows; it is no switch.
    """
    chain = chain if chain[0].planned else chain[::-1]
    if len(chain) < 4 or chain[0].planned is None or chain[-1].seen is None:
        return None
    (free,) = set(chain[0].ends) - set(chain[1].ends)
    path = [free]
    for edge in chain:
        path.append(edge.far(path[-1]))
    nameless = path[-1].device
    is_slot = not (seen.covers(free) or any(end.device in seen.devices for end in path[:-1:2]))
    if not nameless.startswith(UNNAMED) or (is_number(free) and not is_slot):
        return None
    return [
        *chain[:-1],
        chain[-1]._replace(ends=(path[-2], free)),
    ], f"; {nameless} is likely {free}"


def _circle(chain: list[_Edge], note: str = "") -> CableFinding:
    """Return the finding of cables whose plugs are exchanged in a ring."""
    if chain[0].planned is None:
        chain = [*chain[1:], chain[0]]
    # The ends in the order of the ring: planned a0-b0, seen b0-a1, planned a1-b1, …
    first = chain[0].ends[0] if chain[0].ends[1] in chain[1].ends else chain[0].ends[1]
    ring = [first]
    for edge in chain[:-1]:
        ring.append(edge.far(ring[-1]))
    heads, tails = ring[0::2], ring[1::2]
    side = min((heads, tails), key=_spread)
    # The plug in heads[1] belongs into heads[0], and what was there goes on to the next one; the
    # plug in tails[0] belongs into tails[1], and what comes from there into tails[2].
    from_first = [(tails[0], each) for each in tails[1:]]
    pairs = list(pairwise(heads)) if side is heads else from_first
    moves = tuple(Move(*pair, is_exchange=True) for pair in pairs)
    count = len(heads)
    devices = {end.device for end in side}
    where = f" on {side[0].device}" if len(devices) == 1 else ""
    what = "2 cables are swapped" if count == 2 else f"{count} cables are exchanged in a ring"
    rows = zip(tails, heads, (*heads[1:], heads[0]), chain[0::2], chain[1::2], strict=True)
    cables = tuple(
        CableState(end, planned, found, wanted.planned, _rate(there))
        for end, planned, found, wanted, there in rows
    )
    return CableFinding(CableVerdict.SWAP, cables, f"{what}{where}{note}", moves)


def _rate(edge: _Edge) -> str:
    return edge.seen.rate if edge.seen is not None else ""


def _spread(ends: list[End]) -> tuple[int, bool, list[End]]:
    """Return how far one has to go: to how many devices, to hosts rather than switches."""
    return len({end.device for end in ends}), not is_number(ends[0]), ends


class _Judge:
    """Says what the cables of a chain are."""

    def __init__(
        self, wanted: _Ends, covers: Callable[[End], bool], dark: set[End], lit: set[End]
    ) -> None:
        self._wanted = wanted
        self._covers = covers
        self._dark, self._lit = dark, lit
        self._planned_devices = {end.device for end in wanted}
        self._fars: dict[str, set[str]] = {}
        for end, edge in wanted.items():
            self._fars.setdefault(end.device, set()).add(edge.far(end).device)

    def chain(self, chain: list[_Edge]) -> list[CableFinding]:
        """Return the findings of a chain, each move after the one that frees its port."""
        ways = [chain, chain[::-1]]
        if (chain[0].planned is None) != (chain[-1].planned is None):
            ways = [way for way in ways if way[0].planned is not None]
        return min((list(self._told(way)) for way in ways), key=_unlikeliness)

    def _told(self, chain: list[_Edge]) -> Iterator[CableFinding]:
        if chain[0].planned is None:  # seen at both ends: the first is one too many
            yield from self._unplanned(chain[0])
            chain = chain[1:]
        for wanted, there in zip_longest(chain[0::2], chain[1::2]):
            yield self._missing(wanted) if there is None else self._moved(wanted, there)

    def _unplanned(self, edge: _Edge) -> Iterator[CableFinding]:
        """Yield the finding of a cable that no plan has; of a device outside the plan none."""
        if self._planned_devices.issuperset(end.device for end in edge.ends):
            text = f"{edge.ends[0]} and {edge.ends[1]} are connected, and no plan has them"
            one, other = edge.ends
            yield CableFinding(
                CableVerdict.UNPLANNED, (CableState(one, None, other, None, _rate(edge)),), text
            )

    def _missing(self, edge: _Edge) -> CableFinding:
        cables = (CableState(*edge.ends, None, edge.planned),)
        if dark := [end for end in edge.ends if end in self._dark]:
            text = f"the port {dark[0]} is down: the cable, or a plug or the port at either end"
            return CableFinding(CableVerdict.MISSING, cables, text)
        if lit := [end for end in edge.ends if end in self._lit]:
            text = f"the port {lit[0]} is up, and no dump since then says where its cable ends"
            return CableFinding(CableVerdict.UNSEEN, cables, text)
        if not any(map(self._covers, edge.ends)):
            text = "no source saw a device at either end: nothing is known"
            return CableFinding(CableVerdict.UNSEEN, cables, text)
        text = "nothing is connected: the cable, a plug or a port is out"
        return CableFinding(CableVerdict.MISSING, cables, text)

    def _moved(self, wanted: _Edge, there: _Edge) -> CableFinding:
        (fixed,) = set(wanted.ends) & set(there.ends)
        target, source = wanted.far(fixed), there.far(fixed)
        cables = (CableState(fixed, target, source, wanted.planned, _rate(there)),)
        if source.device.startswith(UNNAMED):
            text = f"what is at {fixed} has no name of a host; it is likely {target}"
            return CableFinding(CableVerdict.UNNAMED, cables, text)
        if source.device == target.device:
            verdict = CableVerdict.WRONG_PORT
        elif source.device in self._fars.get(fixed.device, ()):
            verdict = CableVerdict.WRONG_RAIL
        else:
            verdict = CableVerdict.WRONG_END
        text = f"{fixed} is connected with {source}, not with {target}"
        return CableFinding(verdict, cables, text, (Move(source, target),))


def _unlikeliness(findings: list[CableFinding]) -> tuple[int, int, list[tuple[Move, ...]]]:
    """Return how far plugs are from where they belong, and how many are not between switches."""
    moves = [move for finding in findings for move in finding.moves]
    far = sum(_FAR.get(finding.verdict, 0) for finding in findings)
    at_hosts = sum(not (is_number(move.source) and is_number(move.target)) for move in moves)
    return far, at_hosts, [finding.moves for finding in findings]


def _slow(right: Iterable[_Edge]) -> Iterator[CableFinding]:
    """Yield the cables below the speed that the plan names, else that most of their like have."""
    edges = [(edge, _like(edge)) for edge in right if edge.seen is not None and edge.seen.gbps]
    speeds: dict[_Like, Counter[float]] = {}
    for edge, alike in edges:
        if edge.seen is not None:
            for like in alike:
                speeds.setdefault(like, Counter())[edge.seen.gbps] += 1
    usually = {like: (each.total() > 1, _most_common(each)) for like, each in speeds.items()}
    for edge, alike in edges:
        if edge.seen is None or edge.planned is None:
            continue
        # A host with one cable says nothing of what is usual for it.
        counted = [usually[each] for each in alike]
        telling = [each for each in counted if each[0]] or counted
        usual = min(speed for _, speed in telling)
        expected = edge.planned.gbps or usual
        if edge.seen.gbps < SLOWER * expected:
            said = "planned" if edge.planned.gbps else "usual there"
            text = f"runs at {edge.seen.rate}: {edge.seen.gbps:g} of {expected:g} Gbit/s {said}"
            cables = (CableState(*edge.ends, None, edge.planned, edge.seen.rate),)
            yield CableFinding(CableVerdict.SLOW, cables, text)


_Like = tuple[str, bool]


def _like(edge: _Edge) -> tuple[_Like, _Like]:
    """Return what a cable is compared with: cables of a switch to hosts, or to other switches."""
    one, other = edge.ends
    return (one.device, is_number(other)), (other.device, is_number(one))


def _most_common(speeds: Counter[float]) -> float:
    return max(speeds, key=lambda each: (speeds[each], each))
