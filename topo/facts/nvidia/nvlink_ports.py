"""What an NVLink that is not active means: wired to nothing, or broken.

No tool says which. An H100 PCIe with three bridges has 6 of 18 links inactive for ever and is
healthy (real `nvlink -s` output); a B200 whose links are all inactive has lost NVLink
(leptonai/gpud issue 1085); a bridgeless A100 PCIe has 12 inactive links, and calling them down was
a false alarm elsewhere (NVIDIA/NVSentinel pull request 1481).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from topo.model.machine import LinkPort, PortState

_BRIDGED = re.compile(r"PCI|NVL\b|RTX|Quadro|GeForce|\bA(?:10|16|30|40)\b", re.IGNORECASE)
"""Boards on which NVLink is an optional bridge; the others (SXM, HGX, GB200) are always wired."""
_FAR_SLOWER = 0.5
"""Of the fastest link. Equal links of one host print equal speeds (25.781, 26.562, 53.125 GB/s); a
link that trained at a lower rate or lost lanes prints half or less (1.562 beside 26.562 on a real
H200)."""


@dataclass(frozen=True, slots=True)
class SeenLinks:
    """The links of one GPU as a source lists them: number to whether it is active.

    `all_inactive`: nvidia-smi prints one line in place of a list. `remotes` holds the far ends that
    the source names, `speeds` the GB/s of the links whose speed it names.
    """

    gpu: int
    model: str
    active: Mapping[int, bool]
    all_inactive: bool = False
    remotes: Mapping[int, str] | None = None
    speeds: Mapping[int, float] | None = None


def link_ports(gpus: Iterable[SeenLinks]) -> tuple[LinkPort, ...]:
    """Return the ports of all GPUs of one host.

    An inactive link is down if it is active on another GPU of the same model, and this GPU is
    either always wired by its make or has another active link; else it is unused. An active link
    that is far slower than the fastest one of the same model is up and has a trouble. O(links).
    """
    seen = sorted(gpus, key=lambda links: links.gpu)
    wired: dict[str, set[int]] = {}
    fastest: dict[str, float] = {}
    for links in seen:
        alive = {number for number, active in links.active.items() if active}
        wired.setdefault(links.model, set()).update(alive)
        speeds = (links.speeds or {}).values()
        fastest[links.model] = max(fastest.get(links.model, 0.0), *speeds, 0.0)
    return tuple(
        port for links in seen for port in _ports(links, wired[links.model], fastest[links.model])
    )


def _ports(links: SeenLinks, wired: set[int], fastest: float) -> Iterable[LinkPort]:
    expects = not _BRIDGED.search(links.model) or any(links.active.values())
    numbers = set(links.active) | (wired if links.all_inactive else set())
    for number in sorted(numbers):
        remote = (links.remotes or {}).get(number)
        if links.active.get(number, False):
            slow = _slowness((links.speeds or {}).get(number), fastest)
            yield LinkPort(links.gpu, number, PortState.UP, remote=remote, trouble=slow)
        elif expects and number in wired:
            trouble = "inactive, while other GPUs of this host have this link active"
            yield LinkPort(links.gpu, number, PortState.DOWN, remote=remote, trouble=trouble)
        else:
            yield LinkPort(links.gpu, number, PortState.UNUSED, remote=remote)


def _slowness(speed: float | None, fastest: float) -> str:
    if speed is None or speed >= fastest * _FAR_SLOWER:
        return ""
    return f"degraded: {speed:g} GB/s, its siblings {fastest:g} GB/s"
