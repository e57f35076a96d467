"""The files of packaging/: units that systemd takes, and settings with which the services start."""

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson
import pytest

from master.settings import MasterSettings
from tests.support.waiting import CEILING_S, eventually_in_a_thread
from topo.facts import parse
from topo.kit.settings import ServiceSettings, read, stray_variables
from topo.model.observation import ParsedProbe
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import demo_world
from worker.settings import WorkerSettings

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
UNITS = sorted((PACKAGING / "systemd").glob("*.service"))
SCRIPTS = Path(sysconfig.get_path("scripts"))
SERVICES: Mapping[str, type[ServiceSettings]] = {"master": MasterSettings, "worker": WorkerSettings}


def directive(unit: Path, name: str) -> str:
    """The value of the one line of a unit that sets it."""
    (value,) = re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)
    return str(value)


def variables(text: str, *, commented: bool = False) -> dict[str, str]:
    """What an environment file sets; with `commented` also what it shows behind a `#`."""
    mark = "#?" if commented else ""
    return dict(re.findall(rf"^{mark}(TOPO_\w+)=(.*)$", text, re.MULTILINE))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_every_line_of_the_units(unit: Path, tmp_path: Path) -> None:
    """With the commands of this environment, since those of /opt/topo are not there."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not on this machine")
    here = tmp_path / unit.name
    here.write_text(unit.read_text().replace("/opt/topo/bin", str(SCRIPTS)))
    done = subprocess.run([analyze, "verify", here], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_no_unit_has_a_capability_or_gets_one(unit: Path) -> None:
    assert directive(unit, "CapabilityBoundingSet") == ""
    assert directive(unit, "NoNewPrivileges") == "yes"


@pytest.mark.parametrize("name", SERVICES)
def test_every_variable_of_the_environment_files_is_a_setting(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are commented out, too: whoever takes the `#` away gets no warning."""
    text = (PACKAGING / "etc" / f"{name}.env").read_text()
    shown = variables(text, commented=True)
    assert set(variables(text)) < set(shown)
    for variable, value in shown.items():
        monkeypatch.setenv(variable, value)
    assert list(stray_variables(SERVICES[name])) == []
    settings = read(SERVICES[name], [])
    assert isinstance(settings, SERVICES[name]), settings


def test_the_example_of_a_nodegroup_is_read_without_a_doubt() -> None:
    parsed = parse((PACKAGING / "etc" / "nodegroup.yaml").read_text(), "nodegroup")
    assert isinstance(parsed, ParsedProbe), parsed
    assert parsed.warnings == ()


def test_the_page_on_installing_names_every_file_and_no_other() -> None:
    """What it copies is there, and what is there it copies."""
    page = (ROOT / "docs" / "install.md").read_text()
    told = set(re.findall(r"packaging/[\w./-]*\w", page))
    there = {path.relative_to(ROOT) for path in PACKAGING.rglob("*") if path.is_file()}
    installed = {str(path) for path in there if path.parts[1] in {"etc", "systemd"}}
    assert installed <= told <= {str(path) for path in there}


class Host:
    """A machine on which the files lie where docs/install.md puts them, below another root."""

    def __init__(self, root: Path) -> None:
        self.etc, self.state = root / "etc/topo", root / "var/lib/topo"
        self.etc.mkdir(parents=True)
        self.state.mkdir(parents=True)
        for file in (PACKAGING / "etc").iterdir():
            moved = file.read_text().replace("/etc/topo", str(self.etc))
            (self.etc / file.name).write_text(moved)

    @contextmanager
    def started(self, name: str, **more: str) -> Iterator[Path]:
        """What the unit of a service starts, with `more` variables; its log."""
        unit = PACKAGING / "systemd" / f"topo-{name}.service"
        given = Path(directive(unit, "EnvironmentFile").replace("/etc/topo", str(self.etc)))
        kept = {each: value for each, value in os.environ.items() if not each.startswith("TOPO_")}
        state = {"STATE_DIRECTORY": str(self.state)}
        environment = {**kept, **state, **variables(given.read_text()), **more}
        command = directive(unit, "ExecStart").replace("/opt/topo/bin", str(SCRIPTS))
        words = [
            word.replace("${STATE_DIRECTORY}", str(self.state)) for word in shlex.split(command)
        ]
        log = self.etc / f"{name}-{more.get('TOPO_NODE_NAME', '')}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(words, env=environment, stdout=out, stderr=out)
        try:
            yield log
        finally:
            process.terminate()
            assert process.wait(CEILING_S) == 0, log.read_text()


def port(log: Path, site: str) -> int:
    """Where the service listens, as its log says."""
    found: list[str] = []

    def is_said() -> bool:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text())
        found[:] = re.findall(rf"listening.*\bport=(\d+).*\bsite={site}", plain)
        return bool(found)

    eventually_in_a_thread(is_said)
    return int(found[0])


@pytest.mark.slow
def test_what_the_units_start_is_a_cluster_whose_doctor_is_content(tmp_path: Path) -> None:
    """The example of a nodegroup, and the workers of two hosts that are wired together."""
    host = Host(tmp_path)
    tokens = {name: f"t0ken-of-{name}-0123456789" for name in ("node-1", "node-2")}
    lines = (f"{name} {token}\n" for name, token in tokens.items())
    (host.etc / "worker-tokens").write_text("".join(lines))
    (host.etc / "api-tokens").write_text("ops 0123456789-another-one\n")
    free = {"TOPO_SERVER_PORT": "0", "TOPO_RPC_SERVER_PORT": "0", "TOPO_BIND_ADDRESS": "127.0.0.1"}
    with ExitStack() as stack:
        log = stack.enter_context(host.started("master", **free))
        master = f"http://127.0.0.1:{port(log, 'api')}"
        for recorded, (name, token) in zip(demo_world().nodes, tokens.items(), strict=False):
            write_bundle(tmp_path / name, recorded)
            (host.etc / f"{name}.token").write_text(f"{token}\n")
            given = {
                "TOPO_SERVER_ADDRESS": f"127.0.0.1:{port(log, 'reports')}",
                "TOPO_METRICS_ADDRESS": "127.0.0.1:0",
                "TOPO_NODE_NAME": name,
                "TOPO_TOKEN_FILE": str(host.etc / f"{name}.token"),
                "TOPO_REPLAY": str(tmp_path / name),
            }
            stack.enter_context(host.started("worker", **given))
        eventually_in_a_thread(lambda: "MXC500" in topo(master, "node", "node-2").stdout)
        eventually_in_a_thread(lambda: topo(master, "doctor").returncode == 0)
        placed = topo(master, "place", "--pods", "2", "--gpus", "8", "-o", "json")
        assert orjson.loads(placed.stdout)["feasible"], placed.stdout
    assert (host.state / "state.json").stat().st_mode & 0o077 == 0


def topo(master: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command line of an operator."""
    command = [str(SCRIPTS / "topo"), *arguments, "--master", master]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=CEILING_S)
