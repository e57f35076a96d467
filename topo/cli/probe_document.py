"""Probe outputs as plain documents: what the parsers make of their bytes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from topo.facts import MAX_BYTES, decode, parse
from topo.facts.infiniband import ibnetdiscover
from topo.facts.outputs import LogOutput, outputs
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump
from topo.model.machine import (
    Gpu,
    GpuFabric,
    LinkErrors,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NicNeighbour,
    ServerPeers,
)
from topo.model.observation import DeclaredForest, ParsedProbe, ProbeFact

_SECTIONS: tuple[tuple[type, str], ...] = (
    (LinkMatrix, "matrix"),
    (ServerPeers, "peers"),
    (DeclaredForest, "declared"),
    (FabricDump, "fabric"),
    (Gpu, "gpus"),
    (LinkPort, "ports"),
    (LinkErrors, "link_errors"),
    (GpuFabric, "fabrics"),
    (NetworkPort, "nics"),
    (NicNeighbour, "nic_neighbours"),
)
"""The names that `/v1/topology?node=` uses for the same facts; lists go by their elements."""
_MOST_NAMED = 6
_HEAD_BYTES = 1 << 16


def found_in(content: bytes, format_name: str | None) -> tuple[LogOutput, ...] | Refusal:
    """Return all outputs in the bytes, of one format where it is named; at least one.

    `format_name=None` lets the text say what it is. A text without any output of the named format
    is one output: the answer of that format's reader to all of it.
    """
    if (dump := _large_dump(content, format_name)) is not None:
        return (dump,)
    text = decode(content)
    found = text if isinstance(text, Refusal) else outputs(text)
    if isinstance(text, Refusal) or isinstance(found, Refusal) or format_name is None:
        return found
    named = tuple(output for output in found if output.format == format_name)
    if len(found) > 1 and named:
        return named
    whole = found[-1].last_line
    return (LogOutput(1, whole, format_name, parse(text, format_name)),)


def _large_dump(content: bytes, format_name: str | None) -> LogOutput | None:
    """Return the dump of a fabric that is larger than any other output; None for all else.

    It is read whole, as masters read it, and nothing is looked for around it.
    """
    if len(content) <= MAX_BYTES or format_name not in (None, ibnetdiscover.FORMAT):
        return None
    if not ibnetdiscover.recognises(content[:_HEAD_BYTES].decode("utf-8", "replace")):
        return None
    text = content.decode("utf-8", "replace").replace("\r", "")
    return LogOutput(1, text.count("\n"), ibnetdiscover.FORMAT, ibnetdiscover.read(text))


def chosen(found: Sequence[LogOutput]) -> LogOutput:
    """Return the output that is shown alone: the first that is understood, else the first.

    Where there are several, a warning, or the fix of the refusal, names them and `--all`.
    """
    one = next((o for o in found if isinstance(o.answer, ParsedProbe)), found[0])
    if len(found) == 1:
        return one
    if isinstance(one.answer, ParsedProbe):
        warning = (
            f"{_several(found)}: lines {one.first_line}-{one.last_line} are shown, --all shows all"
        )
        return replace(one, answer=replace(one.answer, warnings=(warning, *one.answer.warnings)))
    fix = f"{one.answer.fix}; {_several(found)}, none of which is read: --all has each"
    return replace(one, answer=Refusal(one.answer.what, one.answer.where, fix))


def _several(found: Sequence[LogOutput]) -> str:
    named = [
        f"{output.format or 'unknown'} at lines {output.first_line}-{output.last_line}"
        for output in found[:_MOST_NAMED]
    ]
    more = [f"{len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return f"{len(found)} outputs are in this text ({', '.join([*named, *more])})"


def document(parsed: ParsedProbe) -> dict[str, Any]:
    """Return the format's name, the facts by section, the links if any, and the warnings."""
    facts: dict[str, Any] = {_section(fact): fact for fact in parsed.facts}
    if parsed.absent_links:
        facts["absent_links"] = parsed.absent_links
    whole = {"format": parsed.format, **facts, "warnings": parsed.warnings}
    plain: dict[str, Any] = orjson.loads(orjson.dumps(whole, default=_fields))
    return plain


def _fields(value: Any) -> dict[str, Any]:
    """Return a named tuple, such as a cable, as an object with its fields."""
    fields: dict[str, Any] = value._asdict()
    return fields


def documents(found: Sequence[LogOutput]) -> dict[str, Any]:
    """Return all outputs with their lines; one that is not understood has `refused` for facts."""
    return {"outputs": [_placed(output) for output in found]}


def _placed(output: LogOutput) -> dict[str, Any]:
    lines = {"lines": [output.first_line, output.last_line]}
    answer = output.answer
    if isinstance(answer, ParsedProbe):
        return lines | document(answer)
    refused = {"what": answer.what, "where": answer.where, "fix": answer.fix}
    return lines | {"format": output.format, "refused": refused}


def _section(fact: ProbeFact) -> str:
    sample = fact[0] if isinstance(fact, tuple) else fact
    return next(name for kind, name in _SECTIONS if isinstance(sample, kind))
