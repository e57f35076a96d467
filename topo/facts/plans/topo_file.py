"""Plans in ibdiagnet's `.topo` format: a device a paragraph, a cable a line.

    MQM9700 ib-leaf-01
       P1 -4x-100G-> HCA_mlx5_1 gpu-01 mlx5_0/P1

Source: UFM CVT user manual 1.5, "Topology file"; ibdm's ibtopodiff. A cable may be listed at both
ends or at one. O(size).
"""

import re

from topo.facts.plans.plan import CablePlan, End, PlannedCable, checked, rate_gbps
from topo.model.errors import Refusal

_DEVICE = re.compile(r"(\S+)\s+(\S+)\s*")
_CABLE = re.compile(r"\s+(\S+)\s+(?:-(\S+?)-?)?->\s+(\S+)\s+(\S+)\s+(\S+)\s*")
_ARROW = "->"


def recognises(text: str) -> bool:
    """Return whether a line after a device has an arrow."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")][:2]
    return len(lines) > 1 and _DEVICE.fullmatch(lines[0]) is not None and _ARROW in lines[1]


def read(text: str) -> CablePlan | Refusal:
    """Return the plan, or the line that is neither a device nor a cable."""
    cables: list[PlannedCable] = []
    device = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if _ARROW not in line and (match := _DEVICE.fullmatch(line)) is not None:
            device = match[2]
            continue
        match = _CABLE.fullmatch(line)
        if match is None or not device:
            fix = "write it as `   P1 -4x-100G-> TYPE NAME P2` below its device"
            return Refusal("neither a device nor a cable", f"line {number}", fix)
        port, rate, _, far, far_port = match.groups()
        cables.append(
            PlannedCable(End(device, port), End(far, far_port), number, rate_gbps(rate or ""))
        )
    return checked(cables)
