"""The pages as a site: `make site` ends at a broken link, so building it is most of the test."""

import json
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-publish/bin/python"
LOADED = re.compile(r'<(?:script|link|img|source|iframe)[^>]*?(?:src|href|srcset)="(https?:[^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    if not PYTHON.exists():
        pytest.skip("needs the tools of the site: make site")
    to = tmp_path_factory.mktemp("site")
    words = (PYTHON, ROOT / "docs/site/build.py", to)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return to


def test_no_link_of_any_page_is_broken_and_every_page_is_there(site: Path) -> None:
    pages = {path.relative_to(ROOT).with_suffix(".html") for path in ROOT.glob("docs/*.md")}
    assert {page for page in pages if not (site / page).exists()} == set()


def test_nothing_of_the_site_comes_from_elsewhere(site: Path) -> None:
    """It is read where no other network is reached."""
    found = {name for path in site.rglob("*.html") for name in LOADED.findall(path.read_text())}
    assert found == set()


@pytest.mark.parametrize("word", ["gpu-group-size", "topo doctor", "no-nodes-chosen"])
def test_the_search_knows_what_people_look_for(site: Path, word: str) -> None:
    index = json.loads((site / "search/search_index.json").read_text())
    assert any(word in each["text"] or word in each["title"] for each in index["docs"])


def test_every_page_is_in_the_menu() -> None:
    """The build only says so, and goes on."""
    menu = (ROOT / "docs/site/mkdocs.yml").read_text()
    assert [page.name for page in ROOT.glob("docs/*.md") if f"- docs/{page.name}" not in menu] == []
