"""The tables: one row per format, one per vendor.

A vendor is a folder beside this file whose `__init__` holds a `Vendor` by the name `VENDOR`; see
`vendors`. Everything that treats formats differently (recognition, precedence, recordings, what is
removed from them, which commands a worker runs) reads these tables.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import IntEnum
from typing import Literal

from topo.model.errors import Refusal
from topo.model.machine import Gpu, LinkPort
from topo.model.observation import ParsedProbe


class Mark(IntEnum):
    """By what a format is recognised. The more telling mark is looked for first."""

    FORMAT_NAME = 0  # the text names its format, or has an element of that name
    PATHS = 1  # paths of sysfs
    TITLE = 2  # titles, line beginnings or metrics that only this tool prints
    TITLED_MATRIX = 3  # the shape of a device matrix, and words that only this tool prints
    NAMED_MATRIX = 4  # the shape of a device matrix, and names that only this vendor gives
    PLAIN_MATRIX = 5  # the shape of a device matrix, and nothing else
    LINES = 6  # the shape of single lines
    DOCUMENT = 7  # keys of a document that people write


class Trust(IntEnum):
    """How far a source is believed: a lower value comes first, higher ones add."""

    LIBRARY = 0
    COMMAND = 1
    EXPORTER = 2
    KERNEL = 3


Field = Literal["gpus", "matrix", "ports", "peers", "fabrics", "nics", "nic_neighbours"]
"""A field of `NodeFacts` that a format may fill."""
Read = Callable[[str], ParsedProbe | Refusal]
Begins = Callable[[str], Iterable[int]]
Renumber = Callable[[Iterable[LinkPort], Sequence[Gpu]], Iterator[LinkPort]]


def _unchanged(text: str) -> str:
    return text


def _nowhere(_text: str) -> Iterable[int]:
    return ()


@dataclass(frozen=True, slots=True)
class Reader:
    """One format. Every reader is a pure function of the text and linear in its length.

    `command` is what prints it, where a command does. `gives` are the facts that it can state.
    `ending` is that of its file in a recording; texts with the ending `xml` have tags.
    `without_processes` removes the table of processes with their command lines, where the format
    has one. `begins` gives the offsets in a log at which outputs of the format may begin: those of
    their first lines; see `topo/facts/outputs.py`. `renumber` maps ports to their
    true GPU and number, given the host's GPUs, where the tool numbers them in a way of its own.
    """

    name: str
    mark: Mark
    recognises: Callable[[str], bool]
    read: Read
    _: KW_ONLY
    trust: Trust = Trust.COMMAND
    command: str = ""
    gives: tuple[Field, ...] = ()
    ending: str = "txt"
    without_processes: Callable[[str], str] = _unchanged
    begins: Begins = _nowhere
    renumber: Renumber | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One vendor: the formats of its tools, its PCI vendor id, how matrices name its devices.

    `devices` are the words before the number: `GPU` of `GPU3`. The number is the GPU's index.
    """

    readers: tuple[Reader, ...]
    pci_id: str = ""
    devices: tuple[str, ...] = ("GPU",)
