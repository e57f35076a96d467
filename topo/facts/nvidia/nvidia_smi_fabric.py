"""`nvidia-smi -q` as text, whole or just its Fabric sections (`nvidia-smi -q | grep -A9 Fabric`).

Indentation gives the sections; a `GPU 00000000:29:00.0` line at the margin starts a GPU. In a text
that lost its indentation (a web page, `sed 's/^ *//'`) their names do: a line that is not deeper
than a title belongs to it if the section has such a member.
Source: outputs of drivers 525 to 595; the two fabric failures from kubernetes-sigs
dra-driver-nvidia-gpu issue 626 and Azure/azhpc-images pull request 506.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from topo.facts.nvidia import fabric_health, words
from topo.facts.nvidia.words import GpuWords
from topo.facts.reading import folding, gpu_list, lost_gpus
from topo.facts.reading.text import WHOLE_TEXT, numbered_lines, stated
from topo.model.errors import Refusal
from topo.model.machine import MAX_GPUS
from topo.model.observation import ParsedProbe

FORMAT = "nvidia-smi-fabric"
_FIX = "run `nvidia-smi -q` again and give its whole output, or `nvidia-smi -q -x`"
_GPU = re.compile(r"\s*GPU\s+([0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])\s*", re.IGNORECASE)
_PAIR = re.compile(r"([ \t]*)([A-Za-z][\w ./()-]{0,60}?)[ \t]*:(?:[ \t]|(?=\S))(.{0,400})")
_TITLE = re.compile(r"([ \t]*)([A-Za-z][\w ./()-]{0,60}?)[ \t]*")
_HEAD = re.compile(r"^=+[ \t]*NVSMI LOG[ \t]*=+", re.MULTILINE)
BEGINS = re.compile(rf"{_HEAD.pattern}|(?:(?<=\n\n)|\A)[ \t]*Fabric[ \t]*$", re.MULTILINE)
"""The first line of a log, or of sections that were cut out of one."""
_FABRIC = re.compile(r"^[ \t]*Fabric[ \t]*$", re.MULTILINE)
_CLIQUE = re.compile(r"^[ \t]*(?:CliqueId|ClusterUUID)[ \t]*:", re.MULTILINE)
_WANTED = {
    ("productname",): "model",
    ("gpuuuid",): "uuid",
    ("gpurecoveryaction",): "recovery",
    ("FB Memory Usage", "total"): "memory",
}
_MEMBERS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "Fabric": frozenset({"state", "status", "cliqueid", "clusteruuid", "health"}),
        "Health": fabric_health.KEYS,
        "FB Memory Usage": frozenset({"total", "reserved", "used", "free"}),
        "Platform Info": frozenset(
            {
                "chassisserialnumber",
                "slotnumber",
                "trayindex",
                "hostid",
                "peertype",
                "moduleid",
                "gpufabricguid",
            }
        ),
    }
)
"""What the sections that are read hold, as drivers 525 to 595 print it."""
_MIG = "MIG Device"
_UUIDS = frozenset({"gpuuuid", "clusteruuid"})
_UUID = re.compile(r"(?:[A-Z]{2,8}-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MARGIN = "--"
"""What grep prints between two matches."""


@dataclass(slots=True)
class _Title:
    """A title that is open; `nested` where a line below it was deeper, as in a whole text."""

    indent: int
    name: str
    nested: bool = False

    def holds(self, indent: int, key: str) -> bool:
        """Return whether a line with this indent and key is below the title."""
        if indent > self.indent:
            return True
        return indent == self.indent and not self.nested and key in _MEMBERS.get(self.name, ())


@dataclass(slots=True)
class _Walk:
    """Where the reading stands: the GPU, and the open titles."""

    sections: list[GpuWords] = field(default_factory=list)
    titles: list[_Title] = field(default_factory=list)
    with_mig: bool = False
    """Whether the GPU has MIG devices, whose memory looks like its own without indentation."""
    indent: int = 0
    """That of the line above, where it is a pair, or ends before its word."""
    rests: list[str] = field(default_factory=list)
    """Warnings about lines that go on with the pair above."""

    def close_to(self, indent: int, key: str) -> None:
        """Close the titles that a line with this indent and key is not below."""
        while self.titles and not self.titles[-1].holds(indent, key):
            self.titles.pop()
        if self.titles and indent > self.titles[-1].indent:
            self.titles[-1].nested = True

    def here(self, line: int) -> GpuWords:
        if not self.sections:
            self.sections.append(GpuWords(line))
        return self.sections[-1]


def recognises(text: str) -> bool:
    """Return whether `text` is a query's log, or holds Fabric sections of one. O(len(text))."""
    if "NVSMI LOG" in text and _HEAD.search(text):
        return True
    if "Fabric" in text and "State" in text and _FABRIC.search(text):
        return True
    return ("CliqueId" in text or "ClusterUUID" in text) and _CLIQUE.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return GPUs where the text names them, and the fabric of each. O(len(text)).

    Without GPU lines the sections are numbered as they come, with a warning. Refused: a text
    without any fabric state and without any GPU.
    """
    walk = _Walk()
    for number, line in numbered_lines(text):
        _note_line(walk, number, line)
    listed = [s for s in walk.sections if s.address or s.fabric or s.lost]
    sections = words.with_lost(listed, lost_gpus.find(text))
    if len(sections) > MAX_GPUS:
        return Refusal(f"{len(sections)} GPUs are more than {MAX_GPUS}", WHOLE_TEXT, _FIX)
    everything, fabrics = words.understood(sections)
    found = [gpu for gpu, section in zip(everything, sections, strict=True) if _is_listed(section)]
    if not found and not fabrics:
        where = f"line {sections[0].line}" if sections else WHOLE_TEXT
        return Refusal("no Fabric section with a State, and no GPU", where, _FIX)
    if (twice := words.listed_twice(found, _FIX)) is not None:
        return twice
    attached = words.counted(gpu_list.attached(text), sections)
    warnings = [
        *walk.rests,
        *(gpu_list.missing(found, attached) if found else ()),
        *words.doubts(found, fabrics),
    ]
    if len(found) < len(sections):
        warnings.append("fabric sections without a GPU line are numbered in the order printed")
    return stated(FORMAT, (gpu_list.ordered(found), fabrics), warnings)


def _is_listed(section: GpuWords) -> bool:
    """Return whether a line names the GPU, or stands in its place."""
    return bool(section.address or section.lost)


def _note_line(walk: _Walk, number: int, line: str) -> None:
    if lost_gpus.on_line(number, line) is not None:
        return
    gpu = _GPU.fullmatch(line)
    if gpu is not None or line.strip() == _MARGIN:
        walk.titles.clear()
        if gpu is not None:
            walk.with_mig = False
            walk.sections.append(GpuWords(number, gpu.group(1)))
        return
    pair = _PAIR.fullmatch(line)
    below = walk.indent and pair is None and not line[:1].isspace() and line.strip("= ")
    if below or line.lstrip().startswith(":"):
        walk.rests.append(folding.rest(number))
    open_ended = pair is not None or line.rstrip().endswith(":")
    walk.indent = len(line) - len(line.lstrip()) if open_ended else 0
    if pair is not None:
        indent, key, word = len(pair.group(1).expandtabs()), pair.group(2), pair.group(3).strip()
        plain = _plain(key)
        walk.close_to(indent, plain)
        _note(walk, number, plain, word)
        return
    title = _TITLE.fullmatch(line)
    if title is not None:
        indent, name = len(title.group(1).expandtabs()), title.group(2)
        walk.close_to(indent, _plain(name))
        walk.titles.append(_Title(indent, name))
        walk.with_mig = walk.with_mig or name.startswith(_MIG)
        if name == "Fabric":
            _open_fabric(walk, number)


def _open_fabric(walk: _Walk, number: int) -> None:
    """Open a Fabric section; a second one without a GPU line between is of the next GPU."""
    section = walk.here(number)
    if section.fabric:
        walk.sections.append(GpuWords(number))


def _plain(key: str) -> str:
    return key.replace(" ", "").replace("_", "").lower()


def _note(walk: _Walk, number: int, plain: str, word: str) -> None:
    """Note a pair by its plain key, see `_plain`."""
    titles = [title.name for title in walk.titles]
    if walk.sections and lost_gpus.without_answer([word]):
        walk.sections[-1].lost = word
    if " : " in word or (plain in _UUIDS and "-" in word and _UUID.fullmatch(word) is None):
        walk.rests.append(folding.rest(number))
    if "Fabric" in titles:
        walk.here(number).fabric.setdefault(plain, word)
    elif "Platform Info" in titles:
        walk.here(number).platform.setdefault(plain, word)
    elif walk.sections and (*titles, plain) in _WANTED:
        wanted = _WANTED[*titles, plain]
        if wanted == "memory" and walk.with_mig and not walk.titles[-1].nested:
            walk.rests.append(
                f"line {number}: memory of the GPU or of a MIG device: left out, no indent tells"
            )
        else:
            walk.here(number).words.setdefault(wanted, word)
