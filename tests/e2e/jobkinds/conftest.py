"""A real control plane with the stock controllers of other kinds of jobs, on kube-scheduler."""

from pathlib import Path

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.fixtures import api, baseline, cluster, mark
from tests.e2e.controlplane.job_controllers import JOB_SET, LEADER_WORKER_SET, TRAINER, install
from tests.e2e.controlplane.processes import Program
from tests.e2e.scheduling.fixtures import control_plane_with, webhook_master, world

__all__ = ("api", "baseline", "cluster", "world")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder; the controllers are built for the newest Kubernetes."""
    mark(items, Path(__file__).parent, newest_only="the controllers need a newer Kubernetes")


async def _controllers(cluster: Cluster, api: Api) -> list[Program]:
    return await install(cluster, api, JOB_SET, LEADER_WORKER_SET, TRAINER)


control_plane = control_plane_with(_controllers)
master = webhook_master()
