"""What Prometheus itself says of our metrics."""

import shutil
import subprocess
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from master.app import build_app
from master.composition.service import build_service
from tests.builders import facts
from tests.master.world import settings
from topo.model.machine import (
    LinkErrorKind,
    LinkErrors,
    LinkPort,
    PortState,
    ProbeHealth,
    ProbeState,
)
from worker.metrics import Metrics

PROMTOOL = shutil.which("promtool")


def master_registry() -> CollectorRegistry:
    """All metrics of a master in switchbox mode, with Kubernetes."""
    address = "--cluster-manager-address=https://127.0.0.1"
    pod = ("--pod-name=a", "--pod-namespace=topo", "--pod-ip=10.0.0.7", "--leader-elect=true")
    service = build_service(settings("--mode=switchbox", "--kubeconfig=/kubeconfig", address, *pod))
    build_app(service)
    return service.registry


def worker_registry() -> CollectorRegistry:
    """All metrics of a worker that has read and reported once."""
    metrics = Metrics(lambda: (LinkErrors(2, 3, LinkErrorKind.CRC, 8814),))
    metrics.read(ProbeHealth("mxsml", ProbeState.OK), 0.01)
    metrics.reported("full", facts("a", ["b"]))
    return metrics.registry


def test_degraded_ports_are_counted_beside_those_that_are_up():
    """A link that is up and has a trouble; one that is down is not degraded, but down."""
    metrics = Metrics()
    ports = (
        LinkPort(0, 0, PortState.UP),
        LinkPort(0, 1, PortState.UP, trouble="degraded: 1 GB/s, its siblings 26 GB/s"),
        LinkPort(0, 2, PortState.DOWN, trouble="inactive"),
    )
    metrics.reported("full", replace(facts("a", ["b"]), ports=ports))
    page = generate_latest(metrics.registry).decode()
    assert "topo_worker_link_ports_degraded 1.0" in page
    assert 'topo_worker_link_ports{state="up"} 2.0' in page


def test_each_counter_of_a_link_is_a_series_and_none_is_made_up():
    page = generate_latest(worker_registry()).decode()
    (line,) = (each for each in page.splitlines() if each.startswith("topo_worker_link_errors"))
    assert line == 'topo_worker_link_errors_total{gpu="2",kind="crc",link="3"} 8814.0'
    assert "topo_worker_link_errors_total{" not in generate_latest(Metrics().registry).decode()


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian's prometheus) is not installed")
@pytest.mark.parametrize("registry", [master_registry, worker_registry])
def test_promtool_finds_nothing_to_say(registry):
    """Names, units, types and help texts follow the conventions."""
    text = generate_latest(registry())
    assert text.count(b"# HELP topo_") >= 10
    checked = subprocess.run(
        [str(PROMTOOL), "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr, checked.stdout) == (0, b"", b"")
