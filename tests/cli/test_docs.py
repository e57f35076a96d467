"""docs/cli.md says what the code does, and `topo --help` stays quick."""

import os
import resource
import subprocess
import sys
from pathlib import Path

from docs.tables.commands import commands
from topo.cli import sim_files
from topo.cli.exit_codes import Exit

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def rows(heading: str) -> dict[str, list[str]]:
    """The table under a heading, by its first column."""
    section = DOCS.read_text(encoding="utf-8").split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in cells[2:]}


def test_the_table_of_exit_codes_is_the_codes() -> None:
    assert list(rows("Exit codes")) == [str(int(code)) for code in Exit]


def test_the_table_of_commands_has_those_of_groups_and_those_that_a_group_is_itself() -> None:
    named = {name.strip("`") for name in rows("The `topo` command")}
    assert {"topo tree", "topo demo", "topo demo cut", "topo sim stream"} <= named
    assert "topo sim" not in named


def test_the_table_of_connection_options_is_what_every_asking_command_has() -> None:
    told = {
        name.strip("`").split()[0]: cells[0].strip("`")
        for name, cells in rows("Which master").items()
    }
    for name, command in commands():
        options = {p.opts[0]: p.envvar for p in command.params if p.opts[0] in told}
        assert options in ({}, told), name


def test_the_figures_of_a_stream_are_documented_as_the_csv_names_them() -> None:
    """All of them, in its order, and which way is good as the picture says it."""
    names: list[str] = []
    good: dict[str, str] = {}
    for cells in table("| column | in the CSV |"):
        told = [name.strip(" `") for name in cells[1].split(",")]
        names += told
        good |= dict.fromkeys(told, cells[2])
    assert names == sim_files.as_csv({}).strip().split(",")
    assert {name for name in names if good[name] == "high"} == sim_files.HIGH_IS_GOOD
    assert all(good[name] for name in sim_files.COLUMNS)


def table(head: str) -> list[list[str]]:
    """The rows of the table that begins so."""
    body = DOCS.read_text(encoding="utf-8").split(head, 1)[1].split("\n\n", 1)[0]
    lines = body.splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_option_and_argument_has_a_help_text() -> None:
    for name, command in commands():
        assert command.help, name
        missing = [p.name for p in command.params if not getattr(p, "help", None)]
        assert not [each for each in missing if each != "output"], name


def test_help_imports_nothing_heavy_and_is_quick() -> None:
    """Well under the budget of 0.4 s of CPU, even on a busy machine."""
    code = (
        "import sys; from topo.cli.main import app\n"
        "try: app(['--help'])\n"
        "finally: print(sorted({'aiohttp', 'pydantic', 'yaml', 'orjson'} & set(sys.modules)))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {name: value for name, value in os.environ.items() if "COV" not in name}
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert shown.stdout.splitlines()[-1] == "[]"
    assert after.ru_utime - before.ru_utime < 1.0
