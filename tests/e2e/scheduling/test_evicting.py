"""Where a gang fits only if others of lower priority go: Volcano evicts, or why not is told.

The cluster's scheduler runs the vendor's configuration, which has no action `preempt`; the command
that the doctor gives is run. All dragonflies but one are taken by pods that Volcano does not evict.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api, follow
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.volcano import (
    CONFIG_KEY,
    CONFIG_MAP,
    CONFIG_MAPS,
    config_map,
    vendor_configuration,
)
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.admission_master import AdmissionMaster, admission_master
from tests.e2e.scheduling.gang_master import api_url, document
from tests.e2e.scheduling.jobs import (
    JOBS,
    PODS,
    are_whole,
    bound,
    events_of,
    owner_of,
    pods_of,
    taker,
)
from tests.e2e.scheduling.scheduler_config import commands, configure, topo
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

DELETES = {"delete", "deletecollection", "create"}
"""A pod that is evicted by `pods/eviction` is one that is created there."""
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PATIENCE = "--preempt-after=1s"
NO_ACTION = "Volcano evicts nobody: preempt is not among its actions (enqueue, allocate, backfill"

NO_CLASS = "unless urgent is the cluster's default, set spec.priorityClassName of the job to it"


@pytest.fixture
async def evicting(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> AsyncIterator[AdmissionMaster]:
    """A master that lets gangs be opened over others; one dragonfly is left to jobs."""
    await api.create(CONFIG_MAPS, config_map(vendor_configuration()))
    await api.create(CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    for host in world.nodes[2:]:
        await api.create(PODS, taker(f"taker-{host.name}", str(host.name)))
    (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    async with admission_master(cluster, api, tmp_path, PATIENCE) as master:
        yield master
        sys.stdout.write(master.program.log.read_text()[-8000:])  # shown where the test fails


def urgent(name: str, pods: int) -> Any:
    """A job of the class."""
    job = asking.volcano_job(name, pods, 16)
    job["spec"]["priorityClassName"] = "urgent"
    return job


async def gang(master: AdmissionMaster, job: str) -> Any:
    """What the API says of a gang; nothing where there is none of the name."""
    url = api_url(master.program)
    async with ClientSession() as session, session.get(f"{url}/v1/gangs") as answer:
        found = (await answer.json())["gangs"] if answer.ok else []
    return next((each for each in found if each["name"] == job), {})


async def stands(master: AdmissionMaster, job: str, state: str) -> bool:
    return bool((await gang(master, job)).get("state") == state)


async def uids(api: Api) -> set[str]:
    """All pods there are."""
    return {each["metadata"]["uid"] for each in await api.items(PODS)}


async def is_told(api: Api, job: str, reason: str, words: str) -> bool:
    """Whether an Event of the job has these words."""
    return words in (await events_of(api, job)).get(reason, "")


async def is_refused(api: Api, job: str) -> bool:
    """Whether its scheduler has looked at its pods, opened, and found no room."""
    found = [pod for pod in await api.items(PODS) if owner_of(pod) == job]
    conditions = [each for pod in found for each in pod["status"].get("conditions", ())]
    refused = [each for each in conditions if each.get("reason") == "Unschedulable"]
    return bool(found) and len(refused) == len(found)


async def has_no_findings(url: str) -> bool:
    """Whether the doctor has nothing to say of Volcano any more."""
    return "volcano-evicts-nobody" not in await topo(url, "doctor")


async def why(master: AdmissionMaster, job: str) -> str:
    """What `topo why` prints, on one line."""
    return " ".join((await topo(api_url(master.program), "why", job)).split())


async def run(cluster: Cluster, command: str) -> None:
    """Runs a line as the administrator does who was told it."""
    environment = {**os.environ, "KUBECONFIG": str(cluster.files.kubeconfig)}
    shell = await asyncio.create_subprocess_exec("sh", "-euc", command, env=environment)
    assert await shell.wait() == 0


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
async def test_volcano_evicts_for_a_gang_once_the_doctors_command_was_run_and_each_stage_is_told(
    cluster: Cluster, api: Api, world: World, evicting: AdmissionMaster, scheduler_file: Path
) -> None:
    url = api_url(evicting.program)
    await api.create(JOBS, asking.volcano_job("lowly", 2, 16))
    await eventually(lambda: bound(api, "lowly", 2))
    before = await uids(api)

    await api.create(JOBS, urgent("first", 2))
    await eventually(lambda: stands(evicting, "first", "preempts"))
    await eventually(lambda: is_told(api, "first", "GangPreempts", NO_ACTION))
    assert "GangDoesNotFit" in await events_of(api, "first")
    told = (await gang(evicting, "first"))["text"]
    assert "2 of default/lowly" in told
    assert f"{NO_ACTION}; ConfigMap" in told
    assert "topo doctor has the patch" in told
    assert NO_ACTION in await why(evicting, "first")
    assert before <= await uids(api), "somebody was evicted"

    printed = await topo(url, "doctor")
    assert "volcano-evicts-nobody" in printed
    (command,) = commands(printed)
    await run(cluster, command)
    patched = await api.get(f"{CONFIG_MAPS}/{CONFIG_MAP}")
    configure(scheduler_file, patched["data"][CONFIG_KEY])
    await eventually(lambda: bound(api, "first", 2))
    nodes = [each.node for each in await pods_of(api, "first")]
    assert sorted(nodes) == sorted(str(host.name) for host in world.nodes[:2])
    assert are_whole(world, "dragonfly", nodes, 2)
    await eventually(lambda: stands(evicting, "first", "bound"))
    assert "default/first ● bound" in await why(evicting, "first")

    await eventually(lambda: stands(evicting, "lowly", "no-room"))  # its pods came again
    await eventually(lambda: is_told(api, "lowly", "GangDoesNotFit", "default/first"))
    assert "default/lowly ✗ no-room" in await why(evicting, "lowly")
    assert len(before - await uids(api)) == 2, "nobody but the two pods of the other job went"
    asked = cluster.calls(f"{evicting.namespace}:topo-master")
    assert not {each.verb for each in asked if each.resource == "pods"} & DELETES
    await eventually(lambda: has_no_findings(url))


async def test_volcano_goes_by_the_class_of_the_job_and_one_on_its_pods_alone_is_told_with_the_step(
    api: Api, evicting: AdmissionMaster, scheduler_file: Path
) -> None:
    acting = scheduler_file.read_text().replace("allocate,", "allocate, preempt,")
    configure(scheduler_file, acting)
    path = f"{CONFIG_MAPS}/{CONFIG_MAP}"
    await api.merge(path, {"data": {CONFIG_KEY: acting}})
    await api.create(JOBS, asking.volcano_job("lowly", 2, 16))
    await eventually(lambda: bound(api, "lowly", 2))
    before = await uids(api)
    job = asking.volcano_job("first", 2, 16)
    for task in job["spec"]["tasks"]:
        task["template"]["spec"]["priorityClassName"] = "urgent"
    await api.create(JOBS, job)
    await eventually(lambda: is_told(api, "first", "GangPreempts", NO_CLASS))
    await eventually(lambda: stands(evicting, "first", "preempts"))
    assert NO_CLASS in await why(evicting, "first")
    await eventually(lambda: is_refused(api, "first"))
    assert before <= await uids(api), "somebody was evicted"

    await api.merge(f"{JOBS}/first", {"spec": {"priorityClassName": "urgent"}})
    await eventually(lambda: bound(api, "first", 2))
    await eventually(lambda: stands(evicting, "first", "bound"))


async def test_volcanos_gangpreempt_evicts_for_a_gang_and_no_nomination_of_its_is_written_over(
    cluster: Cluster, api: Api, world: World, evicting: AdmissionMaster, scheduler_file: Path
) -> None:
    acting = scheduler_file.read_text().replace("allocate,", "allocate, gangpreempt,")
    configure(scheduler_file, acting)
    await api.merge(f"{CONFIG_MAPS}/{CONFIG_MAP}", {"data": {CONFIG_KEY: acting}})
    await api.create(JOBS, asking.volcano_job("lowly", 2, 16))
    await eventually(lambda: bound(api, "lowly", 2))
    before = await uids(api)

    nominated: dict[str, list[str]] = {}
    watching = asyncio.create_task(note_nominations(api, "first", nominated))
    await api.create(JOBS, urgent("first", 2))
    await eventually(lambda: bound(api, "first", 2))
    await eventually(lambda: stands(evicting, "first", "bound"))
    watching.cancel()
    nodes = [each.node for each in await pods_of(api, "first")]
    assert sorted(nodes) == sorted(str(host.name) for host in world.nodes[:2])
    assert len(before - await uids(api)) == 2, "nobody but the two pods of the other job went"
    assert all(len(told) == 1 for told in nominated.values()), nominated
    assert len(nominated) == 2, "Volcano nominates what it evicts for, and nobody anew"
    asked = cluster.calls(f"{evicting.namespace}:topo-master")
    assert not {each.verb for each in asked if each.resource == "pods"} & DELETES


async def note_nominations(api: Api, job: str, nominated: dict[str, list[str]]) -> None:
    """Note each node that a pod of the job is nominated to, when that changes."""
    async for pods in follow(api, PODS):
        for pod in pods.values():
            node = pod.get("status", {}).get("nominatedNodeName", "")
            told = nominated.setdefault(pod["metadata"]["name"], []) if owner_of(pod) == job else []
            if node and told[-1:] != [node]:
                told.append(node)
