"""The text of `nvidia-smi nvlink`, cut at its `GPU n:` lines, and what is missing from it.

Every option prints a line per GPU and below it a line per link, or one line that says why there is
none. The tool numbers GPUs and links without gaps, so a gap means that the text was shortened.
Source: outputs of P100 to GB200 hosts; forum posts for how people shorten them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from topo.facts.reading import gpu_list, lost_gpus
from topo.facts.reading.identity import gpu_uuid
from topo.facts.reading.text import numbered_lines, shorten
from topo.model.errors import Refusal
from topo.model.machine import Gpu

MAX_LINKS = 1024
HEAD = re.compile(r"[ \t]*GPU[ \t]+([0-9]{1,4}):")
GPU_LINE = re.compile(r"^" + HEAD.pattern, re.MULTILINE)
_GPU = re.compile(r"GPU ([0-9]{1,4}): ?(.{0,200}?) ?(?:\(UUID: ?(?:([^) ]{1,80})\)|.{0,80}))?")
_LINK = re.compile(r"Link ([0-9]{1,4}) ?: ?(.{1,120})")
_STARTS = re.compile(r"[ \t]*(?:GPU |C2C |Links? |NVML|Device |$)")
"""Lines that a folded one cannot go on with."""
_LINKS = {"P100": 4, "V100": 6, "A100": 12, "H100": 18, "H200": 18, "B200": 18, "B300": 18}
"""Links of a chip, by NVIDIA's architecture white papers of Pascal to Blackwell. A GB200 has the
B200's, a GH200 the H100's."""
_CHIP = re.compile(rf"(?<![A-Z0-9])G?({'|'.join(_LINKS)})(?![0-9])")
_FRAGMENT = re.compile(r"(?:GPU|Link)(?: [0-9]{1,4})?(?::|$)|(?:G|GP|L|Li|Lin|[0-9]{1,4})$")
_MOST_FOLDS = 4
_ALL_INACTIVE = re.compile(r"all links are inactive", re.IGNORECASE)
_UNSUPPORTED = re.compile(r"does not have or support nvlink", re.IGNORECASE)
_PARTITIONED = re.compile(r"not supported\b.{0,40}\bMIG\b", re.IGNORECASE)
"""NVLink is not asked of a GPU in MIG mode: its links are unknown, neither none nor down."""
_ELISION = re.compile(
    r"\W{0,8}(?:\.{2,}|…|(?:\w{1,12} ){0,4}(?:snip|skipp|omitt|truncat|elid)\w{0,8}"
    r"|(?:same|and so on|etc)\b.{0,60})\W{0,8}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A `GPU n:` line and those below it, each with its number and single spaces."""

    line: int
    gpu: Gpu
    lines: list[tuple[int, str]] = field(default_factory=list)


@dataclass(slots=True)
class Section:
    """The lines under one `GPU n:` line; `links` maps a link's number to its words.

    `fragments` are lines that begin as the tool's own and are not whole. `again` is the first line
    with a link that is listed already: from there on they are those of a GPU whose line is gone.
    """

    line: int
    gpu: Gpu
    links: dict[int, str] = field(default_factory=dict)
    all_inactive: bool = False
    unsupported: bool = False
    partitioned: bool = False
    fragments: list[tuple[int, str]] = field(default_factory=list)
    again: int | None = None

    @property
    def no_list(self) -> bool:
        """Whether the tool says in one line that it lists no links."""
        return self.all_inactive or self.unsupported or self.partitioned


def says_no_list(text: str) -> bool:
    """Return whether `text` has a line that stands for a list of links. O(len(text))."""
    said = (_ALL_INACTIVE, _UNSUPPORTED, _PARTITIONED)
    return any(pattern.search(text) for pattern in said)


def sections(text: str, flag: str) -> list[Section] | Refusal:
    """Return the text cut at its `GPU n:` lines; refused where those are no list of GPUs.
    O(len(text)).
    """
    found = list(_cut(text))
    lost = lost_gpus.placed(lost_gpus.find(text), [section.gpu.index for section in found])
    found += [Section(line, gpu) for line, gpu in lost]
    fix = f"run `nvidia-smi nvlink {flag}` again and give its whole output"
    return gpu_list.contradiction([(s.line, s.gpu) for s in found], fix) or found


def gpus(found: Iterable[Section]) -> tuple[Gpu, ...]:
    """Return the GPUs of the sections by index."""
    return gpu_list.ordered([(section.line, section.gpu) for section in found])


def absent_links(found: Sequence[Section]) -> tuple[str, ...]:
    """Return what is said in place of lists of links, a sentence for all GPUs of which it
    is said.
    """
    inactive = [section.gpu.index for section in found if section.all_inactive]
    unsupported = [section.gpu.index for section in found if section.unsupported]
    partitioned = [section.gpu.index for section in found if section.partitioned]
    sentences = (
        (inactive, "none active of GPU"),
        (unsupported, "none: NVLink is not supported by GPU"),
        (partitioned, "unknown in MIG mode: GPU"),
    )
    return tuple(
        f"{words} {', '.join(map(str, sorted(gpus)))}" for gpus, words in sentences if gpus
    )


