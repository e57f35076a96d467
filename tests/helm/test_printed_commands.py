"""Each command of the documentation that installs or changes the chart leaves programs that start.

A page is typed from its first command to its last: `helm upgrade` keeps what was given before it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helm.chart import CHART, ON, ROOT, objects, template
from tests.helm.pages import PAGES, installs
from tests.helm.programs import SETTINGS, settings_of

pytestmark = pytest.mark.e2e
HOSTS = ("--set", "topoDiscovery.networkPolicy.controlPlane={10.0.0.0/28}")
"""Helm finds the hosts of the control plane in the cluster; here there is none."""
VALUES = {"--set", "--set-string", "--set-json", "--set-file", "--values", "-f"}
SWITCHES = {"--wait", "--create-namespace"}
"""They change nothing of what is installed."""
REUSES = "--reset-then-reuse-values"
"""Keeps what was given, and takes new defaults; `--reuse-values` would keep the former ones."""
ELSE = "…"
"""In a command: what switches the chart on, and nothing of the commands before."""
MADE = {"nodegroup.yaml": "group:\n", "values.json": '{"topoDiscovery": {"deploy": true}}\n'}
"""Files that a reader of the pages has by then."""
WITH_COMMANDS = [page for page in PAGES if next(installs(page), None) is not None]


def typed(words: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """The flags of a command that give values; those that give none are looked at here."""
    name, rest, given = words[1], list(words[3:]), list[str]()
    if rest[0] != ELSE and not rest[0].startswith("-"):
        chart = rest.pop(0)
        assert chart.endswith(".tgz") or ROOT / chart == CHART, chart
    while rest:
        word = rest.pop(0)
        if word in VALUES:
            given += [word, placed(rest.pop(0), word, folder)]
        elif word in {"--namespace", "-n"}:
            rest.pop(0)
        else:
            assert word in SWITCHES or word == ELSE or (word, name) == (REUSES, "upgrade"), word
    return tuple(given)


def placed(value: str, flag: str, folder: Path) -> str:
    """A value with the file that it names where it lies here."""
    key, _, file = value.rpartition("=") if flag == "--set-file" else ("", "", value)
    if flag not in {"--set-file", "--values", "-f"}:
        return value
    if file in MADE:
        (folder / file).write_text(MADE[file])
    return (f"{key}=" if key else "") + str((folder if file in MADE else ROOT) / file)


def steps(page: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    """What the release was given after each command of a page."""
    known: tuple[str, ...] = ON
    for words in installs(page):
        if ELSE in words:
            known = ON
        elif words[1] == "install":
            known = ()
        known = (*known, *typed(words, folder))
        yield known


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_programs_start_with_what_the_printed_commands_give_them(
    helm: Path, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given in steps(page, tmp_path):
        done = template(helm, *HOSTS, *given)
        assert done.returncode == 0, (given, done.stderr)
        found = objects(done.stdout)
        masters = [*settings_of(found, "topo-master", monkeypatch)]
        assert masters, given
        for each in masters:
            assert isinstance(each, SETTINGS["topo-master"]), (given, each)
        for each in settings_of(found, "topo-worker", monkeypatch):
            assert isinstance(each, SETTINGS["topo-worker"]), (given, each)


def test_there_is_a_command_on_each_page_that_installs_the_chart_or_a_part_of_it() -> None:
    """Else the test above would have nothing to type."""
    names = ("extenders", "fabric", "install", "labels", "releasing", "wiring")
    found = {page.name for page in WITH_COMMANDS}
    assert {"README.md", *(f"{name}.md" for name in names)} <= found
