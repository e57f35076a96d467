"""The chart gives the Prometheus operator and Grafana's sidecar what `monitoring` wrote."""

import json

import yaml

from monitoring.alerts import PAGE, RUNBOOK, rule_file
from monitoring.dashboards.boards import BOARDS
from tests.helm.chart import CHART, GOLDEN, cases, golden, one

FOUND = golden("monitoring")
ASKED = yaml.safe_load((CHART.parents[1] / "tests/helm/cases/monitoring.yaml").read_text())
VALUES = ASKED["topoDiscovery"]


def test_the_rules_are_ours_and_their_links_lead_where_the_operator_says() -> None:
    rule = one(FOUND, "PrometheusRule", "topo-alerts")
    page = VALUES["alerts"]["page"]
    assert rule["spec"] == yaml.safe_load(
        rule_file().replace(f"{RUNBOOK}: {PAGE}", f"runbook_url: {page}")
    )
    assert rule["metadata"]["labels"].items() >= VALUES["alerts"]["labels"].items()


def test_each_dashboard_is_a_config_map_that_the_sidecar_finds() -> None:
    maps = {
        each["metadata"]["name"]: each
        for each in FOUND
        if each["metadata"].get("namespace") == VALUES["dashboards"]["namespace"]
    }
    assert set(maps) == {f"topo-dashboard-{board.name}" for board in BOARDS}
    for board in BOARDS:
        made = maps[f"topo-dashboard-{board.name}"]
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
        (text,) = made["data"].values()
        kept = (CHART / "dashboards" / f"{board.name}.json").read_text()
        assert json.loads(text) == json.loads(kept)


def test_the_series_of_a_worker_say_on_which_node_it_is() -> None:
    """The dashboard of a node asks by that label; a master's have none."""
    (worker,) = one(FOUND, "ServiceMonitor", "topo-worker")["spec"]["endpoints"]
    (relabelling,) = worker["relabelings"]
    assert relabelling["targetLabel"] == "node"
    (master,) = one(FOUND, "ServiceMonitor", "topo-master")["spec"]["endpoints"]
    assert "relabelings" not in master


def test_none_of_it_is_made_unasked() -> None:
    for case in set(cases()) - {"monitoring"}:
        text = (GOLDEN / f"{case}.yaml").read_text()
        assert "PrometheusRule" not in text, case
        assert "dashboard" not in text, case
