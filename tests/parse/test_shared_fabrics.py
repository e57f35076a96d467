"""Recorded fabrics that were cut, folded or given twice: never less than the whole in silence."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parse.variants import cut_off, folded, folded_at_blanks, wrapped
from topo.facts import parse
from topo.model.observation import ParsedProbe

FOLDER = Path(__file__).resolve().parents[2].parent / "shared/data/fabrics"
FILES = sorted(
    path
    for name in ("ib", "lldp", "ascend")
    for path in (FOLDER / name).glob("*")
    if path.suffix != ".md"
)
_CUTS = 6
_WIDTHS = (60, 100)


def harmed(text: str) -> Iterator[tuple[str, str]]:
    """What becomes of an output on its way to us, each with what was done."""
    for part in range(1, _CUTS):
        at = len(text) * part // _CUTS
        yield f"cut after {at} characters", text[:at]
        line_end = text.find("\n", at) + 1
        yield f"cut after the line at {at}", text[:line_end]
    for width in _WIDTHS:
        for change in (folded, folded_at_blanks, wrapped, cut_off):
            yield f"{change.__name__} at {width}", change(text, width)
    yield "twice", text + text


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_recorded_fabric_that_was_harmed_is_told_refused_or_read_whole(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    whole = parse(text)
    if not isinstance(whole, ParsedProbe):
        read = [how for how, less in harmed(text) if isinstance(parse(less), ParsedProbe)]
        assert read == [], "what is refused as it is"
        return
    for how, less in harmed(text):
        found = parse(less)
        if isinstance(found, ParsedProbe) and found.warnings == whole.warnings:
            assert found.facts == whole.facts, how
