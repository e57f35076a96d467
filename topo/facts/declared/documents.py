"""YAML and JSON that people write, into plain values that remember their lines.

Everything in which what is meant is not what is read, or which makes small texts big, is refused:
aliases and anchors (YAML bombs), tags, merge keys, doubled keys, several documents, deep nesting.
Events are taken straight from libyaml, which is ten times as fast as building objects and leaves
nothing to a constructor.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import yaml
from yaml.resolver import Resolver

from topo.facts.reading.text import shorten
from topo.model.errors import BadInputError, Refusal

MAX_DEPTH = 100
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_JSON_START = re.compile(r"\s*[\[{]")
_KINDS = {
    "tag:yaml.org,2002:null": None,
    "tag:yaml.org,2002:bool": "a truth value",
    "tag:yaml.org,2002:int": "a number",
    "tag:yaml.org,2002:float": "a number",
    "tag:yaml.org,2002:timestamp": "a date",
    "tag:yaml.org,2002:merge": "a merge key",
    "tag:yaml.org,2002:value": "a default key",
}


@dataclass(frozen=True, slots=True)
class NoText:
    """A plain scalar that YAML 1.1 takes for something else than text: `12`, `on`, `2024-01-01`."""

    kind: str
    text: str


class LinedDict(dict[str, Any]):
    """A mapping that knows the line of each key; 0 where the format has no lines (JSON)."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


class LinedList(list[Any]):
    """A list that knows the line of each item; empty where the format has no lines (JSON)."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []


def load(text: str) -> Any | Refusal:
    """Return the value of one JSON or YAML document. O(len(text)).

    Mappings are `LinedDict`, lists `LinedList`; scalars are str, bool, None and `NoText`. Text that
    starts like JSON and is none is tried as YAML, whose flow style starts alike.
    """
    if not _JSON_START.match(text):
        return load_lined(text)
    as_json = _json(text)
    if not isinstance(as_json, Refusal):
        return as_json
    as_yaml = load_lined(text)
    return as_json if isinstance(as_yaml, Refusal) and "\t" in text else as_yaml


def load_lined(text: str) -> Any | Refusal:
    """Return the same through the YAML reader alone: three times slower, but every place has a
    line.
    """
    try:
        return _value(iter(yaml.parse(text, Loader=_LOADER)))
    except BadInputError as refused:
        return refused.refusal
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = shorten(str(error.problem or "cannot be read"), 120)
        tab = "\t" in (text.split("\n", line)[line - 1 : line] or [""])[0]
        fix = "indent with spaces, not tabs" if tab else "mend the YAML at this line"
        return Refusal(f"no YAML: {problem}", f"line {line}", fix)
    except yaml.YAMLError as error:
        what = f"no YAML: {shorten(str(error), 120)}"
        return Refusal(what, "the whole text", "write the file as UTF-8 text")


def describe(value: object) -> str:
    """Return what a value is, for people: `a number (12)`."""
    if isinstance(value, NoText):
        return f"{value.kind} ({shorten(value.text, 40)})"
    if isinstance(value, bool):
        return f"a truth value ({str(value).lower()})"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "empty" if value is None else f"text ({_printable(shorten(str(value), 40))})"


def _printable(text: str) -> str:
    """Escape lone surrogates, which would break logs and documents."""
    return text if text.isprintable() else repr(text)[1:-1]


def _refuse(what: str, line: int, fix: str) -> NoReturn:
    raise BadInputError(Refusal(what, f"line {line}" if line else "the JSON text", fix))


def _json(text: str) -> Any | Refusal:
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=lambda digits: NoText("a number", digits),
            parse_float=lambda digits: NoText("a number", digits),
            parse_constant=lambda word: NoText("a number", word),
        )
    except BadInputError as refused:
        return refused.refusal
    except json.JSONDecodeError as error:
        return Refusal(f"no JSON: {error.msg}", f"line {error.lineno}", "mend the JSON there")
    except RecursionError:
        fix = "flatten the document"
        return Refusal(f"nesting is deeper than {MAX_DEPTH} levels", "the JSON text", fix)


def _object(pairs: list[tuple[str, Any]]) -> LinedDict:
    value = LinedDict()
    for key, item in pairs:
        if key in value:
            what = f"the key {shorten(key, 40)!r} stands twice in one object"
            _refuse(what, 0, "keep one of them")
        value[key] = item
    return value


def _value(events: Iterator[Any]) -> Any:
    """Return the one document of a stream of events, built without recursion."""
    builder = _Builder()
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            builder.open_document(line)
        elif isinstance(event, yaml.AliasEvent):
            _refuse(f"the alias *{_shown(event.anchor)}", line, "write the content out")
        elif isinstance(event, yaml.NodeEvent):
            _plain_or_refused(event, line)
            if isinstance(event, yaml.ScalarEvent):
                builder.add(_scalar(event.value) if event.implicit[0] else event.value, line)
            else:
                mapping = isinstance(event, yaml.MappingStartEvent)
                builder.open(LinedDict() if mapping else LinedList(), line)
        elif isinstance(event, yaml.CollectionEndEvent):
            builder.stack.pop()
    return builder.document


def _plain_or_refused(event: Any, line: int) -> None:
    if event.anchor is not None:
        _refuse(f"the anchor &{_shown(event.anchor)}", line, "write the content out")
    if event.tag is not None:
        _refuse(f"the tag {_shown(event.tag)}", line, "leave the tag out")


def _shown(name: object) -> str:
    return shorten(str(name), 60)


class _Builder:
    """Puts values where they belong; `stack` holds the open containers with their pending key."""

    def __init__(self) -> None:
        self.document: Any = None
        self.stack: list[LinedDict | LinedList] = []
        self._keys: list[str | None] = []
        self._documents = 0

    def open_document(self, line: int) -> None:
        self._documents += 1
        if self._documents > 1:
            _refuse("a second document starts", line, "keep one document; remove the `---`")

    def open(self, container: LinedDict | LinedList, line: int) -> None:
        if len(self.stack) >= MAX_DEPTH:
            _refuse(f"nesting is deeper than {MAX_DEPTH} levels", line, "flatten the document")
        self.add(container, line)
        self.stack.append(container)
        del self._keys[len(self.stack) - 1 :]
        self._keys.append(None)

    def add(self, value: Any, line: int) -> None:
        if not self.stack:
            self.document = value
            return
        top = self.stack[-1]
        if isinstance(top, LinedList):
            top.append(value)
            top.lines.append(line)
            return
        depth = len(self.stack) - 1
        key = self._keys[depth]
        if key is None:
            self._keys[depth] = self._key(top, value, line)
        else:
            top[key] = value
            self._keys[depth] = None

    @staticmethod
    def _key(top: LinedDict, value: Any, line: int) -> str:
        if not isinstance(value, str):
            _refuse(f"a key is {describe(value)}", line, "write keys as plain words")
        if value in top.lines:
            what = f"the key {shorten(value, 40)!r} stands twice in one mapping"
            _refuse(what, line, f"keep one; the other is in line {top.lines[value]}")
        top.lines[value] = line
        return value


@lru_cache(maxsize=4096)
def _scalar(text: str) -> str | NoText | None:
    """Return a plain scalar as YAML 1.1 resolves it, with everything but text and null left
    unread.
    """
    resolvers = Resolver.yaml_implicit_resolvers
    for tag, pattern in (*resolvers.get(text[:1], ()), *resolvers.get(None, ())):
        if pattern.match(text):
            kind = _KINDS.get(tag)
            return NoText(kind, text) if kind else None
    return text
