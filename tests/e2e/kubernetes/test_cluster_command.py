"""`make cluster` as its user meets it: another process, its output, Ctrl-C."""

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

from tests.helm.chart import built_helm, run
from tests.support.processes import alive
from tests.support.waiting import CEILING_S
from tests.support.waiting import eventually_in_a_thread as eventually

COMMAND = (sys.executable, "-m", "tests.e2e.controlplane", "--world=1x1x2")
"""What the Makefile runs, with fewer nodes: each is a process."""
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
def command(printed: Path) -> Iterator[Running]:
    """It runs inside the block; nothing of it is left behind a test that fails."""
    with printed.open("wb") as out:
        process = subprocess.Popen(COMMAND, stdout=out, stderr=out, start_new_session=True)
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


def test_it_says_what_to_type_next_which_works_and_leaves_nothing(tmp_path: Path) -> None:
    with command(tmp_path / "printed") as made:
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
        begun = made.descendants()
        assert len(begun) >= 9, "five of Kubernetes, two masters, two workers"
        assert made.ctrl_c() == 0, made.text
        eventually(lambda: not any(map(alive, begun)))
        assert not Path(kubeconfig).parent.exists()
        assert made.text.splitlines()[-1] == "ending all of it"


def test_it_ends_while_it_starts(tmp_path: Path) -> None:
    with command(tmp_path / "printed") as made:
        made.shows("installing the chart")
        begun = made.descendants()
        assert made.ctrl_c() == 0, made.text
        eventually(lambda: not any(map(alive, begun)))
        assert RUNS not in made.text
        assert "Traceback" not in made.text
