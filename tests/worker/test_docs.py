"""The worker on paper is the worker."""

import re
from pathlib import Path

from topo.kit.settings import read
from topo.recording.timeline import FaultKind, parse_faults
from worker.metrics import Metrics
from worker.probes.catalogue import probes
from worker.settings import WorkerSettings
from worker.transport import Trouble

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "worker.md").read_text()


def test_every_metric_is_documented() -> None:
    """With its type; and none that does not exist."""
    existing = {
        (family.name + "_total" * (family.type == "counter"), family.type)
        for family in Metrics().registry.collect()
        if family.name.startswith("topo_worker_")
    }
    text = (DOCS / "metrics.md").read_text()
    assert set(re.findall(r"^\| `(topo_worker_\w+)` \| (\w+) \|", text, re.MULTILINE)) == existing


def test_every_probe_and_every_reason_is_documented() -> None:
    """A name in a report can be looked up."""
    settings = read(WorkerSettings, ())
    assert isinstance(settings, WorkerSettings)
    for name in (*(probe.name for probe in probes(settings)), *(t.value for t in Trouble)):
        assert f"`{name}`" in PAGE, name


def test_every_documented_sentence_is_understood() -> None:
    """The table of faults, begun and ended, leaves nothing standing."""
    rows = re.findall(r"^\| `([^`]*NODE[^`]*)` \| `([^`]*NODE[^`]*)` \|", PAGE, re.MULTILINE)
    assert len(rows) == len(FaultKind)
    for begins, ends in rows:
        standing = parse_faults(begins.replace("NODE", "node-1"))
        assert isinstance(standing, frozenset)
        assert len(standing) == 1
        assert parse_faults(f"{begins}\n{ends}") == frozenset()
