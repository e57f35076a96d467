"""The forest as a nested list of HTML, for browsers without scripts, terminals and paper.

Whatever is in a name is text: everything that is not of this file is escaped, and what would turn
or hide its neighbours is replaced.
"""

from collections.abc import Iterable, Iterator
from html import escape

from master.tree.capacity_counts import SubtreeCounts
from master.tree.findings import Examined, findings
from topo.diagnosis.finding import Finding
from topo.model.durations import age
from topo.model.forest import Group, Node, Reason, Status
from topo.placement.capacity.node_usage import NO_COUNTS
from topo.publish.wires import wires_of

_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Supernode topology: the forest as a list</title>
<link rel="stylesheet" href="web/{release}/plain.css">
"""
_SIGNS = {Status.READY: "●", Status.NOT_READY: "✗"}


def body(examined: Examined, mode: str, now_s: float, release: str) -> bytes:
    """Return the page in UTF-8; `release` is that of the style sheet. O(vertices + wires)."""
    snapshot = examined.view.snapshot
    found = findings(examined, mode, now_s)
    lines = [
        _HEAD.replace("{release}", release),
        f"<main><h1>The forest</h1><p>Generation {snapshot.generation}, as this master sees it.",
        '<a href="plain">Again</a> · <a href="./">with pictures</a></p>',
        f"<h2>{_headline(found)}</h2>",
        *_findings(found),
        "<h2>Groups and nodes</h2><ul>",
        *_Writer(examined).roots(),
        "</ul></main></html>\n",
    ]
    return "\n".join(lines).encode("utf-8", "replace")


def _headline(found: list[Finding]) -> str:
    return f"{len(found)} to look at, the cause first" if found else "Nothing is wrong"


def _findings(found: list[Finding]) -> Iterator[str]:
    if not found:
        return
    yield "<ol>"
    for each in found:
        since = "" if each.since_s is None else f", for {age(each.since_s)}"
        where = f"<b>{_text(each.subject)}</b>: {_text(each.what)}{since}"
        yield f"<li>{where} <small>{_text(each.next_step)}</small></li>"
    yield "</ol>"


class _Writer:
    """Groups and nodes as lines of HTML, each node with its wires that are not up."""

    def __init__(self, examined: Examined) -> None:
        self._forest = examined.view.snapshot.forest
        self._counts = SubtreeCounts(examined.view.usage)
        known = {node.name: node for node in self._forest.nodes()}
        self._cut: dict[str, list[str]] = {}
        for wire in wires_of(known.values(), known):
            if wire.state != "up":
                far = f"server {wire.server}" if wire.peer is None else wire.peer
                for end, other in ((wire.node, far), (wire.peer, wire.node)):
                    if end is not None:
                        self._cut.setdefault(end, []).append(f"wire to {other} {wire.state}")

    def roots(self) -> Iterator[str]:
        """Yield every root with what is below it, then the nodes in no group."""
        for root in self._forest.roots:
            yield from self._group(root)
        if self._forest.unplaced:
            yield "<li><b>in no group</b><ul>"
            for entry in self._forest.unplaced:
                yield self._node(entry.node, (entry.reason, *entry.node.reasons))
            yield "</ul></li>"

    def _group(self, group: Group) -> Iterator[str]:
        nodes, ready, gpus, _, free, *_ = self._counts.of(group)
        what = f"{group.kind}, {ready} of {nodes} nodes Ready, {free} of {gpus} GPUs free"
        yield f"<li>{_line(group.name, group.status, what, group.reasons)}<ul>"
        for child in group.children:
            if isinstance(child, Group):
                yield from self._group(child)
            else:
                yield self._node(child, child.reasons)
        yield "</ul></li>"

    def _node(self, node: Node, reasons: Iterable[Reason]) -> str:
        free, used, held, _, _, is_cordoned, gpus = self._counts.nodes.get(node.name, NO_COUNTS)
        parts = [f"{free} of {node.gpus or gpus} GPUs free"]
        parts += [f"{used} used"] if used else []
        parts += [f"{held} held"] if held else []
        parts += ["cordoned"] if is_cordoned else []
        parts += self._cut.get(node.name, [])
        return f"<li>{_line(node.name, node.status, ', '.join(parts), reasons)}</li>"


def _line(name: str, status: Status, what: str, reasons: Iterable[Reason]) -> str:
    why = "; ".join(dict.fromkeys(reason.text for reason in reasons))
    said = f": <strong>{_text(why)}</strong>" if why else ""
    return f"{_SIGNS[status]} <bdi>{_text(name)}</bdi> {status}, {_text(what)}{said}"


def _text(words: str) -> str:
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in words)
    return escape(shown, quote=True)
