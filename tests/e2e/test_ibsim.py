"""The real ibnetdiscover on simulated fabrics: what it prints is read, and gives the groups."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from tests.builders import discovery, together
from tests.discovery.fabrics import dumped, listed, read
from tests.master.sources.test_fabric_files import reported, warned
from tests.master.world import TOKEN, Master, running
from tests.support.fabric import Built, pairs, rails, write_adapters
from tests.support.waiting import CEILING_S, eventually
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("ibsim_fabric.sh")


def needs_ibsim() -> None:
    """Skips where the programs are not installed."""
    tools = ("ibsim", "ibsim-run", "ibnetdiscover", "unshare", "nsenter")
    missing = [name for name in tools if not shutil.which(name)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} (apt-get install ibsim-utils infiniband-diags)")


def answers(fabric: Built, folder: Path, requests: Sequence[str]) -> Mapping[str, str]:
    """The dumps by name, made in the order of the requests (see the script)."""
    needs_ibsim()
    (folder / "net").write_text(fabric.text())
    (folder / "requests").write_text("".join(f"{line}\n" for line in requests))
    own = ("unshare", "--net", "--pid", "--fork", "--kill-child", "sh", str(SCRIPT), str(folder))
    made = subprocess.run(own, check=False, timeout=CEILING_S, capture_output=True, text=True)
    if "Operation not permitted" in made.stderr:
        pytest.skip("a network of its own takes rights that this user lacks")
    assert made.returncode == 0, made.stderr
    return {path.stem: path.read_text() for path in folder.glob("*.txt")}


def dump(fabric: Built, host: str, name: str) -> str:
    """The request of a dump on a host."""
    return f"dump H-{fabric.adapters[host][0]} {name}.txt"


def doubts(state: Discovery) -> list[str]:
    """What the source says about its dumps."""
    return [str(each.code) for source in state.snapshot.sources for each in source.warnings]


def test_dragonflies_outlive_a_leaf_without_uplinks_and_follow_a_cable(tmp_path: Path) -> None:
    """Two hosts on each leaf. The leaf alone is a subnet of its own, in no dump of the others."""
    fabric = pairs(4, 2)
    second, last = (f"S-{list(fabric.leaves.values())[at]}" for at in (1, 3))
    moved = f'"H-{fabric.adapters["gpu-05"][0]}"[1]'
    found = answers(
        fabric,
        tmp_path,
        (
            dump(fabric, "gpu-01", "whole"),
            *(f'Unlink "{second}"[{port}]' for port in (1, 2)),
            dump(fabric, "gpu-01", "others"),
            dump(fabric, "gpu-03", "alone"),
            *(f'ReLink "{second}"[{port}]' for port in (1, 2)),
            f"Unlink {moved}",
            f'Link {moved} "{last}"[9]',
            dump(fabric, "gpu-01", "moved"),
        ),
    )
    whole = {frozenset({f"gpu-0{n}", f"gpu-0{n + 1}"}) for n in (1, 3, 5, 7)}
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(fabric.adapters), dumped(found["whole"]))
    assert (together(state), doubts(state)) == (whole, [])

    state.advance(1.0, dumped(found["others"]))
    assert together(state) == whole
    state.advance(2.0, dumped(found["others"], found["alone"]))
    assert (together(state), doubts(state)) == (whole, ["doubtful-fabric"])

    for at in range(3, 8):
        state.advance(float(at), dumped(found["moved"]))
    state.validate()
    assert doubts(state) == []
    assert frozenset({"gpu-05", "gpu-07", "gpu-08"}) in together(state)


def test_rails_are_the_units_and_every_cut_of_a_dump_is_told_or_refused(tmp_path: Path) -> None:
    """Sixteen hosts on two rails each, two spines."""
    hosts = [f"gpu-{n:02}" for n in range(1, 17)]
    fabric = rails([hosts[:8], hosts[8:]], 2, 2)
    text = answers(fabric, tmp_path, [dump(fabric, "gpu-01", "whole")])["whole"]
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(hosts), dumped(text))
    assert together(state) == {frozenset(hosts[:8]), frozenset(hosts[8:])}
    lines = text.splitlines(keepends=True)
    blocks = [at for at, line in enumerate(lines) if line == "\n" and at > 6]
    assert len(blocks) > 40
    for at in blocks:
        assert read("".join(lines[:at])).missing


@contextmanager
def simulated(fabric: Built, folder: Path, host: str) -> Iterator[TextIO]:
    """Ibsim's console; on the PATH of `folder` is the real ibnetdiscover as run on the host."""
    (folder / "net").write_text(fabric.text())
    os.mkfifo(folder / "requests")
    own = ("unshare", "--net", "--pid", "--fork", "--kill-child", "sh", str(SCRIPT), str(folder))
    with subprocess.Popen(own, stderr=subprocess.PIPE, text=True) as ibsim:
        network = f"/proc/{ibsim.pid}/ns/net"
        start = f"SIM_HOST=H-{fabric.adapters[host][0]} ibsim-run {shutil.which('ibnetdiscover')}"
        program = folder / "ibnetdiscover"
        program.write_text(f'#!/bin/sh\nexec nsenter --net={network} env {start} "$@"\n')
        program.chmod(0o755)
        with (folder / "requests").open("w", buffering=1) as console:
            try:
                yield console
            finally:
                ibsim.kill()


