"""Kills processes of a running demo one after the other, and notes every node that is not Ready.

`python -m tests.e2e.kills --kills 50` prints a line per kill, and exits with 1 if any node was
NotReady at any time: each process is started again at once, and no hardware is ever broken.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.conftest import NODES, RunningDemo, Witness, running
from tests.support.waiting import eventually_in_a_thread as eventually

VICTIMS = (
    *("topo-master", "cluster manager", "kubernetes"),
    *(f"topo-worker {node}" for node in sorted(NODES)),
)
LONGEST_PAUSE_S = 6.0
"""Between two kills: some come while workers still wait between their tries, some long after."""


@dataclass(frozen=True)
class Kill:
    """One kill: who, how soon the process was there again, and who was NotReady until the next."""

    victim: str
    replaced_s: float
    not_ready: tuple[str, ...]


@dataclass
class Doubter(Witness):
    """Notes beside what is untrue also who is NotReady in any answer."""

    def doubts(self, document: list[Any]) -> Iterator[str]:
        """Nothing is broken, so nobody may be NotReady."""
        yield from super().doubts(document)
        names = set(not_ready(document))
        if names:
            yield f"NotReady: {', '.join(sorted(names))}"
            yield from self._reasons()

    def _reasons(self) -> Iterator[str]:
        """Why, as far as it still is so a moment later."""
        whole = self.demo.document("/v1/topology") or {"groups": []}
        for node in _nodes(whole["groups"]):
            yield from (f"{node['name']}: {reason['text']}" for reason in node["reasons"])


def not_ready(vertices: list[Any]) -> Iterator[str]:
    """The nodes of the document that are not Ready."""
    return (node["name"] for node in _nodes(vertices) if node["status"] != "Ready")


def _nodes(vertices: list[Any]) -> Iterator[dict[str, Any]]:
    for vertex in vertices:
        if vertex["kind"] == "node":
            yield vertex
        else:
            yield from _nodes(vertex["child"])


def kill_in_turn(demo: RunningDemo, kills: int, seed: int) -> Iterator[Kill]:
    """Kills the master every other time and the others in turn, after pauses of any length."""
    chance = random.Random(seed)  # noqa: S311 - which process, and how long a pause
    witness = Doubter(demo)
    with witness.at_work():
        for number in range(kills):
            victim = VICTIMS[0] if number % 2 == 0 else chance.choice(VICTIMS[1:])
            noted, pid, began_s = len(witness.wrong), demo.pid(victim), time.monotonic()
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: demo.told()["pids"].get(victim, pid) != pid)  # noqa: B023 - at once
            replaced_s = time.monotonic() - began_s
            time.sleep(chance.uniform(0, LONGEST_PAUSE_S))
            eventually(lambda: demo.node_group() is not None)
            yield Kill(victim, replaced_s, tuple(sorted(set(witness.wrong[noted:]))))
        said = witness.answers
        eventually(lambda: witness.answers > said + 100)
    assert witness.answers > kills, "nobody looked"


def main() -> int:
    """Starts a demo of its own, kills, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    wrong = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder, "demo"), Path(folder, "log")) as demo,
    ):
        eventually(lambda: "Ctrl-C ends everything" in demo.text)
        eventually(demo.is_remembered)
        for number, kill in enumerate(kill_in_turn(demo, asked.kills, asked.seed), start=1):
            found = "; ".join(kill.not_ready) or "all Ready"
            _say(f"{number:3} {kill.victim:26} back in {kill.replaced_s:4.1f} s  {found}")
            wrong += bool(kill.not_ready)
    _say(f"{asked.kills} kills, {wrong} of them with a node that was not Ready")
    return 1 if wrong else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
