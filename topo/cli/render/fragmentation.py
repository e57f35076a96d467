"""How whole the free capacity is, for people: per GPU type bars, groups by tier, largest jobs."""

from collections.abc import Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import plural, share_bar
from topo.model.rest.fragmentation import (
    FragmentationDocument,
    LargestDocument,
    TierDocument,
    TypeDocument,
)


def report(document: FragmentationDocument, glyphs: Glyphs) -> RenderableType:
    """The answer of `GET /v1/fragmentation`."""
    if not document.types:
        return Text("no node has GPUs that are known; `topo doctor` says why", style="yellow")
    return Stack(*(block for each in document.types for block in _type(each, glyphs)))


def _type(report: TypeDocument, glyphs: Glyphs) -> Iterator[RenderableType]:
    nodes, closed = report.nodes, report.nodes - report.open_nodes
    head = Text().append(plain(report.gpu_type) or "GPUs of no known type", style="bold")
    head.append(f"  {nodes} node{plural(nodes)}", style="dim")
    head.append(f", {closed} closed" if closed else "", style="yellow")
    yield head
    yield _indented(_shares(report, glyphs))
    size = report.group_gpus
    yield Text(f"\ngroups by tier; a whole group is {size} GPU{plural(size)}", style="bold")
    yield _indented(_tiers(report.tiers))
    yield Text("\nlargest job that fits now, no group split", style="bold")
    yield _indented(_largest(report.largest, report.gpus, glyphs))


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2), expand=False)


def _shares(report: TypeDocument, glyphs: Glyphs) -> Table:
    free, size = report.free_gpus, report.group_gpus
    usable, whole = free - report.unusable_gpus, report.whole_groups
    rows = Table.grid(padding=(0, 2, 0, 0))
    for name, part, most, words in (
        ("free", free, report.gpus, f"{free} of {report.gpus} GPUs"),
        (
            "integrity",
            report.integrity,
            1.0,
            f"of the free room is whole: {whole} free group{plural(whole)} of {size}",
        ),
        ("usable", usable, free, f"{usable:.1f} of {free} free GPUs, for a usual job"),
    ):
        percent = f"{100 * part / most:.0f} %" if most else glyphs.rule
        bar = share_bar(part, most, glyphs)
        rows.add_row(name, bar, Text(percent, justify="right"), Text(words, style="dim"))
    return rows


def _tiers(tiers: Sequence[TierDocument]) -> Table:
    columns = ("groups", "untouched", "partly used", "full", "closed", "whole groups free")
    rows = _table("tier", "kind", *columns)
    for each in tiers:
        counts = (each.domains, each.pristine, each.partly_used, each.full, each.closed)
        cells = map(str, (*counts, each.whole_groups))
        rows.add_row(str(each.tier), plain(each.kind), *cells)
    return rows


def _largest(jobs: Sequence[LargestDocument], gpus: int, glyphs: Glyphs) -> Table:
    rows = _table("groups of", "", "GPUs", "pods")
    for job in jobs:
        size, most = job.group_size, job.gpus
        if most == 0 and job.tier is None:
            words = Text("and more: larger than any group of the tree", style="dim")
            rows.add_row(str(size), words, "", "")
            break
        pods = f"{job.pods} x {job.gpus_per_pod} GPUs" if most else "none fits now"
        rows.add_row(str(size), share_bar(most, gpus, glyphs), str(most), pods)
    return rows


def _table(first: str, second: str, *numbers: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, justify="right")
    table.add_column(second)
    for column in numbers:
        table.add_column(column, justify="right")
    return table