def missing(text: str, found: Sequence[Section], *, all_links: bool) -> list[str]:
    """Return warnings about missing GPUs, and about missing links of a GPU.

    `all_links`: the option lists every link that the GPU has, active or not, so GPUs of one model
    have lists of one length, and that of a chip we know. O(len(text)).
    """
    last: dict[str, int] = {}
    for section in found:
        model = section.gpu.model or ""
        known = _CHIP.search(model)
        least = _LINKS[known.group(1)] - 1 if known else -1
        last[model] = max(last.get(model, -1), least, *section.links, -1)
    lacking = (
        _lacking(s, last[s.gpu.model or ""] if all_links else max(s.links, default=-1))
        for s in found
    )
    broken = [each for section in found for each in section.fragments]
    cut = (f"line {number}: {shorten(line, 40)!r} is not a whole line" for number, line in broken)
    again = (
        f"line {s.again}: links of GPU {s.gpu.index} begin again: the line of a GPU is missing"
        for s in found
        if s.again is not None
    )
    gaps = gpu_list.missing([(section.line, section.gpu) for section in found], None)
    return [*elisions(text), *cut, *again, *gaps, *filter(None, lacking)]


def fewer(found: Sequence[Section]) -> Iterator[str]:
    """Return warnings about GPUs that list fewer active links than another one of their model.

    Where only active links are listed, one that is not active and one that was cut off look alike.
    """
    most: dict[str | None, int] = {}
    for section in found:
        most[section.gpu.model] = max(most.get(section.gpu.model, 0), len(section.links))
    for section in found:
        have, others = len(section.links), most[section.gpu.model]
        if 0 < have < others:
            yield (
                f"GPU {section.gpu.index} (line {section.line}) has {have} links, others of its "
                f"model {others}: the text is cut there, or the rest is not active"
            )


def elisions(text: str) -> Iterator[str]:
    """Return warnings about lines that stand for omitted ones. O(len(text))."""
    for number, line in numbered_lines(text):
        if _ELISION.fullmatch(line.strip()[:100]):
            yield f"line {number}: the text is shortened here ({shorten(line, 40)})"


def _lacking(section: Section, last: int) -> str:
    name = f"GPU {section.gpu.index} (line {section.line})"
    if not section.links:
        told = section.no_list or section.gpu.healthy is False
        return "" if told else f"{name} has no link below it: the text is cut"
    gone = [number for number in range(last + 1) if number not in section.links]
    if not gone:
        return ""
    listed = ", ".join(map(str, gone[:6])) + (", …" if len(gone) > 6 else "")
    links = f"{len(section.links)} of {last + 1} links"
    return f"{name} has {links}: the text is cut or shortened at link {listed}"


def _cut(text: str) -> Iterator[Section]:
    for block in blocks(text):
        section = Section(block.line, block.gpu)
        for number, bare in block.lines:
            _note(section, number, bare)
        yield section


def blocks(text: str) -> Iterator[Block]:
    """Return the text cut at its `GPU n:` lines; what stands above the first is left out.
    O(len(text)).
    """
    block: Block | None = None
    for number, line in _unfolded(list(numbered_lines(text))):
        bare = " ".join(line.split())
        gpu = _GPU.fullmatch(bare)
        if gpu is not None:
            if block is not None:
                yield block
            index, name, uuid = gpu.groups(default="")
            block = Block(number, Gpu(int(index), gpu_uuid(uuid), model=shorten(name) or None))
        elif block is not None:
            block.lines.append((number, bare))
    if block is not None:
        yield block


def _note(section: Section, number: int, bare: str) -> None:
    link = _LINK.fullmatch(bare)
    if dead := lost_gpus.without_answer([bare, link.group(2) if link else ""]):
        section.gpu = replace(section.gpu, healthy=False, trouble=dead)
        return
    if link is not None and int(link.group(1)) <= MAX_LINKS:
        link_number = int(link.group(1))
        if section.again is None and link_number in section.links:
            section.again = number
        if section.again is None:
            section.links[link_number] = link.group(2)
    elif _ALL_INACTIVE.search(bare):
        section.all_inactive = True
    elif _UNSUPPORTED.search(bare):
        section.unsupported = True
    elif _PARTITIONED.search(bare):
        section.partitioned = True
    elif _FRAGMENT.match(bare):
        section.fragments.append((number, bare))


def _unfolded(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Return the lines, those of GPUs put together again where a narrow terminal folded them.

    Such a line ends with the `)` of its UUID; the wider ones of an 80-column console do not.
    """
    at = 0
    while at < len(lines):
        number, line = lines[at]
        at += 1
        if HEAD.match(line) and not line.rstrip().endswith(")"):
            joined = line
            for taken, (_, more) in enumerate(lines[at : at + _MOST_FOLDS], start=1):
                if _STARTS.match(more):
                    break
                joined += more
                if joined.rstrip().endswith(")"):
                    line, at = joined, at + taken
                    break
        yield number, line
