"""`nvidia-smi nvlink -s` (status) and `-R` / `-p` (remote ends), per GPU.

Source: outputs of A100 SXM, H100 PCIe with bridges and GB200 hosts; the all-inactive line from
leptonai/gpud issue 1085.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from topo.facts.nvidia import nvlink_ports
from topo.facts.nvidia.nvlink_ports import SeenLinks
from topo.facts.reading import gpu_list
from topo.facts.reading.identity import gpu_uuid, normal_bdf
from topo.facts.reading.text import numbered_lines, shorten, stated
from topo.model.errors import Refusal
from topo.model.ids import Bdf
from topo.model.machine import Gpu, LinkPort, PortState
from topo.model.observation import ParsedProbe

STATUS, REMOTE = "nvlink-status", "nvlink-remote"
MAX_LINKS = 1024
_GPU = re.compile(r"GPU ([0-9]{1,4}): ?(.{0,200}?) ?(?:\(UUID: ?([^) ]{1,80})\)?)?")
_GPU_LINE = re.compile(r"^[ \t]*GPU[ \t]+[0-9]{1,4}:", re.MULTILINE)
_LINK = re.compile(r"Link ([0-9]{1,4}) ?: ?(.{1,120})")
_STATUS_LINE = re.compile(
    r"^[ \t]*Link[ \t]+[0-9]{1,4}[ \t]*:[ \t]*(?:[0-9.]{1,12}[ \t]*GB/s|<?inactive>?|<?active>?)",
    re.MULTILINE | re.IGNORECASE,
)
_REMOTE_LINE = re.compile(
    r"^[ \t]*Link[ \t]+[0-9]{1,4}[ \t]*:[ \t]*(?:Remote Device[ \t]+)?[0-9A-F]{4,8}:[0-9A-F]{2}:",
    re.MULTILINE | re.IGNORECASE,
)
_ALL_INACTIVE = re.compile(r"all links are inactive", re.IGNORECASE)
_SPEED = re.compile(r"([0-9.]{1,12})\s*GB/s", re.IGNORECASE)
_REMOTE = re.compile(
    r"(?:Remote Device\s+)?([0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])"
    r"(?::\s*Link\s+([0-9]{1,4}))?",
    re.IGNORECASE,
)
_END = re.compile(r"(\S+) link ([0-9]{1,4})")


@dataclass(slots=True)
class _Section:
    """The lines under one `GPU n:` line."""

    line: int
    gpu: Gpu
    links: dict[int, str] = field(default_factory=dict)
    all_inactive: bool = False


def recognises_status(text: str) -> bool:
    """Whether `text` lists speeds or inactive links per GPU. O(len(text))."""
    if "GPU" not in text or _GPU_LINE.search(text) is None:
        return False
    return bool(_STATUS_LINE.search(text)) or (
        "inActive" in text and bool(_ALL_INACTIVE.search(text))
    )


def recognises_remote(text: str) -> bool:
    """Whether `text` lists remote ends per GPU. O(len(text))."""
    if "Link" not in text or _GPU_LINE.search(text) is None:
        return False
    return _REMOTE_LINE.search(text) is not None


def read_status(text: str) -> ParsedProbe | Refusal:
    """GPUs with UUID and model, and their ports; see `nvlink_ports` for what inactive means.

    Speeds are left out: nvidia-smi prints GB/s per direction, a port's speed is in GT/s.
    """
    sections = _sections(text, "-s")
    if isinstance(sections, Refusal):
        return sections
    ports = nvlink_ports.link_ports(_seen(section) for section in sections)
    return stated(STATUS, (_gpus(sections), ports), [])


def read_remote(text: str) -> ParsedProbe | Refusal:
    """GPUs, and one port per active link with its far end as `far_end` writes it.

    The port numbers are the tool's own: it lists active links only and numbers them anew, so they
    join with nothing. The number of the far end is the true one, see `renumber`.
    """
    sections = _sections(text, "-R")
    if isinstance(sections, Refusal):
        return sections
    warnings: list[str] = []
    ports: list[LinkPort] = []
    for section in sections:
        for number, words in section.links.items():
            match = _REMOTE.fullmatch(words)
            if match is None:
                warnings.append(f"GPU {section.gpu.index} link {number}: {shorten(words, 60)}")
                continue
            remote = far_end(normal_bdf(match.group(1)), match.group(2))
            ports.append(LinkPort(section.gpu.index, number, PortState.UP, remote=remote))
    return stated(REMOTE, (_gpus(sections), tuple(ports)), warnings)


def far_end(bdf: Bdf | None, link: str | None) -> str | None:
    """The text of a port's far end: `0000:d5:00.0 link 6`, or the address alone."""
    return f"{bdf} link {int(link)}" if bdf and link is not None else bdf


def far_link(remote: str) -> tuple[Bdf, int] | None:
    """The device and link number in a text of `far_end`, or None where it has no number."""
    match = _END.fullmatch(remote)
    return (Bdf(match.group(1)), int(match.group(2))) if match else None


def renumber(ports: Iterable[LinkPort], gpus: Sequence[Gpu]) -> Iterator[LinkPort]:
    """The ports at the far ends, where those are GPUs of this host."""
    by_bdf = {gpu.bdf: gpu for gpu in gpus if gpu.bdf}
    by_index = {gpu.index: gpu for gpu in gpus}
    for port in ports:
        end = far_link(port.remote or "")
        near = by_index.get(port.gpu)
        if end is not None and near is not None and end[0] in by_bdf:
            yield LinkPort(by_bdf[end[0]].index, end[1], PortState.UP, remote=near.bdf)


def _gpus(sections: Iterable[_Section]) -> tuple[Gpu, ...]:
    return gpu_list.ordered([(section.line, section.gpu) for section in sections])


def _sections(text: str, flag: str) -> list[_Section] | Refusal:
    """The text cut at its `GPU n:` lines; refused where those are no list of GPUs."""
    sections = list(_cut(text))
    fix = f"run `nvidia-smi nvlink {flag}` again and give its whole output"
    return gpu_list.contradiction([(s.line, s.gpu) for s in sections], fix) or sections


def _cut(text: str) -> Iterator[_Section]:
    section: _Section | None = None
    for number, line in numbered_lines(text):
        bare = " ".join(line.split())
        gpu = _GPU.fullmatch(bare)
        if gpu is not None:
            if section is not None:
                yield section
            index, name, uuid = gpu.groups(default="")
            section = _Section(number, Gpu(int(index), gpu_uuid(uuid), model=shorten(name) or None))
        elif section is not None:
            link = _LINK.fullmatch(bare)
            if link is not None and int(link.group(1)) <= MAX_LINKS:
                section.links.setdefault(int(link.group(1)), link.group(2))
            elif _ALL_INACTIVE.search(bare):
                section.all_inactive = True
    if section is not None:
        yield section


def _seen(section: _Section) -> SeenLinks:
    active: dict[int, bool] = {}
    for number, words in section.links.items():
        speed = _SPEED.fullmatch(words)
        active[number] = bool(speed) or words.strip("<>").lower() == "active"
    return SeenLinks(section.gpu.index, section.gpu.model or "", active, section.all_inactive)
