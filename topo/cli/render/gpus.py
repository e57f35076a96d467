"""The GPUs of one node for people: their links, the chosen ones, what n of them are worth."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging, Indented
from topo.cli.render.shapes.matrix import Matrix
from topo.cli.render.shapes.rows import Column, Rows, table
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import plural
from topo.model.durations import age
from topo.model.rest.gpus import ChoiceDocument, GpuDocument, GpusDocument
from topo.model.rest.topology import UplinkDocument

UPLINKS = "cables to switches"
_CHOSEN = "bold cyan"


def render_gpus(document: GpusDocument, glyphs: Glyphs) -> RenderableType:
    """Render the answer of `/v1/nodes/{name}/gpus`."""
    return Stack(*_blocks(document, glyphs))


def _blocks(document: GpusDocument, glyphs: Glyphs) -> Iterator[RenderableType]:
    choice = document["choice"]
    yield _head(document)
    if choice is not None:
        yield _why(choice, glyphs)
    for title, block in _sections(document, glyphs):
        yield Text(f"\n{title}", style="bold")
        yield Indented(block)
    if not document["exact"]:
        yield Text("too many free GPUs to look at every set: the best found", style="yellow")


def _sections(document: GpusDocument, glyphs: Glyphs) -> Iterator[tuple[str, Matrix | Rows]]:
    choice = document["choice"]
    yield "links", _links(document, set(choice["gpus"]) if choice else set(), glyphs)
    if beside := [each for each in document["uplinks"] if each["gpus"]]:
        yield UPLINKS, render_uplinks(beside)
    yield "what n GPUs are worth, and cost the others (0 to 2000)", _values(document)


def _head(document: GpusDocument) -> Hanging:
    gpus = document["gpus"]
    free = sum(gpu["free"] for gpu in gpus)
    models = Counter(gpu["model"] or "" for gpu in gpus)
    head = Text().append(plain(document["node"]), style="bold")
    head.append(f"  {free} of {len(gpus)} GPU{plural(len(gpus))} free", style="dim")
    named = ", ".join(plain(model) for model in models if model)
    return Hanging(Text(), head.append(f"  {named}" if named else "", style="dim"))


def _why(choice: ChoiceDocument, glyphs: Glyphs) -> Hanging:
    if choice["fits"]:
        return Hanging(Text(f"{glyphs.taken} ", style=_CHOSEN), Text(plain(choice["why"])))
    sign, why = Text(f"{glyphs.not_ready} ", style="red"), Text(plain(choice["why"]), style="red")
    return Hanging(sign, why)


def _links(document: GpusDocument, chosen: Collection[int], glyphs: Glyphs) -> Matrix:
    """Render the matrix; GPUs that are chosen, in use or unhealthy have a mark at their number."""
    gpus = document["gpus"]
    names = [_name(gpu, chosen, glyphs) for gpu in gpus]
    rows = []
    for gpu, name, row in zip(gpus, names, document["links"], strict=False):
        cells = [
            Text(plain(code), style=_style({gpu["index"], other["index"]}, chosen))
            for other, code in zip(gpus, row, strict=False)
        ]
        rows.append((name, cells + [Text()] * (len(gpus) - len(cells))))
    return Matrix(names, rows)


def _name(gpu: GpuDocument, chosen: Collection[int], glyphs: Glyphs) -> Text:
    number = gpu["index"]
    if number in chosen:
        return Text(f"{glyphs.taken}{number}", style=_CHOSEN)
    if gpu["free"]:
        return Text(f"{glyphs.free}{number}", style="green")
    ill = gpu["healthy"] is False
    sign = glyphs.not_ready if ill else glyphs.used
    return Text(f"{sign}{number}", style="red" if ill else "bright_black")


def _style(pair: set[int], chosen: Collection[int]) -> str:
    return _CHOSEN if pair <= set(chosen) and len(pair) == 2 else "bright_black"


def _values(document: GpusDocument) -> Rows:
    choice = document["choice"]
    rows = []
    for count, score in document["scores"].items():
        wanted = choice is not None and str(choice["n"]) == count
        values = (plain(count), str(score), str(document["losses"].get(count, "")))
        rows.append([Text(value, style=_CHOSEN if wanted else "") for value in values])
    return table(*(Column(title, right=True) for title in ("n", "score", "loss")), rows=rows)


def render_uplinks(uplinks: Iterable[UplinkDocument]) -> Rows:
    """Render a row for each cable, those beside GPUs first, in the order of these."""
    ordered = sorted(uplinks, key=lambda each: (not each["gpus"], each["gpus"]))
    columns = ("GPU", "adapter", "switch", "port", "rate", "rail", Column("", prose=True))
    return table(*columns, rows=map(_uplink, ordered))


def _uplink(uplink: UplinkDocument) -> tuple[Text | str | int | None, ...]:
    unseen_s = uplink["unseen_s"]
    unseen = "" if unseen_s is None else f"not seen for {age(unseen_s)}"
    gpus = ", ".join(map(str, uplink["gpus"]))
    name = " ".join(filter(None, (uplink["adapter"], uplink["interface"])))
    cable = (uplink["switch"], plain(uplink["port"]), uplink["rate"], uplink["rail"])
    return gpus, name, *cable, Text(unseen, style="yellow")
