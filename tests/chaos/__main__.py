"""Faults at random on a real running cluster: `make chaos MINUTES=5 SEED=1`.

Exit code 1 where the model found a violation. What was done and seen is in the log that the first
line names; the same seed does the same again.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.chaos.model.verdicts import Bounds
from tests.chaos.notes import table
from tests.chaos.run import Length, chaos


def main() -> int:
    """Runs and prints; 1 where anything was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, help="end after so many, if the time allows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, help="what was done and seen")
    parser.add_argument("--patience", type=float, default=1.0, help="factor of every limit")
    asked = parser.parse_args()
    log = asked.log or Path(tempfile.gettempdir(), f"topo-chaos-{asked.seed}-{os.getpid()}.log")
    print(f"seed {asked.seed}; what is done and seen: {log}", flush=True)
    bounds = Bounds().patient(asked.patience)
    notes = asyncio.run(chaos(asked.seed, bounds, log, Length(asked.minutes, asked.rounds)))
    print("\n".join(table(notes)))
    return 1 if notes.violations else 0


if __name__ == "__main__":
    sys.exit(main())
