"""What the speed, width and state of a MetaXLink port mean.

Source of the rule: the exporter of MetaX itself (MetaX-MACA/mxExporter): a port with speed and
width 0 is unused; it is well if and only if it has 16 lanes at 32 GT/s, or at 2.5 GT/s, the speed
it falls back to when idle. Source of the states: mxSmlGetMetaXLinkPortState of libmxsml 2.3.1.
"""

from topo.facts.reading.text import shorten
from topo.model.machine import MAX_SPEED, LinkPort, PortState

WIDTH = 16
SPEEDS_GTS = (32.0, 2.5)
_NOT_TRAINED, _UP = 0, 1
_DOWN = {2: "down, optical module in place", 3: "down, optical module missing"}
_UNUSED = frozenset({4, 5})


def link_port(
    gpu: int,
    port: int,
    speed_gts: float,
    width: int,
    *,
    state: int | None = None,
    remote: str | None = None,
) -> LinkPort:
    """Return the port, counted from 0, with its state: the source's where that is down or unused,
    else by the rule. `state` is None where the source has none.
    """
    verdict, trouble = _verdict(speed_gts, width, state)
    speed = speed_gts if 0 <= speed_gts <= MAX_SPEED else None
    return LinkPort(gpu, port, verdict, speed, width, remote, shorten(trouble))


def _verdict(speed_gts: float, width: int, state: int | None) -> tuple[PortState, str]:
    silent = speed_gts == 0 and width == 0
    if state in _UNUSED or (silent and state not in {_UP, *_DOWN}):
        return PortState.UNUSED, ""
    trouble = _DOWN.get(state, "") if state is not None else ""
    if not trouble and state == _NOT_TRAINED:
        trouble = "not trained"
    if not trouble and (width != WIDTH or speed_gts not in SPEEDS_GTS):
        wanted = f"{SPEEDS_GTS[0]:g} GT/s x{WIDTH}"
        trouble = f"{speed_gts:g} GT/s x{width} instead of {wanted}"
    return (PortState.DOWN if trouble else PortState.UP), trouble
