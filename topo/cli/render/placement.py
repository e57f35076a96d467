"""A placement for people: the groups inside the tree, the objective with its proof, reasons.

A refusal: the test that failed, what is missing, and what would fit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.console import Group as Stack
from rich.table import Table
from rich.text import Text

from topo.cli.render import placement_tree
from topo.cli.render.safe import plain
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import age, bar_legend, plural
from topo.model.rest.placements import FitsDocument, HoldSummary, NoFitDocument
from topo.model.rest.topology import GroupDocument

_NAMES = {
    "top_groups": "groups used, top tier",
    "tier1_groups": "groups used, tier 1",
    "free_profile_top": "free groups, largest first",
    "free_profile_tier1": "free slots, largest first",
    "newly_broken": "groups newly broken",
}
_PROFILE_HINT = "-1x16 +1x8: one domain fewer with 16 free, one more with 8"


def job(pods: int, gpus: int, size: int | None) -> str:
    """The request in a few words: pods, GPUs of each, GPUs of a group."""
    words = f"{pods} pod{plural(pods)} of {gpus} GPU{plural(gpus)}"
    return words if size is None else f"{words} in groups of {size}"


def answer(
    document: FitsDocument | NoFitDocument,
    body: Mapping[str, Any],
    roots: Sequence[GroupDocument],
    glyphs: Glyphs,
    *,
    explain: bool,  # what else is shown, no other algorithm
) -> RenderableType:
    """The answer of `POST /v1/placements` to the request `body`, inside the `roots` it uses."""
    asked = job(body["pods"], body["gpus_per_pod"], body.get("group_size"))
    if isinstance(document, NoFitDocument):
        return Stack(*_refusal(document, asked, glyphs))
    return Stack(*_plan(document, asked, roots, glyphs), *_why(document, glyphs, shown=explain))


def _plan(
    document: FitsDocument, asked: str, roots: Sequence[GroupDocument], glyphs: Glyphs
) -> Iterator[RenderableType]:
    yield _head(document, asked, glyphs)
    yield Text()
    yield from placement_tree.trees(document.groups, document.capacity, roots, glyphs)
    if document.capacity:
        yield bar_legend(glyphs)
    if document.objective:
        yield Text()
        yield _objective(document, glyphs)
        if any(isinstance(value, Mapping) and value for value in document.objective.values()):
            yield Text(_PROFILE_HINT, style="dim")
    if hold := document.hold:
        yield Text()
        yield held(hold, glyphs)


def _head(document: FitsDocument, asked: str, glyphs: Glyphs) -> Text:
    head = Text().append(f"{glyphs.ready} ", style="green")
    head.append(f"{asked}: placed", style="bold")
    count = len(document.groups)
    split = sum(len(group.domains) > 1 for group in document.groups)
    facts = [f"{count} group{plural(count)}" + (f", {split} split" if split else "")]
    facts += [plain(word) for word in (document.mode, document.gpu_type) if word]
    facts += ["from the reserve"] if document.used_reserve else []
    facts += [f"generation {document.generation}"] if document.generation else []
    return head.append("".join(f" {glyphs.dot} {fact}" for fact in facts), style="dim")


def _objective(document: FitsDocument, glyphs: Glyphs) -> Table:
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    rows.add_column("objective, the first counts most", no_wrap=True)
    rows.add_column("value", justify="right")
    rows.add_column("bound", justify="right")
    rows.add_column("", no_wrap=True)
    for name, value in document.objective.items():
        best = document.bounds.get(name)
        rows.add_row(
            plain(_NAMES.get(name, name.replace("_", " "))),
            _number(value),
            "" if best is None else _number(best),
            _verdict(glyphs, value, best, proven=document.certified.get(name, False)),
        )
    return rows


def _number(value: Any) -> str:
    """A number, or a profile {capacity: change} as `-1x16 +1x8`."""
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


@dataclass(frozen=True, slots=True)
class _Hanging:
    """A text whose further lines begin below its first word, not below the mark before it."""

    mark: Text
    text: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = max(1, options.max_width - self.mark.cell_len)
        first, *others = self.text.wrap(console, width)
        yield self.mark + first
        for line in others:
            yield Text(" " * self.mark.cell_len) + line


def _why(document: FitsDocument, glyphs: Glyphs, *, shown: bool) -> Iterator[RenderableType]:
    sentences = document.explanation
    if shown and sentences:
        yield Text("\nwhy", style="bold")
        yield from _sentences(sentences, glyphs)


def _sentences(sentences: Iterable[str], glyphs: Glyphs) -> Iterator[_Hanging]:
    for sentence in sentences:
        yield _Hanging(Text(f"  {glyphs.arrow} ", style="dim"), Text(plain(sentence)))


def _refusal(document: NoFitDocument, asked: str, glyphs: Glyphs) -> Iterator[RenderableType]:
    yield Text().append(f"{glyphs.not_ready} {asked}: no placement now", style="bold red")
    yield _failed(document, glyphs)
    if suggestions := document.would_fit:
        yield Text("\nwould fit", style="bold")
        yield from _sentences((each.text for each in suggestions), glyphs)
    if sentences := document.explanation:
        yield Text("\nwhy", style="bold")
        yield from _sentences(sentences, glyphs)


def _failed(document: NoFitDocument, glyphs: Glyphs) -> Text:
    line = Text("  failed: ", style="dim").append(plain(document.failed), "bold red")
    for name, number in document.shortfall.items():
        line.append(f" {glyphs.dot} {plain(name).replace('_', ' ')} {number}", style="not dim")
    return line


def held(hold: HoldSummary, glyphs: Glyphs) -> Text:
    """The hold that a placement got, and what to do with it."""
    name = plain(hold.id)
    line = Text().append(f"{glyphs.attention} ", style="yellow").append(f"held as {name}", "bold")
    if (left := hold.expires_in_s) is not None:
        line.append(f" for {age(left)}", style="yellow")
    line.append(f"\n  {glyphs.arrow} topo holds commit {name}", style="dim")
    return line.append(f"   topo holds release {name}", style="dim")
