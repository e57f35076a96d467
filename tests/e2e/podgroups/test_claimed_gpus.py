"""A job whose pods have their GPUs by claims alone gets whole groups, on the real scheduler."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.admission_master import AdmissionMaster
from tests.e2e.scheduling.asking import nodes_of
from tests.e2e.scheduling.devices import CLASSES, SLICES, TEMPLATES
from tests.e2e.scheduling.jobs import BATCH_JOBS, GPU, are_whole, bound
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

DRIVER = "gpu.example.com"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
GPUS = 8


def template(**more: Any) -> dict[str, Any]:
    """A claim of GPUs."""
    asked = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER, **more}}]
    return {"spec": {"devices": {"requests": asked}}}


def job(name: str, claim: str, pods: int = 4) -> Any:
    """Pods in groups of 16 GPUs that name no resource, with a claim each."""
    made = asking.batch_job(name, pods, 16)
    spec = made["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": claim}]
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    return made


@pytest.fixture
async def equipped(api: Api, world: World) -> AsyncIterator[list[str]]:
    """Nodes of the last two dragonflies: a driver publishes their GPUs, no kubelet states them."""
    nodes = [str(host.name) for host in world.nodes][-4:]
    chosen = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    of_class = {"selectors": chosen, "extendedResourceName": GPU}
    await api.create(CLASSES, {"metadata": {"name": DRIVER}, "spec": of_class})
    of_claims = {"eight": template(count=GPUS), "all": template(allocationMode="All")}
    for name, of_claim in of_claims.items():
        await api.create(TEMPLATES, {"metadata": {"name": name}, "spec": of_claim})
    for node in nodes:
        gone = {"status": {"allocatable": {GPU: None}, "capacity": {GPU: None}}}
        await api.merge(f"/api/v1/nodes/{node}/status", gone)
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(GPUS)]
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
        await api.create(SLICES, {"metadata": {"name": node}, "spec": spec})
    yield nodes
    for each in ("first", "second"):
        await api.delete(f"{BATCH_JOBS}/{each}")
    for each in ("eight", "all"):
        await api.delete(f"{TEMPLATES}/{each}")
    await api.delete(f"{CLASSES}/{DRIVER}")
    for node in nodes:
        await api.delete(f"{SLICES}/{node}")
        back = {"status": {"allocatable": {GPU: str(GPUS)}, "capacity": {GPU: str(GPUS)}}}
        await api.merge(f"/api/v1/nodes/{node}/status", back)


async def test_a_job_whose_gpus_are_claimed_gets_whole_groups_and_the_next_one_what_it_leaves(
    api: Api, master: AdmissionMaster, world: World, equipped: list[str]
) -> None:
    """Sixteen nodes have GPUs; only four have devices for claims."""
    await api.create(BATCH_JOBS, job("first", "eight"))
    await eventually(lambda: bound(api, "first", 4))
    nodes = await nodes_of(api, "first")
    assert sorted(nodes) == sorted(equipped)
    assert are_whole(world, "dragonfly", nodes, 2)
    results = [
        each["status"]["allocation"]["devices"]["results"] for each in await api.items(CLAIMS)
    ]
    assert [len(each) for each in results] == [GPUS] * 4

    await api.create(BATCH_JOBS, job("second", "eight"))

    async def waits() -> bool:
        gang = await master.gang("second")
        return gang.get("state") == "no-room"

    await eventually(waits)
    await api.delete(f"{BATCH_JOBS}/first")
    await eventually(lambda: bound(api, "second", 4))
    assert are_whole(world, "dragonfly", await nodes_of(api, "second"), 2)


@pytest.mark.usefixtures("master", "equipped")
async def test_a_claim_of_all_gpus_of_a_node_is_refused_with_its_field(api: Api) -> None:
    answer = await api.create(BATCH_JOBS, job("first", "all"))
    noted = answer["spec"]["template"]["metadata"]["annotations"]
    (why,) = [text for key, text in noted.items() if key.endswith("gang-ungrouped")]
    assert "spec.template.spec.resourceClaims[0].resourceClaimTemplateName" in why
    assert "allocationMode All" in why
