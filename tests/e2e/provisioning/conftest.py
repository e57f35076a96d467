"""A real control plane with stock Kueue, and a master that answers ProvisioningRequests."""

from pathlib import Path

import pytest

from tests.e2e.controlplane.fixtures import api, baseline, cluster, mark
from tests.e2e.provisioning.lives import CONTROLLERS
from tests.e2e.scheduling.admission_master import WITH_POD_GROUPS
from tests.e2e.scheduling.fixtures import control_plane_with, webhook_master, world

__all__ = ("api", "baseline", "cluster", "world")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder; Kueue is tried on the newest Kubernetes alone."""
    mark(items, Path(__file__).parent, newest_only="Kueue is tried on the newest Kubernetes")


control_plane = control_plane_with(kueue={})
master = webhook_master(CONTROLLERS, "--state-file={home}/state", rendering=WITH_POD_GROUPS)
