"""The mapping file on disk: read once at the start, bounded, and tested before it is used."""

from pathlib import Path
from typing import Any

import orjson

from topo.discovery.manager.mapping import contract, read_mapping
from topo.discovery.manager.rules import ManagerMapping
from topo.facts.declared.documents import LinedDict, LinedList, NoText, describe, load_lined
from topo.kit.files import read_bounded
from topo.model.errors import BadInputError, Refusal

MAX_MAPPING_BYTES = 4 << 20
"""Room for a sample of thousands of machines."""
_TRUE = ("y", "yes", "true", "on")
"""The true values of YAML 1.1, in lower case."""


def load_mapping(path: Path | None) -> ManagerMapping:
    """Return the mapping of that file, or our own contract without one.

    Raises `BadInputError` that names the file, the place in it and the fix.
    """
    if path is None:
        return contract()
    content = read_bounded(path, MAX_MAPPING_BYTES)
    if isinstance(content, Refusal):
        raise BadInputError(content)
    document = parse_yaml(content)
    mapping = document if isinstance(document, Refusal) else read_mapping(document)
    if isinstance(mapping, Refusal):
        raise BadInputError(Refusal(mapping.what, f"{path}: {mapping.where}", mapping.fix))
    return mapping


def parse_yaml(content: bytes) -> object | Refusal:
    """Return the document of a YAML file without aliases, tags or duplicate keys."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"byte {error.start}"
        return Refusal("the file is not UTF-8", where, "write it as UTF-8 text")
    document = load_lined(text)
    try:
        return document if isinstance(document, Refusal) else _as_answered(document, 1)
    except BadInputError as error:
        return error.refusal


def _as_answered(value: Any, line: int) -> object:
    """Return the value as the manager's JSON would have it: numbers as numbers, dates as texts.

    Raises `BadInputError` for a number that no answer can hold.
    """
    match value:
        case LinedDict():
            return {key: _as_answered(item, value.lines[key]) for key, item in value.items()}
        case LinedList():
            return [_as_answered(*item) for item in zip(value, value.lines, strict=True)]
        case NoText(kind="a truth value"):
            return value.text.lower() in _TRUE
        case NoText(kind="a number"):
            try:
                return orjson.loads(value.text)
            except orjson.JSONDecodeError:
                what = f"{describe(value)} that JSON does not have"
                fix = "write it in quotes if it is a text, else in digits"
                raise BadInputError(Refusal(what, f"line {line}", fix)) from None
        case NoText():
            return value.text
    return value
