"""Two masters on the real API server: one leads, the other shows the same, and takes over."""

import asyncio
import os
import signal
import time
from typing import Any

from tests.e2e.controlplane.pod import PodProcess
from tests.e2e.controlplane.release import Release
from tests.e2e.kubernetes.agreement import doubts
from tests.support.waiting import eventually, eventually_nothing

DEADLINE_S = 8.0
"""After which a leader that cannot renew its lease has ended: `--renew-deadline`."""
TAKEN_OVER_S = 15.0


async def _lease(release: Release) -> Any:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{release.namespace}/leases/topo-master"
    return await release.api.get(path)


async def _masters(release: Release) -> tuple[PodProcess, PodProcess]:
    """The one that leads, and the other."""
    holder = (await _lease(release))["spec"]["holderIdentity"].rpartition("_")[0]
    pods = release.kubelet.pods("topo-master")
    (leader,) = [pod for pod in pods if pod.path.endswith(f"/{holder}")]
    (follower,) = [pod for pod in pods if not pod.path.endswith(f"/{holder}")]
    return leader, follower


def _url(pod: PodProcess, path: str) -> str:
    return f"http://{pod.listens_at}:9001{path}"


async def test_a_leader_that_is_killed_is_followed_by_one_that_says_nothing_wrong(
    release: Release,
) -> None:
    await release.install()
    await eventually_nothing(lambda: doubts(release))
    leader, follower = await _masters(release)
    before = await release.document(_url(leader, "/node_group"))

    async def alike() -> bool:
        return bool(await release.document(_url(follower, "/node_group")) == before)

    await eventually(alike)
    transitions = (await _lease(release))["spec"]["leaseTransitions"]
    for pid in leader.pids:
        os.kill(pid, signal.SIGKILL)
    killed_s, wrong = time.monotonic(), list[Any]()
    while True:
        shown = await release.document(_url(follower, "/node_group"))
        if shown != before:
            wrong.append(shown)
        spec = (await _lease(release))["spec"]
        if spec["leaseTransitions"] > transitions and spec["holderIdentity"]:
            break
        await asyncio.sleep(0.1)
    took_s = time.monotonic() - killed_s
    print(f"another leads {took_s:.1f} s after a kill -9 (budget {TAKEN_OVER_S:g} s)")
    assert not wrong
    assert took_s > DEADLINE_S, "the lease was respected"
    end_s = time.monotonic() + 2 * TAKEN_OVER_S
    while time.monotonic() < end_s:  # workers come back meanwhile, and none counts as silent
        shown = await release.document(_url(follower, "/node_group"))
        assert shown == before
        await asyncio.sleep(0.25)
    await eventually_nothing(lambda: doubts(release))
