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


@dataclass(frozen=True, slots=True)
class SeenLinks:
    """The links of one GPU as a source lists them: number to whether it is active.

    `all_inactive`: nvidia-smi prints one line in place of a list. `remotes` holds the far ends that
    the source names.
    """

    gpu: int
    model: str
    active: Mapping[int, bool]
    all_inactive: bool = False
    remotes: Mapping[int, str] | None = None


def link_ports(gpus: Iterable[SeenLinks]) -> tuple[LinkPort, ...]:
    """The ports of all GPUs of one host.

    An inactive link is down if it is active on another GPU of the same model, and this GPU is
    either always wired by its make or has another active link; else it is unused. O(links).
    """
    seen = sorted(gpus, key=lambda links: links.gpu)
    wired: dict[str, set[int]] = {}
    for links in seen:
        alive = {number for number, active in links.active.items() if active}
        wired.setdefault(links.model, set()).update(alive)
    return tuple(port for links in seen for port in _ports(links, wired[links.model]))


def _ports(links: SeenLinks, wired: set[int]) -> Iterable[LinkPort]:
    expects = not _BRIDGED.search(links.model) or any(links.active.values())
    numbers = set(links.active) | (wired if links.all_inactive else set())
    for number in sorted(numbers):
        remote = (links.remotes or {}).get(number)
        if links.active.get(number, False):
            yield LinkPort(links.gpu, number, PortState.UP, remote=remote)
        elif expects and number in wired:
            trouble = "inactive, while other GPUs of this host have this link active"
            yield LinkPort(links.gpu, number, PortState.DOWN, remote=remote, trouble=trouble)
        else:
            yield LinkPort(links.gpu, number, PortState.UNUSED, remote=remote)
