"""`nvidia-smi -q -x`: per GPU identity, memory, recovery action, fabric and rack position.

The file carries a DOCTYPE, so it is read with a parser that loads nothing from outside and refuses
every entity declaration: that is what XML bombs are made of.
Source: captures of A100, T4, L40S, H100, B200, GB200 and GB300 hosts (DTD versions 12 and 13).
"""

import re
from typing import NoReturn
from xml.parsers import expat

from topo.facts.nvidia import words
from topo.facts.nvidia.words import GpuWords
from topo.facts.reading import folding, gpu_list, lost_gpus
from topo.facts.reading.text import shorten
from topo.model.errors import BadInputError, Refusal
from topo.model.observation import ParsedProbe

FORMAT = "nvidia-smi-xml"
_FIX = "run `nvidia-smi -q -x` again and give its whole output"
_ROOT = "nvidia_smi_log"
_START = re.compile(r"<\?xml\b|<!DOCTYPE\s+nvidia_smi_log|<nvidia_smi_log\b")
BEGINS = re.compile(
    r"^[ \t]*(?:<\?xml\b[^>]{0,200}>\s{0,8})?(?:<!DOCTYPE\s+nvidia_smi_log[^>]{0,200}>\s{0,8})?"
    r"<nvidia_smi_log\b",
    re.MULTILINE,
)
"""The first lines of the document."""
_END = f"</{_ROOT}>"
PROCESSES = re.compile(r"<(processes|accounted_processes)>.*?(?:</\1>|\Z)", re.DOTALL)
"""Processes with their command lines (DTD versions 12 and 13). Nothing in them is read."""
_MAX_DEPTH = 32
_MAX_WORD = 512
_WANTED = {
    ("product_name",): "model",
    ("uuid",): "uuid",
    ("gpu_recovery_action",): "recovery",
    ("fb_memory_usage", "total"): "memory",
}
_SECTIONS = frozenset({"fabric", "platformInfo"})


def recognises(text: str) -> bool:
    """Return whether `text` holds nvidia-smi's XML. O(len(text))."""
    return f"<{_ROOT}" in text or (_ROOT in text and "<!DOCTYPE" in text)


def read(text: str) -> ParsedProbe | Refusal:
    """Return the GPUs in NVML's order, and the fabric of those that state one. O(len(text)).

    Refused: XML that is cut or not well-formed (with its line), entity declarations, no GPU.
    A recovery action other than None makes a GPU unhealthy; N/A states nothing.
    """
    start = _START.search(text)
    document = text[start.start() :] if start else text
    line = text.count("\n", 0, start.start()) if start else 0
    end = document.find(_END)
    scanner = _Scanner(line)
    try:
        scanner.run(document[: end + len(_END)] if end >= 0 else document)
    except BadInputError as error:
        return error.refusal
    except expat.ExpatError as error:
        inside = f" inside GPU {scanner.gpus[-1].address}" if scanner.gpus else ""
        what = f"the XML is cut or broken{inside}: {expat.ErrorString(error.code)}"
        return Refusal(what, f"line {line + error.lineno}", _FIX)
    gpus = words.with_lost(scanner.gpus, lost_gpus.find(text))
    found, fabrics = words.understood(gpus)
    return words.listed_twice(found, _FIX) or gpu_list.listed(
        FORMAT,
        found,
        (fabrics,),
        warnings=[*scanner.rests, *words.doubts(found, fabrics)],
        declared=words.counted(scanner.attached, gpus),
        fix=_FIX,
    )


class _Scanner:
    """Collects `GpuWords`s from one pass of expat; nothing else of the document is kept."""

    def __init__(self, lines_before: int) -> None:
        self.gpus: list[GpuWords] = []
        self.attached: int | None = None
        self.rests: list[str] = []
        """Warnings about words of which a line break made two."""
        self._path: list[str] = []
        self._text = ""
        self._before = lines_before
        self._expat = expat.ParserCreate("utf-8")
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._characters
        self._expat.EntityDeclHandler = self._entity

    @property
    def line(self) -> int:
        """The line of the whole text that the scan has reached."""
        return self._before + self._expat.CurrentLineNumber

    def run(self, document: str) -> None:
        self._expat.Parse(document.encode(), True)

    def _refuse(self, what: str) -> NoReturn:
        fix = "give nvidia-smi's output unedited"
        raise BadInputError(Refusal(what, f"line {self.line}", fix))

    def _entity(self, name: str, *_rest: object) -> None:
        self._refuse(f"the XML declares an entity ({shorten(name, 40)}), nvidia-smi never does")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._path.append(tag)
        self._text = ""
        if len(self._path) > _MAX_DEPTH:
            self._refuse(f"elements are nested deeper than {_MAX_DEPTH}")
        if self._path == [_ROOT, "gpu"]:
            self.gpus.append(GpuWords(self.line, shorten(attributes.get("id", ""), 40)))

    def _characters(self, text: str) -> None:
        if len(self._text) < _MAX_WORD:
            self._text += text

    def _end(self, _tag: str) -> None:
        path, word = tuple(self._path), self._text[:_MAX_WORD].strip()
        self._path.pop()
        self._text = ""
        if "\n" in word and len(path) > 1:
            self.rests.append(folding.rest(self.line))
        if path == (_ROOT, "attached_gpus") and word.isascii() and word.isdigit():
            self.attached = int(word[:4])
        if path[:2] != (_ROOT, "gpu") or not self.gpus:
            return
        gpu, inner = self.gpus[-1], path[2:]
        gpu.lost = gpu.lost or lost_gpus.without_answer([word])
        if inner in _WANTED:
            gpu.words[_WANTED[inner]] = word
        elif len(inner) > 1 and inner[0] in _SECTIONS:
            section = gpu.fabric if inner[0] == "fabric" else gpu.platform
            section[inner[-1].replace("_", "").lower()] = word
