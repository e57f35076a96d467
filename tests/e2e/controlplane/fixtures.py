"""Fixtures of tests on a control plane, for a conftest that has `world` and `control_plane`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.controlplane import programs
from tests.e2e.controlplane.cleanup import Baseline
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster


def mark(items: Sequence[pytest.Item], folder: Path, *, newest_only: str = "") -> None:
    """Gives the tests of the folder to `make e2e`; skips them where no Go builds the programs.

    `newest_only` says why they run on the newest Kubernetes alone, where they do.
    """
    is_older = programs.KUBE is not programs.NEWEST
    reason = programs.why_not() or (newest_only if is_older else "") or None
    for item in items:
        if folder not in item.path.parents:
            continue
        item.add_marker(pytest.mark.e2e)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="package")
def baseline(control_plane: Cluster) -> Baseline:
    """What the cluster holds before any test."""

    async def look() -> Baseline:
        async with control_plane.api() as api:
            return await Baseline.of(api)

    return asyncio.run(look())


@pytest.fixture
async def cluster(control_plane: Cluster, baseline: Baseline) -> AsyncIterator[Cluster]:
    """The cluster as it was at the start; whatever the test leaves in it is taken away."""
    yield control_plane
    async with control_plane.api() as api:
        await baseline.restore(api)


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    """A client with an administrator's rights."""
    async with cluster.api() as client:
        yield client
