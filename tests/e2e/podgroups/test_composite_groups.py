"""PodGroups below a CompositePodGroup are one gang: bound all or none, each group whole."""

from typing import Any

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.podgroups.test_pod_groups import GROUPS, are_labelled, codes
from tests.e2e.scheduling.admission_master import AdmissionMaster
from tests.e2e.scheduling.jobs import PODS, WORDS, are_whole, homes, taker
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

ALPHA = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default"
COMPOSITES, WORKLOADS = f"{ALPHA}/compositepodgroups", f"{ALPHA}/workloads"
BOX, FLY = f"{WORDS.domain}/switchbox", f"{WORDS.domain}/dragonfly"


def constrained(key: str) -> dict[str, Any]:
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


async def make_tree(api: Api, name: str, leaves: int) -> None:
    """Pods in pairs: each pair in one dragonfly, all of them in one switchbox."""
    leaf = {"schedulingPolicy": {"gang": {"minCount": 2}}, **constrained(FLY)}
    root = {"schedulingPolicy": {"gang": {"minGroupCount": leaves}}, **constrained(BOX)}
    templates = [{"name": "root", **root, "podGroupTemplates": [{"name": "pair", **leaf}]}]
    spec = {"compositePodGroupTemplates": templates}
    await api.create(WORKLOADS, {"metadata": {"name": name}, "spec": spec})

    def of(template: str) -> dict[str, Any]:
        return {"workloadRef": {"workloadName": name, "templateName": template}}

    metadata = {"name": name, "annotations": {WORDS.size: "16"}}
    await api.create(COMPOSITES, {"metadata": metadata, "spec": {**root, **of("root")}})
    for number in range(leaves):
        of_leaf = {**leaf, **of("pair"), "parentCompositePodGroupName": name}
        await api.create(GROUPS, {"metadata": {"name": f"{name}-{number}"}, "spec": of_leaf})


async def make_pods(api: Api, name: str, leaves: int) -> None:
    for number in range(2 * leaves):
        pod = taker(f"{name}-{number // 2}-{number % 2}", "")
        del pod["spec"]["nodeName"]
        pod["metadata"]["annotations"] = {WORDS.rank: str(number % 2)}
        pod["spec"]["schedulingGroup"] = {"podGroupName": f"{name}-{number // 2}"}
        await api.create(PODS, pod)


async def nodes_of(api: Api, name: str) -> list[str]:
    """The nodes of the pods in the order of their ranks, an empty text for one that has none."""
    found = [pod for pod in await api.items(PODS) if pod["metadata"]["name"].startswith(f"{name}-")]
    found.sort(key=lambda pod: str(pod["metadata"]["name"]))
    return [pod["spec"].get("nodeName", "") for pod in found]


async def test_the_pods_below_a_composite_group_are_one_gang_whose_groups_are_whole(
    cluster: Cluster, api: Api, master: AdmissionMaster, world: World
) -> None:
    """A node of the plan is taken while the scheduler stands still: none is bound there."""
    await eventually(lambda: are_labelled(api, FLY))
    cluster.scheduler.stop()
    await make_tree(api, "tree", 3)
    await make_pods(api, "tree", 3)

    async def is_opened() -> bool:
        gang = await master.gang("tree")
        return (gang.get("kind"), gang.get("state")) == ("CompositePodGroup", "opened")

    await eventually(is_opened)
    planned = [each["metadata"]["annotations"] for each in await api.items(PODS)]
    assert {each[WORDS.pods] for each in planned} == {"6"}
    first = (await api.items(PODS))[0]["status"]["nominatedNodeName"]
    await api.create(PODS, taker("stranger", first))
    cluster.scheduler.start()

    async def are_bound() -> bool:
        return all(await nodes_of(api, "tree"))

    await eventually(are_bound)
    nodes = await nodes_of(api, "tree")
    assert are_whole(world, "dragonfly", nodes, 2)
    assert len({homes(world, "switchbox")[node] for node in nodes}) == 1
    assert first not in nodes
    assert "composite-pod-groups-unheeded" not in await codes(master)
