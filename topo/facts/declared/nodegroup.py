"""`nodegroup.yaml`: the forest as an operator wrote it down, or as `/node_group` prints it.

The body is a list of groups under the key `group`, or the bare list; a child is a group, a node, or
a bare node name. The schema is closed. The vendor's manual has the example of the list; the body
of the file is not public and is our own.
"""

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from topo.facts.declared import documents
from topo.facts.reading.text import bounded, shorten
from topo.model.errors import BadInputError, Refusal
from topo.model.forest import Status
from topo.model.ids import (
    KNOWN_KINDS,
    NODE,
    GroupName,
    Kind,
    NodeName,
)
from topo.model.nearest import did_you_mean
from topo.model.observation import DeclaredForest, DeclaredGroup, DeclaredNode, ParsedProbe

MAX_GROUP_DEPTH = 16
"""Twice the tiers of the deepest fabric known (rack, row, hall, …)."""
_KEYS = ("name", "kind", "child", "status")
_KIND = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)
_GROUP_NAME = re.compile(r"[^\s/](?:[^/]{0,251}[^\s/])?")


def read(text: str) -> ParsedProbe | Refusal:
    """Return the declared forest; `group:` without a value is the empty one. O(len(text)).

    Refused, with the place (`group[0].child[1].name`, and the line in YAML): what is no YAML or
    JSON; unknown keys, naming the nearest valid one; a node in two groups; equal names among
    siblings; a group inside itself; names, kinds and statuses that are none.
    """
    broken = text.find("\ufffd")
    if broken >= 0:
        line = text.count("\n", 0, broken) + 1
        return Refusal("the text is not valid UTF-8", f"line {line}", "save the file as UTF-8")
    document = documents.load(text)
    understood = _understood(document)
    if isinstance(understood, Refusal) and "line" not in understood.where:
        lined = documents.load_lined(text)  # JSON has no lines; people want one
        return understood if isinstance(lined, Refusal) else _understood(lined)
    return understood


