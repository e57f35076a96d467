"""Holds for people: a table of all of them, or one with its nodes."""

from collections.abc import Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.render import placement_tree
from topo.cli.render.placement import describe_job, inside_in_words
from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging
from topo.cli.render.shapes.rows import table
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import remaining_time
from topo.model.rest.placements import HoldDocument, HoldsDocument, HoldSummary, LostDocument
from topo.model.rest.topology import GroupDocument


def render_holds(document: HoldsDocument, glyphs: Glyphs) -> RenderableType:
    """Render one row per hold, in the order given."""
    if not document["holds"]:
        return Text("nothing is held", style="dim")
    columns = ("hold", "key", "namespace", "state", "job", "nodes", "ends")
    return table(*columns, rows=(_row(hold, glyphs) for hold in document["holds"]))


def _row(hold: HoldSummary, glyphs: Glyphs) -> tuple[Text | str | int | None, ...]:
    name = Text(plain(hold["id"]), style="bold")
    asked = describe_job(hold["pods"], hold["gpus_per_pod"], hold["group_size"])
    whose = hold["key"], hold["namespace"]
    return name, *whose, _state(hold, glyphs), asked, hold["nodes"], _ends(hold)


def render_hold(
    hold: HoldDocument, roots: Sequence[GroupDocument], glyphs: Glyphs
) -> RenderableType:
    """Render one hold: its state, its job, its groups inside the tree, and the nodes it lost."""
    head = Text().append(plain(hold["id"]), style="bold").append("  ")
    head.append_text(_state(hold, glyphs)).append(
        f"  {describe_job(hold['pods'], hold['gpus_per_pod'], hold['group_size'])}", style="dim"
    )
    if key := hold["key"]:
        head.append(f" {glyphs.dot} key {plain(key)}", style="dim")
    if namespace := hold["namespace"]:
        head.append(f" {glyphs.dot} for pods of {plain(namespace)}", style="dim")
    if (inside := hold["inside"]) is not None:
        head.append(f" {glyphs.dot} inside {inside_in_words(inside)}", style="dim")
    head.append(f" {glyphs.dot} {_ends(hold)}", style="dim")
    plan = placement_tree.render_trees(hold["groups"], (), roots, glyphs)
    lost = (_lost(each, glyphs) for each in hold["lost"])
    return Stack(Hanging(Text(), head), *plan, *lost)


def _lost(node: LostDocument, glyphs: Glyphs) -> Hanging:
    line = Text().append(plain(node["name"]), "bold").append(f"  {plain(node['why'])}")
    return Hanging(Text(f"{glyphs.not_ready} ", style="red"), line)


def _state(hold: HoldSummary, glyphs: Glyphs) -> Text:
    """Return the state; only a committed hold does not end by itself."""
    state = plain(hold["state"])
    if state == "committed":
        return Text().append(f"{glyphs.ready} {state}", style="green")
    return Text().append(f"{glyphs.attention} {state}", style="yellow")


def _ends(hold: HoldSummary) -> str:
    rest = hold["expires_in_s"]
    return "when released" if rest is None else f"in {remaining_time(rest)}"
