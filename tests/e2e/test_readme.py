"""The README's commands do what it says."""

import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.settings import MasterSettings
from tests.e2e.conftest import RunningDemo, environment
from tests.support.waiting import CEILING_S
from tests.support.waiting import eventually_in_a_thread as eventually
from topo.cli.worlds import chosen
from topo.kit.settings import ServiceSettings, read
from worker.settings import WorkerSettings

README = Path(__file__).parents[2] / "README.md"
SCRIPTS = sysconfig.get_path("scripts")
SERVICES: dict[str, type[ServiceSettings]] = {
    "topo-master": MasterSettings,
    "topo-worker": WorkerSettings,
}


BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def commands(number: int) -> Iterator[str]:
    """The commands of one of the README's shell blocks, without their comments."""
    for line in BLOCKS[number].replace("\\\n", " ").splitlines():
        command = line.partition("#")[0].strip()
        if command:
            yield command


def test_the_first_block_is_two_commands():
    """One runs it, one tests it."""
    assert list(commands(0)) == ["make run", "make test"]


def test_every_world_that_it_names_is_one_of_the_demo():
    """A reader types it as it stands."""
    named = re.findall(r"make run WORLD=([\w.-]+\w)", README.read_text())
    assert "nvl72-18x4" in named
    assert all(chosen(name).nodes for name in named)


@pytest.mark.slow
def test_the_commands_beside_a_running_demo_work_as_written(demo: RunningDemo):
    """Typed in another terminal, in order; the cable is out when `doctor` looks."""
    for command in commands(1):
        here = command.replace(".venv/bin", SCRIPTS)
        here = here.replace("http://127.0.0.1:9001", demo.told()["master"])
        done = subprocess.run(
            shlex.split(here),
            env=environment(demo.directory),
            capture_output=True,
            text=True,
            check=False,
            timeout=CEILING_S,
        )
        assert done.returncode == (1 if command.endswith("doctor") else 0), (command, done.stderr)
        if command.endswith("cut node-sample3"):
            eventually(lambda: not demo.is_ready())
        if command.endswith("tree"):
            assert "the link to node-sample4 is down" in done.stdout
        if command.endswith("heal"):
            eventually(demo.is_ready)


OF_SERVICES = [
    command
    for number in range(len(BLOCKS))
    for command in commands(number)
    if command.startswith("topo-")
]


def test_there_are_commands_of_both_services():
    """Else the next test would have nothing to try."""
    assert {command.split()[0] for command in OF_SERVICES} == SERVICES.keys()


@pytest.mark.parametrize("command", OF_SERVICES)
def test_the_services_understand_the_flags_of_the_readme(command):
    """Each command line is one that the service would start with."""
    name, *flags = shlex.split(command)
    assert isinstance(read(SERVICES[name], flags), SERVICES[name])
