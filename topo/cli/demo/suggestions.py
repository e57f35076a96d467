"""What to try on a running demo: only what its world can do, in words that a shell takes."""

import os
import shlex
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from topo.cli.demo_directory import Demo, directory
from topo.sim.worlds.presets import SimNode, World

Try = tuple[str, str]
"""A command line, and what it does."""


def tries(world: World, demo: Demo) -> Iterator[Try]:
    """Commands for another terminal, in a good order."""
    topo, node = command(), world.nodes[2 if len(world.nodes) > 2 else 0]
    yield _break(topo, node)
    yield f"{topo} demo heal", "everything works again"
    yield f"curl {demo.master}/node_group", "what schedulers read"
    yield f"{topo} tree --watch", "the tree, live"
    yield f"{topo} nodes", "the nodes as a list"
    pods = min(2, len(world.nodes))
    job = f"--pods {pods} --gpus {node.hardware.gpus}"
    yield f"{topo} place {job}", "which nodes a job should get"
    if demo.kubernetes and len(world.nodes) > 1:
        yield f"{topo} demo submit", "a job in pairs of pods waits for whole groups, and runs"
        yield f"{topo} why train-1", "where it goes, or why it waits"
    if victim := demo.pids.get(f"topo-worker {node.name}"):
        yield f"kill -9 {victim}", "a worker: it is started again"


def _break(topo: str, node: SimNode) -> Try:
    """Return the fault that says most about this kind of machine."""
    if node.peers:
        return f"{topo} demo cut {node.name}", "pull a cable: seen within a second"
    if node.super_pod is not None:
        fault = shlex.quote(f"super pod 7 of {node.name} is stated")
        return f"{topo} demo fault {fault}", "npu-smi says another super pod: `topo doctor`"
    if node.fabric is not None:
        fault = shlex.quote(f"fabric of gpu 2 of {node.name} breaks")
        return f"{topo} demo fault {fault}", "a GPU loses its NVLink domain"
    fault = shlex.quote(f"gpu 0 of {node.name} fails")
    return f"{topo} demo fault {fault}", "a GPU fails"


def command() -> str:
    """How to call `topo` from the directory this was started in: a path where PATH has none."""
    script = Path(sysconfig.get_path("scripts")) / "topo"
    found = shutil.which("topo")
    if found is not None and Path(found).samefile(script):
        return "topo"
    try:
        return shlex.quote(str(script.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(script))


def preparation() -> list[str]:
    """Return what another terminal must do before these commands work there."""
    lines = []
    if not command().startswith("/") and command() != "topo":
        lines.append(f"cd {shlex.quote(str(Path.cwd()))}")
    if directory() != _found_without_a_setting():
        lines.append(f"export TOPO_DEMO_DIR={shlex.quote(str(directory()))}")
    return lines


def _found_without_a_setting() -> Path:
    """Return where a terminal without settings of its own looks."""
    return Path("/tmp") / f"topo-demo-{os.getuid()}"  # noqa: S108 - compared with, never used
