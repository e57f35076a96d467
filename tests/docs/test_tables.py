"""The generated parts of the documentation are what the code says today."""

import pytest

from docs.tables.registry import SECTIONS
from docs.tables.section import ROOT, Section, pages, rewritten, table

PAGE = "before\n<!-- generated: a -->\nold\n<!-- end of a -->\nafter\n"


@pytest.mark.parametrize("page", sorted({section.page for section in SECTIONS}))
def test_every_generated_section_is_up_to_date(page: str) -> None:
    group = [section for section in SECTIONS if section.page == page]
    assert pages(group)[ROOT / page] == (ROOT / page).read_text(), "run `make docs`"


def test_only_what_stands_between_the_markers_is_rewritten() -> None:
    text = rewritten(PAGE, [Section("page", "a", lambda: "new\n")])
    assert text == PAGE.replace("old", "new")
    assert rewritten(text, [Section("page", "a", lambda: "new")]) == text


def test_a_section_without_markers_and_markers_without_a_section_are_refused() -> None:
    with pytest.raises(ValueError, match="no markers of b"):
        rewritten(PAGE, [Section("page", name, str) for name in "ab"])
    with pytest.raises(ValueError, match="no section is called a"):
        rewritten(PAGE, [])


def test_every_marker_of_the_documentation_belongs_to_a_section() -> None:
    known = {(section.page, section.name) for section in SECTIONS}
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")):
        page = path.relative_to(ROOT).as_posix()
        for line in path.read_text().splitlines():
            if line.startswith("<!-- generated: "):
                assert (page, line.split()[2]) in known


def test_a_table_escapes_the_bar_between_its_columns() -> None:
    assert table(("a", "b"), [("1|2", "`x`")]) == "| a | b |\n|---|---|\n| 1\\|2 | `x` |"
