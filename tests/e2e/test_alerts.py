"""The five failures of an operator's day: each raises one alert, which names its cause."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from monitoring.alerts import rule_file
from tests.e2e.conftest import RunningDemo, running
from tests.monitoring.asking import Prometheus
from tests.support.waiting import eventually_in_a_thread as eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="there is no prometheus here"),
]
WORLD, TARGETS = "3x2x2", 13
"""Two of its twelve nodes are less than a fifth, so a cable does not shrink the forest."""
FOR_S = 3
"""Longer than an alert takes that follows from another, and shorter than what is waited for."""
Told = list[tuple[str, str]]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    home = tmp_path_factory.mktemp("alerts")
    (home / "rules.yaml").write_text(rule_file(for_s=FOR_S))
    flags = ("--world", WORLD, "--prometheus", f"--alert-rules={home / 'rules.yaml'}")
    with running(home / "demo", home / "log", *flags) as begun:
        eventually(lambda: "Ctrl-C ends everything" in begun.text)
        yield begun


@pytest.fixture
def prometheus(demo: RunningDemo) -> Prometheus:
    """The Prometheus, once all is well and nothing is told, not even as pending."""
    found = Prometheus(demo.told()["prometheus"])
    eventually(lambda: found.has_read(TARGETS, 2))
    eventually(lambda: not _alerts(found, "pending") and not _alerts(found, "firing"))
    return found


@contextmanager
def cable_out(demo: RunningDemo) -> Iterator[None]:
    assert demo.topo("demo", "cut", _node(demo, 0)).returncode == 0
    yield
    assert demo.topo("demo", "heal").returncode == 0


@contextmanager
def stopped(demo: RunningDemo, name: str) -> Iterator[None]:
    """A process that hangs: it listens, and does not answer."""
    os.kill(demo.pid(name), signal.SIGSTOP)
    yield
    os.kill(demo.pid(name), signal.SIGCONT)


@contextmanager
def wrong_token(demo: RunningDemo) -> Iterator[None]:
    path = demo.directory / "secrets" / f"{_node(demo, 1)}.token"
    right = path.read_text()
    path.write_text("of-no-node-at-all")
    yield
    path.write_text(right)


FAILURES: dict[str, tuple[Callable[[RunningDemo], object], tuple[str, str]]] = {
    "cable": (
        cable_out,
        ("TopoNodesNotReady", "Not Ready, and without jobs: 2 nodes (link-down)."),
    ),
    "worker": (
        lambda demo: stopped(demo, _worker(demo)),
        ("TopoWorkersLost", "Workers say nothing: 1 node (worker-stale)."),
    ),
    "manager": (
        lambda demo: stopped(demo, "cluster manager"),
        (
            "TopoSourceStale",
            "Nothing good is heard of cluster-manager; what it said last is shown.",
        ),
    ),
    "master": (
        lambda demo: stopped(demo, "topo-master"),
        (
            "TopoNoLeader",
            "No master leads, or none answers: nothing is placed, and nothing follows the forest.",
        ),
    ),
    "token": (
        wrong_token,
        (
            "TopoReportsRefused",
            "Reports of workers are refused, mostly for their tokens; their nodes fall silent.",
        ),
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_raises_one_alert_that_names_its_cause(
    demo: RunningDemo, prometheus: Prometheus, failure: str
) -> None:
    """One while it lasts, and to the end: no look of Prometheus noted a second one as firing."""
    begin, told = FAILURES[failure]
    began_s = _now_s(prometheus)
    with begin(demo):  # type: ignore[attr-defined] # a context manager, made when it is asked for
        eventually(lambda: _alerts(prometheus, "firing") == [told])
        until_s = _now_s(prometheus) + 4 * FOR_S
        eventually(lambda: _now_s(prometheus) >= until_s)
        assert _alerts(prometheus, "firing") == [told]
    eventually(lambda: not _alerts(prometheus, "firing"))
    span = f"{int(_now_s(prometheus) - began_s)}s"
    fired = prometheus.query(f'max_over_time(ALERTS{{alertstate="firing"}}[{span}])')
    assert {labels["alertname"] for labels, _ in fired} == {told[0]}


def _alerts(prometheus: Prometheus, state: str) -> Told:
    return sorted(
        (each["labels"]["alertname"], each["annotations"]["summary"])
        for each in prometheus.ask("alerts")["alerts"]
        if each["state"] == state
    )


def _now_s(prometheus: Prometheus) -> float:
    ((_, now_s),) = prometheus.query("vector(time())")
    return now_s


def _worker(demo: RunningDemo) -> str:
    return f"topo-worker {_node(demo, 0)}"


def _node(demo: RunningDemo, index: int) -> str:
    node: str = demo.told()["nodes"][index]
    return node
