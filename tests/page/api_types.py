"""`python -m tests.page.api_types`: the documents of the API as types for the page's type checker.

They are made from `topo.model.rest`, whole answers first, and written to `api.d.ts`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from master.api.openapi import AnswerSchema
from topo.model.rest.changes import (
    CapacityEventDocument,
    DiffDocument,
    HoldEventDocument,
    StepDocument,
)
from topo.model.rest.findings import FindingsDocument, WiringDocument
from topo.model.rest.gangs import GangDocument, GangsDocument
from topo.model.rest.history import HistoryDocument
from topo.model.rest.placements import FitsDocument, NoFitDocument
from topo.model.rest.service import Problem
from topo.model.rest.topology import TopologyDocument

FILE = Path(__file__).with_name("api.d.ts")
ANSWERS = (
    TopologyDocument,
    FindingsDocument,
    WiringDocument,
    DiffDocument,
    HistoryDocument,
    StepDocument,
    CapacityEventDocument,
    HoldEventDocument,
    FitsDocument,
    NoFitDocument,
    GangsDocument,
    GangDocument,
    Problem,
)
"""What the page asks for; the documents inside them are found."""
_HEAD = """\
// Made by `make docs` from topo/model/rest. docs/api.md says what each key means.
// These types are read by the type checker alone and are sent to nobody.
"""
_PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def rendered() -> str:
    """Return the text of the file."""
    inputs: Any = [(kind.__name__, "serialization", TypeAdapter(kind)) for kind in ANSWERS]
    _, shared = TypeAdapter.json_schemas(
        inputs, ref_template="{model}", schema_generator=AnswerSchema
    )
    blocks = (block for name, schema in shared["$defs"].items() for block in _block(name, schema))
    return f"{_HEAD}\ndeclare namespace Api {{\n{''.join(blocks)}}}\n"


def _block(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an interface, or of a type that is a set of words."""
    if "properties" not in schema:
        yield f"  type {_name(name)} = {_type(schema)};\n"
        return
    yield f"  interface {_name(name)} {{\n"
    required = schema.get("required", ())
    for key, value in schema["properties"].items():
        yield f"    {key}{'' if key in required else '?'}: {_type(value)};\n"
    yield "  }\n"


def _type(schema: Mapping[str, Any]) -> str:
    """Return the TypeScript type that a JSON schema describes."""
    if "$ref" in schema:
        return _name(schema["$ref"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(map(_type, choices))
    if words := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return " | ".join(map(json.dumps, words))
    if schema["type"] == "object":
        return f"Record<string, {_type(schema['additionalProperties'])}>"
    return _array(schema) if schema["type"] == "array" else _PLAIN[schema["type"]]


def _array(schema: Mapping[str, Any]) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(map(_type, schema['prefixItems']))}]"
    items = _type(schema["items"])
    return f"({items})[]" if " | " in items else f"{items}[]"


def _name(definition: str) -> str:
    return definition.removesuffix("Document")


if __name__ == "__main__":
    FILE.write_text(rendered(), encoding="utf-8")
