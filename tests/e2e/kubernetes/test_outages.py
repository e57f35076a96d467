"""Masters end, the API server ends and comes back: what is right stays right, and no write is lost.

One release for all of these tests, each of which ends with everything as it should be.
"""

import asyncio
import datetime as dt
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.controlplane.audit import Call
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.controlplane.pod import PodProcess
from tests.e2e.controlplane.release import WAIT, Release
from tests.e2e.controlplane.tasks import ended
from tests.e2e.kubernetes.agreement import DOMAIN, doubts, statuses
from tests.helm.chart import CHART
from tests.support.waiting import eventually, eventually_nothing

pytestmark = pytest.mark.asyncio(loop_scope="module")
LABEL = f"{DOMAIN}/dragonfly"
DEADLINE_S = 8.0
"""After which a leader that cannot renew its lease has ended: `LeaseTimes.renew_deadline_s`."""
LABELS = (LABEL, f"{DOMAIN}/switchbox")


@pytest_asyncio.fixture(loop_scope="module")
async def settled(shared_release: Release) -> AsyncIterator[Release]:
    """A release in which all is well, before and after."""
    await eventually_nothing(lambda: doubts(shared_release))
    await eventually(lambda: _all_are_ready(shared_release))
    yield shared_release
    shared_release.hosts.heal()
    await eventually_nothing(lambda: doubts(shared_release))


async def test_a_leader_killed_while_it_writes_is_followed_by_one_that_says_nothing_wrong(
    settled: Release, control_plane: Cluster
) -> None:
    """It goes on with what the other was writing, and writes nothing that was written."""
    leader, follower = await _masters(settled)
    before = await settled.node_group()
    asked = len(_patches(settled, control_plane))
    transitions = (await _lease(settled))["leaseTransitions"]
    await _unlabel_until_one_is_labelled(settled)
    (pid,) = leader.pids
    os.kill(pid, signal.SIGKILL)
    killed_s, killed = time.monotonic(), dt.datetime.now(dt.UTC)
    while (await _lease(settled))["leaseTransitions"] == transitions:
        assert await settled.document(_url(follower)) == before
        await asyncio.sleep(0.1)
    took_s = time.monotonic() - killed_s
    assert took_s > DEADLINE_S, "the lease was respected"
    while await doubts(settled):
        assert await settled.document(_url(follower)) == before
        await asyncio.sleep(0.1)
    all_s = time.monotonic() - killed_s
    print(f"another leads {took_s:.1f} s, all is right {all_s:.1f} s after a kill -9")
    late = await _written_after(settled, killed + dt.timedelta(seconds=DEADLINE_S / 2))
    names = {str(host.name) for host in settled.hosts.world.nodes}
    written = [(_name(follower), name) for name in late]
    written += [(_name(leader), name) for name in names - late]

    def by_pod() -> list[tuple[str, str]]:
        return [(call.pod, call.name) for call in _patches(settled, control_plane)[asked:]]

    # The API server writes its audit log after its answer.
    await eventually(lambda: set(written) <= set(by_pod()))
    assert Counter(each for each in by_pod() if each in written) == Counter(written)
    assert {name for pod, name in by_pod() if pod == _name(follower)} == late


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


async def test_an_upgrade_and_a_rollback_interrupt_no_reader(settled: Release) -> None:
    answers = list[bool]()

    async def read() -> None:
        while True:
            answers.append(await settled.node_group() is not None)
            await asyncio.sleep(0.05)

    reader = asyncio.create_task(read())
    change = ("--set", "topoDiscovery.master.groupMetrics=true")
    await settled.helm("upgrade", settled.name, str(CHART), *settled.values, *change, *WAIT)
    await settled.helm("rollback", settled.name, "1", *WAIT)
    await ended([reader])
    assert all(answers), f"{answers.count(False)} of {len(answers)} were not answered"


async def _unlabel_until_one_is_labelled(release: Release) -> None:
    """Takes our labels off all nodes; returns when one of them has them again."""
    names = [str(host.name) for host in release.hosts.world.nodes]
    version = (await release.api.get(NODES))["metadata"]["resourceVersion"]
    bare, off = set(), {"metadata": {"labels": dict.fromkeys(LABELS)}}
    async with release.api.watch(NODES, resourceVersion=version) as events:
        await asyncio.gather(*(release.api.merge(f"{NODES}/{name}", off) for name in names))
        async for event in events:
            metadata = event["object"]["metadata"]
            if LABEL not in metadata["labels"]:
                bare.add(metadata["name"])
            elif metadata["name"] in bare:
                return


async def _lease(release: Release) -> Any:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{release.namespace}/leases/topo-master"
    return (await release.api.get(path))["spec"]


async def _masters(release: Release) -> tuple[PodProcess, PodProcess]:
    """The one that leads, and the other."""
    holder: str = (await _lease(release))["holderIdentity"].rpartition("_")[0]
    by_name = {_name(pod): pod for pod in release.kubelet.pods("topo-master")}
    leader = by_name.pop(holder)
    (follower,) = by_name.values()
    return leader, follower


def _name(pod: PodProcess) -> str:
    return pod.path.rpartition("/")[2]


def _url(pod: PodProcess) -> str:
    return f"http://{pod.listens_at}:9001/node_group"


def _patches(release: Release, cluster: Cluster) -> list[Call]:
    """Each time that one of our masters asked for the labels of a node, whatever came of it.

    A write that its killed writer did not wait for is a failure in the log (504), and yet may have
    been done.
    """
    return [
        call
        for call in cluster.calls(f"{release.namespace}:topo-master")
        if (call.verb, call.resource) == ("patch", "nodes") and "labels" in call.path
    ]


async def _written_after(release: Release, then: dt.datetime) -> set[str]:
    """The nodes that have their labels by a write after that time, as Kubernetes remembers it."""
    return {
        node["metadata"]["name"]
        for node in await release.api.items(NODES)
        for each in node["metadata"]["managedFields"]
        if each["manager"] == "topo-master/labels"
        and dt.datetime.fromisoformat(each["time"]) > then
    }


async def _has_status(release: Release, url: str, status: str, *nodes: str) -> bool:
    found = dict(statuses(await release.document(f"{url}/node_group") or ()))
    return all(found.get(node) == status for node in nodes)


async def _label(release: Release, node: str) -> str:
    value: str = (await release.api.get(f"{NODES}/{node}"))["metadata"]["labels"][LABEL]
    return value


async def _is_labelled(release: Release, node: str, value: str) -> bool:
    labels = (await release.api.get(f"{NODES}/{node}"))["metadata"]["labels"]
    return bool(labels.get(LABEL) == value)
