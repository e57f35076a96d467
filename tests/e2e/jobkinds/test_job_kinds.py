"""Jobs of each kind by its stock controller: the examples, whole in the order of their ranks.

`make e2e-kinds` has all kinds, further schedulers, and masters and controllers that are killed.
"""

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.jobkinds.kinds import (
    ALL,
    FOLDER,
    KINDS,
    NAME,
    SWITCHBOX_LABEL,
    Kind,
    example,
    split_pairs,
)
from tests.e2e.jobkinds.life import Life
from tests.e2e.scheduling.admission_master import AdmissionMaster
from tests.e2e.scheduling.jobs import NODES, PODS, WORDS, homes
from tests.e2e.scheduling.test_examples import OF_OTHER_CONTROLLERS
from tests.support.waiting import eventually
from topo.model.cluster import HYBRID
from topo.sim.worlds.presets import World

POOL = f"{WORDS.domain}/node.usage"


def life(api: Api, master: AdmissionMaster, world: World, kind: Kind) -> Life:
    """A job of a kind on kube-scheduler, whose controller nobody restarts."""
    return Life(api, world, kind, "kube", master.url)


@pytest.mark.parametrize("name", sorted(OF_OTHER_CONTROLLERS))
async def test_the_pairs_of_a_job_are_whole_through_its_life(
    api: Api, master: AdmissionMaster, world: World, name: str
) -> None:
    """No field of the example is unknown to the API server, and the webhook knows the kind."""
    job = life(api, master, world, KINDS[name])
    await job.make()
    await job.lose_a_pod()
    if job.kind.scaled is not None:
        await job.scale(job.kind.least)
        await job.scale(ALL)
    await job.end()
    await job.make()


async def test_a_deployment_that_shrinks_gives_back_whole_pairs_and_grows_beside_what_runs(
    api: Api, master: AdmissionMaster, world: World
) -> None:
    job, home = life(api, master, world, KINDS["deployment"]), homes(world, "dragonfly")
    shared = [node for node in home if home[node] == home[min(home)]]
    for node in shared:
        await api.merge(f"{NODES}/{node}", {"metadata": {"labels": {POOL: HYBRID}}})
    await eventually(lambda: _are_hybrid(master, shared))
    await job.make()
    await api.merge(f"{job.kind.path}/{NAME}", {"spec": {"replicas": 14}})
    await eventually(lambda: _are(job, 14))
    assert not {each["spec"]["nodeName"] for each in await job.pods()} & {*shared}
    await api.merge(f"{job.kind.path}/{NAME}", {"spec": {"replicas": 11}})
    await eventually(lambda: _are(job, 11))
    pairs = Counter(home[each["spec"]["nodeName"]] for each in await job.pods())
    assert sorted(pairs.values()) == [1, 2, 2, 2, 2, 2]
    kept = {each["metadata"]["uid"]: each["spec"]["nodeName"] for each in await job.pods()}
    await job.scale(ALL)
    assert (
        kept.items()
        <= {each["metadata"]["uid"]: each["spec"]["nodeName"] for each in await job.pods()}.items()
    )


def in_order(name: str) -> Any:
    """The job of an example, made in an order: workers after their leader, or one by one."""
    job = example(name)
    if name == "leaderworkerset":
        job["spec"]["startupPolicy"] = "LeaderReady"
        return job
    if name == "statefulset":
        job["spec"]["podManagementPolicy"] = "OrderedReady"
        return job
    workers = job["spec"]["replicatedJobs"][1]
    more = {**workers, "name": "more", "replicas": 1}
    job["spec"]["replicatedJobs"][1] = {**workers, "replicas": 1}
    job["spec"]["replicatedJobs"].append(more)
    job["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    return job


@pytest.mark.parametrize("name", ["jobset", "leaderworkerset", "statefulset"])
async def test_jobs_that_start_in_an_order_are_whole(
    api: Api, master: AdmissionMaster, world: World, name: str
) -> None:
    """Their first pods are opened while the others do not exist."""
    kind = replace(KINDS[name], job=lambda: in_order(name))
    await life(api, master, world, kind).make()


async def test_each_job_of_an_exclusive_job_set_is_whole_in_a_switchbox_of_its_own(
    api: Api, master: AdmissionMaster, world: World
) -> None:
    """JobSet makes the pods of a Job once the first one is bound.

    Before nodes have the label that it names it waits, and says so. `make e2e-kinds` has groups of
    a LeaderWorkerSet, too.
    """
    job = life(api, master, world, KINDS["jobset-exclusive"])
    made = asyncio.create_task(job.make())
    await eventually(lambda: _says(job, f"no node has the label {SWITCHBOX_LABEL}"))
    for node in world.nodes:
        labels = {SWITCHBOX_LABEL: node.switchbox}
        await api.merge(f"{NODES}/{node.name}", {"metadata": {"labels": labels}})
    await made


async def test_plain_pods_that_name_their_gang_are_a_pair(
    api: Api, master: AdmissionMaster, world: World
) -> None:
    kind = KINDS["pods"]
    for pod in yaml.safe_load_all((FOLDER / "plain-pods.yaml").read_text()):
        await api.call("POST", PODS, pod, fieldValidation="Strict")
    job = life(api, master, world, kind)
    await eventually(lambda: _are(job, 2))
    assert split_pairs(world, kind, await job.pods()) == []


async def _says(job: Life, text: str) -> bool:
    return text in await job.explain()


async def _are(job: Life, pods: int) -> bool:
    found = await job.pods()
    return len(found) == pods and all("nodeName" in each["spec"] for each in found)


async def _are_hybrid(master: AdmissionMaster, nodes: Collection[str]) -> bool:
    """Whether the master knows these nodes as those of the hybrid pool."""
    if not (url := await master.url()):
        return False
    async with ClientSession(url, raise_for_status=True) as session:
        found = [await (await session.get(f"/v1/topology?node={node}")).json() for node in nodes]
    return all(_only_node(each["groups"]).get("pool") == HYBRID for each in found)


def _only_node(groups: Any) -> Any:
    (only,) = groups
    return _only_node(only["child"]) if "child" in only else only