async def test_a_worker_sweeps_and_the_tree_follows_each_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is killed and starts again; a cable moves, then a leaf dies."""
    needs_ibsim()
    fabric = pairs(4, 2)
    write_adapters(tmp_path, ibsim0=fabric.adapters["gpu-01"][0])
    (tmp_path / "tokens").write_text(f"gpu-01 secret\n{TOKEN}\n")
    (tmp_path / "token").write_text("secret\n")
    flags = (
        "--mode=fabric",
        f"--fabric-dir={tmp_path / 'none'}",
        f"--worker-token-file={tmp_path / 'tokens'}",
        "--fabric-sweep-nodes=gpu-01",
        "--beat-interval=0.5",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    whole = [{"gpu-01", "gpu-02"}, {"gpu-03", "gpu-04"}, {"gpu-05", "gpu-06"}, {"gpu-07", "gpu-08"}]
    with simulated(fabric, tmp_path, "gpu-01") as console:
        async with running(*flags) as master:
            await reported(master, fabric)
            async with worker(master, tmp_path) as agent:
                await eventually(lambda: grouped(master, whole))
                agent.kill()
                await warned(master, "gpu-01 sweeps no more; what its dumps said stays")
                assert await grouped(master, whole)
            async with worker(master, tmp_path):
                await follow_the_cables(master, fabric, console)


async def follow_the_cables(master: Master, fabric: Built, console: TextIO) -> None:
    """A cable moves to another leaf; a leaf loses its uplinks, and its nodes keep their place."""
    moved = [{"gpu-01", "gpu-02"}, {"gpu-03", "gpu-04"}, {"gpu-06"}, {"gpu-05", "gpu-07", "gpu-08"}]
    leaves = list(fabric.leaves.values())
    cable = f'"H-{fabric.adapters["gpu-05"][0]}"[1]'
    console.write(f'Unlink {cable}\nLink {cable} "S-{leaves[3]}"[9]\n')
    await eventually(lambda: grouped(master, moved))
    console.writelines(f'Unlink "S-{leaves[1]}"[{port}]\n' for port in (1, 2))

    async def is_told() -> bool:
        tree = (await master.get("/v1/topology")).json
        lost = (each for each in tree["conflicts"] if each["code"] == "fabric-node-vanished")
        return {node for each in lost for node in each["subjects"]} == {"gpu-03", "gpu-04"}

    await eventually(is_told)
    assert await grouped(master, moved)


@asynccontextmanager
async def worker(master: Master, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that sweeps each second."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "worker",
        f"--server-address={master.reports_url.removeprefix('http://')}",
        f"--sysfs-root={folder / 'sys'}",
        f"--token-file={folder / 'token'}",
        "--metrics-address=127.0.0.1:0",
        "--sweep-interval=1",
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def grouped(master: Master, leaves: Sequence[set[str]]) -> bool:
    """Whether the leaves of the tree hold these nodes."""
    tree = (await master.get("/node_group")).json
    spines = tree if isinstance(tree, list) else ()
    found = [
        {node["name"] for node in leaf["child"]} for spine in spines for leaf in spine["child"]
    ]
    return sorted(map(sorted, found)) == sorted(map(sorted, leaves))
