"""Masters end, the API server ends and comes back: what is right stays right, and no write is lost.

One release for all of these tests, each of which ends with everything as it should be.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.controlplane.release import Release
from tests.e2e.kubernetes.agreement import DOMAIN, doubts, statuses
from tests.support.waiting import eventually, eventually_nothing

pytestmark = pytest.mark.asyncio(loop_scope="module")
LABEL = f"{DOMAIN}/dragonfly"
OK = 200
LABELS = (LABEL, f"{DOMAIN}/switchbox")


@pytest_asyncio.fixture(loop_scope="module")
async def settled(shared_release: Release) -> AsyncIterator[Release]:
    """A release in which all is well, before and after."""
    await eventually_nothing(lambda: doubts(shared_release))
    await eventually(lambda: _all_are_ready(shared_release))
    yield shared_release
    shared_release.hosts.heal()
    await eventually_nothing(lambda: doubts(shared_release))


async def test_the_other_master_goes_on_with_what_a_killed_leader_was_writing(
    settled: Release, control_plane: Cluster
) -> None:
    names = [str(host.name) for host in settled.hosts.world.nodes]
    asked = len(_patches(settled, control_plane))
    (pid,) = settled.kubelet.pod(await _leader(settled)).pids
    version = (await settled.api.get(NODES))["metadata"]["resourceVersion"]
    async with settled.api.watch(NODES, resourceVersion=version) as events:
        bare = {"metadata": {"labels": dict.fromkeys(LABELS)}}
        await asyncio.gather(*(settled.api.merge(f"{NODES}/{name}", bare) for name in names))
        await _is_written_again(events)
    os.kill(pid, signal.SIGKILL)
    began_s = time.monotonic()
    await eventually_nothing(lambda: doubts(settled))
    print(f"all is as it should be {time.monotonic() - began_s:.1f} s after the leader's end")
    written = Counter(_patches(settled, control_plane)[asked:])
    assert written == Counter(names)


async def test_a_tree_is_served_while_the_api_server_is_away_and_followed_once_it_is_back(
    settled: Release, control_plane: Cluster
) -> None:
    url = await settled.url()
    before = await settled.node_group()
    right = await _label(settled, "node-sample5")
    await control_plane.stop_api_server()
    assert await settled.document(f"{url}/node_group") == before
    await control_plane.start_api_server()
    ends = settled.hosts.cut("node-sample3")
    await eventually(lambda: _has_status(settled, url, "NotReady", *ends))
    await settled.api.merge(f"{NODES}/node-sample5", {"metadata": {"labels": {LABEL: None}}})
    await eventually(lambda: _is_labelled(settled, "node-sample5", right))


async def test_a_leader_that_cannot_renew_ends_and_all_is_right_once_it_can(
    settled: Release, control_plane: Cluster
) -> None:
    right = await _label(settled, "node-sample5")
    restarts = _restarts(settled)
    await control_plane.stop_api_server()
    await eventually(lambda: _restarts(settled) > restarts)
    await control_plane.start_api_server()
    await settled.api.merge(f"{NODES}/node-sample5", {"metadata": {"labels": {LABEL: None}}})
    await eventually(lambda: _is_labelled(settled, "node-sample5", right))


async def _all_are_ready(release: Release) -> bool:
    """Whether no master is being started again."""
    pods = release.kubelet.pods("topo-master")
    found = [await release.api.get(pod.path) for pod in pods]
    return all(
        condition["status"] == "True"
        for pod in found
        for condition in pod["status"]["conditions"]
        if condition["type"] == "Ready"
    )


async def _is_written_again(events: AsyncIterator[Any]) -> None:
    """Returns when a label that was gone is there again."""
    bare = set()
    async for event in events:
        metadata = event["object"]["metadata"]
        if LABEL not in metadata["labels"]:
            bare.add(metadata["name"])
        elif metadata["name"] in bare:
            return


async def _leader(release: Release) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{release.namespace}/leases/topo-master"
    holder: str = (await release.api.get(path))["spec"]["holderIdentity"]
    (name,) = {
        pod.path.rpartition("/")[2]
        for pod in release.kubelet.pods("topo-master")
        if holder.startswith(pod.path.rpartition("/")[2])
    }
    return name


def _patches(release: Release, cluster: Cluster) -> list[str]:
    """The nodes whose labels our masters have written, each time."""
    return [
        call.name
        for call in cluster.calls(f"{release.namespace}:topo-master")
        if (call.verb, call.resource, call.status) == ("patch", "nodes", OK)
        and "labels" in call.path
    ]


def _restarts(release: Release) -> Counter[str]:
    return Counter({pod.path: pod.restarts for pod in release.kubelet.pods("topo-master")})


async def _has_status(release: Release, url: str, status: str, *nodes: str) -> bool:
    found = dict(statuses(await release.document(f"{url}/node_group") or ()))
    return all(found.get(node) == status for node in nodes)


async def _label(release: Release, node: str) -> str:
    value: str = (await release.api.get(f"{NODES}/{node}"))["metadata"]["labels"][LABEL]
    return value


async def _is_labelled(release: Release, node: str, value: str) -> bool:
    labels = (await release.api.get(f"{NODES}/{node}"))["metadata"]["labels"]
    return bool(labels.get(LABEL) == value)
