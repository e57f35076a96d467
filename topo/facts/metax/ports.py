"""What the speed, width and state of a MetaXLink port mean.

Source of the rule: the exporter of MetaX itself (MetaX-MACA/mxExporter): a port with speed and
width 0 is unused; it is well if and only if it has 16 lanes at 32 GT/s, or at 2.5 GT/s, the speed
it falls back to when idle. Source of the states: mxSmlGetMetaXLinkPortState of libmxsml 2.3.1.
"""

from dataclasses import dataclass

from topo.facts.reading.text import shorten
from topo.model.machine import MAX_SPEED, LinkPort, PortState

WIDTH = 16
SPEEDS_GTS = (32.0, 2.5)
_NOT_TRAINED, _UP = 0, 1
_DOWN = {2: "down, optical module in place", 3: "down, optical module missing"}
_UNUSED = frozenset({4, 5})


@dataclass(frozen=True, slots=True)
class SeenPort:
    """A port as a source lists it, `port` from 0; `state` is None where the source has none."""

    gpu: int
    port: int
    speed_gts: float
    width: int
    state: int | None = None
    remote: str | None = None


def link_port(seen: SeenPort) -> LinkPort:
    """The port with its state: the source's, where it is down or unused, else by the rule."""
    state, trouble = _verdict(seen)
    speed_gts = seen.speed_gts if 0 <= seen.speed_gts <= MAX_SPEED else None
    return LinkPort(
        seen.gpu, seen.port, state, speed_gts, seen.width, seen.remote, shorten(trouble)
    )


def _verdict(seen: SeenPort) -> tuple[PortState, str]:
    silent = seen.speed_gts == 0 and seen.width == 0
    if seen.state in _UNUSED or (silent and seen.state not in {_UP, *_DOWN}):
        return PortState.UNUSED, ""
    trouble = _DOWN.get(seen.state, "") if seen.state is not None else ""
    if not trouble and seen.state == _NOT_TRAINED:
        trouble = "not trained"
    if not trouble and (seen.width != WIDTH or seen.speed_gts not in SPEEDS_GTS):
        wanted = f"{SPEEDS_GTS[0]:g} GT/s x{WIDTH}"
        trouble = f"{seen.speed_gts:g} GT/s x{seen.width} instead of {wanted}"
    return (PortState.DOWN if trouble else PortState.UP), trouble
