"""The capacity report for people: per GPU type bars, groups by tier, largest jobs."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging, Indented
from topo.cli.render.shapes.rows import Column, Rows, table
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import amount_text, plural, share_bar
from topo.model.rest.fragmentation import (
    FragmentationDocument,
    LargestDocument,
    TierDocument,
    TypeDocument,
)
from topo.model.rest.gpus import CardFamilyDocument

_TIER_CELLS = attrgetter(
    *("tier", "kind", "domains", "pristine", "partly_used", "full", "closed", "whole_groups")
)


def render_fragmentation(document: FragmentationDocument, glyphs: Glyphs) -> RenderableType:
    """Render the answer of `GET /v1/fragmentation`."""
    if not (document.types or document.shared):
        return Text("no node has GPUs that are known; `topo doctor` says why", style="yellow")
    blocks = [block for each in document.types for block in _type(each, glyphs)]
    if document.shared:
        head = Text("\nshared cards, which no group of a job gets", style="bold")
        blocks += [head, Indented(_shared(document.shared))]
    return Stack(*blocks)


def _type(report: TypeDocument, glyphs: Glyphs) -> Iterator[RenderableType]:
    nodes, closed = report.nodes, report.nodes - report.open_nodes
    head = Text().append(plain(report.gpu_type) or "GPUs of no known type", style="bold")
    head.append(f"  {nodes} node{plural(nodes)}", style="dim")
    head.append(f", {closed} closed" if closed else "", style="yellow")
    yield Hanging(Text(), head)
    yield Indented(_shares(report, glyphs))
    size = report.group_gpus
    yield Text(f"\ngroups by tier; a whole group is {size} GPU{plural(size)}", style="bold")
    yield Indented(_tiers(report.tiers))
    yield Text("\nlargest job that fits now, no group split", style="bold")
    yield Indented(_largest(report.largest, report.gpus, glyphs))


def _shares(report: TypeDocument, glyphs: Glyphs) -> Rows:
    free, size = report.free_gpus, report.group_gpus
    usable, whole = free - report.unusable_gpus, report.whole_groups
    rows = []
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
        rows.append((name, share_bar(part, most, glyphs), percent, Text(words, style="dim")))
    shown = Column("", right=True), Column("", prose=True)
    return table("", "", *shown, rows=rows)


def _tiers(tiers: Sequence[TierDocument]) -> Rows:
    counted = ("groups", "untouched", "partly used", "full", "closed", "whole free")
    rows = map(_TIER_CELLS, tiers)
    numbers = (Column(title, right=True) for title in counted)
    return table(Column("tier", right=True), "kind", *numbers, rows=rows)


def _shared(families: Sequence[CardFamilyDocument]) -> Rows:
    numbers = (Column(title, right=True) for title in ("nodes", "cards", "idle"))
    amounts = (Column(title, prose=True) for title in ("free", "most of one card"))
    rows = (
        (
            *(each["family"], each["nodes"], each["cards"], each["idle"]),
            amount_text(each["family"], each["free"]),
            amount_text(each["family"], each["largest"]),
        )
        for each in families
    )
    return table("family", *numbers, *amounts, rows=rows)


def _largest(jobs: Sequence[LargestDocument], gpus: int, glyphs: Glyphs) -> Rows:
    rows: list[tuple[Text | str | int | None, ...]] = []
    for job in jobs:
        size, most = job.group_size, job.gpus
        if most == 0 and job.tier is None:
            words = Text("and more: larger than any group of the tree", style="dim")
            rows.append((size, words, None, None))
            break
        pods = f"{job.pods} x {job.gpus_per_pod} GPUs" if most else "none fits now"
        rows.append((size, share_bar(most, gpus, glyphs), most, pods))
    numbers = (Column(title, right=True) for title in ("GPUs", "pods"))
    return table(Column("groups of", right=True), "", *numbers, rows=rows)
