"""What is tried without tests needs no tools of tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TAKEN_IF_THERE = {"greenlet"}
"""structlog works without it."""
LOADED = """
import importlib, sys
from importlib.metadata import packages_distributions
importlib.import_module({module!r})
owners = packages_distributions()
print(*{{each for name in sys.modules for each in owners.get(name.partition(".")[0], ())}})
"""


@pytest.mark.parametrize(
    "module", ["tests.e2e.controlplane.__main__", "tests.e2e.scheduling.tour", "topo.cli.main"]
)
def test_what_make_cluster_and_make_tour_import_is_in_the_lock_of_what_runs(module: str) -> None:
    """So they install a third of what the tests need."""
    words = (sys.executable, "-P", "-c", LOADED.format(module=module))
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT,
                          env={"PYTHONPATH": str(ROOT)})  # fmt: skip
    lock = (ROOT / "requirements-run.lock").read_text()
    pinned = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    names = {canonicalize_name(name) for name in done.stdout.split()}
    assert names - pinned - TAKEN_IF_THERE == {"supernode-topology"}
