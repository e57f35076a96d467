"""Where the version stands in a text, it is this one."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"(?:topo-(?:master|worker)[:-]|supernode[_-]topology-)(\d+\.\d+\.\d+)")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize("page", ["docs/install.md", "docs/releasing.md"])
def test_every_page_names_the_version_that_it_is_of(page: str) -> None:
    assert set(OURS.findall((ROOT / page).read_text())) == {VERSION}


def test_chart_and_change_log_are_of_the_same_version() -> None:
    """`make release` refuses others; here it is seen before that."""
    chart = (ROOT / "helm/supernode-topology/Chart.yaml").read_text()
    assert re.findall(r"^(?:app)?[vV]ersion: (.+)$", chart, re.MULTILINE) == [VERSION, VERSION]
    assert f"## [{VERSION}]" in (ROOT / "CHANGELOG.md").read_text()
