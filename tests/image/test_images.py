"""The images of the Dockerfile, built and run for real: whoever they run as can change nothing."""

import asyncio
import json
import os
import re
import shutil
import signal
import tomllib
from functools import partial
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.image.conftest import ROOT
from tests.image.containers import Container
from tests.master.process import MasterProcess, master_process
from tests.support.waiting import CEILING_S, eventually
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import demo_world

pytestmark = pytest.mark.e2e
NODEGROUP = """group:
- name: switchbox-1
  kind: switchbox
  child:
  - {name: dragonfly-1, kind: dragonfly, child: [node-1, node-2]}
  - {name: dragonfly-2, kind: dragonfly, child: [node-3, node-4]}
"""
MIB = 1 << 20
MOST_BYTES = {"master": 230 * MIB, "worker": 64 * MIB}
"""What is added to the base: of the master's, half are numpy and the library of Kubernetes."""
COMPILERS = re.compile(r"(cc|c\+\+|gcc|g\+\+|clang|cc1|ld|make|cargo|rustc|go)(-[\d.]+)?")
NOT_FOR_WORKERS = {
    *("numpy", "networkx", "kubernetes-asyncio", "rich", "typer", "pyyaml", "jmespath"),
    "cryptography",
}


def bytes_below(folder: Path) -> int:
    return sum(p.lstat().st_size for p in folder.rglob("*") if not p.is_dir())


def pins(names: str) -> dict[str, str]:
    """Name and version of each line of a lock."""
    found = re.findall(r"^([\w.-]+)==(\S+)", names, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def installed(container: Container) -> dict[str, str]:
    """Name and version of each package of the image."""
    found = (p.name.removesuffix(".dist-info") for p in container.packages.glob("*.dist-info"))
    return {canonicalize_name(name): version for name, version in (f.split("-") for f in found)}


def only_child(pid: int) -> int:
    """The first process of the container that `unshare` holds."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def status(pid: int) -> dict[str, list[str]]:
    """What the kernel says of the process (proc_pid_status(5))."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}


async def answers(running: MasterProcess, path: str) -> bool:
    return await running.status(path) == 200


async def test_the_master_serves_without_a_right_and_with_a_root_that_it_cannot_write(
    master: Container,
) -> None:
    """As process 1, with no more than its configuration mounted; `topo` is in the image as well."""
    master.put(NODEGROUP, "/config/nodegroup.yaml")
    async with master_process("--mode=config", command=master.entrypoint) as running:
        await eventually(partial(answers, running, "/node_group"))
        asked = ("curl", "-sS", "--max-time", f"{CEILING_S}", f"{running.url}/node_group")
        curl = await asyncio.create_subprocess_exec(*asked, stdout=asyncio.subprocess.PIPE)
        answer, _ = await curl.communicate()
        (switchbox,) = json.loads(answer)
        assert [group["name"] for group in switchbox["child"]] == ["dragonfly-1", "dragonfly-2"]

        of_kernel = status(only_child(running.process.pid))
        assert set(of_kernel["Uid"] + of_kernel["Gid"]) == {"65532"}
        assert of_kernel["NoNewPrivs"] == ["1"]
        assert of_kernel["NSpid"][-1] == "1"
        assert {int(of_kernel[kind][0], 16) for kind in ("CapEff", "CapPrm", "CapAmb")} == {0}

        drawn = await asyncio.to_thread(master.ran, "topo", "tree", "--master", running.url)
        assert drawn.returncode == 0, drawn.stderr
        assert "node-4" in drawn.stdout

        os.kill(only_child(running.process.pid), signal.SIGTERM)
        assert await running.wait() == 0


async def test_the_worker_reports_to_the_master(
    master: Container, worker: Container, tmp_path: Path
) -> None:
    """Image to image: what a worker replays is the tree that the master shows."""
    node = demo_world().nodes[0]
    write_bundle(tmp_path / "bundle", node)
    worker.put(tmp_path / "bundle", "/bundle")
    flags = ("--mode=dragonfly", "--allow-anonymous-workers")
    async with master_process(*flags, command=master.entrypoint) as running:
        process = await asyncio.create_subprocess_exec(
            *worker.entrypoint,
            f"--server-address=127.0.0.1:{running.ports['reports']}",
            "--metrics-address=127.0.0.1:0",
            "--replay=/bundle",
        )
        try:
            await eventually(partial(answers, running, f"/v1/nodes/{node.name}/gpus"))
            os.kill(only_child(process.pid), signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), CEILING_S) == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def test_the_sweeper_has_the_program_and_the_worker_that_runs_it(sweeper: Container) -> None:
    """With each library that the program loads, and without the package's perl."""
    asked = sweeper.ran("ibnetdiscover", "--help")
    assert "Usage: ibnetdiscover" in asked.stderr
    assert sweeper.config["Entrypoint"] == ["topo-worker"]
    assert sweeper.ran("topo-worker", "--sweep-interval=nothing").returncode == 2
    assert shutil.which("ibstat", path=str(sweeper.root / "usr/sbin")) is None


