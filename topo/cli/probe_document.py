"""From the bytes of a probe output to what the parsers make of them, as one plain document."""

from typing import Any

import orjson

from topo.facts import decode, parse
from topo.model.errors import Refusal
from topo.model.machine import Gpu, GpuFabric, LinkMatrix, LinkPort, NetworkPort, ServerPeers
from topo.model.observation import DeclaredForest, ParsedProbe, ProbeFact

_SECTIONS: tuple[tuple[type, str], ...] = (
    (LinkMatrix, "matrix"),
    (ServerPeers, "peers"),
    (DeclaredForest, "declared"),
    (Gpu, "gpus"),
    (LinkPort, "ports"),
    (GpuFabric, "fabrics"),
    (NetworkPort, "nics"),
)
"""The names that `/v1/topology?node=` uses for the same facts; lists go by their elements."""


def probe_document(content: bytes, format_name: str | None) -> dict[str, Any] | Refusal:
    """The format's name, the facts by section, and the warnings; or why it is not understood.

    `format_name=None` lets the text say what it is.
    """
    text = decode(content)
    parsed = text if isinstance(text, Refusal) else parse(text, format_name)
    return parsed if isinstance(parsed, Refusal) else _document(parsed)


def _document(parsed: ParsedProbe) -> dict[str, Any]:
    facts = {_section(fact): fact for fact in parsed.facts}
    document = {"format": parsed.format, **facts, "warnings": parsed.warnings}
    plain: dict[str, Any] = orjson.loads(orjson.dumps(document))
    return plain


def _section(fact: ProbeFact) -> str:
    sample = fact[0] if isinstance(fact, tuple) else fact
    return next(name for kind, name in _SECTIONS if isinstance(sample, kind))
