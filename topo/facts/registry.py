"""Every format there is: how a text is recognised and read. `topo/facts/vendors.py` finds them."""

from collections.abc import Sequence
from dataclasses import replace

from topo.facts import declared
from topo.facts.infiniband import ibnetdiscover, ufm_links
from topo.facts.lldp import lldpcli
from topo.facts.reader import Mark, Reader, Trust
from topo.facts.reading import folding, log_marks, lost_gpus, prefixes, tool_errors, unsupported
from topo.facts.reading.text import WHOLE_TEXT, bounded, cleaned, shorten
from topo.facts.sysfs import infiniband, pci, port_counters
from topo.facts.vendors import VENDORS
from topo.model.errors import Refusal
from topo.model.nearest import did_you_mean
from topo.model.observation import ParsedProbe

_READERS = sorted(
    (
        *(reader for vendor in VENDORS for reader in vendor.readers),
        Reader(
            port_counters.FORMAT,
            Mark.PATHS,
            port_counters.recognises,
            port_counters.read,
            trust=Trust.KERNEL,
        ),
        Reader(
            infiniband.FORMAT,
            Mark.PATHS,
            infiniband.recognises,
            infiniband.read,
            trust=Trust.KERNEL,
            begins=log_marks.repeats(infiniband.PATH),
        ),
        Reader(
            pci.FORMAT,
            Mark.PATHS,
            pci.recognises,
            pci.read,
            trust=Trust.KERNEL,
            begins=log_marks.repeats(pci.PATH),
        ),
        Reader(
            ibnetdiscover.FORMAT,
            Mark.TITLE,
            ibnetdiscover.recognises,
            ibnetdiscover.read,
            command=ibnetdiscover.COMMAND,
            begins=log_marks.titles(ibnetdiscover.TITLE),
        ),
        Reader(
            ufm_links.FORMAT,
            Mark.FORMAT_NAME,
            ufm_links.recognises,
            ufm_links.read,
            ending="json",
            begins=log_marks.titles(ufm_links.BEGINS),
        ),
        Reader(
            lldpcli.FORMAT,
            Mark.FORMAT_NAME,
            lldpcli.recognises,
            lldpcli.read,
            command=lldpcli.COMMAND,
            gives=("nic_neighbours",),
            ending="json",
            begins=log_marks.titles(lldpcli.BEGINS),
        ),
        Reader("nodegroup", Mark.DOCUMENT, declared.recognises, declared.read),
    ),
    key=lambda reader: reader.mark,
)
READERS = {reader.name: reader for reader in _READERS}
if len(READERS) < len(_READERS):
    raise AssertionError("two formats have one name")
_PROVE_THEMSELVES = frozenset(
    {Mark.FORMAT_NAME, Mark.TITLED_MATRIX, Mark.NAMED_MATRIX, Mark.PLAIN_MATRIX}
)
"""Well-formed documents and square matrices, which a text that was joined wrongly is not."""
UNSUPPORTED = {known.name: known for known in unsupported.UNSUPPORTED}
"""The formats that are recognised and not read, by name."""
_ALIKE = [known for known in UNSUPPORTED.values() if known.alike]
"""Looked for before the readers, which would take them for a matrix of theirs."""

FORMATS: tuple[str, ...] = tuple(sorted(READERS))
"""The formats that are read."""


def recognise(text: str) -> str | None:
    """Return the name of the format of `text`, or None. O(len(text)).

    Besides `FORMATS` the answer may be `complaint` (an error message of a tool) or the name
    of a format that is known and not read; `parse` refuses both with the fix.
    """
    plain = readable(text)
    return None if isinstance(plain, Refusal) else _recognise(plain)


def readable(text: str) -> str | Refusal:
    """Return `text` cleaned, and without what other programs put around an output, see `prefixes`.

    That comes off only where a format is recognised without it. O(len(text)).
    """
    plain = cleaned(text)
    return plain if isinstance(plain, Refusal) else _recognisable(prefixes.layers(plain))


