"""A real control plane with stock Kueue, its configuration that of its defaults."""

from pathlib import Path

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.fixtures import api, baseline, cluster, mark
from tests.e2e.controlplane.job_controllers import JOB_SET, install
from tests.e2e.controlplane.processes import Program
from tests.e2e.kueue.queues import RENDERING, WRITES
from tests.e2e.scheduling.fixtures import control_plane_with, webhook_master, world

__all__ = ("api", "baseline", "cluster", "world")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder; Kueue is tried on the newest Kubernetes alone."""
    mark(items, Path(__file__).parent, newest_only="Kueue is tried on the newest Kubernetes")


async def _controllers(cluster: Cluster, api: Api) -> list[Program]:
    return await install(cluster, api, JOB_SET)


control_plane = control_plane_with(_controllers, kueue={})
master = webhook_master(WRITES, rendering=RENDERING)
