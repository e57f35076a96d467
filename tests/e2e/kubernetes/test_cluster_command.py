"""`make cluster` as its user meets it: another process, its output, Ctrl-C."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.client import Access, Api
from tests.e2e.scheduling.jobs import JOBS
from tests.helm.chart import built_helm, run
from tests.support.processes import alive
from tests.support.waiting import CEILING_S
from tests.support.waiting import eventually_in_a_thread as eventually

COMMAND = (sys.executable, "-m", "tests.e2e.controlplane")
"""What the Makefile runs."""
SMALL = "--world=1x1x2"
"""Fewer nodes: each is a process."""
OF_THE_SAMPLE = "--world=1x4x2"
"""Of them 64 GPUs, as the manual's job wants them."""
RUNS = "Ctrl-C ends all of it"


@dataclass
class Running:
    """The command in a terminal of its own, and what it printed so far."""

    process: "subprocess.Popen[bytes]"
    printed: Path

    @property
    def text(self) -> str:
        return self.printed.read_text()

    def shows(self, words: str) -> None:
        """Returns when the words are there; fails where the command ends without them."""
        eventually(lambda: words in self.text or self.process.poll() is not None)
        assert words in self.text, self.text

    def ctrl_c(self) -> int:
        """As the terminal does it: to all that run in it. The exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(CEILING_S)

    def descendants(self) -> set[int]:
        """All processes that it began, and that these did."""
        parents = dict(_parents())
        return {pid for pid in parents if self.process.pid in _above(pid, parents)}


def _parents() -> Iterator[tuple[int, int]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield int(stat.parent.name), int(fields[1])


def _above(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    while (pid := parents.get(pid, 0)) > 1:
        yield pid


@contextmanager
def command(printed: Path, world: str) -> Iterator[Running]:
    """It runs inside the block; nothing of it is left behind a test that fails."""
    with printed.open("wb") as out:
        process = subprocess.Popen(
            (*COMMAND, world), stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield Running(process, printed)
    finally:
        process.kill()  # its children die with it
        process.wait()


def node_group(url: str) -> Any:
    """The vendor's document, None while nobody serves it."""
    try:
        with urllib.request.urlopen(url, timeout=CEILING_S) as answer:  # noqa: S310 - its own URL
            return json.loads(answer.read())
    except (urllib.error.URLError, OSError):
        return None


def status(url: str) -> str:
    """That of the one switchbox."""
    return "".join(root["status"] for root in node_group(url) or ())


async def _create(kubeconfig: Path, job: Path) -> None:
    """What `kubectl create` does with a Volcano Job."""
    config = yaml.safe_load(kubeconfig.read_text())
    (cluster,), (user,) = config["clusters"], config["users"]
    there = cluster["cluster"]
    ca = Path(there["certificate-authority"])
    async with Api(Access(there["server"], ca, user["user"]["token"])) as api:
        await api.create(JOBS, yaml.safe_load(job.read_text()))


def _typed(lines: str) -> str:
    """What a shell prints for them."""
    return subprocess.run(["sh", "-c", lines], check=False, capture_output=True, text=True).stdout


def test_it_says_what_to_type_next_which_works_and_leaves_nothing(tmp_path: Path) -> None:
    with command(tmp_path / "printed", OF_THE_SAMPLE) as made:
        made.shows(RUNS)
        (kubeconfig,) = re.findall(r"export KUBECONFIG=(\S+)", made.text)
        (url,) = re.findall(r"curl (\S+)", made.text)
        pull, plug = (line.strip() for line in made.text.splitlines() if "faults.txt" in line)
        place = ("--kubeconfig", kubeconfig, "--all-namespaces", "--output=json")
        listed = run(built_helm(), "list", *place, home=tmp_path)
        assert [each["status"] for each in json.loads(listed.stdout)] == ["deployed"]
        for typed, then in ((pull, "NotReady"), (plug, "Ready")):
            subprocess.run(["sh", "-c", typed], check=True)
            eventually(lambda: status(url) == then)  # noqa: B023 - called at once
        (sample,) = re.findall(r"kubectl create -f (\S+)", made.text)
        asyncio.run(_create(Path(kubeconfig), Path(sample)))
        why = "\n".join(re.findall(r"export TOPO_MASTER=.*|\S+/topo why .*", made.text))
        eventually(lambda: "● bound  8 pods" in _typed(why))
        begun = made.descendants()
        least = 5 + 3 + 2 + 8
        assert len(begun) >= least, "Kubernetes, Volcano, two masters, a worker on each node"
        assert made.ctrl_c() == 0, made.text
        eventually(lambda: not any(map(alive, begun)))
        assert not Path(kubeconfig).parent.exists()
        assert made.text.splitlines()[-1] == "ending all of it"


def test_it_ends_while_it_starts(tmp_path: Path) -> None:
    with command(tmp_path / "printed", SMALL) as made:
        made.shows("installing the chart")
        begun = made.descendants()
        assert made.ctrl_c() == 0, made.text
        eventually(lambda: not any(map(alive, begun)))
        assert RUNS not in made.text
        assert "Traceback" not in made.text
