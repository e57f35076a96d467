"""Requests of Kueue with a flavor of a topology: Kueue chooses nodes inside what was booked."""

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.kueue import GROUP, TOPOLOGIES
from tests.e2e.kueue.queues import queued
from tests.e2e.kueue.test_jobs import split
from tests.e2e.provisioning.lives import REQUESTS, booked, true
from tests.e2e.provisioning.test_page import bound, create, manifests
from tests.e2e.scheduling.admission_master import AdmissionMaster
from tests.e2e.scheduling.asking import batch_job, nodes_of
from tests.e2e.scheduling.jobs import NODES, WORDS, homes
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

LEVELS = [f"{WORDS.domain}/switchbox", f"{WORDS.domain}/dragonfly", "kubernetes.io/hostname"]
PARAMETERS = {
    "provreq.kueue.x-k8s.io/gpu-group-size": "16",
    "provreq.kueue.x-k8s.io/gpu-group-within": "switchbox",
}


async def test_kueue_chooses_nodes_in_the_booked_switchbox_and_none_that_another_request_has(
    api: Api, master: AdmissionMaster, world: World
) -> None:
    """By its own order it would begin in the switchbox that is booked, where no pod is yet."""
    await eventually(lambda: _is_labelled(api))
    template, other, _ = manifests("By hand")
    template["template"]["metadata"]["annotations"][WORDS.size] = "64"
    other["spec"]["podSets"][0]["count"] = 8
    await create(api, template, other)
    await eventually(lambda: _is_provisioned(api, "train"))
    levels = {"levels": [{"nodeLabel": each} for each in LEVELS]}
    head = {"apiVersion": f"{GROUP}/v1beta2", "kind": "Topology", "metadata": {"name": "fabric"}}
    await api.create(TOPOLOGIES, {**head, "spec": levels})
    *queues, _ = manifests("With Kueue")
    specs = {each["kind"]: each["spec"] for each in queues if "spec" in each}
    flavor = next(each for each in queues if each["kind"] == "ResourceFlavor")
    flavor["spec"] = {"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "fabric"}
    pin = {"key": LEVELS[0], "valueFromProvisioningClassDetail": "switchbox"}
    specs["ProvisioningRequestConfig"]["podSetUpdates"] = {"nodeSelector": [pin]}
    await create(api, *queues)
    job = batch_job("pinned", 4, 16, gpus=8, **{WORDS.way: "native"})
    await create(api, queued(job, "dws-local-queue", **PARAMETERS))
    await eventually(lambda: _is_bound(api))
    nodes = await nodes_of(api, "pinned")
    assert split(world, nodes, 2) == []
    box = homes(world, "switchbox")
    theirs = {box[node] for node in booked(await api.get(f"{REQUESTS}/train"))}
    assert len(theirs) == 1
    assert {box[node] for node in nodes}.isdisjoint(theirs)
    assert true(await api.get(f"{REQUESTS}/train")).keys() == {"Accepted", "Provisioned"}
    master.program.must_live()


async def _is_labelled(api: Api) -> bool:
    return all(LEVELS[1] in each["metadata"]["labels"] for each in await api.items(NODES))


async def _is_provisioned(api: Api, name: str) -> bool:
    return "Provisioned" in true(await api.get(f"{REQUESTS}/{name}"))


async def _is_bound(api: Api) -> bool:
    return len(await bound(api, "pinned")) == 4
