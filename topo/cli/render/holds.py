"""Holds for people: a table of all of them, or one with its nodes."""

from collections.abc import Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from topo.cli.client.documents import GroupDoc
from topo.cli.client.placement_documents import HoldDoc, LostDoc
from topo.cli.render import placed
from topo.cli.render.placement import job
from topo.cli.render.safe import plain
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import age


def listed(holds: Sequence[HoldDoc], glyphs: Glyphs) -> RenderableType:
    """One row per hold, in the order given."""
    if not holds:
        return Text("nothing is held", style="dim")
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("hold", "key", "state", "job", "nodes", "ends"):
        rows.add_column(column, overflow="fold")
    for hold in holds:
        rows.add_row(
            Text(plain(hold["id"]), style="bold"),
            plain(hold.get("key") or ""),
            _state(hold, glyphs),
            _job(hold),
            str(hold.get("nodes", "")),
            _ends(hold),
        )
    return rows


def page(hold: HoldDoc, roots: Sequence[GroupDoc], glyphs: Glyphs) -> RenderableType:
    """One hold: its state, its job, its groups inside the tree, and the nodes that it lost."""
    head = Text().append(plain(hold["id"]), style="bold").append("  ")
    head.append_text(_state(hold, glyphs)).append(f"  {_job(hold)}", style="dim")
    if key := hold.get("key"):
        head.append(f" {glyphs.dot} key {plain(key)}", style="dim")
    head.append(f" {glyphs.dot} {_ends(hold)}", style="dim")
    plan = placed.trees({"feasible": True, "groups": hold.get("groups", [])}, roots, glyphs)
    lost = (_lost(each, glyphs) for each in hold.get("lost", []))
    return Stack(head, *plan, *lost)


def _lost(node: LostDoc, glyphs: Glyphs) -> Text:
    line = Text().append(f"{glyphs.not_ready} ", style="red").append(plain(node["name"]), "bold")
    return line.append(f"  {plain(node['why'])}")


def _state(hold: HoldDoc, glyphs: Glyphs) -> Text:
    """Committed is for good, everything else ends by itself."""
    state = plain(hold.get("state", "held"))
    if state == "committed":
        return Text().append(f"{glyphs.ready} {state}", style="green")
    return Text().append(f"{glyphs.attention} {state}", style="yellow")


def _job(hold: HoldDoc) -> str:
    return job(hold) if "pods" in hold and "gpus_per_pod" in hold else ""


def _ends(hold: HoldDoc) -> str:
    left = hold.get("expires_in_s")
    return "when released" if left is None else f"in {age(left)}"
