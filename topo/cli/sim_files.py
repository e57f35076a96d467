"""The files of `topo sim stream`: figures as CSV, and pictures as SVG without a library."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from xml.sax.saxutils import escape

from topo.cli.exit_codes import usage
from topo.sim.streams.figures import Figures, average
from topo.sim.streams.stream import EXTRA_DOMAINS, OURS

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
_LINE = (OURS, *EXTRA_DOMAINS)

_LABELS, _PANEL, _BAR, _GAP, _ROW, _TOP = 130, 170, 100, 8, 22, 76
_OURS, _THEIRS = "#1971c2", "#adb5bd"

_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
    'font-family="sans-serif" font-size="12" role="img" aria-label="{title}">'
)

_LEFT, _HIGH, _SIDE, _BELOW = 70, 50, 420, 60
"""The trade-off's square: its place, its side, and the room for words below."""
_BEYOND = 1.05
"""Axes go a little beyond the points."""

Found = Mapping[str, Sequence[Figures]]


def as_csv(found: Found) -> str:
    """Return a CSV line for every policy and stream, with a header."""
    text = io.StringIO()
    names = ("stream", *Figures.__slots__)
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for figures in found.values():
        for number, each in enumerate(figures, start=1):
            writer.writerow({"stream": number, **asdict(each)})
    return text.getvalue()


def as_svg(found: Found, title: str) -> str:
    """Return an SVG with bars of the means: a row per policy, a panel per figure of `PANELS`.

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


def as_trade_off(found: Found, title: str) -> str:
    """Return an SVG of over-span against group integrity, a point per policy that splits no group.

    Ours are joined by a line: from the fewest groups of the tree to more whole groups left. A
    policy is beaten by all that stand above it or to the left.
    """
    means = [average(figures) for figures in found.values()]
    means = [mean for mean in means if not mean.split_groups_pct]
    most = _BEYOND * max((mean.over_span_pct for mean in means), default=0.0) or 1.0
    least, top = _integrity_range(means)

    def at(mean: Figures) -> tuple[int, int]:
        across, up = mean.over_span_pct / most, (mean.gir_pct - least) / (top - least)
        return round(_LEFT + _SIDE * across), round(_HIGH + _SIDE * (1 - up))

    width, height, floor = _LEFT + _SIDE + _LABELS, _HIGH + _SIDE + _BELOW, _HIGH + _SIDE
    line = " ".join(f"{x},{y}" for x, y in (at(m) for m in means if m.policy in _LINE))
    parts = [
        _SVG.format(width=width, height=height, title=_quoted(title)),
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text((_GAP, 20), title, "font-weight='bold'"),
        _text((_GAP, 40), f"{COLUMNS['gir_pct']}, higher is better", "fill='#495057'"),
        _text(
            (_LEFT, floor + 40), f"{COLUMNS['over_span_pct']}, lower is better", "fill='#495057'"
        ),
        f'<path d="M{_LEFT} {_HIGH}V{floor}H{_LEFT + _SIDE}" fill="none" stroke="#adb5bd"/>',
        f'<polyline points="{line}" fill="none" stroke="{_OURS}"/>',
    ]
    for y, value in ((floor, least), (_HIGH + 12, top)):
        parts.append(_text((_LEFT - _GAP, y), f"{value:.0f}", "text-anchor='end'"))
    for x, value in ((_LEFT, 0.0), (_LEFT + _SIDE, most)):
        parts.append(_text((x, floor + 18), f"{value:.0f}", "text-anchor='middle'"))
    named: dict[tuple[int, int], list[str]] = {}
    for mean in means:
        named.setdefault(at(mean), []).append(mean.policy)
    for (x, y), policies in named.items():
        colour = _OURS if policies[0].startswith("topo") else _THEIRS
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>')
        parts.append(_text((x + 8, y + 4), ", ".join(policies)))
    return "\n".join((*parts, "</svg>", ""))


def _integrity_range(means: Sequence[Figures]) -> tuple[float, float]:
    """Return the whole per cents below and above all points."""
    values = [mean.gir_pct for mean in means] or [0.0]
    return math.floor(min(values)) - 1.0, math.ceil(max(values)) + 1.0


def write(path: Path, text: str) -> None:
    """Write a file; raise `CliError` where that fails."""
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
    """Return the base line of a row's text."""
    return _TOP + row * _ROW + 12


def _text(at: tuple[int, int], words: str, style: str = "") -> str:
    return f'<text x="{at[0]}" y="{at[1]}" {style}>{escape(words)}</text>'.replace(" >", ">")


def _quoted(words: str) -> str:
    return escape(words, {'"': "&quot;"})
