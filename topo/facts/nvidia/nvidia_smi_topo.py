"""`nvidia-smi topo -m`, and how it is told from `topo -mp`.

The option `-mp` (`--matrix_pci`) prints the same matrix with PCI links alone: where `-m` has NV18
it has SYS. To read it as `-m` would be to say that eight GPUs on NVLink have none. Three things
tell them apart: a cell with NVLinks, the legend, in which only `-m` explains `NV#`, on its last
line, and the command, where it stands above the matrix. A legend that is cut or edited tells
nothing, so it is a warning.

Source: the help of nvidia-smi of drivers 470 to 595; both legends in posted outputs.
"""

import re
from dataclasses import replace

from topo.facts.link_matrix import matrix
from topo.facts.reader import Mark, Reader
from topo.facts.reading.text import WHOLE_TEXT, bounded
from topo.model.errors import Refusal
from topo.model.machine import LinkKind, LinkMatrix
from topo.model.observation import ParsedProbe

FORMAT = "nvidia-smi-topo"
_COMMAND = "nvidia-smi topo -m"
_PCI_ONLY = re.compile(r"\btopo[ \t]+(?:-mp|--matrix_pci)\b")
_LEGEND = re.compile(r"\b(SYS|SOC|PHB|PXB|PIX)\s{0,8}= ")
_WHOLE_LEGEND = 4
"""So many of these lines has each legend of either option; NODE came with driver 384."""
_BONDED = "NV#"
_UNTOLD = (
    "no cell has NVLinks, and no whole legend says that they were looked for: "
    "`topo -mp` prints the same for a host that has them"
)


def reader() -> Reader:
    """Return the reader of a device matrix by nvidia-smi: it has no mark, so it is what no other
    vendor's mark claims.
    """
    plain = matrix.reader(FORMAT, _COMMAND, Mark.PLAIN_MATRIX)

    def read(text: str) -> ParsedProbe | Refusal:
        found = plain.read(text)
        return found if isinstance(found, Refusal) else _judged(text, found)

    return replace(plain, read=read)


def _judged(text: str, found: ParsedProbe) -> ParsedProbe | Refusal:
    """Return the matrix; refused where it is that of `-mp`, a warning where it may be."""
    (links,) = (fact for fact in found.facts if isinstance(fact, LinkMatrix))
    if any(link.kind is LinkKind.NVLINK for row in links.links for link in row):
        return found
    above, legend = _around(text, links.gpus[0])
    if _BONDED in legend:
        return found
    whole = len(set(_LEGEND.findall(legend))) >= _WHOLE_LEGEND
    if whole or _PCI_ONLY.search(above):
        what = "this is nvidia-smi topo -mp, or another tool's: it says nothing of NVLinks (no NV#)"
        return Refusal(what, WHOLE_TEXT, f"give `{_COMMAND}`")
    if len(links.gpus) < 2:
        return found
    return replace(found, warnings=bounded([*found.warnings, _UNTOLD]))


def _around(text: str, first: str) -> tuple[str, str]:
    """Return what stands above the first matrix, and what stands between it and the next one.

    The name of its first GPU stands in the header and before its own row, then in the next header;
    prose above the header may have it as well.
    """
    begin = matrix.header_begin(text)
    _, *rest = re.split(rf"{first}(?![0-9])", text[begin:], maxsplit=3)
    return text[:begin], "".join(rest[:2])
