"""A placement for people: the groups inside the tree, the objective with its proof, reasons.

A refusal: the test that failed, what is missing, and what would fit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.render import placement_tree
from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging
from topo.cli.render.shapes.rows import Column, Rows, table
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import bar_legend, plural, remaining_time
from topo.model.rest.placements import (
    FitsDocument,
    HoldSummary,
    InsideDocument,
    NoFitDocument,
)
from topo.model.rest.topology import GroupDocument

_NAMES = {
    "top_groups": "groups used, top tier",
    "tier1_groups": "groups used, tier 1",
    "free_profile_top": "free groups, largest first",
    "free_profile_tier1": "free slots, largest first",
    "newly_broken": "groups newly broken",
}
_EXPLAIN_HINT = "; `--explain` has the bounds of the others"
_PROFILE_HINT = "-1x16 +1x8: one domain fewer with 16 free, one more with 8"


def describe_job(pods: int, gpus: int, size: int | None) -> str:
    """Return the request in a few words: pods, GPUs of each, GPUs of a group."""
    words = f"{pods} pod{plural(pods)} of {gpus} GPU{plural(gpus)}"
    return words if size is None else f"{words} in groups of {size}"


def inside_in_words(group: InsideDocument) -> str:
    """Return the group that all of a job is in: `leaf spine-1/leaf-a of scale-out`."""
    words = f"{plain(group['kind'])} {'/'.join(map(plain, group['path']))}"
    return f"{words} of {plain(group['fabric'])}" if group["fabric"] else words


def render_placement(
    document: FitsDocument | NoFitDocument,
    body: Mapping[str, Any],
    roots: Sequence[GroupDocument],
    glyphs: Glyphs,
    *,
    explain: bool,  # what else is shown, no other algorithm
) -> RenderableType:
    """Render the answer of `POST /v1/placements` to `body`, inside the `roots` that it uses."""
    asked = describe_job(body["pods"], body["gpus_per_pod"], body.get("group_size"))
    if document["feasible"] is False:
        return Stack(*_refusal(document, asked, glyphs))
    more = _why(document, glyphs) if explain else ()
    return Stack(*_plan(document, asked, roots, glyphs, explained=explain), *more)


def _plan(
    document: FitsDocument,
    asked: str,
    roots: Sequence[GroupDocument],
    glyphs: Glyphs,
    *,
    explained: bool,  # whether the table behind the proof follows
) -> Iterator[RenderableType]:
    yield _head(document, asked, glyphs)
    yield Text()
    yield from placement_tree.render_trees(document["groups"], document["capacity"], roots, glyphs)
    if document["capacity"]:
        yield bar_legend(glyphs)
    if document["objective"]:
        yield Text()
        yield _proof(document, glyphs, hint="" if explained else _EXPLAIN_HINT)
    if hold := document["hold"]:
        yield Text()
        yield render_hold(hold, glyphs)


def _head(document: FitsDocument, asked: str, glyphs: Glyphs) -> Hanging:
    head = Text().append(f"{asked}: placed", style="bold")
    count = len(document["groups"])
    split = sum(len(group["domains"]) > 1 for group in document["groups"])
    facts = [f"{count} group{plural(count)}" + (f", {split} split" if split else "")]
    facts += [plain(word) for word in (document["mode"], document["gpu_type"]) if word]
    if (inside := document["inside"]) is not None:
        facts.append(f"inside {inside_in_words(inside)}")
    facts += ["from the reserve"] if document["used_reserve"] else []
    facts += [f"generation {document['generation']}"] if document["generation"] else []
    head.append("".join(f" {glyphs.dot} {fact}" for fact in facts), style="dim")
    return Hanging(Text(f"{glyphs.ready} ", style="green"), head)


def _proof(document: FitsDocument, glyphs: Glyphs, hint: str) -> Hanging:
    """Return the line on how many of its objectives the plan is proven best in."""
    aims = document["objective"]
    proven = sum(document["certified"].get(name, False) for name in aims)
    whole = proven == len(aims)
    sign, style = (glyphs.proven, "green") if whole else (glyphs.attention, "yellow")
    words = Text(f"proven best in {proven} of {len(aims)}", style=style)
    words.append("" if whole else hint, style="dim default")
    return Hanging(Text(f"{sign} ", style=style), words)


def _objective(document: FitsDocument, glyphs: Glyphs) -> Rows:
    rows = []
    for name, value in document["objective"].items():
        best = document["bounds"].get(name)
        rows.append(
            (
                _NAMES.get(name, name.replace("_", " ")),
                _number(value),
                None if best is None else _number(best),
                _verdict(glyphs, value, best, proven=document["certified"].get(name, False)),
            )
        )
    numbers = Column("value", right=True), Column("bound", right=True)
    return table("objective, the first counts most", *numbers, "", rows=rows)


def _number(value: Any) -> str:
    """Return a number, or a profile {capacity: change} as `-1x16 +1x8`."""
    if isinstance(value, Mapping):
        return " ".join(f"{change:+}x{plain(str(size))}" for size, change in value.items()) or "="
    return plain(str(value))


def _verdict(glyphs: Glyphs, value: Any, best: Any, *, proven: bool) -> Text:
    if proven:
        return Text(f"{glyphs.proven} best possible", style="green")
    if not isinstance(value, int) or not isinstance(best, int):
        return Text("not proven", style="dim")
    if value == best:
        return Text("meets its bound", style="dim")
    return Text(f"at most {abs(value - best)} from the best", style="yellow")


def _why(document: FitsDocument, glyphs: Glyphs) -> Iterator[RenderableType]:
    """Yield the objective with its bounds, and the sentences."""
    if document["objective"]:
        yield Text()
        yield _objective(document, glyphs)
        if any(isinstance(value, Mapping) and value for value in document["objective"].values()):
            yield Hanging(Text(), Text(_PROFILE_HINT, style="dim"))
    if document["explanation"]:
        yield Text("\nwhy", style="bold")
        yield from _sentences(document["explanation"], glyphs)


def _sentences(sentences: Iterable[str], glyphs: Glyphs) -> Iterator[Hanging]:
    for sentence in sentences:
        yield Hanging(Text(f"  {glyphs.arrow} ", style="dim"), Text(plain(sentence)))


def _refusal(document: NoFitDocument, asked: str, glyphs: Glyphs) -> Iterator[RenderableType]:
    verdict = "never fits on these nodes" if document["never"] else "no placement now"
    head = Text(f"{asked}: {verdict}", style="bold red")
    yield Hanging(Text(f"{glyphs.not_ready} ", style="bold red"), head)
    yield _failed(document, glyphs)
    if suggestions := document["would_fit"]:
        yield Text("\nwould fit", style="bold")
        yield from _sentences((each["text"] for each in suggestions), glyphs)
    if sentences := document["explanation"]:
        yield Text("\nwhy", style="bold")
        yield from _sentences(sentences, glyphs)


def _failed(document: NoFitDocument, glyphs: Glyphs) -> Hanging:
    line = Text().append(plain(document["failed"]), "bold red")
    for name, number in document["shortfall"].items():
        line.append(f" {glyphs.dot} {plain(name).replace('_', ' ')} {number}")
    return Hanging(Text("  failed: ", style="dim"), line)


def render_hold(hold: HoldSummary, glyphs: Glyphs) -> Stack:
    """Render the hold that a placement got, and the commands for it."""
    name = plain(hold["id"])
    line = Text().append(f"held as {name}", "bold")
    if (rest := hold["expires_in_s"]) is not None:
        line.append(f" for {remaining_time(rest)}", style="yellow")
    next_steps = Text(f"topo holds commit {name}   topo holds release {name}", style="dim")
    return Stack(
        Hanging(Text(f"{glyphs.attention} ", style="yellow"), line),
        Hanging(Text(f"  {glyphs.arrow} ", style="dim"), next_steps),
    )
