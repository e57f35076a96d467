"""The trees that we write, started by a real slurmctld on the loopback address."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.publish.forests import VENDOR, box, fly, forest
from tests.publish.slurm.test_churn import CHANGES, NODES, World
from tests.publish.slurm.verdicts import hosts
from tests.support.ports import free_ports
from tests.support.waiting import eventually_in_a_thread
from topo.model.forest import Forest
from topo.publish.slurm.document import SlurmChoice, SlurmFile, SlurmFormat, slurm_file
from topo.publish.slurm.hostlist import compress

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("slurmctld") or not shutil.which("scontrol"),
        reason="needs slurmctld and scontrol (Debian: slurmctld, slurm-client)",
    ),
]
CONF = """\
ClusterName=topo
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
SlurmdPort={slurmd}
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/{plugin}
MpiDefault=none
NodeName={nodes} NodeAddr=127.0.1.[1-{count}] CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
"""
VENDOR_NODES = [f"node-{number}" for number in range(1, 17)]


class Slurm:
    """A slurmctld of its own, with the topology.conf that is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.topology = folder / "topology.conf"
        port, slurmd = free_ports((0, 0))
        host = socket.gethostname().split(".")[0]
        (folder / "state").mkdir()
        user = os.environ.get("USER", "root") if os.geteuid() else "root"
        self._words = {"host": host, "user": user, "port": port, "slurmd": slurmd}
        self.configure("tree")
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.process: subprocess.Popen[bytes] | None = None

    def configure(self, plugin: str, nodes: Sequence[str] = VENDOR_NODES) -> None:
        """The plugin of topology that it starts with, and its nodes."""
        words = {"nodes": compress(nodes), "count": len(nodes), "plugin": plugin}
        text = CONF.format(**self._words, folder=self.folder, **words)
        (self.folder / "slurm.conf").write_text(text)

    def start(self) -> None:
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                ["slurmctld", "-D", "-f", str(self.folder / "slurm.conf")],
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def control(self, *words: str) -> str:
        """What scontrol prints; "" where it fails."""
        done = subprocess.run(
            ["scontrol", *words], env=self.environment, capture_output=True, text=True, check=False
        )
        return done.stdout if done.returncode == 0 else ""

    def switches(self) -> dict[str, tuple[list[str], list[str]]]:
        """The nodes and switches that slurmctld has below each switch."""
        found = {}
        for line in self.control("show", "topology").splitlines():
            pairs = dict(word.split("=", 1) for word in line.split())
            below = pairs.get("Switches", "")
            found[pairs["SwitchName"]] = (hosts(pairs.get("Nodes", "")), hosts(below))
        return found

    def has_switches_of(self, text: str) -> bool:
        """Whether it has exactly those of a file."""
        return self.switches() == switches_in(text)

    def wait(self, holds: Callable[[], bool]) -> None:
        """Until that holds; told at once where slurmctld ended."""

        def does_it() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log()[-2000:]
            return holds()

        eventually_in_a_thread(does_it)

    def wait_for(self, switch: str) -> None:
        """Until slurmctld has it."""
        self.wait(lambda: switch in self.switches())

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()  # it keeps nothing, and an orderly end waits for its threads
            self.process.wait()


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    made = Slurm(tmp_path)
    yield made
    made.end()


def tree(world: Forest, there: str = "") -> str:
    made = slurm_file(world, SlurmChoice(format=SlurmFormat.TREE), there)
    assert isinstance(made, SlurmFile)
    return made.text


