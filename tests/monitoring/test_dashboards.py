"""The dashboards are Grafana's, and everything on them is explained and exists."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from monitoring.dashboards.board import Board, Panel
from monitoring.dashboards.boards import BOARDS
from monitoring.dashboards.grafana import written

METRICS = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
KNOWN = set(re.findall(r"^\| `(topo_\w+)` \|", METRICS, re.MULTILINE))
SUFFIX = re.compile(r"_(bucket|sum|count)$")
LABELS = re.compile(r"\{\{(\w+)\}\}")
WIDTH = 24
boards = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)


def panels(board: Board) -> list[Panel]:
    return [panel for section in board.sections for panel in section.panels]


@boards
def test_the_file_is_a_dashboard_by_the_schema_of_grafana(board: Board) -> None:
    """Read and written again by the types of the SDK it is the same: they know all of it."""
    register_default_plugins()
    document = json.loads(written(board))
    again: Any = Dashboard.from_json(document)
    assert json.loads(json.dumps(again, cls=JSONEncoder)) == document


@boards
def test_every_metric_that_a_panel_asks_for_is_one(board: Board) -> None:
    """Those of a process are the client library's."""
    for panel in panels(board):
        for query in panel.queries:
            asked = set(re.findall(r"\btopo_[a-z_]+|\bprocess_[a-z_]+", query.expr))
            assert asked, query.expr
            ours = {name for name in asked if name.startswith("topo_")}
            assert {SUFFIX.sub("", name) if name not in KNOWN else name for name in ours} <= KNOWN


@boards
def test_every_panel_says_in_a_sentence_what_it_means(board: Board) -> None:
    titles = [panel.title for panel in panels(board)]
    assert len(titles) == len(set(titles))
    for panel in panels(board):
        assert re.fullmatch(r"[A-Z0-9`].{10,120}\.", panel.means), panel.title


@boards
def test_a_legend_names_labels_that_the_query_keeps(board: Board) -> None:
    for panel in panels(board):
        for query in panel.queries:
            for label in LABELS.findall(query.legend):
                kept = " ".join(re.findall(r"by \(([^)]*)\)", query.expr)) or "instance"
                assert label in re.split(r"\W+", kept), (panel.title, label)


@boards
def test_no_panel_lies_over_another_or_beyond_the_page(board: Board) -> None:
    """As the file places them on Grafana's grid."""
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(written(board))["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= WIDTH, panel["title"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
