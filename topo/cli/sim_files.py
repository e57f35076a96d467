"""What `topo sim stream` leaves on disk: figures as CSV, and a picture that needs no library."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from xml.sax.saxutils import escape

from topo.cli.exits import usage
from topo.sim.streams.figures import Figures, average

COLUMNS: Mapping[str, str] = {
    "over_span_pct": "over-span %",
    "split_groups_pct": "split groups %",
    "gir_pct": "integrity %",
    "gar_pct": "allocated %",
    "wait_min": "wait min",
    "big_wait_min": "big wait min",
    "blocked_pct": "blocked %",
    "p50_us": "p50 µs",
    "p99_us": "p99 µs",
}
"""The figures that people see, and what they are called."""
HIGH_IS_GOOD = frozenset({"gir_pct", "gar_pct"})
"""Of the other figures the lower one is the better."""
PANELS = ("over_span_pct", "split_groups_pct", "gir_pct", "gar_pct", "big_wait_min")
"""Those that the picture shows, from left to right."""

_LABELS, _PANEL, _BAR, _GAP, _ROW, _TOP = 130, 170, 100, 8, 22, 76
_OURS, _THEIRS = "#1971c2", "#adb5bd"

_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
    'font-family="sans-serif" font-size="12" role="img" aria-label="{title}">'
)

Found = Mapping[str, Sequence[Figures]]


def as_csv(found: Found) -> str:
    """A line for every policy and stream, all figures, with a header."""
    text = io.StringIO()
    names = ("stream", *Figures.__slots__)
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for figures in found.values():
        for number, each in enumerate(figures, start=1):
            writer.writerow({"stream": number, **asdict(each)})
    return text.getvalue()


def as_svg(found: Found, title: str) -> str:
    """Bars of the means: a row for every policy, a panel for every figure of `PANELS`.

    Each panel says which way is good.
    """
    means = [average(figures) for figures in found.values()]
    width, height = _LABELS + len(PANELS) * _PANEL, _TOP + len(means) * _ROW + _GAP
    parts = [
        _SVG.format(width=width, height=height, title=_quoted(title)),
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text((_GAP, 20), title, "font-weight='bold'"),
    ]
    for row, mean in enumerate(means):
        parts.append(_text((_LABELS - _GAP, _base(row)), mean.policy, "text-anchor='end'"))
    for panel, name in enumerate(PANELS):
        parts += _panel(_LABELS + panel * _PANEL, name, means)
    return "\n".join((*parts, "</svg>", ""))


def write(path: Path, text: str) -> None:
    """Writes a file; raises `CliError` where that cannot be done."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fix = "name a file that you may write"
        raise usage(error.strerror or str(error), str(path), fix) from None


def _panel(left: int, name: str, means: Sequence[Figures]) -> list[str]:
    values = [float(getattr(mean, name)) for mean in means]
    most = max(100.0 if name.endswith("_pct") else 0.0, *values) or 1.0
    good = "higher is better" if name in HIGH_IS_GOOD else "lower is better"
    parts = [
        _text((left, _TOP - 28), COLUMNS[name], "fill='#495057'"),
        _text((left, _TOP - 12), good, "fill='#868e96' font-size='10'"),
    ]
    for row, (mean, value) in enumerate(zip(means, values, strict=True)):
        length = _BAR * value / most
        colour = _OURS if mean.policy.startswith("topo") else _THEIRS
        parts.append(
            f'<rect x="{left}" y="{_base(row) - 12}" width="{length:.1f}" height="15" '
            f'fill="{colour}"/>'
        )
        parts.append(_text((left + round(length) + 4, _base(row)), f"{value:.1f}"))
    return parts


def _base(row: int) -> int:
    """The base line of a row's text."""
    return _TOP + row * _ROW + 12


def _text(at: tuple[int, int], words: str, style: str = "") -> str:
    return f'<text x="{at[0]}" y="{at[1]}" {style}>{escape(words)}</text>'.replace(" >", ">")


def _quoted(words: str) -> str:
    return escape(words, {'"': "&quot;"})
