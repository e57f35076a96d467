"""The GPUs of one node for people: their links, the chosen ones, what n of them are worth."""

from collections import Counter
from collections.abc import Collection, Iterator

from rich import box
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import plural
from topo.model.rest.gpus import ChoiceDocument, GpuDocument, GpusDocument

_CHOSEN = "bold cyan"


def page(document: GpusDocument, glyphs: Glyphs) -> RenderableType:
    """The answer of `/v1/nodes/{name}/gpus` for people."""
    return Stack(*_blocks(document, glyphs))


def _blocks(document: GpusDocument, glyphs: Glyphs) -> Iterator[RenderableType]:
    choice = document.choice
    yield _head(document)
    if choice is not None:
        yield _why(choice, glyphs)
    for title, table in (
        ("links", _links(document, set(choice.gpus) if choice else set(), glyphs)),
        ("what n GPUs are worth, and cost the others (0 to 2000)", _values(document)),
    ):
        yield Text(f"\n{title}", style="bold")
        yield Padding(table, (0, 0, 0, 2), expand=False)
    if not document.exact:
        yield Text("too many free GPUs to look at every set: the best found", style="yellow")


def _head(document: GpusDocument) -> Text:
    gpus = document.gpus
    free = sum(gpu.free for gpu in gpus)
    models = Counter(gpu.model or "" for gpu in gpus)
    head = Text().append(plain(document.node), style="bold")
    head.append(f"  {free} of {len(gpus)} GPU{plural(len(gpus))} free", style="dim")
    named = ", ".join(plain(model) for model in models if model)
    return head.append(f"  {named}" if named else "", style="dim")


def _why(choice: ChoiceDocument, glyphs: Glyphs) -> Text:
    if choice.fits:
        return Text().append(f"{glyphs.taken} ", style=_CHOSEN).append(plain(choice.why))
    return Text().append(f"{glyphs.not_ready} {plain(choice.why)}", style="red")


def _links(document: GpusDocument, chosen: Collection[int], glyphs: Glyphs) -> Table:
    """The matrix; GPUs that are chosen, in use or unhealthy bear a mark beside their number."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    gpus = document.gpus
    for gpu in gpus:
        table.add_column(_name(gpu, chosen, glyphs), justify="center", no_wrap=True)
    for gpu, row in zip(gpus, document.links, strict=False):
        cells = [
            Text(plain(code), style=_style({gpu.index, other.index}, chosen))
            for other, code in zip(gpus, row, strict=False)
        ]
        table.add_row(_name(gpu, chosen, glyphs), *cells)
    return table


def _name(gpu: GpuDocument, chosen: Collection[int], glyphs: Glyphs) -> Text:
    number = gpu.index
    if number in chosen:
        return Text(f"{glyphs.taken}{number}", style=_CHOSEN)
    if gpu.free:
        return Text(f"{glyphs.free}{number}", style="green")
    ill = gpu.healthy is False
    sign = glyphs.not_ready if ill else glyphs.used
    return Text(f"{sign}{number}", style="red" if ill else "bright_black")


def _style(pair: set[int], chosen: Collection[int]) -> str:
    return _CHOSEN if pair <= set(chosen) and len(pair) == 2 else "bright_black"


def _values(document: GpusDocument) -> Table:
    choice = document.choice
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("n", "score", "loss"):
        table.add_column(column, justify="right")
    for count, score in document.scores.items():
        wanted = choice is not None and str(choice.n) == count
        loss = document.losses.get(count, "")
        style = _CHOSEN if wanted else ""
        table.add_row(plain(count), str(score), str(loss), style=style)
    return table
