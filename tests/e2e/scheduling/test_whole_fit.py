"""A gang goes where its pods can be bound: what they take beside GPUs counts, too."""

from typing import Any

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.gang_master import GangMaster
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    GPU,
    JOBS,
    PODS,
    are_as_planned,
    are_whole,
    bound,
    pods_of,
    taker,
    template,
    volcano_job,
)
from tests.support.waiting import eventually
from topo.gangs.annotation_keys import HOSTNAME
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import World

CPUS = {"cpu": "8", "memory": "1Gi"}


@pytest.mark.parametrize("path", [JOBS, BATCH_JOBS], ids=["volcano", "kube-scheduler"])
async def test_a_gang_goes_where_cpus_are_left_and_waits_for_them_where_there_are_none(
    api: Api, master: GangMaster, world: World, path: str
) -> None:
    """60 of 64 CPUs are taken everywhere but in the last switchbox, then there as well."""
    nodes = [str(host.name) for host in world.nodes]
    for node in nodes[:8]:
        await api.create(PODS, _cpu_taker(node))
    await api.create(path, _job(path, "first"))
    await eventually(lambda: bound(api, "first", 4))
    found = [each.node for each in await pods_of(api, "first")]
    assert are_whole(world, "dragonfly", found, 2)
    assert {*found} <= {*nodes[8:]}
    assert are_as_planned(await pods_of(api, "first"), 2)

    for node in set(nodes[8:]) - set(found):
        await api.create(PODS, _cpu_taker(node))
    await api.create(path, _job(path, "second"))
    told = "of 12 nodes with free GPUs for a pod 12 lack cpu (a pod takes 8)"

    async def is_told() -> bool:
        gang = await master.gang("second")
        return gang.get("state") == "no-room" and told in gang.get("text", "")

    await eventually(is_told)
    assert all(each.gated for each in await pods_of(api, "second"))
    for node in nodes[4:8]:
        await api.delete(f"{PODS}/cpus-{node}")
    await eventually(lambda: bound(api, "second", 4))
    assert {each.node for each in await pods_of(api, "second")} == {*nodes[4:8]}


@pytest.mark.parametrize("path", [JOBS, BATCH_JOBS], ids=["volcano", "kube-scheduler"])
async def test_pods_that_keep_off_each_other_get_a_node_each(
    api: Api, master: GangMaster, world: World, path: str
) -> None:
    """By GPUs two of them would stand on one node; then the scheduler would refuse one for ever."""
    job = _job(path, "apart", gpus=4, size=8)
    term = {"labelSelector": {"matchLabels": {"role": "apart"}}, "topologyKey": HOSTNAME}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    for each in _templates(path, job):
        each["metadata"]["labels"] = {"role": "apart"}
        each["spec"]["affinity"] = {"podAntiAffinity": required}
    await api.create(path, job)
    await eventually(lambda: bound(api, "apart", 4))
    found = await pods_of(api, "apart")
    assert len({each.node for each in found}) == 4
    assert are_whole(world, "dragonfly", [each.node for each in found], 2)
    assert are_as_planned(found, 2)

    async def is_told() -> bool:
        return (await master.gang("apart")).get("state") == "bound"

    await eventually(is_told)


async def test_on_volcano_a_head_with_fewer_gpus_is_placed_and_leaves_the_rest_free(
    api: Api, master: GangMaster, world: World
) -> None:
    """Each pod counts as the largest until it is bound; a refusal says so."""
    job = _unlike(volcano_job("heads", 4, 16))
    await api.create(JOBS, job)
    await eventually(lambda: bound(api, "heads", 4))
    found = await pods_of(api, "heads")
    assert are_whole(world, "dragonfly", [each.node for each in found], 2)
    assert all(each.node == each.planned for each in found)
    await api.create(PODS, taker("beside", str(found[0].node), gpus=4))
    taken = {each.node for each in found}
    pairs = [str(host.name) for host in world.nodes[::2] if host.name not in taken]
    for node in pairs[:3]:
        await api.create(PODS, taker(f"taker-{node}", node))
    await api.create(JOBS, _unlike(volcano_job("many", 8, 16)))

    async def is_told() -> bool:
        gang = await master.gang("many")
        text = gang.get("text", "")
        return gang.get("state") == "no-room" and "4 to 8 GPUs, each counts as 8" in text

    await eventually(is_told)


def _unlike(job: Any) -> Any:
    """The job with a first task of 4 GPUs."""
    head = job["spec"]["tasks"][0]["template"]
    for amounts in head["spec"]["containers"][0]["resources"].values():
        amounts[GPU] = 4
    return job


def _cpu_taker(node: str) -> Any:
    """A pod of somebody else's that takes nearly all CPUs of a node and no GPU."""
    made = taker(f"cpus-{node}", node, gpus=0)
    resources = {"requests": {"cpu": "60"}, "limits": {"cpu": "60"}}
    made["spec"]["containers"][0]["resources"] = resources
    return made


def _job(path: str, name: str, *, gpus: int = 8, size: int = 16) -> Any:
    """Four pods of 8 CPUs in two groups."""
    if path == JOBS:
        job = volcano_job(name, 4, size, gpus=gpus)
    else:
        spec = {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}
        made = template(Stamp(4, 0, 2), size, gpus)
        job = {"metadata": {"name": name}, "spec": {**spec, "template": made}}
    for each in _templates(path, job):
        resources = each["spec"]["containers"][0]["resources"]
        resources["requests"] |= CPUS
        resources["limits"] |= CPUS
    return job


def _templates(path: str, job: Any) -> list[Any]:
    spec = job["spec"]
    return [task["template"] for task in spec["tasks"]] if path == JOBS else [spec["template"]]
