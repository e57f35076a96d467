"""Gangs for people: a table of all of them, or one with its pods inside the tree."""

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.render import placement_tree
from topo.cli.render.placement import describe_job, inside_in_words
from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging
from topo.cli.render.shapes.rows import Column, table
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import plural
from topo.model.conditions.gang_states import GangState, Stage
from topo.model.durations import age
from topo.model.rest.gangs import (
    AheadDocument,
    GangDocument,
    GangPodDocument,
    GangsDocument,
    GangSummary,
)
from topo.model.rest.topology import GroupDocument
from topo.model.words import listed

_MOST_LOSSES = 8
_STAGES = {each.value: each.row.stage for each in GangState}
"""A state of a later release is not in it, and is shown as one that is blocked."""


def render_gangs(document: GangsDocument, glyphs: Glyphs) -> RenderableType:
    """Render one row per gang, in the order given; below what is kept for pods to come."""
    ahead = document["ahead"]
    below = (Text(), _ahead(ahead)) if ahead else ()
    if not document["gangs"]:
        return Stack(Text("no job asks for groups", style="dim"), *below)
    columns = ("gang", "state", "job", "bound", "age", Column("why", prose=True))
    shown = table(*columns, rows=(_row(gang, glyphs) for gang in document["gangs"]))
    return Stack(shown, *below)


def _ahead(rows: Sequence[AheadDocument]) -> RenderableType:
    """What namespaces keep for pods that are not made yet: how much, who, and since when."""
    columns = ("namespace", "kept ahead", "may keep", "for", Column("by", prose=True))
    return table(*columns, rows=map(_ahead_row, rows))


def _ahead_row(row: AheadDocument) -> tuple[Text | str | int | None, ...]:
    of_type = f" {plain(row['gpu_type'])}" if row["gpu_type"] else ""
    limit = "any" if row["limit"] is None else str(row["limit"])
    names = [f"{plain(each['name'])} {each['gpus']}" for each in row["keepers"]]
    return (
        Text(plain(row["namespace"]), style="bold"),
        f"{row['gpus']}{of_type} GPU{plural(row['gpus'])}",
        f"{limit} ({plain(row['source'])})",
        age(row["for_s"]),
        listed(names),
    )


def _row(gang: GangSummary, glyphs: Glyphs) -> tuple[Text | str | int | None, ...]:
    name = Text(f"{plain(gang['namespace'])}/{plain(gang['name'])}", style="bold")
    asked = describe_job(gang["pods"], gang["gpus_per_pod"], gang["group_size"])
    bound = f"{gang['bound']} of {gang['pods']}"
    why = None if _STAGES.get(gang["state"]) is Stage.RUNNING else gang["text"]
    if gang["losses"]:
        lost = _lost_nodes(gang)
        why = f"{len(lost)} of its nodes {'is' if len(lost) == 1 else 'are'} NotReady: {lost[0]}"
    return name, _state(gang, glyphs), asked, bound, age(gang["age_s"]), why


def render_gang(
    gang: GangDocument, roots: Sequence[GroupDocument], glyphs: Glyphs
) -> RenderableType:
    """Render one gang: its state and why, what would let it in, its groups inside the tree."""
    plan = placement_tree.render_trees(gang["groups"], (), roots, glyphs)
    said = (*_why(gang, glyphs), *_inside(gang, glyphs), *_pools(gang, glyphs))
    return Stack(_head(gang, glyphs), *said, *_losses(gang, glyphs), *plan, *_waiting(gang, glyphs))


def render_history(gang: GangDocument, glyphs: Glyphs) -> RenderableType:
    """Render one gang with its last changes of state, the oldest first."""
    rows = (
        (plain(each["at"]), _coloured(each["state"], glyphs), plain(each["text"]))
        for each in gang["history"]
    )
    since = plain(gang["history_from"]) or "its start, and keeps no history"
    before = f"Earlier changes are not known: this master leads since {since}."
    if any(each["source"] == "pod" for each in gang["history"]):
        before += " The first row is from the condition of its first pod."
    seen = table("at", "state", Column("why", prose=True), rows=rows)
    return Stack(_head(gang, glyphs), *_why(gang, glyphs), seen, Text(before, style="dim"))


