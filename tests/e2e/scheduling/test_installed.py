"""The vendor's install command alone: what it places, and what an uninstall leaves of it."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controlplane.admission import CONFIGURATIONS, NAME, is_trusted
from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.hosts import Hosts
from tests.e2e.controlplane.kubelet import kubelet
from tests.e2e.controlplane.kwok import REAL_PREFIX
from tests.e2e.controlplane.release import WAIT
from tests.e2e.controlplane.release import release as made_release
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    JOBS,
    NODES,
    are_as_planned,
    are_whole,
    bound,
    events_of,
    gang_labels,
    pods_of,
)
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

RELEASE = f"{REAL_PREFIX}placing"
HERE = "example.com/worker"
"""Label of the nodes with a worker: four are enough, and each is a process."""
ON_FOUR = ("--set-json", f'topoDiscovery.worker.nodeSelector={{"{HERE}":"true"}}')
RUNNING = ("pair", "indexed")
GANGS = "/apis/topo.metax-tech.com/v1alpha1/namespaces/default/gangs"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
WAITING = frozenset({"GangDoesNotFit", "GangNeverFits"})


async def test_the_vendors_command_places_jobs_and_an_uninstall_leaves_none_behind_a_gate(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": RELEASE}})
    for host in world.nodes[:4]:
        await api.merge(f"{NODES}/{host.name}", {"metadata": {"labels": {HERE: "true"}}})
    hosts = Hosts(tmp_path / "hosts", world)
    files = cluster.files
    async with (
        kubelet(cluster, tmp_path / "kubelet", hosts.folder) as running,
        made_release(api, running, RELEASE, files.kubeconfig, hosts) as release,
    ):
        await release.install(*ON_FOUR)
        await eventually(lambda: is_trusted(api))
        await _placed(api, world, JOBS, asking.volcano_job("pair", 2, 16))
        await _placed(api, world, BATCH_JOBS, asking.batch_job("indexed", 2, 16))

        await api.create(JOBS, asking.volcano_job("waits", 2, 16))
        await api.create(BATCH_JOBS, asking.batch_job("waits-too", 2, 16))
        for job in ("waits", "waits-too"):
            await eventually(lambda: _is_told_to_wait(api, job))  # noqa: B023 - at once
            assert all(each.gated for each in await pods_of(api, job))
        await eventually(lambda: _are_shown(api))

        await release.helm("uninstall", release.name, *WAIT)
        for job in ("waits", "waits-too"):
            assert not any(each.gated for each in await pods_of(api, job))
            await eventually(lambda: bound(api, job, 2))  # noqa: B023 - at once
        # Pods that run select the labels of their gangs, which a kubelet may look at again.
        kept = sorted(map(sorted, (await gang_labels(api)).values()))
        placed = [sorted(each.node for each in await pods_of(api, job)) for job in RUNNING]
        assert kept == sorted(placed)
        configurations = await api.items(CONFIGURATIONS)
        secrets = await api.items(f"/api/v1/namespaces/{RELEASE}/secrets")
        assert NAME not in {each["metadata"]["name"] for each in (*configurations, *secrets)}
        with pytest.raises(ApiError, match="404"):  # its definition is gone, and so is each object
            await api.get(GANGS)


async def _placed(api: Api, world: World, path: str, job: Any) -> None:
    """Its two pods run in one dragonfly, where they were planned."""
    name = job["metadata"]["name"]
    await api.create(path, job)
    await eventually(lambda: bound(api, name, 2))
    found = await pods_of(api, name)
    nodes = [each.node for each in found]
    assert are_as_planned(found, 2)
    assert are_whole(world, "dragonfly", nodes, 2)


async def _are_shown(api: Api) -> bool:
    """`kubectl get gangs` has a row for each job: this is the table that it prints."""
    printed = await api.call("GET", GANGS, accept=_TABLE)
    heads = [each["name"] for each in printed["columnDefinitions"] if not each["priority"]]
    assert heads == ["Name", "State", "Bound", "Age", "Why"]
    rows = {row["cells"][0]: row["cells"][1:3] for row in printed["rows"]}
    waits = {rows.get(job, ["", ""])[0] for job in ("waits", "waits-too")}
    return (
        all(rows.get(job) == ["bound", "2/2"] for job in RUNNING)
        and rows.keys() == {*RUNNING, "waits", "waits-too"}
        and waits <= {"no-room", "never-fits", "behind"}
    )


async def _is_told_to_wait(api: Api, job: str) -> bool:
    return bool(WAITING & (await events_of(api, job)).keys())
