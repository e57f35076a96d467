"""The list of nodes for people: a row for each, and the sums."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.node_list import NodeRow, shared_cards
from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging
from topo.cli.render.shapes.rows import Cell, Column, table
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import READY, plural, status_mark, status_style
from topo.model.durations import age

_RARE: Mapping[str, Callable[[NodeRow], str]] = {
    "pool": itemgetter("pool"),
    "shared": shared_cards,
}
"""Columns that are shown where a node has something to say in them."""


def render_nodes(nodes: Sequence[NodeRow], glyphs: Glyphs) -> RenderableType:
    """Render a row per node in the order given, and the sums."""
    if not nodes:
        return Text("no node is like that", style="yellow")
    numbers = [Column(title, right=True) for title in ("GPUs", "free", "held")]
    why = Column("why", prose=True)
    rare = [title for title, says in _RARE.items() if any(map(says, nodes))]
    rows = (_row(node, rare, glyphs) for node in nodes)
    drawn = table("node", "group", "status", *numbers, *rare, "since", why, rows=rows)
    return Stack(drawn, Text(), _sums(nodes, glyphs))


def _row(node: NodeRow, rare: Sequence[str], glyphs: Glyphs) -> tuple[Cell, ...]:
    """Return a row with the innermost group. `rare`: the columns that only some nodes fill."""
    state = status_mark(node["status"], glyphs).append(f" {plain(node['status'])}")
    if node["cordoned"]:
        state = state.append(", cordoned", style="yellow")
    return (
        Text(plain(node["name"]), style=f"bold {status_style(node['status'])}"),
        node["group"][-1] if node["group"] else None,
        state,
        node["gpus"],
        node["free_gpus"],
        node["held_gpus"] or None,
        *(_RARE[title](node) or None for title in rare),
        None if node["since_s"] is None else age(node["since_s"]),
        Text(plain(node["why"]), style="dim"),
    )


def _sums(nodes: Sequence[NodeRow], glyphs: Glyphs) -> Hanging:
    count, ready = len(nodes), sum(node["status"] == READY for node in nodes)
    gpus, free = sum(node["gpus"] for node in nodes), sum(node["free_gpus"] for node in nodes)
    held = sum(node["held_gpus"] for node in nodes)
    facts = [
        f"{count} node{plural(count)}, {ready} Ready",
        f"{gpus} GPU{plural(gpus)}, {free} free",
    ]
    facts += [f"{held} held"] if held else []
    return Hanging(Text(), Text(f" {glyphs.dot} ".join(facts), style="dim"))
