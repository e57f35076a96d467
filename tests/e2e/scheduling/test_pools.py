"""Mixed pools on stock schedulers: label and taint of the pool, taint of the product.

The manifests have no word of ours but the size of a group. They are of the shape that is published
for such clusters (johng.cn/ai/hybrid-scheduling-affinity-toleration): a key of the company's own
domain, both pools required by affinity, the job's own preferred, and taints tolerated by value.
"""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.gang_master import GangMaster, gang_master
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    JOBS,
    NODES,
    are_whole,
    bound,
    homes,
    pods_of,
    template,
    volcano_job,
)
from tests.e2e.scheduling.test_explained import topo
from tests.support.waiting import eventually
from topo.gangs.stamp import Stamp
from topo.sim.worlds.presets import World

KEY, PRODUCT, CARD = "ai.example.com/node.usage", "metax-tech.com/c500.product", "MXC500"
TRAINING, HYBRID, INFERENCE = "training", "hybrid", "inference"


async def put(api: Api, node: str, pool: str) -> None:
    """A node is in a pool from now on, as an operator says it: by label and taint."""
    taints = [
        {"key": KEY, "value": pool, "effect": "NoSchedule"},
        {"key": PRODUCT, "value": CARD, "effect": "NoSchedule"},
    ]
    labels = {KEY: pool}
    await api.merge(f"{NODES}/{node}", {"metadata": {"labels": labels}, "spec": {"taints": taints}})


@pytest.fixture
async def pools(api: Api, world: World) -> Mapping[str, str]:
    """The pool of each node: a switchbox trains, in the other one two pairs are of each kind."""
    found: dict[str, str] = {}
    flies = homes(world, "dragonfly")
    for number, fly in enumerate(dict.fromkeys(flies.values())):
        pool = TRAINING if number < 4 else HYBRID if number < 6 else INFERENCE
        found |= dict.fromkeys([node for node, home in flies.items() if home == fly], pool)
    for node, pool in found.items():
        await put(api, node, pool)
    return found


@pytest.fixture
async def master(cluster: Cluster, world: World, tmp_path: Path) -> AsyncIterator[GangMaster]:
    """A master that places gangs and knows the company's key."""
    async with gang_master(cluster, world, tmp_path, f"--node-usage-key={KEY}") as running:
        yield running


def in_pools(spec: dict[str, Any], usage: str) -> None:
    """The pods of a job of this kind, as the users of such a cluster write them."""
    borne = [(KEY, usage), (KEY, HYBRID), (PRODUCT, CARD)]
    spec["tolerations"] = [
        {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}
        for key, value in borne
    ]
    spec["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [_of_pools(usage, HYBRID)]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": _of_pools(usage)}
            ],
        }
    }


def _of_pools(*pools: str) -> Any:
    return {"matchExpressions": [{"key": KEY, "operator": "In", "values": list(pools)}]}


def trains(name: str, pods: int) -> Any:
    """A training job of pairs, of Volcano."""
    job = volcano_job(name, pods, 16)
    for task in job["spec"]["tasks"]:
        in_pools(task["template"]["spec"], TRAINING)
    return job


def serves(name: str) -> Any:
    """A pair that serves, of kube-scheduler."""
    job = asking.batch_job(name, 2)
    job["spec"]["template"] = template(Stamp(2, 0, 2), 16)
    in_pools(job["spec"]["template"]["spec"], INFERENCE)
    return job


async def nodes_of(api: Api, job: str, pods: int) -> list[str]:
    """Where so many pods of a job are bound, by rank."""
    await eventually(lambda: bound(api, job, pods))
    return [each.node for each in await pods_of(api, job)]


async def test_each_kind_of_job_has_its_pool_then_the_hybrid_one_and_never_the_other(
    api: Api, master: GangMaster, world: World, pools: Mapping[str, str]
) -> None:
    async def published() -> bytes:
        async with ClientSession() as session, session.get(f"{master.url}/node_group") as answer:
            return await answer.read()

    async def waits(name: str) -> bool:
        return (await master.gang(name)).get("state") == "no-room"

    await eventually(lambda: bool(master.url))
    await api.create(JOBS, trains("first", 8))
    first = await nodes_of(api, "first", 8)
    assert {pools[node] for node in first} == {TRAINING}
    assert are_whole(world, "dragonfly", first, 2)
    await api.create(JOBS, trains("second", 2))
    second = await nodes_of(api, "second", 2)
    assert {pools[node] for node in second} == {HYBRID}, "training is full"
    assert "of the hybrid pool" in " ".join((await topo(master, "why", "second")).split())
    for name, pool in (("serves-1", INFERENCE), ("serves-2", INFERENCE), ("serves-3", HYBRID)):
        await api.create(BATCH_JOBS, serves(name))
        assert {pools[node] for node in await nodes_of(api, name, 2)} == {pool}
    await api.delete(f"{BATCH_JOBS}/serves-1")
    await api.create(JOBS, trains("third", 2))
    await eventually(lambda: waits("third"))

    async def is_told() -> bool:
        why = " ".join((await topo(master, "why", "third")).split())
        return "free, and not for a training job: 16 in the pool 'inference'" in why

    await eventually(is_told)
    # A pair is moved to the training pool, and a node under a running job to the other one.
    before, moved = await published(), first[0]
    idle = [node for node in pools if pools[node] == INFERENCE]
    used = {each.node for each in await pods_of(api, "serves-2")}
    fresh = [node for node in idle if node not in used]
    await put(api, moved, INFERENCE)
    for node in fresh:
        await put(api, node, TRAINING)
    assert sorted(await nodes_of(api, "third", 2)) == sorted(fresh)
    assert await nodes_of(api, "first", 8) == first, "what runs stays"
    assert (await master.gang("first"))["state"] == "bound"
    assert await published() == before
    # The node that was moved under it is not used again, and the other one of its pair is alone.
    await api.delete(f"{JOBS}/first")
    await api.create(JOBS, trains("next", 6))
    assert not {*await nodes_of(api, "next", 6)} & {first[0], first[1]}
    await api.create(JOBS, trains("last", 2))
    await eventually(lambda: waits("last"))
