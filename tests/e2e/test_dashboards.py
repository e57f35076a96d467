"""What people would see of a demo with faults: every query of every panel, on a real Prometheus."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from monitoring.alerts import rule_file
from monitoring.dashboards.boards import BOARDS
from tests.e2e.conftest import RunningDemo, running
from tests.monitoring.asking import Prometheus, silent
from tests.support.waiting import eventually_in_a_thread as eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="there is no prometheus here"),
]
CUT, FOR_S = "node-sample3", 2
TARGETS = 9
OUTSIDE = [(board, each) for board in BOARDS for each in board.sections if not each.in_kubernetes]
VARIABLES = {"job": "topo-master", "node": CUT}
SHRANK = 'alertname="TopoForestShrank",reason="link-down"'
"""What two of eight nodes are."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    """A demo that stands, with a Prometheus that has read all of it."""
    home = tmp_path_factory.mktemp("live")
    (home / "rules.yaml").write_text(rule_file(for_s=FOR_S))
    flags = ("--prometheus", f"--alert-rules={home / 'rules.yaml'}")
    with running(home / "demo", home / "log", *flags) as begun:
        eventually(lambda: "Ctrl-C ends everything" in begun.text)
        yield begun


@pytest.fixture(scope="module")
def prometheus(demo: RunningDemo) -> Prometheus:
    found = Prometheus(demo.told()["prometheus"])
    eventually(lambda: found.has_read(TARGETS, 2))
    return found


def test_a_fault_is_pending_then_told_and_over_when_it_is_mended(
    demo: RunningDemo, prometheus: Prometheus
) -> None:
    """By what Prometheus noted of the alert at each of its looks, however seldom we look."""
    assert _told(prometheus) == []
    assert demo.topo("demo", "cut", CUT).returncode == 0
    eventually(lambda: _told(prometheus) == ["2 nodes link-down."])
    eventually(lambda: _broken_links(prometheus) == 2)  # its two ends, on the panel of reasons
    assert demo.topo("demo", "heal").returncode == 0
    eventually(lambda: not prometheus.query(f"ALERTS{{{SHRANK}}}"))
    pending, firing = (_first_noted(prometheus, state) for state in ("pending", "firing"))
    assert firing - pending >= FOR_S


def _told(prometheus: Prometheus) -> list[str]:
    """How what is told ends, of whatever fires."""
    return [
        each["annotations"]["summary"].rpartition(": ")[2]
        for each in prometheus.ask("alerts")["alerts"]
        if each["state"] == "firing"
    ]


def _first_noted(prometheus: Prometheus, state: str) -> float:
    """When the alert was noted first in this state."""
    series = f'ALERTS{{{SHRANK},alertstate="{state}"}}[1h]'
    (found,) = prometheus.ask("query", query=series)["result"]
    return float(found["values"][0][0])


def _broken_links(prometheus: Prometheus) -> float | None:
    """Nodes with a cable that carries no link, as a panel of the overview asks."""
    reasons = "max by (reason) (topo_master_node_reasons)"
    found = {labels["reason"]: value for labels, value in prometheus.query(reasons)}
    return found.get("link-down")


def test_every_query_of_every_panel_has_an_answer(
    demo: RunningDemo, prometheus: Prometheus
) -> None:
    """Of a demo in which jobs were placed, refused and held, a cable is cut and a GPU fails."""
    assert demo.topo("demo", "cut", CUT).returncode == 0
    assert demo.topo("demo", "fault", "gpu 2 of node-sample1 fails").returncode == 0
    assert demo.topo("place", "--pods", "2", "--gpus", "8", "--hold", "1h").returncode == 0
    assert demo.topo("place", "--pods", "99", "--gpus", "8").returncode == 5
    left: list[str] = []

    def all_answer() -> bool:
        left[:] = silent(prometheus, OUTSIDE, VARIABLES)
        return not left

    try:
        eventually(all_answer)
    except AssertionError:
        pytest.fail("without an answer:\n" + "\n".join(left))


def test_errors_that_a_link_counts_rise_on_the_panel_of_its_node(
    demo: RunningDemo, prometheus: Prometheus
) -> None:
    """Of that link first, and of no other."""
    assert demo.topo("demo", "fault", f"link 1 of gpu 2 of {CUT} counts errors").returncode == 0
    errors = f'topo_worker_link_errors_total{{node="{CUT}"}}'
    risen = f"topk(5, sum by (gpu, link) (increase({errors}[1m]))) > 0"
    eventually(lambda: bool(prometheus.query(risen)))
    ((labels, _),) = prometheus.query(risen)
    assert labels == {"gpu": "2", "link": "1"}


def test_the_variables_of_the_dashboards_have_values(prometheus: Prometheus) -> None:
    """As Grafana asks for them: the values that a label has on the series of a metric."""
    for name, metric in (("job", "topo_master_build_info"), ("node", "topo_worker_build_info")):
        values = prometheus.ask(f"label/{name}/values", **{"match[]": metric})
        assert VARIABLES[name] in values


def test_the_rules_are_those_of_the_chart_and_all_of_them_can_be_asked(
    prometheus: Prometheus,
) -> None:
    """None fails on what a master tells: a rule in error is silent for ever."""
    found: list[dict[str, Any]] = []

    def were_asked() -> bool:
        (group,) = prometheus.ask("rules")["groups"]
        found[:] = group["rules"]
        return "unknown" not in {each["health"] for each in found}

    eventually(were_asked)
    assert {each["health"] for each in found} == {"ok"}, json.dumps(found)
