"""Judges answers of `GET /node_group`: shape, nodes, neighbours, statuses, tag."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.chaos.model.truth import NOT_READY, READY, Group, Node, Tree, Truth
from tests.chaos.model.verdicts import Kind, Violation

_GROUP_KEYS, _NODE_KEYS = {"name", "kind", "child", "status"}, {"name", "kind", "status"}
_BELOW = {"": ("switchbox", "dragonfly", "node"), "switchbox": ("dragonfly", "node")}
_BELOW["dragonfly"] = ("node",)


class Leaf(NamedTuple):
    """A node as it is shown: its status, and the names of the groups above it, outermost first."""

    name: str
    status: str
    path: tuple[tuple[str, str], ...]

    def group(self, kind: str) -> str | None:
        """The name of the group of that kind that it is shown in."""
        return dict(self.path).get(kind)


def shape_faults(document: Any, above: str = "") -> Iterator[str]:
    """Every place where the document is not of the vendor's form."""
    if not isinstance(document, list):
        yield f"a list was expected below {above or 'the top'}, not {_short(document)}"
        return
    for vertex in document:
        kind = vertex.get("kind") if isinstance(vertex, dict) else None
        keys = _NODE_KEYS if kind == "node" else _GROUP_KEYS
        if kind not in _BELOW[above] or set(vertex) != keys:
            yield f"below {above or 'the top'}: {_short(vertex)}"
        elif not (isinstance(vertex["name"], str) and vertex["name"]):
            yield f"no name: {_short(vertex)}"
        elif vertex["status"] not in {READY, NOT_READY}:
            yield f"no status: {_short(vertex)}"
        elif kind != "node":
            yield from shape_faults(vertex["child"], kind)


def leaves(document: Sequence[Any], path: tuple[tuple[str, str], ...] = ()) -> Iterator[Leaf]:
    """The nodes of a document of the right shape."""
    for vertex in document:
        if vertex["kind"] == "node":
            yield Leaf(vertex["name"], vertex["status"], path)
        else:
            yield from leaves(vertex["child"], (*path, (vertex["kind"], vertex["name"])))


def tree_of(document: Sequence[Any]) -> Tree:
    """The document in the form of `Truth.expected`; what has another form is equal to none."""
    return tuple(sorted((v["name"], v["status"], _groups(v)) for v in document))


def _groups(vertex: Any) -> tuple[Group, ...]:
    below = [(group["status"], _nodes(group)) for group in vertex.get("child", ())]
    return tuple(sorted(below, key=lambda row: row[1]))


def _nodes(vertex: Any) -> tuple[Node, ...]:
    return tuple(sorted((node["name"], node["status"]) for node in vertex.get("child", ())))


class TreeJudge:
    """Judges the answers of one port in the order in which they came."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._content_by_tag: dict[str, str] = {}
        self._tag_by_content: dict[str, str] = {}

    def judge(self, document: Any, tag: str, sent_s: float) -> Iterator[Violation]:
        """What is wrong with the answer to a question that was sent at that time."""
        wrong = [Violation(Kind.SHAPE, text) for text in shape_faults(document)]
        if wrong:
            yield from wrong
            return
        shown = tuple(leaves(document))
        yield from self._tag(json.dumps(document), tag)
        yield from self._presence(shown, sent_s)
        yield from self._neighbours(shown)
        yield from self._statuses(shown, sent_s)

    def _tag(self, content: str, tag: str) -> Iterator[Violation]:
        if self._content_by_tag.setdefault(tag, content) != content:
            yield Violation(Kind.TAG, f"{tag} names two contents")
        if self._tag_by_content.setdefault(content, tag) != tag:
            yield Violation(Kind.TAG, f"{tag} and another tag name the same content")

    def _presence(self, shown: Sequence[Leaf], sent_s: float) -> Iterator[Violation]:
        times = Counter(leaf.name for leaf in shown)
        nodes = self._truth.wiring.nodes
        for name in nodes:
            if not times[name] and self._truth.must_be_known(name, sent_s):
                yield Violation(Kind.LOST_NODE, f"{name} is missing")
        for name, count in times.items():
            if count > 1 or name not in nodes:
                yield Violation(Kind.LOST_NODE, f"{name} is shown {count} times")

    def _neighbours(self, shown: Sequence[Leaf]) -> Iterator[Violation]:
        wiring = self._truth.wiring
        members: dict[str, list[str]] = {}
        for leaf in (leaf for leaf in shown if leaf.name in wiring.nodes):
            box, dragonfly = leaf.group("switchbox"), leaf.group("dragonfly")
            if box is not None and box != wiring.switchbox(leaf.name):
                yield Violation(Kind.FALSE_NEIGHBOUR, f"{leaf.name} is shown in {box}")
            if dragonfly is not None:
                members.setdefault(dragonfly, []).append(leaf.name)
        for dragonfly, names in members.items():
            if len({wiring.dragonfly(name) for name in names}) > 1:
                yield Violation(Kind.FALSE_NEIGHBOUR, f"{dragonfly} holds {', '.join(names)}")

    def _statuses(self, shown: Sequence[Leaf], sent_s: float) -> Iterator[Violation]:
        for leaf in (leaf for leaf in shown if leaf.name in self._truth.wiring.nodes):
            required = self._truth.required_status(leaf.name, sent_s)
            if required is not None and leaf.status != required:
                kind = Kind.FALSE_NOT_READY if required == READY else Kind.FALSE_READY
                why = ", ".join(sorted(self._truth.standing(leaf.name))) or "nothing is wrong"
                yield Violation(kind, f"{leaf.name} is {leaf.status} although {why}")


def _short(value: Any) -> str:
    return repr(value)[:120]
