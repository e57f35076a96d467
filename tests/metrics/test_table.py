"""The table of metrics feeds the code, /metrics and the documentation."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from docs.tables.metrics import render
from docs.tables.registry import SECTIONS
from docs.tables.section import ROOT, pages
from topo.kit.metrics import METRICS, MetricRow, counter, gauge, gauge_family
from topo.model.errors import BrokenInvariantError

ROW = MetricRow(kind="counter", help="Things done", labels=("result",), notes="`ok`, `failed`.")
NAME = "topo_master_things"


def test_a_row_is_all_that_a_new_metric_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on /metrics under its help text, and the page is outdated until `make docs`."""
    monkeypatch.setitem(METRICS, NAME, ROW)
    registry = CollectorRegistry()
    counter(registry, NAME, ("ok", "failed"))
    assert generate_latest(registry).decode().splitlines()[:3] == [
        "# HELP topo_master_things_total Things done",
        "# TYPE topo_master_things_total counter",
        'topo_master_things_total{result="ok"} 0.0',
    ]
    line = "| `topo_master_things_total` | counter | `result` | Things done. `ok`, `failed`. |"
    assert line in render("master").splitlines()
    path = ROOT / "docs/metrics.md"
    group = [section for section in SECTIONS if section.page == "docs/metrics.md"]
    assert pages(group)[path] != path.read_text()


def test_a_metric_without_a_row_or_of_another_kind_is_refused() -> None:
    with pytest.raises(KeyError):
        gauge(CollectorRegistry(), NAME)
    with pytest.raises(BrokenInvariantError, match="topo_master_events is a counter"):
        gauge_family("topo_master_events", 1)


def test_every_row_is_a_metric_of_the_code_and_every_metric_of_the_code_has_a_row() -> None:
    sources = [path for part in ("master", "worker") for path in (ROOT / part).rglob("*.py")]
    named = {name for path in sources for name in _named(path)}
    assert named == METRICS.keys()


def _named(path: Path) -> list[str]:
    return re.findall(r"\"(topo_(?:master|worker)_[a-z_]+)\"", path.read_text())
