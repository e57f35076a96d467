"""The built wheel with no more than an extra brings: what people get by `pip install`."""

import ast
import json
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.client import HTTPConnection
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.waiting import CEILING_S, eventually_in_a_thread
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import demo_world

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PACKAGES = ("topo", "master", "worker")
TOP = "supernode_topology"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
NODE = demo_world().nodes[0]
NOT_FOR_WORKERS = {"numpy", "typer", "rich", "cryptography", "jmespath", "pyyaml"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built without a network."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "packaging/backend.py"):
        (source / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    flags = ("--no-deps", "--no-build-isolation", "--no-index", "-w", built)
    subprocess.run((*PIP, "wheel", *flags, source), check=True)
    (found,) = built.glob("*.whl")
    return found


Installed = Callable[[str], Path]
"""The folder of the commands, with these extras installed."""


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """A virtual environment with the wheel, and links to what its extra requires."""

    @cache
    def install(extra: str) -> Path:
        home = tmp_path_factory.mktemp(extra or "base")
        subprocess.run((sys.executable, "-m", "venv", "--without-pip", home), check=True)
        (packages,) = home.glob("lib/python*/site-packages")
        for found in required(wheel, extra):
            link(found, packages)
        python = ("--python", home / "bin/python")
        subprocess.run((*PIP, *python, "install", "--no-index", "--no-deps", wheel), check=True)
        for name in PACKAGES:  # as other distributions may install them
            (packages / f"{name}.py").write_text("raise SystemExit('a module of others')\n")
        return home / "bin"

    return install


def required(wheel: Path, extra: str) -> list[Distribution]:
    """What the wheel with the extra requires, and what that requires."""
    found: dict[str, Distribution] = {}
    left = [(each, extra) for each in requirements(wheel)]
    while left:
        wanted, its_extra = left.pop()
        name = canonicalize_name(wanted.name)
        applies = wanted.marker is None or wanted.marker.evaluate({"extra": its_extra})
        if applies and name not in found:
            found[name] = distribution(name)
            left += [(Requirement(line), "") for line in found[name].requires or ()]
    return list(found.values())


def requirements(wheel: Path) -> list[Requirement]:
    """What the wheel says that it requires, with the extra of each."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    stated = (line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: "))
    return [Requirement(each) for each in stated]


def link(found: Distribution, packages: Path) -> None:
    """Links the distribution's top-level files and folders."""
    for name in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
        (packages / name).symlink_to(Path(str(found.locate_file(name))))


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Schemas and `py.typed` too; what only a type checker of the page reads is for nobody."""
    listed = subprocess.run(
        ("git", "ls-files", "-co", "--exclude-standard", *PACKAGES),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    written = {f for f in listed.stdout.split() if (ROOT / f).exists() and not f.endswith(".d.ts")}
    with zipfile.ZipFile(wheel) as archive:
        assert {f"{TOP}/{f}" for f in written} <= set(archive.namelist())


def test_the_wheel_has_one_top_level_package_and_names_that_no_other_has(wheel: Path) -> None:
    """`master` and `worker` are packages of others, too."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        texts = {name: archive.read(name).decode() for name in names if name.endswith(".py")}
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {TOP}
    for name, text in texts.items():
        assert (name, set(short_names(text))) == (name, set())


def short_names(text: str) -> Iterator[str]:
    """The names of the repository's modules in imports and texts that name nothing else."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from of_the_repository(node.module or "")
        elif isinstance(node, ast.Import):
            for each in node.names:
                yield from of_the_repository(each.name)
        elif isinstance(node, ast.Call) and not is_made_longer(node):
            for word in ast.walk(node):
                if isinstance(word, ast.Constant) and "." in str(word.value):
                    yield from of_the_repository(str(word.value))


def is_made_longer(call: ast.Call) -> bool:
    """Whether its texts become names of modules by `topo.kit.process.modules`."""
    named = {getattr(each, "id", "") for each in ast.walk(call)}
    return "module" in named or getattr(call.func, "attr", "") in {"library", "removesuffix"}


def of_the_repository(name: str) -> Iterator[str]:
    """The name, if it is that of a module."""
    path = ROOT / name.replace(".", "/")
    if name.partition(".")[0] in PACKAGES and (path.is_dir() or path.with_suffix(".py").exists()):
        yield name


def test_a_worker_installs_only_what_it_uses(wheel: Path) -> None:
    """None of what only masters, people and simulations need."""
    names = {canonicalize_name(found.name) for found in required(wheel, "worker")}
    assert "nvidia-ml-py" in names
    assert not names & NOT_FOR_WORKERS


def test_an_installed_worker_reports_to_an_installed_master(
    installed: Installed, tmp_path: Path
) -> None:
    """Each with its own extra: the master answers from a file, the worker replays a recording."""
    config = tmp_path / "nodegroup.yaml"
    config.write_text(f"group:\n- name: pair\n  kind: dragonfly\n  child: [{NODE.name}]\n")
    write_bundle(tmp_path / "recording", NODE)
    master = (
        installed("master") / "topo-master",
        "--mode=config",
        f"--config-file={config}",
        *("--bind-address=127.0.0.1", "--server-port=0", "--rpc-server-port=0"),
        "--allow-anonymous-workers",
    )
    with running(*master, log=tmp_path / "master.log") as masters:
        ports = {e["site"]: e["port"] for e in (event(masters, "listening", n) for n in (0, 1))}
        eventually_in_a_thread(lambda: NODE.name in page(ports["api"]))
        assert NODE.name in page(ports["api"], "/plain")
        assert "import" in page(ports["api"], "/web/release/main.js")
        worker = (
            installed("worker") / "topo-worker",
            f"--server-address=127.0.0.1:{ports['reports']}",
            "--metrics-address=127.0.0.1:0",
            f"--replay={tmp_path / 'recording'}",
        )
        with running(*worker, log=tmp_path / "worker.log") as workers:
            assert event(workers, "reports arrive")["gpus"] == 8


def page(port: object, path: str = "/node_group") -> str:
    """What the master answers, which is a problem document until it is ready."""
    connection = HTTPConnection(f"127.0.0.1:{port}", timeout=CEILING_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@contextmanager
def running(*argv: object, log: Path) -> Iterator[Path]:
    """The command runs inside the block; its log."""
    with log.open("wb") as output:
        process = subprocess.Popen([str(word) for word in argv], stdout=output, stderr=output)
        try:
            yield log
        finally:
            process.terminate()
            process.wait()


def event(log: Path, name: str, number: int = 0) -> dict[str, object]:
    """The log's line of that event."""

    def found() -> list[dict[str, object]]:
        written = log.read_text().rpartition("\n")[0].splitlines()
        events = [json.loads(line) for line in written if line[:1] == "{"]
        return [event for event in events if event["event"] == name]

    eventually_in_a_thread(lambda: len(found()) > number)
    return found()[number]


@pytest.mark.parametrize(
    ("extra", "command", "missing"),
    [
        ("", "topo-master", "master"),
        ("", "topo-worker", "worker"),
        ("", "topo", "cli"),
        ("cli", "topo sim place --nodes=8 --pods=2 --gpus=8", "cli,sim"),
    ],
)
def test_a_command_without_its_extra_says_what_to_install(
    wheel: Path, installed: Installed, extra: str, command: str, missing: str
) -> None:
    """The command prints one line and ends with 2; pip finds every requirement that it names."""
    name, *arguments = command.split()
    done = subprocess.run(
        (installed(extra) / name, *arguments), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    told = shlex.split(line.partition(" -m pip install ")[2])
    has = {canonicalize_name(each.metadata["Name"]) for each in required(wheel, extra)}
    wanted = {
        canonicalize_name(each.name)
        for each in requirements(wheel)
        for name in missing.split(",")
        if each.marker is not None and each.marker.evaluate({"extra": name})
    } - {canonicalize_name(each.name) for each in requirements(wheel) if each.marker is None}
    assert {canonicalize_name(Requirement(each).name) for each in told} == wanted - has


def test_installed_commands_of_people_work(installed: Installed, tmp_path: Path) -> None:
    """With the extra `cli` alone."""
    config = tmp_path / "nodegroup.yaml"
    config.write_text("group:\n- name: pair\n  kind: dragonfly\n  child: [a, b]\n")
    done = subprocess.run(
        (installed("cli") / "topo", "parse", config), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "nodegroup" in done.stdout
    plugin = (installed("cli") / "kubectl-topo", "--help")
    shown = subprocess.run(plugin, capture_output=True, text=True, check=False)
    assert "Usage: kubectl topo" in shown.stdout, shown.stderr
