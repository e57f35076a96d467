"""The API server ends and comes back: what is right stays right, and no write is lost.

One release for all of these tests, each of which ends with everything as it should be.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.controlplane.release import Release
from tests.e2e.kubernetes.agreement import DOMAIN, is_whole, statuses
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
LABEL = f"{DOMAIN}/dragonfly"


@pytest_asyncio.fixture(loop_scope="module")
async def settled(shared_release: Release) -> AsyncIterator[Release]:
    """A release in which all is well, before and after."""
    await eventually(lambda: is_whole(shared_release))
    yield shared_release
    shared_release.hosts.heal()
    await eventually(lambda: is_whole(shared_release))


async def test_a_tree_is_served_and_kept_while_the_api_server_is_away(
    settled: Release, control_plane: Cluster
) -> None:
    """A leader that cannot renew its lease in time ends, and begins with what it kept."""
    url = await settled.url()
    await control_plane.stop_api_server()
    ends = settled.hosts.cut("node-sample3")
    await eventually(lambda: _has_status(settled, url, "NotReady", *ends))
    await control_plane.start_api_server()
    settled.hosts.heal()
    await eventually(lambda: _has_status(settled, url, "Ready", *ends))
    right = await _label(settled, "node-sample5")
    await settled.api.merge(f"{NODES}/node-sample5", {"metadata": {"labels": {LABEL: None}}})
    await eventually(lambda: _is_labelled(settled, "node-sample5", right))


async def test_a_watch_whose_history_is_gone_lists_anew(
    settled: Release, control_plane: Cluster
) -> None:
    lists = await _metric(settled, 'kube_relists_total{resource="nodes"}')
    right = await _label(settled, "node-sample5")
    config_map = {
        "metadata": {"name": "later"}
    }  # the store goes on, and the nodes stay as they are
    await settled.api.create(f"/api/v1/namespaces/{settled.namespace}/configmaps", config_map)
    await control_plane.stop_api_server()
    await control_plane.compact()
    await control_plane.start_api_server()
    await eventually(lambda: _has_listed(settled, lists))
    await settled.api.merge(f"{NODES}/node-sample5", {"metadata": {"labels": {LABEL: None}}})
    await eventually(lambda: _is_labelled(settled, "node-sample5", right))


async def _metric(release: Release, name: str) -> float:
    """The sum of a metric over all masters."""
    found = 0.0
    for pod in release.kubelet.pods("topo-master"):
        async with release.session.get(f"http://{pod.listens_at}:9001/metrics") as answer:
            for line in (await answer.text()).splitlines():
                if line.startswith(f"topo_master_{name} "):
                    found += float(line.rpartition(" ")[2])
    return found


async def _has_listed(release: Release, lists: float) -> bool:
    return await _metric(release, 'kube_relists_total{resource="nodes"}') > lists


async def _has_status(release: Release, url: str, status: str, *nodes: str) -> bool:
    found = dict(statuses(await release.document(f"{url}/node_group") or ()))
    return all(found.get(node) == status for node in nodes)


async def _label(release: Release, node: str) -> str:
    value: str = (await release.api.get(f"{NODES}/{node}"))["metadata"]["labels"][LABEL]
    return value


async def _is_labelled(release: Release, node: str, value: str) -> bool:
    labels = (await release.api.get(f"{NODES}/{node}"))["metadata"]["labels"]
    return bool(labels.get(LABEL) == value)
