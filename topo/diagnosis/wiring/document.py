"""A comparison as the document of `GET /v1/wiring`, and back: a client prints it as its own."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from topo.diagnosis.wiring.compare import (
    CableComparison,
    CableFinding,
    CableState,
    CableVerdict,
    Move,
)
from topo.diagnosis.wiring.cost import CableCost
from topo.diagnosis.wiring.report import Location, action_of, counts, places
from topo.facts.plans.plan import End, PlannedCable
from topo.model.rest.findings import (
    CableDocument,
    CableFindingDocument,
    CostDocument,
    EndDocument,
    WiringDocument,
)

CostOf = Callable[[CableFinding], CableCost]
"""What a finding costs."""


class Compared(NamedTuple):
    """A comparison, what of the plan was passed over, and what its findings cost, if known.

    `stated`: the cables by verdict where the comparison has not all findings.
    """

    comparison: CableComparison
    notes: Sequence[str] = ()
    cost_of: CostOf | None = None
    stated: Mapping[CableVerdict, int] | None = None

    @property
    def counts(self) -> Mapping[CableVerdict, int]:
        """Return the cables by verdict."""
        return counts(self.comparison) if self.stated is None else self.stated


def wiring_document(compared: Compared, most_cables: int | None = None) -> WiringDocument:
    """Return the findings by place. O(findings log findings).

    At most `most_cables` are listed, those first that a move mends; all are counted, and a note
    says how many are left out.
    """
    comparison, found = compared.comparison, compared.counts
    shown = list(_listed(places(comparison.findings), most_cables))
    notes, total = list(compared.notes), sum(found.values())
    told = sum(len(each.cables) for _, findings in shown for each in findings)
    if most_cables is not None and told < total:
        notes.append(f"{total - told:,} of {total:,} cables are counted and not listed")
    return {
        "planned": comparison.planned,
        "right": comparison.right,
        "counts": {str(verdict): count for verdict, count in found.items()},
        "notes": notes,
        "places": [
            {
                "name": place.name,
                "cables": place.cables,
                "moves": place.moves,
                "mended": place.mended,
                "findings": [_finding(each, compared.cost_of) for each in findings],
            }
            for place, findings in shown
        ],
    }


def _listed(
    found: Iterable[Location], most_cables: int | None
) -> Iterator[tuple[Location, list[CableFinding]]]:
    left = math.inf if most_cables is None else most_cables
    for place in found:
        listed = list[CableFinding]()
        for each in place.findings:
            if len(each.cables) <= left:
                listed.append(each)
                left -= len(each.cables)
        if listed:
            yield place, listed


def _finding(finding: CableFinding, cost_of: CostOf | None) -> CableFindingDocument:
    return {
        "verdict": str(finding.verdict),
        "text": finding.text,
        "cables": [_cable(each) for each in finding.cables],
        "moves": [
            {"source": _end(a), "target": _end(b), "is_exchange": is_exchange}
            for a, b, is_exchange in finding.moves
        ],
        "actions": list(action_of(finding)),
        "cost": _cost(cost_of(finding)) if cost_of is not None else None,
    }


def _cable(cable: CableState) -> CableDocument:
    plan = cable.plan
    return {
        "end": _end(cable.end),
        "planned": _end(cable.planned) if cable.planned is not None else None,
        "found": _end(cable.found) if cable.found is not None else None,
        "rate": cable.rate,
        "line": plan.line if plan is not None else None,
        "label": plan.label if plan is not None else "",
        "racks": list(plan.racks) if plan is not None else [],
    }


def _end(end: End) -> EndDocument:
    return {"device": end.device, "port": end.port}


def _cost(cost: CableCost) -> CostDocument:
    return {
        "groups": list(cost.groups),
        "gpus": cost.gpus,
        "running": list(cost.running),
        "waiting": list(cost.waiting),
    }


def compared(document: WiringDocument) -> Compared:
    """Return the comparison of a document; a verdict of a later release is left out. O(cables)."""
    found = dict(_read(document))
    comparison = CableComparison(tuple(found), document["planned"], document["right"])
    known = {str(verdict): verdict for verdict in CableVerdict}
    stated = {known[each]: count for each, count in document["counts"].items() if each in known}
    return Compared(
        comparison,
        document["notes"],
        lambda finding: found.get(finding, CableCost()),
        stated,
    )


def _read(document: WiringDocument) -> Iterator[tuple[CableFinding, CableCost]]:
    known = set(CableVerdict)
    for place in document["places"]:
        for each in place["findings"]:
            if each["verdict"] not in known:
                continue
            moves = tuple(
                Move(End(**move["source"]), End(**move["target"]), move["is_exchange"])
                for move in each["moves"]
            )
            cables = tuple(map(_state, each["cables"]))
            finding = CableFinding(CableVerdict(each["verdict"]), cables, each["text"], moves)
            cost = each["cost"]
            yield (
                finding,
                CableCost()
                if cost is None
                else CableCost(
                    tuple(cost["groups"]),
                    cost["gpus"],
                    tuple(cost["running"]),
                    tuple(cost["waiting"]),
                ),
            )


def _state(cable: CableDocument) -> CableState:
    end, planned, found = (
        None if each is None else End(**each)
        for each in (cable["end"], cable["planned"], cable["found"])
    )
    if end is None:
        raise AssertionError("a cable has an end")
    plan = None
    if cable["line"] is not None:
        one, other, *_ = (*cable["racks"], "", "")
        plan = PlannedCable(
            end, planned or end, cable["line"], racks=(one, other), label=cable["label"]
        )
    return CableState(end, planned, found, plan, cable["rate"])
