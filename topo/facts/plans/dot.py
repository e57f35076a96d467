"""Plans in the DOT language, as Cumulus' Prescriptive Topology Manager and UFM CVT take them.

    graph fabric { "leaf01":"swp1" -- "gpu-01":"eth0" [attributes] }

Source: CumulusNetworks/ptm, ptmd(8): an edge a line, names with or without quotes, undirected.
Attributes, nodes and settings alone on a line say nothing about cables. O(size).
"""

import re

from topo.facts.plans.plan import CablePlan, End, PlannedCable, checked
from topo.model.errors import Refusal

_NAME = r'(?:"([^"]*)"|([\w.-]+))'
_EDGE = re.compile(
    rf"\s*{_NAME}\s*:\s*{_NAME}\s*--\s*{_NAME}\s*:\s*{_NAME}\s*(?:\[.*)?(?:;\s*)?\}}?"
)
_BEGIN = re.compile(r"\s*(?:strict\s+)?graph\b[^{]*\{", re.ASCII)
_COMMENT = re.compile(r"\s*(?://|#).*")


def recognises(text: str) -> bool:
    """Return whether it is an undirected graph."""
    return _BEGIN.match(text) is not None


def read(text: str) -> CablePlan | Refusal:
    """Return the plan, or the line whose edge has no ports."""
    cables: list[PlannedCable] = []
    begun = _BEGIN.match(text)
    body = text if begun is None else re.sub(r"[^\n]", " ", begun[0]) + text[begun.end() :]
    for number, line in enumerate(body.splitlines(), 1):
        if "--" not in line or _COMMENT.fullmatch(line):
            continue
        match = _EDGE.fullmatch(line)
        if match is None:
            fix = 'write a line for each, as "leaf01":"swp1" -- "gpu-01":"eth0"'
            return Refusal("not one edge with a port at both ends", f"line {number}", fix)
        groups = match.groups(default="")
        one, port, other, far_port = (groups[n] or groups[n + 1] for n in range(0, 8, 2))
        cables.append(PlannedCable(End(one, port), End(other, far_port), number))
    return checked(cables)
