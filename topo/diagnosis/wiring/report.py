"""The findings of a comparison as lines for the technician: a line a cable, by place.

A place is the rack that the plan names, else the switch, else the first device: where one goes
to with the plug in hand. Places come in the order in which they mend most: the cables mended by a
move, then the number of cables. O(findings log findings).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from topo.diagnosis.wiring.compare import CableComparison, CableFinding, CableVerdict, Move
from topo.diagnosis.wiring.seen import UNNAMED, is_number
from topo.facts.plans.plan import End
from topo.model.ids import natural_key

_MENDED = (
    CableVerdict.SWAP,
    CableVerdict.WRONG_END,
    CableVerdict.WRONG_RAIL,
    CableVerdict.WRONG_PORT,
)
_ORDER = {verdict: number for number, verdict in enumerate(CableVerdict)}


class CableLine(NamedTuple):
    """A cable: from the end that is right to where it should go and where it is, "" for nowhere.

    `action`: what is to be done, once for cables that the same moves mend.
    """

    place: str
    verdict: str
    node: str
    port: str
    planned_node: str
    planned_port: str
    found_node: str
    found_port: str
    rate: str
    label: str
    action: str


@dataclass(frozen=True, slots=True)
class Location:
    """A rack or a switch with its findings, those that a move mends first."""

    name: str
    findings: tuple[CableFinding, ...] = field(default=())

    @property
    def moves(self) -> int:
        """Return how many plugs are moved or exchanged here."""
        return sum(len(each.moves) for each in self.findings)

    @property
    def cables(self) -> int:
        """Return how many cables are not as planned here."""
        return sum(len(each.cables) for each in self.findings)

    @property
    def mended(self) -> int:
        """Return how many cables the moves mend."""
        return sum(len(each.cables) for each in self.findings if each.verdict in _MENDED)


def places(findings: Iterable[CableFinding]) -> tuple[Location, ...]:
    """Return the findings by place, the place that mends most by a move first."""
    found: dict[str, list[CableFinding]] = {}
    for finding in findings:
        found.setdefault(_place(finding), []).append(finding)
    made = (
        Location(name, tuple(sorted(each, key=lambda one: (_ORDER[one.verdict], -len(one.cables)))))
        for name, each in found.items()
    )
    return tuple(
        sorted(
            made,
            key=lambda each: (
                -each.mended / max(each.moves, 1),
                -each.mended,
                -each.cables,
                natural_key(each.name),
            ),
        )
    )


def _place(finding: CableFinding) -> str:
    for cable in finding.cables:
        if cable.plan is not None and any(cable.plan.racks):
            return cable.plan.racks[1] or cable.plan.racks[0]
    at = [move.target for move in finding.moves] or finding.ends
    named = [end for end in at if not end.device.startswith(UNNAMED)]
    switches = [end for end in named if is_number(end)]
    return (switches or named)[0].device


def counts(comparison: CableComparison) -> Mapping[CableVerdict, int]:
    """Return how many cables have each verdict that there is, the worst first."""
    found: Counter[CableVerdict] = Counter()
    for finding in comparison.findings:
        found[finding.verdict] += len(finding.cables)
    return {verdict: found[verdict] for verdict in CableVerdict if found[verdict]}


def say_move(move: Move) -> str:
    """Return what is to be done, in a sentence without its end."""
    if move.is_exchange:
        return f"exchange the plugs in {move.source} and {move.target}"
    return f"move the plug from {move.source} to {move.target}"


def lines(all_places: Sequence[Location]) -> Iterator[tuple[CableFinding, CableLine]]:
    """Yield a line for each cable; of several with common moves the first line has these."""
    for place in all_places:
        for finding in place.findings:
            action = "; ".join(action_of(finding))
            for number, cable in enumerate(finding.cables):
                line = CableLine(
                    place.name,
                    finding.verdict,
                    *cable.end,
                    *(cable.planned or _NOWHERE),
                    *(cable.found or _NOWHERE),
                    cable.rate,
                    cable.plan.label if cable.plan is not None else "",
                    "" if number else action,
                )
                yield finding, line


def action_of(finding: CableFinding) -> tuple[str, ...]:
    """Return what is to be done, in the order in which it can be."""
    others = STEPS.get(finding.verdict)
    return tuple(map(say_move, finding.moves)) or ((others,) if others else ())


_NOWHERE = End("", "")
STEPS = {
    CableVerdict.MISSING: "look at the plugs at both ends, then at the cable",
    CableVerdict.UNPLANNED: "take it out, or add it to the plan",
    CableVerdict.SLOW: "clean or replace the cable",
    CableVerdict.UNNAMED: "what is there does not say whose it is; have the host name its adapters",
    CableVerdict.UNSEEN: "no source says what is there; give a new dump of their subnet",
}
"""What is to be done where no plug is to be moved."""