def _head(gang: GangSummary, glyphs: Glyphs) -> Hanging:
    """The name, the state and what the gang asks for, in a line."""
    head = Text().append(f"{plain(gang['namespace'])}/{plain(gang['name'])}", style="bold")
    head.append("  ").append_text(_state(gang, glyphs))
    facts = [
        describe_job(gang["pods"], gang["gpus_per_pod"], gang["group_size"]),
        plain(gang["mode"]),
    ]
    facts += [f"within one {plain(gang['within'])}"] if gang["within"] else []
    facts += [f"priority {gang['priority']}"] if gang["priority"] else []
    facts += [f"{age(gang['age_s'])} old"]
    head.append("  " + f" {glyphs.dot} ".join(facts), style="dim")
    return Hanging(Text(), head)


def _why(gang: GangSummary, glyphs: Glyphs) -> Iterator[Hanging]:
    said = [gang["text"]] if gang["text"] else []
    if gang["ahead"] is not None:
        before = f"{gang['ahead']} gang{plural(gang['ahead'])} before it in line"
        said.append(before if gang["ahead"] else "it is the first in line")
    if gang["would_fit"]:
        said.append(f"what would let it in: {gang['would_fit']}")
    for sentence in said:
        yield Hanging(Text(f"  {glyphs.arrow} ", style="dim"), Text(plain(sentence)))


def _inside(gang: GangDocument, glyphs: Glyphs) -> Iterator[Hanging]:
    """Yield the group of the kind asked for that all of its nodes share."""
    if (inside := gang["inside"]) is not None:
        words = f"all of its nodes are inside {inside_in_words(inside)}"
        yield Hanging(Text(f"  {glyphs.arrow} ", style="dim"), Text(words))


def _pools(gang: GangDocument, glyphs: Glyphs) -> Iterator[Hanging]:
    """Yield why it has nodes that jobs of another use may have, too."""
    if gang["hybrid"]:
        named, usage = listed([plain(node) for node in gang["hybrid"]]), plain(gang["usage"])
        words = f"of the hybrid pool: {named}; jobs for {usage} get such nodes only where"
        words += " their groups fit on no others"
        yield Hanging(Text(f"  {glyphs.arrow} ", style="dim"), Text(words))


def _losses(gang: GangSummary, glyphs: Glyphs) -> Iterator[Hanging]:
    """Yield what the job lost since it runs, and what can be done about it."""
    for loss in gang["losses"][:_MOST_LOSSES]:
        words = Text(f"group {loss['group']} lost {plain(loss['node'])}: {plain(loss['text'])}")
        since_s = loss["since_s"]
        words.append("" if since_s is None else f" {glyphs.dot} for {age(since_s)}", style="dim")
        yield Hanging(Text(f"{glyphs.not_ready} ", style="red"), words)
    if (more := len(gang["losses"]) - _MOST_LOSSES) > 0:
        yield Hanging(Text("  "), Text(f"and {more} more", style="dim"))
    if gang["losses"]:
        step = "its pods are left alone: mend it (`topo doctor`), or restart the job, which is then"
        step += " placed on whole groups without these nodes"
        yield Hanging(Text(f"  {glyphs.arrow} ", style="dim"), Text(step))


def _lost_nodes(gang: GangSummary) -> list[str]:
    return [plain(node) for node in dict.fromkeys(loss["node"] for loss in gang["losses"])]


def _waiting(gang: GangDocument, glyphs: Glyphs) -> Iterator[Hanging]:
    """Yield a line on the pods without a node, and one on those that are not bound yet."""
    homeless = [pod for pod in gang["members"] if pod["node"] is None and pod["state"] != "ending"]
    unbound = [
        pod for pod in gang["members"] if pod["node"] is not None and pod["state"] != "bound"
    ]
    for pods, what in ((homeless, "without a node"), (unbound, "not bound to their nodes yet")):
        if pods:
            words = f"{len(pods)} pod{plural(len(pods))} {what}: {_named(pods, glyphs)}"
            yield Hanging(Text(f"{glyphs.attention} ", style="yellow"), Text(words))


def _named(pods: Sequence[GangPodDocument], glyphs: Glyphs) -> str:
    ends = dict.fromkeys(plain(pod["name"]) for pod in (pods[0], pods[-1]))
    return f" {glyphs.ellipsis} ".join(ends)


def _state(gang: GangSummary, glyphs: Glyphs) -> Text:
    return _coloured(gang["state"], glyphs)


def _coloured(word: str, glyphs: Glyphs) -> Text:
    """The word of a state with the sign and the colour of its stage."""
    state, stage = plain(word), _STAGES.get(word, Stage.BLOCKED)
    if stage is Stage.RUNNING:
        return Text(f"{glyphs.ready} {state}", style="green")
    if stage is not Stage.BLOCKED:
        return Text(f"{glyphs.attention} {state}", style="yellow")
    return Text(f"{glyphs.not_ready} {state}", style="red")