def switches_in(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """The switches of a file, as slurmctld shows them: each with the nodes of all below it."""
    lines = [line.split() for line in text.splitlines() if line.startswith("SwitchName=")]
    rows = [dict(word.replace('"', "").split("=", 1) for word in words) for words in lines]
    own = {row["SwitchName"]: hosts(row.get("Nodes", "")) for row in rows}
    below = {row["SwitchName"]: hosts(row.get("Switches", "")) for row in rows}

    def all_nodes(name: str) -> list[str]:
        return own[name] + [node for inner in below[name] for node in all_nodes(inner)]

    return {name: (sorted(all_nodes(name)), below[name]) for name in own}


def test_slurmctld_runs_with_each_tree_and_has_exactly_its_groups(slurm: Slurm) -> None:
    first = tree(VENDOR)
    slurm.topology.write_text(first)
    slurm.start()
    slurm.wait_for("cluster")
    shown = slurm.switches()
    assert shown["dragonfly-3"] == (["node-5", "node-6"], [])
    assert shown["switchbox-2"][1] == ["dragonfly-3", "dragonfly-4"]
    assert sorted(shown["cluster"][0]) == sorted(f"node-{n}" for n in range(1, 9))

    # A group goes, nodes stand alone, a name has a dot and digits, a node is not one of Slurm's.
    world = forest(
        box("switchbox-1", {"1.pair_2": ["node-1", "node-10"]}, ["node-3"]),
        fly("dragonfly-9", ["node-4", "other-1"]),
        unplaced=["node-5"],
    )
    slurm.topology.write_text(tree(world, first))
    slurm.control("reconfigure")
    slurm.wait_for("dragonfly-9")
    shown = slurm.switches()
    assert shown["1.pair_2"] == (["node-1", "node-10"], [])
    assert shown["node-node-3"] == (["node-3"], [])
    of_slurm = [
        node for node in shown["dragonfly-9"][0] if node != "other-1"
    ]  # 26.05 leaves it out
    assert of_slurm == ["node-4"]
    assert shown["dragonfly-1"] == ([], [])
    assert sorted(shown["cluster"][1]) == ["dragonfly-9", "node-node-5", "switchbox-1"]
    assert sorted(shown["cluster"][0]) == ["node-1", "node-10", "node-3", "node-4", "node-5"]


@pytest.mark.parametrize("changes", [25, pytest.param(CHANGES, marks=pytest.mark.deep)])
def test_slurmctld_has_the_groups_of_a_forest_that_changes_at_random(
    slurm: Slurm, changes: int
) -> None:
    slurm.configure("tree", NODES)
    world = World(seed=3)
    text = tree(world.forest())
    slurm.topology.write_text(text)
    slurm.start()
    slurm.wait_for("cluster")
    for _ in range(changes):
        world.change()
        text = tree(world.forest(), text)
        if text != slurm.topology.read_text():
            slurm.topology.write_text(text)
            slurm.control("reconfigure")
        slurm.wait(partial(slurm.has_switches_of, text))


def test_slurmctld_reads_a_line_of_sixteen_thousand_characters(slurm: Slurm) -> None:
    words = [f"{n:x}-{'x' * 55}-{n * 2654435761 % 2**32:08x}"[-63:] for n in range(255)]
    rest = [fly(word, [f"host-{n}"]) for n, word in enumerate(words[1:])]
    text = tree(forest(fly(words[0], ["node-1"]), *rest))
    assert max(map(len, text.splitlines())) > 16_000
    slurm.topology.write_text(text)
    slurm.start()
    slurm.wait_for("cluster")
    assert len(slurm.switches()) == 256
    assert slurm.switches()[words[0]] == (["node-1"], [])


def version() -> tuple[int, ...]:
    """That of the slurmctld here, such as (22, 5, 8)."""
    said = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in said.split()[-1].split("."))


@pytest.mark.parametrize(
    ("written", "since", "words"),
    [(SlurmFormat.BLOCK, (23, 11), ()), (SlurmFormat.YAML, (25, 5), ("dragonfly",))],
)
def test_slurmctld_has_our_blocks(
    slurm: Slurm, written: SlurmFormat, since: tuple[int, ...], words: tuple[str, ...]
) -> None:
    """In `topology.yaml` they are the topology `dragonfly`, beside the tree of all nodes."""
    if (found := version()) < since:
        pytest.skip(f"slurmctld {found} reads no {written}")
    made = slurm_file(VENDOR, SlurmChoice(format=written), "")
    assert isinstance(made, SlurmFile)
    file = slurm.topology.with_suffix(".yaml") if words else slurm.topology
    file.write_text(made.text)
    slurm.configure("block")
    slurm.start()

    def blocks() -> dict[str, list[str]]:
        shown = slurm.control("show", "topology", *words).splitlines()
        pairs = (dict(word.split("=", 1) for word in line.split()) for line in shown)
        return {each["BlockName"]: hosts(each["Nodes"]) for each in pairs if "BlockName" in each}

    slurm.wait(lambda: bool(blocks()))
    assert blocks() == {
        f"dragonfly-{n}": [f"node-{2 * n - 1}", f"node-{2 * n}"] for n in (1, 2, 3, 4)
    }
    if words:
        assert slurm.switches()["switchbox-2"][1] == ["dragonfly-3", "dragonfly-4"]


def test_scontrol_reads_our_hostlists_as_we_do(slurm: Slurm) -> None:
    names = ["n9", "n10", "n08", "gpu-01", "gpu-02", "a-1b", "x12345678", "node", "node1"]
    listed = slurm.control("show", "hostnames", compress(names)).split()
    assert sorted(listed) == sorted(names)
