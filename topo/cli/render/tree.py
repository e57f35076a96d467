"""The forest as a tree: status by colour and by glyph, reasons below each, the rest under it."""

from collections.abc import Iterator

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging, Outline
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import (
    node_line,
    path_text,
    plural,
    reason_lines,
    status_mark,
    status_style,
)
from topo.model.durations import age
from topo.model.observation import WORKERS
from topo.model.rest.topology import (
    WITHOUT_WORKERS,
    ConflictDocument,
    GroupDocument,
    NodeDocument,
    SourceDocument,
    TopologyDocument,
    UnjoinedDocument,
    UnplacedDocument,
    is_group,
)
from topo.model.words import counted

NO_NODES = Text("no nodes yet; `topo doctor` names what is missing", style="yellow")
ALL_READY = Text("every group and node is Ready", style="green")
"""What stands where no group and no node is shown."""


def render_topology(
    document: TopologyDocument, glyphs: Glyphs, empty: Text = NO_NODES
) -> RenderableType:
    """Render the whole answer of `/v1/topology`. O(vertices)."""
    lines = [render_head(document, glyphs), *_outlines(document, glyphs, empty)]
    lines += [part for section in _sections(document, glyphs) for part in (Text(), *section)]
    return Stack(*lines, Text(), render_sources(document, glyphs))


def render_body(document: TopologyDocument, glyphs: Glyphs, empty: Text) -> RenderableType:
    """Render what is below the head of a screen that may show only its beginning: problems first.

    So what has no place, conflicts and machines without a node come before the tree.
    """
    lines: list[RenderableType] = []
    for section in _sections(document, glyphs):
        lines += [*section, Text()]
    return Stack(*lines, *_outlines(document, glyphs, empty))


def _outlines(document: TopologyDocument, glyphs: Glyphs, empty: Text) -> Iterator[RenderableType]:
    yield from (_outline(group, glyphs) for group in document["groups"])
    if not document["groups"] and not document["unplaced"]:
        yield empty


def _sections(document: TopologyDocument, glyphs: Glyphs) -> Iterator[list[RenderableType]]:
    """Yield what is not in the tree, each part under its title; empty parts are left out."""
    for title, entries in (
        ("in no group", [_unplaced(entry, glyphs) for entry in document["unplaced"]]),
        ("conflicts", [render_conflict(entry, glyphs) for entry in document["conflicts"]]),
        (
            "machines of the cluster manager that match no node",
            [_unjoined(entry, glyphs) for entry in document["unjoined"]],
        ),
    ):
        if entries:
            yield [Text(title, style="bold"), *entries]


def render_head(document: TopologyDocument, glyphs: Glyphs) -> Hanging:
    """Render one line: the generation, how groups are found, and the age of a restored tree."""
    line = Text().append(f"generation {document['generation']}", style="bold")
    if mode := document["mode"]:
        line.append(f" {glyphs.dot} mode {plain(mode)}", style="dim")
    if fabric := document["fabric"]:
        line.append(f" {glyphs.dot} {plain(fabric)} alone", style="dim")
    for each in document["fabrics"][1:]:
        shown = f"{counted(each['groups'], 'group')} with --fabric {plain(each['fabric'])}"
        line.append(f" {glyphs.dot} {shown}", style="dim")
    if (restored := document["restored_age_s"]) is not None:
        line.append(
            f" {glyphs.dot} from the state file, {age(restored)} old: no source has spoken yet",
            style="yellow",
        )
    return Hanging(Text(), line)


def _outline(group: GroupDocument, glyphs: Glyphs) -> Outline:
    """Return a group with all that is below it."""
    children = [
        _leaf(child, glyphs) if not is_group(child) else _outline(child, glyphs)
        for child in group["child"]
    ]
    entry = Hanging(_mark(group["status"], glyphs), _label(group, glyphs))
    return Outline(entry, list(reason_lines(group["reasons"], glyphs)), children)


def _leaf(node: NodeDocument, glyphs: Glyphs) -> Outline:
    entry = Hanging(_mark(node["status"], glyphs), node_line(node))
    return Outline(entry, list(reason_lines(node["reasons"], glyphs)))


def _mark(status: str, glyphs: Glyphs) -> Text:
    return status_mark(status, glyphs).append(" ")


def _label(group: GroupDocument, glyphs: Glyphs) -> Text:
    label = Text().append(plain(group["name"]), style=f"bold {status_style(group['status'])}")
    label.append(f"  {plain(group['kind'])}", style="dim")
    label.append(f"  {plain(group['status'])}", style=status_style(group["status"]))
    ready, nodes, gpus = (
        group["capacity"]["ready"],
        group["capacity"]["nodes"],
        group["capacity"]["gpus"],
    )
    label.append(f"  {ready}/{nodes} node{plural(nodes)}", style="dim")
    return label.append(f" {glyphs.dot} {gpus} GPU{plural(gpus)}" if gpus else "", style="dim")


def _unplaced(entry: UnplacedDocument, glyphs: Glyphs) -> Hanging:
    line = node_line(entry).append(f"  {plain(entry['reason'].text)}", style="dim")
    return Hanging(Text("  ").append_text(_mark(entry["status"], glyphs)), line)


def render_conflict(entry: ConflictDocument, glyphs: Glyphs) -> Stack:
    """Render one conflict: code, text and age, and the fix on a line of its own."""
    line = Text(plain(entry.code), style="yellow")
    line.append(f"  {plain(entry.text)}", style="not dim default")
    if entry.since_s is not None:
        line.append(f" {glyphs.dot} for {age(entry.since_s)}", style="dim")
    fix = Hanging(Text(f"    {glyphs.arrow} ", style="dim"), Text(plain(entry.fix), style="dim"))
    lines = [Hanging(Text(f"  {glyphs.attention} ", style="yellow"), line)]
    return Stack(*lines, *([fix] if entry.fix else []))


def _unjoined(entry: UnjoinedDocument, glyphs: Glyphs) -> Hanging:
    names = ", ".join(f"{plain(key)}={plain(value)}" for key, value in entry["names"].items())
    line = Text(plain(entry["id"]), style="yellow")
    if path := entry["group"]:
        line.append(f"  in {path_text(path)}", style="default")
    line.append(f"  {names}", style="dim")
    return Hanging(Text(f"  {glyphs.attention} ", style="yellow"), line)


def render_sources(document: TopologyDocument, glyphs: Glyphs) -> Hanging:
    """Render the footer: the age of every source's last good answer, and its trouble.

    Workers that never spoke are left out where none is needed.
    """
    line = Text()
    without = document["mode"] in WITHOUT_WORKERS
    entries = [
        each
        for each in document["sources"]
        if not (without and each["source"] == WORKERS and each["state"] == "waiting")
    ]
    if not entries:
        line.append("none has spoken yet", style="yellow")
    for index, entry in enumerate(entries):
        line.append(f" {glyphs.dot} " if index else "", style="dim")
        line.append_text(_source(entry))
    return Hanging(Text("sources  ", style="dim"), line)


def _source(entry: SourceDocument) -> Text:
    name, state = plain(entry["source"]), entry["state"]
    if state == "ok":
        detail = f" ({plain(entry['detail'])})" if entry["detail"] else ""
        return Text(f"{name} ok, {age(entry['age_s'])} ago{detail}", style="dim")
    if state == "waiting":
        return Text(f"{name} has not spoken yet", style="yellow")
    trouble = plain(entry["trouble"] or state)
    since, good = age(entry["failing_s"]), age(entry["age_s"])
    return Text(f"{name} failing for {since}, last good {good} ago: {trouble}", style="red")
