"""A real control plane on which the gangs of Kubernetes itself are switched on."""

from pathlib import Path

import pytest

from tests.e2e.controlplane.fixtures import api, baseline, cluster, mark
from tests.e2e.scheduling.admission_master import MAKES_POD_GROUPS, WITH_POD_GROUPS
from tests.e2e.scheduling.fixtures import control_plane_with, webhook_master, world

__all__ = ("api", "baseline", "cluster", "world")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder; older Kubernetes has no such gangs."""
    mark(items, Path(__file__).parent, newest_only="this Kubernetes has no PodGroups")


control_plane = control_plane_with(pod_groups=True)
master = webhook_master(MAKES_POD_GROUPS, rendering=WITH_POD_GROUPS)
unlabelling = webhook_master(
    MAKES_POD_GROUPS.replace("labels", "node-features"), rendering=WITH_POD_GROUPS
)
"""A master that leaves the labels of nodes to NFD, on a cluster without NFD."""