@pytest.mark.parametrize("name", ["master", "worker"])
def test_nothing_in_an_image_compiles_or_installs(
    name: str, request: pytest.FixtureRequest
) -> None:
    """No compiler, and no pip where our programs are."""
    container: Container = request.getfixturevalue(name)
    folders = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "opt/topo/bin")
    programs = {p.name for each in folders for p in (container.root / each).glob("*")}
    assert not {program for program in programs if COMPILERS.fullmatch(program)}
    assert not {"pip", "setuptools"} & installed(container).keys()
    assert container.ran("python3", "-m", "pip", "--version").returncode != 0


@pytest.mark.parametrize("name", ["master", "worker"])
def test_an_image_has_what_the_lock_pins_and_is_no_larger_than_agreed(
    name: str, request: pytest.FixtureRequest
) -> None:
    container: Container = request.getfixturevalue(name)
    has = installed(container)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert has.pop("supernode-topology") == version
    locked = pins((ROOT / "requirements-run.lock").read_text())
    assert has.items() <= locked.items()
    assert (name == "worker") == has.keys().isdisjoint(NOT_FOR_WORKERS)
    size = bytes_below(container.root / "opt")
    print(f"\ntopo-{name}: {size / MIB:.0f} MiB beside the base")  # noqa: T201 - the figure
    assert size <= MOST_BYTES[name]


@pytest.mark.parametrize("name", ["master", "worker"])
def test_an_image_says_what_it_is(
    name: str, base_image: str, request: pytest.FixtureRequest
) -> None:
    """Labels of the OCI image specification, the user as a number, entrypoint and ports."""
    config = request.getfixturevalue(name).config
    labels = {key.rpartition("image.")[2]: text for key, text in config["Labels"].items()}
    assert labels["title"] == f"topo-{name}"
    assert labels["licenses"] == "Apache-2.0"
    assert re.fullmatch(r"[\d.]+", labels["version"])
    assert re.fullmatch(r"[0-9a-f]{40}|unknown", labels["revision"])
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", labels["created"])
    assert labels["base.name"] == base_image
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == [f"topo-{name}"]
    ports = {"master": {"9001/tcp", "10001/tcp"}, "worker": {"9002/tcp"}}
    assert config["ExposedPorts"].keys() == ports[name]


def test_a_file_beside_the_sources_reaches_no_image(master: Container) -> None:
    """The build is sent what it names and no more: no key that somebody left in a checkout."""
    named = (ROOT / ".dockerignore").read_text().splitlines()
    assert named[1] == "*"
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    sent = {line[1:] for line in named if line.startswith("!")}
    assert sent == {name for line in copied for name in line.split()}
    assert not (master.root / "src").exists()
    assert shutil.which("topo-master", path=str(master.root / "opt/topo/bin"))
