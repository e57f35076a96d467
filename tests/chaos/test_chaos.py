"""Rounds of `make chaos` with every kind of act: no answer of the cluster is untrue."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 4
"""Factor of every limit of `make chaos`: no verdict on the machine."""
SEED = 20
"""Of the first twenty, the one that does its acts in the most ways."""


@pytest.mark.slow
def test_five_rounds_of_faults_violate_nothing(tmp_path: Path) -> None:
    flags = ("--minutes=60", "--rounds=5", f"--seed={SEED}", f"--patience={PATIENCE}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", *flags, f"--log={tmp_path / 'log'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    seen = (tmp_path / "log").read_text()[-20_000:] if (tmp_path / "log").exists() else ""
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{seen}"
    assert "violations:       0" in done.stdout
