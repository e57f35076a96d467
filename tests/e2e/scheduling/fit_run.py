"""How the judges of fits are run: rounds of random objects on a cluster of their own."""

import argparse
import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.controlplane.cluster import Cluster, own_cluster


@dataclass(frozen=True, slots=True)
class FitRun:
    """A cluster that is not started yet, a directory for its files, and the rounds to judge."""

    cluster: Cluster
    home: Path
    rounds: int
    seed: int

    def chances(self) -> Iterator[random.Random]:
        """The randomness of each round, the same in each run."""
        for number in range(self.rounds):
            yield random.Random(f"{self.seed}/{number}")  # noqa: S311 - the same each time


def judged(program: str, rounds: int, judge: Callable[[FitRun], Coroutine[None, None, int]]) -> int:
    """The exit code of a judge; `rounds` is how many it has by default."""
    parser = argparse.ArgumentParser(f"python -m {program}")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="topo-fit-"))
    try:
        with own_cluster(home) as cluster:
            run = FitRun(cluster, home, options.rounds, options.seed)
            return asyncio.run(judge(run))
    finally:
        shutil.rmtree(home)