def parse(text: str, format: str | None = None) -> ParsedProbe | Refusal:  # noqa: A002 - its name
    """Return what `text` states, read as `format`, or as what it is recognised to be. O(len(text)).

    Any text is answered: with an observation, or with a refusal: what is wrong, where, the fix.
    Nothing is raised.
    """
    if format is not None and format not in READERS:
        return _unknown_format(format)
    plain = cleaned(text)
    if isinstance(plain, Refusal):
        return plain
    # Documents are written by people and not printed, so nothing comes off one that is asked for.
    if format is not None and READERS[format].mark is Mark.DOCUMENT:
        return _read(READERS[format], plain)
    layers = prefixes.layers(plain)
    inner = _recognisable(layers)
    return _several_sources(layers) or _answer(inner, format or _recognise(inner))


def several_sources(text: str) -> Refusal | None:
    """Return the refusal of a text with the lines of several hosts, tasks or services, or None.
    O(len(text)).
    """
    plain = cleaned(text)
    return None if isinstance(plain, Refusal) else _several_sources(prefixes.layers(plain))


def _answer(text: str, name: str | None) -> ParsedProbe | Refusal:
    if name in READERS:
        return _read(READERS[name], text)
    if name in UNSUPPORTED:
        return unsupported.refusal(UNSUPPORTED[name])
    return tool_errors.find(text) or _unknown_text(text)


def _recognisable(layers: Sequence[str]) -> str:
    """Return the text inside where it is in a format, or else the outermost one."""
    if len(layers) == 1:
        return layers[0]
    inner = cleaned(layers[-1])
    return layers[0] if isinstance(inner, Refusal) or _recognise(inner) is None else inner


def _several_sources(layers: Sequence[str]) -> Refusal | None:
    """Return the refusal of a text with the lines of several sources, one of them an output.

    Their lines pass for one output of a smaller or healthier host, so this is asked before any is
    read. The keys of a document look like sources, and complaints of several are one of a tool.
    """
    for text in layers:
        parts = prefixes.sources(text)
        formats = {recognise(part) for part in parts.values()} - {None}
        complained = formats == {tool_errors.FORMAT} and tool_errors.find(text)
        if formats and not complained and not _is_document(text):
            return _of_sources(list(parts))
    return None


def _is_document(text: str) -> bool:
    name = _recognise(text)
    return name in READERS and READERS[name].mark is Mark.DOCUMENT


def _of_sources(names: Sequence[str]) -> Refusal:
    named = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    many = f"{len(names)}{' or more' if len(names) == prefixes.MOST_SOURCES else ''}"
    what = f"the lines of {many} hosts, tasks or services are mixed ({shorten(named, 80)})"
    return Refusal(what, WHOLE_TEXT, "give the lines of one of them")


def _read(reader: Reader, text: str) -> ParsedProbe | Refusal:
    """Return the reader's answer, of the text with its folded lines joined where that gives more.

    Where it refuses a tool's error message, the message explains more. A GPU of which the text says
    that it is lost is told, for the rest reads like a smaller machine.
    """
    if reader.mark is Mark.DOCUMENT:
        return reader.read(text)
    understood = reader.read(text)
    refused = isinstance(understood, Refusal)
    if folding.is_told(understood) or (refused and reader.mark in _PROVE_THEMSELVES):
        understood = folding.read_joined(reader.read, text, understood)
    if isinstance(understood, Refusal):
        return tool_errors.find(text) or understood
    lost = lost_gpus.warnings(text)
    if lost:
        return replace(understood, warnings=bounded([*lost, *understood.warnings]))
    return understood


def _recognise(text: str) -> str | None:
    for known in _ALIKE if "GPU" in text else ():
        if known.pattern.search(text):
            return known.name
    for reader in _READERS:
        if reader.recognises(text):
            return reader.name
    if tool_errors.find(text):
        return tool_errors.FORMAT
    other = unsupported.find(text)
    return other.name if other else None


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
