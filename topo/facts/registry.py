"""Which formats there are, how each is recognised and who reads it.

A new vendor is a module beside this one and a line in `_READERS`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from topo.facts.declared import nodegroup
from topo.facts.link_matrix import matrix
from topo.facts.metax import mx_exporter, mx_smi_list, mx_smi_table, mxsml
from topo.facts.nvidia import nvidia_smi_fabric, nvidia_smi_xml, nvlink, nvml
from topo.facts.reading import complaints, foreign
from topo.facts.reading.text import shorten, undress
from topo.facts.sysfs import infiniband, pci
from topo.model.errors import Refusal
from topo.model.nearest import did_you_mean
from topo.model.observation import ParsedProbe


@dataclass(frozen=True, slots=True)
class _Reader:
    name: str
    recognises: Callable[[str], bool]
    read: Callable[[str], ParsedProbe | Refusal]


def _matrix_of(name: str, command: str, marks: Callable[[str], bool]) -> _Reader:
    return _Reader(
        name,
        lambda text: matrix.looks_like_matrix(text) and marks(text),
        lambda text: matrix.read(text, name, command),
    )


_READERS = (
    _Reader(mxsml.FORMAT, mxsml.recognises, mxsml.read),
    _Reader(nvml.FORMAT, nvml.recognises, nvml.read),
    _Reader(nvidia_smi_xml.FORMAT, nvidia_smi_xml.recognises, nvidia_smi_xml.read),
    _Reader(infiniband.FORMAT, infiniband.recognises, infiniband.read),
    _Reader(pci.FORMAT, pci.recognises, pci.read),
    _Reader(mx_smi_table.FORMAT, mx_smi_table.recognises, mx_smi_table.read),
    _Reader(mx_smi_list.FORMAT, mx_smi_list.recognises, mx_smi_list.read),
    _Reader(mx_exporter.FORMAT, mx_exporter.recognises, mx_exporter.read),
    _matrix_of("mx-smi-topo", "mx-smi topo -m", matrix.of_metax),
    _matrix_of("npu-smi-topo", "npu-smi info -t topo", matrix.of_ascend),
    _matrix_of("nvidia-smi-topo", "nvidia-smi topo -m", matrix.of_nvidia),
    _Reader(nvlink.REMOTE, nvlink.recognises_remote, nvlink.read_remote),
    _Reader(nvlink.STATUS, nvlink.recognises_status, nvlink.read_status),
    _Reader(nvidia_smi_fabric.FORMAT, nvidia_smi_fabric.recognises, nvidia_smi_fabric.read),
    _Reader(nodegroup.FORMAT, nodegroup.recognises, nodegroup.read),
)
"""In order: what is recognised by the more telling mark first."""

_BY_NAME = {reader.name: reader for reader in _READERS}
_FOREIGN = {known.name: known for known in foreign.FOREIGN}

FORMATS: tuple[str, ...] = tuple(sorted(_BY_NAME))
"""The formats that are read."""


def recognise(text: str) -> str | None:
    """The name of the format of `text`, or None. O(len(text)).

    Besides `FORMATS` the answer may be `complaint` (a tool says why it cannot answer) or the name
    of a format that is known and not read; `parse` refuses both and says what to do.
    """
    plain = undress(text)
    return None if isinstance(plain, Refusal) else _recognise(plain)


def parse(text: str, format: str | None = None) -> ParsedProbe | Refusal:  # noqa: A002 - its name
    """What `text` states, read as `format`, or as what it is recognised to be. O(len(text)).

    Any text is answered: with an observation, or with a refusal that says what, where and the fix.
    Nothing is raised.
    """
    plain = undress(text)
    if isinstance(plain, Refusal):
        return plain
    if format is not None and format not in _BY_NAME:
        return _unknown_format(format)
    name = format or _recognise(plain)
    if name in _BY_NAME:
        return _read(_BY_NAME[name], plain)
    if name == complaints.FORMAT:
        return complaints.read(plain)
    return foreign.refusal(_FOREIGN[name]) if name in _FOREIGN else _unknown_text(plain)


def _read(reader: _Reader, text: str) -> ParsedProbe | Refusal:
    """What the reader makes of it; a tool's complaint says more than what the reader misses."""
    understood = reader.read(text)
    if isinstance(understood, Refusal) and reader.name != nodegroup.FORMAT:
        return complaints.find(text) or understood
    return understood


def _recognise(text: str) -> str | None:
    peer_to_peer = _FOREIGN["nvidia-smi-p2p"]
    if "GPU" in text and peer_to_peer.pattern.search(text):
        return peer_to_peer.name  # it has the shape of a link matrix and another meaning
    for reader in _READERS:
        if reader.recognises(text):
            return reader.name
    if complaints.recognises(text):
        return complaints.FORMAT
    known = foreign.find(text)
    return known.name if known else None


def _unknown_text(text: str) -> Refusal:
    first = next(line for line in text.split("\n") if line.strip())
    return Refusal(
        "the text is in no format known to this version",
        f"the first line: {shorten(first, 60)}",
        f"give one of: {', '.join(FORMATS)}",
    )


def _unknown_format(name: str) -> Refusal:
    hint = did_you_mean(name, FORMATS)
    fix = f"{hint} formats: {', '.join(FORMATS)}".lstrip()
    return Refusal(f"no format is called {shorten(name, 40)!r}", "the format's name", fix)
