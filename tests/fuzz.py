"""Property tests with fresh examples, round after round: `make fuzz MINUTES=10`.

Every round is a run of all property tests with a seed of its own; the end of the time cuts the last
one. The first failure ends it with exit code 1, the seed, and a command that shows the same again.
"""

import argparse
import re
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROPERTIES = "hypothesis and not slow and not deep and not e2e"
CUT = 2
"""Pytest's exit code after SIGINT."""


@dataclass(frozen=True, slots=True)
class Round:
    """One run: its seed, pytest's exit code and all that it printed."""

    seed: int
    code: int
    text: str
    took_s: float = field(compare=False)

    @property
    def findings(self) -> tuple[str, ...]:
        """The names of the tests that failed."""
        lines = re.findall(r"^(?:FAILED|ERROR) (\S+)", self.text, re.MULTILINE)
        return tuple(dict.fromkeys(lines))

    @property
    def failed(self) -> bool:
        """Whether it found something; a round that was cut found nothing so far."""
        was_cut = self.code == CUT and not self.findings
        return self.code != 0 and not was_cut

    @property
    def summary(self) -> str:
        """Pytest's last line, without its frame."""
        lines = self.text.strip().splitlines() or ["pytest said nothing"]
        return lines[-1].strip("= ")


def command(seed: int, *tests: str, processes: int = 2) -> tuple[str, ...]:
    """The command line of a round, or of single tests with the examples of that round."""
    chosen = tests or ("-m", PROPERTIES, "-n", str(processes))
    fresh = ("--hypothesis-profile=fresh", f"--hypothesis-seed={seed}")
    return (sys.executable, "-m", "pytest", "-q", "-x", *chosen, *fresh)


def run(seed: int, left_s: float) -> Round:
    """One round, to its end or to the end of the time."""
    began_s = time.monotonic()
    with subprocess.Popen(
        command(seed),
        cwd=ROOT,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        try:
            text, _ = running.communicate(timeout=max(left_s, 1.0))
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
            text, _ = running.communicate()
    return Round(seed, running.returncode, text, time.monotonic() - began_s)


def explanation(failed: Round) -> str:
    """What failed, with which seed, and how to see it again."""
    again = " ".join(command(failed.seed, *failed.findings))
    return f"{failed.text}\nseed {failed.seed} fails: {failed.summary}\nagain: {again}"


def main(arguments: list[str]) -> int:
    """Rounds until the minutes are over; 0 where nothing failed, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    minutes: float = parser.parse_args(arguments).minutes
    began_s = time.monotonic()
    number = 0
    while (passed_s := time.monotonic() - began_s) < minutes * 60:
        number += 1
        done = run(secrets.randbits(31), minutes * 60 - passed_s)
        if done.failed:
            print(explanation(done))
            return 1
        so_far = f"{(passed_s + done.took_s) / 60:.1f} of {minutes:g} min"
        print(f"round {number}, seed {done.seed}: {done.summary}; {so_far}", flush=True)
    print(f"nothing found in {number} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
