"""Every format there is: how a text is recognised and read. `topo/facts/vendors.py` finds them."""

from dataclasses import replace

from topo.facts import declared
from topo.facts.infiniband import ibnetdiscover
from topo.facts.reader import Mark, Reader, Trust
from topo.facts.reading import folding, log_marks, lost_gpus, prefixes, tool_errors, unsupported
from topo.facts.reading.text import WHOLE_TEXT, bounded, cleaned, shorten
from topo.facts.sysfs import infiniband, pci
from topo.facts.vendors import VENDORS
from topo.model.errors import Refusal
from topo.model.nearest import did_you_mean
from topo.model.observation import ParsedProbe

_READERS = sorted(
    (
        *(reader for vendor in VENDORS for reader in vendor.readers),
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
    bare = plain if isinstance(plain, Refusal) else prefixes.without(plain)
    if bare is plain or isinstance(bare, Refusal):
        return plain
    inner = cleaned(bare)
    return plain if isinstance(inner, Refusal) or _recognise(inner) is None else inner


def parse(text: str, format: str | None = None) -> ParsedProbe | Refusal:  # noqa: A002 - its name
    """Return what `text` states, read as `format`, or as what it is recognised to be. O(len(text)).

    Any text is answered: with an observation, or with a refusal: what is wrong, where, the fix.
    Nothing is raised.
    """
    if format is not None and format not in READERS:
        return _unknown_format(format)
    # Documents are written by people and not printed, so nothing comes off one that is asked for.
    asked = READERS[format].mark if format is not None else None
    plain = cleaned(text) if asked is Mark.DOCUMENT else readable(text)
    if isinstance(plain, Refusal):
        return plain
    name = format or _recognise(plain)
    if name in READERS:
        return _read(READERS[name], plain)
    if name in UNSUPPORTED:
        return unsupported.refusal(UNSUPPORTED[name])
    return tool_errors.find(plain) or _unknown_text(plain)


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
    mixed = prefixes.sources(text)
    if any(_recognise(part) for part in mixed.values()):
        named = ", ".join(list(mixed)[:4]) + (", …" if len(mixed) > 4 else "")
        what = (
            f"the lines of {len(mixed)} hosts, tasks or services are mixed ({shorten(named, 80)})"
        )
        return Refusal(what, WHOLE_TEXT, "give the lines of one of them")
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
