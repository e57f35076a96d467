"""Answers of a running master read as the documents that it publishes, strictly."""

import json
import re
from functools import cache
from typing import Any, TypeVar, overload

from master.api.openapi import AnswerSchema
from tests.master.world import Answer
from topo.model.rest.document import validator

_T = TypeVar("_T")
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


@overload
def read(kind: type[_T], answer: Answer) -> _T: ...
@overload
def read(kind: object, answer: Answer) -> Any: ...
def read(kind: Any, answer: Answer) -> Any:
    """A good answer as its document: no key that is not published, none missing."""
    assert answer.status == 200, answer.body
    return read_json(kind, answer.body)


@overload
def read_json(kind: type[_T], body: bytes) -> _T: ...
@overload
def read_json(kind: object, body: bytes) -> Any: ...
def read_json(kind: Any, body: bytes) -> Any:
    """The bytes as a document of that kind, in the same way."""
    schema = _schema(kind)
    assert not faults(json.loads(body), schema, schema.get("$defs", {}))
    return validator(kind).validate_json(body, extra="forbid")


@cache
def _schema(kind: Any) -> dict[str, Any]:
    return validator(kind).json_schema(mode="serialization", schema_generator=AnswerSchema)


def faults(value: Any, schema: Any, shared: Any, at: str = "$") -> list[str]:
    """Where a value is not what a schema says; a key that it does not name is a fault, too.

    JSON Schema 2020-12 as far as our documents use it; `shared` has the schemas by name.
    """
    if "$ref" in schema:
        return faults(value, shared[schema["$ref"].rpartition("/")[2]], shared, at)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            found = [faults(value, one, shared, at) for one in schema[choice]]
            return [] if [] in found else min(found, key=len)
    kind = schema.get("type")
    if kind is not None and not _is(value, kind):
        return [f"{at}: {value!r} is no {kind}"]
    return [
        *(f"{at}: {text}" for text in _bounds(value, schema)),
        *_members(value, schema, shared, at),
        *_elements(value, schema, shared, at),
    ]


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _bounds(value: Any, schema: Any) -> list[str]:
    checks = {
        "enum": lambda bound: value in bound,
        "const": lambda bound: value == bound,
        "minimum": lambda bound: value >= bound,
        "maximum": lambda bound: value <= bound,
        "exclusiveMinimum": lambda bound: value > bound,
        "minLength": lambda bound: len(value) >= bound,
        "maxLength": lambda bound: len(value) <= bound,
        "minItems": lambda bound: len(value) >= bound,
        "maxItems": lambda bound: len(value) <= bound,
        "pattern": lambda bound: re.search(bound, value) is not None,
    }
    return [
        f"{value!r} against {name} {schema[name]!r}"
        for name, holds in checks.items()
        if name in schema and not holds(schema[name])
    ]


def _members(value: Any, schema: Any, shared: Any, at: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    named, other = schema.get("properties", {}), schema.get("additionalProperties", False)
    found = [f"{at}.{key} is missing" for key in schema.get("required", ()) if key not in value]
    for key, member in value.items():
        if key not in named and other is False:
            found.append(f"{at}.{key} is not described")
        elif (expected := named.get(key, other)) is not True:
            found += faults(member, expected, shared, f"{at}.{key}")
    return found


def _elements(value: Any, schema: Any, shared: Any, at: str) -> list[str]:
    if not isinstance(value, list):
        return []
    first = schema.get("prefixItems", [])
    expected = first + [schema.get("items", {})] * (len(value) - len(first))
    pairs = enumerate(zip(value, expected, strict=False))
    return [text for i, (one, each) in pairs for text in faults(one, each, shared, f"{at}[{i}]")]
