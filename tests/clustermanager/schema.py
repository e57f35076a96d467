"""Just enough of JSON Schema 2020-12 to hold answers against our OpenAPI document.

A keyword that is not known here fails the test, so the document cannot outgrow its checker.
"""

import re
from collections.abc import Iterator
from typing import Any

ANNOTATIONS = {"description", "default", "discriminator", "properties", "required", "items"}
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
    "boolean": (bool,),
}


def findings(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with the value; empty when it is of the schema's form."""
    return [f"{where or '$'}: {what}" for where, what in _check(document, schema, value, "")]


def _check(
    document: dict[str, Any], schema: dict[str, Any], value: Any, where: str
) -> Iterator[tuple[str, str]]:
    if "$ref" in schema:
        schema = resolve(document, schema["$ref"])
    for keyword, argument in schema.items():
        if keyword in ANNOTATIONS:
            continue
        if keyword in ("anyOf", "oneOf"):
            fits = [not [*_check(document, option, value, where)] for option in argument]
            if sum(fits) != 1:
                yield where, f"fits {sum(fits)} of {keyword}"
        elif not _SIMPLE[keyword](argument, value):
            yield where, f"{value!r} breaks {keyword} {argument!r}"
    yield from _check_children(document, schema, value, where)


def _check_children(
    document: dict[str, Any], schema: dict[str, Any], value: Any, where: str
) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key in schema.get("required", ()):
            if key not in value:
                yield where, f"{key} is missing"
        for key, item in value.items():
            rest = schema.get("additionalProperties", {})
            yield from _check(document, known.get(key, rest), item, f"{where}.{key}")
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check(document, schema.get("items", {}), item, f"{where}[{index}]")


def resolve(document: dict[str, Any], reference: str) -> dict[str, Any]:
    """The part of the document that a local `$ref` names."""
    found: Any = document
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return dict(found)


def _has_type(wanted: str | list[str], value: Any) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    return any(
        isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
        for name in names
    )


_SIMPLE = {
    "type": _has_type,
    "const": lambda wanted, value: value == wanted,
    "enum": lambda wanted, value: value in wanted,
    "pattern": lambda wanted, value: not isinstance(value, str) or bool(re.search(wanted, value)),
    "minLength": lambda least, value: not isinstance(value, str) or len(value) >= least,
    "maxLength": lambda most, value: not isinstance(value, str) or len(value) <= most,
    "minItems": lambda least, value: not isinstance(value, list) or len(value) >= least,
    "maxItems": lambda most, value: not isinstance(value, list) or len(value) <= most,
    "minimum": lambda least, value: not isinstance(value, int | float) or value >= least,
    "maximum": lambda most, value: not isinstance(value, int | float) or value <= most,
    "exclusiveMinimum": lambda least, value: not isinstance(value, int | float) or value > least,
    "maxProperties": lambda most, value: not isinstance(value, dict) or len(value) <= most,
    "additionalProperties": lambda _, __: True,
}
