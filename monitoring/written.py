"""The files of the chart that this package writes."""

from collections.abc import Mapping
from pathlib import Path

from monitoring.alerts import rule_file
from monitoring.dashboards.boards import BOARDS
from monitoring.dashboards.grafana import written

CHART = Path(__file__).parents[1] / "helm" / "supernode-topology"
_NOTE = "# Written by `make dashboards` from monitoring/alerts.py.\n"


def files() -> Mapping[Path, str]:
    """Return what each of them is to hold."""
    boards = {CHART / "dashboards" / f"{board.name}.json": written(board) for board in BOARDS}
    return {CHART / "alerts.yaml": _NOTE + rule_file(), **boards}