def _understood(document: Any) -> ParsedProbe | Refusal:
    if isinstance(document, Refusal):
        return document
    walk = _Walk()
    try:
        forest = DeclaredForest(walk.roots(document))
    except BadInputError as refused:
        return refused.refusal
    return ParsedProbe("nodegroup", (forest,), bounded(walk.warnings))


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where a child stands: the `index`-th of the list `within`; line 0 where there is none."""

    within: str
    index: int
    line: int

    def at(self, key: str = "", line: int = 0) -> str:
        """Return the place for people, of the child or of one of its keys: `group[0].name (line
        3)`.
        """
        place = f"{self.within}[{self.index}]" + (f".{key}" if key else "")
        found = line or self.line
        return f"{place} (line {found})" if found else place


class _Walk:
    """One pass over the document; remembers where each node stood."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._spots: dict[NodeName, _Spot] = {}

    def roots(self, document: Any) -> tuple[DeclaredGroup | DeclaredNode, ...]:
        """Return the roots of the whole document, whichever of the two forms it has."""
        if isinstance(document, list):
            return self.children(document, "", ())
        if not isinstance(document, dict):
            what = f"the document is {documents.describe(document)}"
            _refuse(what, "the whole text", "write `group:` and the list of groups below it")
        unknown = next((key for key in document if key != "group"), None)
        if unknown is not None:
            fix = did_you_mean(unknown, ("group",), "the only key at the top is group")
            line = _line(document, unknown)
            _refuse(f"unknown key {shorten(unknown, 40)!r}", f"line {line}" if line else "top", fix)
        return (
            self.children(document["group"], "group", ()) if document else _refuse_missing_group()
        )

    def children(
        self, items: Any, place: str, above: tuple[str, ...]
    ) -> tuple[DeclaredGroup | DeclaredNode, ...]:
        """Return the children in a list, in the order written; None is the empty list."""
        if items is None:
            return ()
        if not isinstance(items, list):
            what = f"{place} is {documents.describe(items)}, not a list"
            _refuse(what, place, "put `- ` before each group and node")
        lines = getattr(items, "lines", None)
        seen: dict[str, _Spot] = {}
        children: list[DeclaredGroup | DeclaredNode] = []
        for index, item in enumerate(items):
            spot = _Spot(place, index, lines[index] if lines else 0)
            child = self._child(item, spot, above)
            first = seen.setdefault(child.name, spot)
            if first is not spot:
                what = f"the name {child.name} stands twice under one parent"
                _refuse(what, spot.at(), f"rename or remove it; the other is {first.at()}")
            children.append(child)
        return tuple(children)

    def _child(
        self, item: Any, spot: _Spot, above: tuple[str, ...]
    ) -> DeclaredGroup | DeclaredNode:
        if isinstance(item, str):
            return self._node(item, None, spot)
        if not isinstance(item, dict):
            what = f"a child is {documents.describe(item)}"
            fix = (
                "write a node's name (in quotes if it is a number), or a mapping with name and kind"
            )
            _refuse(what, spot.at(), fix)
        for key in item:
            if key not in _KEYS:
                fix = did_you_mean(key, _KEYS, f"the keys are {', '.join(_KEYS)}")
                _refuse(f"unknown key {shorten(key, 40)!r}", spot.at(line=_line(item, key)), fix)
        kind = self._kind(item, spot)
        name = _text(item, "name", spot)
        status = _status(item, spot)
        if kind != NODE:
            return self._group(item, GroupName(name), (kind, status), (spot, above))
        if item.get("child") is not None:
            where = spot.at("child", _line(item, "child"))
            _refuse(f"the node {name} has children", where, "give it another kind, or no child")
        return self._node(name, status, spot)

    def _node(self, name: str, status: Status | None, spot: _Spot) -> DeclaredNode:
        if _NODE_NAME.fullmatch(name) is None:
            fix = "write the node's name: letters, digits, `.`, `_` and `-`, at most 253"
            _refuse(f"{shorten(name, 40)!r} is not a node name", spot.at(), fix)
        node = NodeName(name)
        first = self._spots.setdefault(node, spot)
        if first.within != spot.within:
            what = f"the node {name} stands in two groups"
            _refuse(what, spot.at(), f"keep one of them; the other is {first.at()}")
        return DeclaredNode(node, status)

    def _group(
        self,
        item: dict[str, Any],
        name: GroupName,
        stated: tuple[Kind, Status | None],
        standing: tuple[_Spot, tuple[str, ...]],
    ) -> DeclaredGroup:
        (kind, status), (spot, above) = stated, standing
        where = spot.at("name", _line(item, "name"))
        # Unprintable are control characters and lone surrogates (`\\ud800` in JSON), which nothing
        # can write: neither a log nor the document.
        if _GROUP_NAME.fullmatch(name) is None or not name.isprintable():
            fix = "write at most 253 printable characters, no `/`, no space at either end"
            _refuse(f"{shorten(name, 40)!r} is not a group name", where, fix)
        if name in above:
            path = shorten("/".join((*above, name)))
            _refuse(f"the group {name} is inside itself: {path}", where, "rename one of them")
        if len(above) >= MAX_GROUP_DEPTH:
            _refuse(f"groups are nested deeper than {MAX_GROUP_DEPTH}", where, "flatten the forest")
        if "child" not in item:
            fix = "write kind: node if it is one, or `child: []` for an empty group"
            _refuse(f"the {kind} {name} has no child", spot.at(), fix)
        place = f"{spot.within}[{spot.index}].child"
        return DeclaredGroup(
            name, kind, self.children(item["child"], place, (*above, name)), status
        )

    def _kind(self, item: dict[str, Any], spot: _Spot) -> Kind:
        kind = Kind(_text(item, "kind", spot))
        if kind in KNOWN_KINDS:
            return kind
        where = spot.at("kind", _line(item, "kind"))
        hint = did_you_mean(kind, KNOWN_KINDS)
        if _KIND.fullmatch(kind) is None:
            fix = hint or "write lower-case letters, digits and `-`"
            _refuse(f"{shorten(kind, 40)!r} is not a kind", where, fix)
        if hint:
            self.warnings.append(f"{where}: {kind} is taken as a kind of your own; {hint}")
        return kind


def _text(item: dict[str, Any], key: str, spot: _Spot) -> str:
    """Return the text under a key that has to be there."""
    if key not in item:
        _refuse(f"the key {key} is missing", spot.at(), f"write {key}: …")
    value = item[key]
    if isinstance(value, str) and value:
        return value
    fix = "write a text"
    if isinstance(value, documents.NoText):
        fix = f'put it in quotes: {key}: "{shorten(value.text, 40)}"'
    what = f"{key} is {documents.describe(value or None)}, not text"
    return _refuse(what, spot.at(key, _line(item, key)), fix)


def _status(item: dict[str, Any], spot: _Spot) -> Status | None:
    """Return the status, or None where it is left out or empty."""
    value = item.get("status")
    if value is None:
        return None
    words = tuple(status.value for status in Status)
    if value not in words:
        shown = documents.describe(value)
        fix = did_you_mean(str(value), words, f"write {' or '.join(words)}, or leave it out")
        _refuse(f"status is {shown}", spot.at("status", _line(item, "status")), fix)
    return Status(value)


def _line(item: object, key: str) -> int:
    lines: dict[str, int] = getattr(item, "lines", {})
    return lines.get(key, 0)


def _refuse_missing_group() -> NoReturn:
    _refuse("the key group is missing", "the whole text", "write `group:` at the top")


def _refuse(what: str, where: str, fix: str) -> NoReturn:
    raise BadInputError(Refusal(what, where, fix))
