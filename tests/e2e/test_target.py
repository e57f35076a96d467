"""`make e2e` collects the folders that have its tests, and no other ones."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_make_e2e_looks_into_every_folder_with_a_test_of_it() -> None:
    (folders,) = re.findall(r"^E2E := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    marked = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"\bmark\.e2e\b", path.read_text())
    ]
    assert len(marked) > 2
    places = [Path(folder) for folder in folders.split()]
    assert [p for p in marked if not any(place in p.parents for place in places)] == []
