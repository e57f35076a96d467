"""`nvidia-smi nvlink -s` (status) and `-R` / `-p` (remote ends), per GPU.

Source: outputs of A100 SXM, H100 PCIe with bridges and GB200 hosts; the all-inactive line from
leptonai/gpud issue 1085.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from topo.facts.nvidia import nvlink_ports, nvlink_sections
from topo.facts.nvidia.nvlink_ports import SeenLinks
from topo.facts.nvidia.nvlink_sections import Section
from topo.facts.reading.identity import normal_bdf
from topo.facts.reading.text import shorten, stated
from topo.model.errors import Refusal
from topo.model.ids import Bdf
from topo.model.machine import Gpu, LinkPort, PortState
from topo.model.observation import ParsedProbe

STATUS, REMOTE = "nvlink-status", "nvlink-remote"
_STATUS_LINE = re.compile(
    r"^[ \t]*Link[ \t]+[0-9]{1,4}[ \t]*:[ \t]*(?:[0-9.]{1,12}[ \t]*GB/s|<?inactive>?|<?active>?)",
    re.MULTILINE | re.IGNORECASE,
)
_REMOTE_LINE = re.compile(
    r"^[ \t]*Link[ \t]+[0-9]{1,4}[ \t]*:[ \t]*(?:Remote Device[ \t]+)?[0-9A-F]{4,8}:[0-9A-F]{2}:",
    re.MULTILINE | re.IGNORECASE,
)
_SPEED = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*GB/s", re.IGNORECASE)
_STATES = {"active": True, "inactive": False}
_REMOTE = re.compile(
    r"(?:Remote Device\s+)?([0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])"
    r"(?::\s*Link\s+([0-9]{1,4}))?",
    re.IGNORECASE,
)
_GROWING = frozenset({"1", "2", "3"})
"""Numbers that may be the beginning of another one: no chip has more than 36 links (nvml.h)."""
_END = re.compile(r"(\S+) link ([0-9]{1,4})")


def recognises_status(text: str) -> bool:
    """Return whether `text` lists speeds or inactive links per GPU. O(len(text))."""
    if "GPU" not in text or nvlink_sections.GPU_LINE.search(text) is None:
        return False
    return _STATUS_LINE.search(text) is not None or nvlink_sections.says_no_list(text)


def recognises_remote(text: str) -> bool:
    """Return whether `text` lists remote ends per GPU. O(len(text))."""
    if "Link" not in text or nvlink_sections.GPU_LINE.search(text) is None:
        return False
    return _REMOTE_LINE.search(text) is not None


def read_status(text: str) -> ParsedProbe | Refusal:
    """Return GPUs with UUID and model, and their ports; see `nvlink_ports` for what inactive means.

    A link far slower than its siblings is up, with its speed as the trouble. Speeds are no fact of
    their own: nvidia-smi prints GB/s per direction, a port's speed is in GT/s. What the text lacks
    is a warning, see `nvlink_sections.missing`.
    """
    sections = nvlink_sections.sections(text, "-s")
    if isinstance(sections, Refusal):
        return sections
    warnings = nvlink_sections.missing(text, sections, all_links=True)
    ports = nvlink_ports.link_ports(_seen(section, warnings) for section in sections)
    parsed = stated(STATUS, (nvlink_sections.gpus(sections), ports), warnings)
    return replace(parsed, absent_links=nvlink_sections.absent_links(sections))


def read_remote(text: str) -> ParsedProbe | Refusal:
    """Return GPUs, and one port per active link with its far end as `far_end` writes it.

    The port numbers are the tool's own: it lists active links only and renumbers them, so they
    join with nothing. The number of the far end is the true one, see `renumber`; one that the end
    of the text may have cut (`Link 1` of `Link 14`) is left out. A GPU with fewer active links than
    others of its model is a warning: a text that is cut there looks the same.
    """
    sections = nvlink_sections.sections(text, "-R")
    if isinstance(sections, Refusal):
        return sections
    numbered = any(": Link " in words for s in sections for words in s.links.values())
    open_link = _open_link(text, sections)
    warnings = [
        *nvlink_sections.missing(text, sections, all_links=False),
        *nvlink_sections.fewer(sections),
    ]
    ports: list[LinkPort] = []
    for section in sections:
        for number, words in section.links.items():
            match = _REMOTE.fullmatch(words)
            if match is None:
                warnings.append(_not_understood(section, number))
                continue
            far = match.group(2)
            if far in _GROWING and (section.gpu.index, number) == open_link:
                far = None
            if far is None and numbered:
                warnings.append(f"{_not_understood(section, number)} is cut, or may be")
            remote = far_end(normal_bdf(match.group(1)), far)
            ports.append(LinkPort(section.gpu.index, number, PortState.UP, remote=remote))
    parsed = stated(REMOTE, (nvlink_sections.gpus(sections), tuple(ports)), warnings)
    return replace(parsed, absent_links=nvlink_sections.absent_links(sections))


def _open_link(text: str, sections: Sequence[Section]) -> tuple[int, int] | None:
    """Return GPU and number of a link on the last line, if no line end shows that it is whole."""
    last = max(sections, key=lambda section: section.line)
    if text.endswith("\n") or not last.links or last.again is not None:
        return None
    number, words = list(last.links.items())[-1]
    return (last.gpu.index, number) if " ".join(text.split()).endswith(words) else None


def far_end(bdf: Bdf | None, link: str | None) -> str | None:
    """Return the text of a port's far end: `0000:d5:00.0 link 6`, or the address alone."""
    return f"{bdf} link {int(link)}" if bdf and link is not None else bdf


def far_link(remote: str) -> tuple[Bdf, int] | None:
    """Return the device and link number in a text of `far_end`, or None where it has no number."""
    match = _END.fullmatch(remote)
    return (Bdf(match.group(1)), int(match.group(2))) if match else None


def renumber(ports: Iterable[LinkPort], gpus: Sequence[Gpu]) -> Iterator[LinkPort]:
    """Return the ports at the far ends, where those are GPUs of this host."""
    by_bdf = {gpu.bdf: gpu for gpu in gpus if gpu.bdf}
    by_index = {gpu.index: gpu for gpu in gpus}
    for port in ports:
        end = far_link(port.remote or "")
        near = by_index.get(port.gpu)
        if end is not None and near is not None and end[0] in by_bdf:
            yield LinkPort(by_bdf[end[0]].index, end[1], PortState.UP, remote=near.bdf)


def _seen(section: Section, warnings: list[str]) -> SeenLinks:
    """Return the links whose words are understood: a cut `26.5` is no speed and no inactive
    link.
    """
    active: dict[int, bool] = {}
    speeds: dict[int, float] = {}
    for number, words in section.links.items():
        state = _STATES.get(words.strip("<>").lower())
        speed = _SPEED.fullmatch(words)
        if speed is not None:
            speeds[number] = float(speed.group(1))
        elif state is None:
            warnings.append(_not_understood(section, number))
            continue
        active[number] = state is not False
    gpu = section.gpu
    return SeenLinks(gpu.index, gpu.model or "", active, section.all_inactive, speeds=speeds)


def _not_understood(section: Section, number: int) -> str:
    return f"GPU {section.gpu.index} link {number}: {shorten(section.links[number], 60)}"
