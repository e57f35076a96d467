"""Ten questions of an operator are answered within two clicks of the README."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "questions.md"
ROWS = re.findall(r"^\| (.+\?) \| (.+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
_LINK = re.compile(r"\[[^\]]+\]\(([\w./-]+)#([\w-]+)\)")


def _sections(page: Path) -> dict[str, str]:
    """The text below each heading, up to the next, by the anchor that GitHub gives it."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)[1:]
    heads, bodies = parts[::2], parts[1::2]
    anchors = (re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads)
    return dict(zip(anchors, bodies, strict=True))


def test_the_readme_leads_to_ten_questions() -> None:
    assert "](docs/questions.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert len({question for question, *_ in ROWS}) >= 10


@pytest.mark.parametrize(("question", "answer", "where"), ROWS, ids=[row[0] for row in ROWS])
def test_a_question_has_an_answer_and_a_heading_with_all_of_it(
    question: str, answer: str, where: str
) -> None:
    found = _LINK.fullmatch(where)
    assert found is not None, question
    page, anchor = (PAGE.parent / found[1]).resolve(), found[2]
    assert len(answer.split()) >= 3
    assert page.is_file()
    assert _sections(page).get(anchor, "").strip(), f"{page.name} has no text under #{anchor}"
