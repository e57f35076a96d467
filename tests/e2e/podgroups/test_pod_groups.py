"""Gangs of kube-scheduler with PodGroups of Kubernetes: all of their pods are bound, or none."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.core import POD_GROUPS
from tests.e2e.controlplane.kwok import COMPLETE
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.admission_master import AdmissionMaster
from tests.e2e.scheduling.asking import nodes_of
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    PODS,
    WORDS,
    are_whole,
    bound,
    events_of,
    homes,
    owner_of,
    pods_of,
    taker,
)
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

EXAMPLE = Path(__file__).parents[3] / "examples/jobs/podgroup.yaml"
STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


async def group_of(api: Api, job: str) -> Any:
    """The PodGroup of a job; None while there is none."""
    owned = [
        each
        for each in await api.items(GROUPS)
        if job in [owner["name"] for owner in each["metadata"].get("ownerReferences", ())]
    ]
    return owned[0] if owned else None


def min_count(group: Any) -> int:
    """How many pods are bound together at least."""
    found: int = group["spec"]["schedulingPolicy"]["gang"]["minCount"]
    return found


async def codes(master: AdmissionMaster) -> set[str]:
    """The codes of the warnings of a master."""
    url = f"{await master.url()}/v1/topology"
    async with ClientSession() as session, session.get(url) as answer:
        warnings = (await answer.json())["warnings"] if answer.ok else ()
    return {each["code"] for each in warnings}


async def are_labelled(api: Api, key: str) -> bool:
    """Whether all nodes have the label."""
    nodes = await api.items("/api/v1/nodes")
    return all(key in node["metadata"]["labels"] for node in nodes)


async def test_a_job_with_groups_gets_a_pod_group_that_goes_with_it(
    api: Api, master: AdmissionMaster, world: World
) -> None:
    await api.create(BATCH_JOBS, asking.batch_job("train", 6, 16))
    await eventually(lambda: bound(api, "train", 6))
    assert are_whole(world, "dragonfly", await nodes_of(api, "train"), 2)
    group = await group_of(api, "train")
    assert min_count(group) == 6
    assert group["metadata"]["labels"][f"{WORDS.domain}/managed-by"] == "topo-master"
    (condition,) = group["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodGroupInitiallyScheduled", "True")
    await api.delete(f"{BATCH_JOBS}/train")

    async def is_gone() -> bool:
        return await group_of(api, "train") is None

    await eventually(is_gone)
    assert not await codes(master) & {"pod-groups-unserved", "pod-groups-unheeded"}


@pytest.mark.usefixtures("master")
async def test_a_rank_that_is_made_again_beside_ended_ones_is_bound(api: Api) -> None:
    """kube-scheduler does not count pods that have ended."""
    job = asking.batch_job("ending", 4, 16)
    job["spec"]["backoffLimit"] = 4
    await api.create(BATCH_JOBS, job)
    await eventually(lambda: bound(api, "ending", 4))
    first, second, *_ = await pods_of(api, "ending")
    await api.merge(f"{PODS}/{first.name}", {"metadata": {"annotations": {COMPLETE: "true"}}})

    async def is_lower() -> bool:
        return min_count(await group_of(api, "ending")) == 3

    await eventually(is_lower)
    await api.delete(f"{PODS}/{second.name}", grace_s=0)

    async def is_bound_again() -> bool:
        found = [each for each in await pods_of(api, "ending") if each.rank == second.rank]
        return any(each.node and each.name != second.name for each in found)

    await eventually(is_bound_again)


@pytest.mark.usefixtures("master")
async def test_none_of_a_gang_is_bound_while_one_node_is_taken_and_all_once_it_has_others(
    cluster: Cluster, api: Api, world: World
) -> None:
    """The scheduler stands still while a stranger takes a node of the plan."""
    cluster.scheduler.stop()
    await api.create(BATCH_JOBS, asking.batch_job("late", 4, 16))

    async def is_opened() -> bool:
        found = await pods_of(api, "late")
        return len(found) == 4 and not any(each.gated for each in found)

    await eventually(is_opened)
    planned = [each.planned for each in await pods_of(api, "late")]
    await api.create(PODS, taker("stranger", planned[0]))
    cluster.scheduler.start()
    await eventually(lambda: bound(api, "late", 4))
    nodes = await nodes_of(api, "late")
    assert are_whole(world, "dragonfly", nodes, 2)
    assert planned[0] not in nodes


async def test_the_pods_of_a_pod_group_that_asks_for_groups_are_a_gang_whoever_owns_them(
    api: Api, master: AdmissionMaster, world: World
) -> None:
    """Its topology key is one of the labels that the master writes: all pods share a switchbox."""
    key = f"{WORDS.domain}/switchbox"
    await eventually(lambda: are_labelled(api, key))
    await api.create(
        GROUPS,
        {
            "metadata": {"name": "own", "annotations": {WORDS.size: "16"}},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 4}},
                "schedulingConstraints": {"topology": [{"key": key}]},
            },
        },
    )
    for rank in range(4):
        pod = taker(f"own-{rank}", "")
        del pod["spec"]["nodeName"]
        pod["metadata"]["annotations"] = {WORDS.rank: str(rank)}
        pod["spec"]["schedulingGroup"] = {"podGroupName": "own"}
        await api.create(PODS, pod)

    async def found() -> list[str]:
        pods = [pod for pod in await api.items(PODS) if pod["metadata"]["name"].startswith("own-")]
        return [pod["spec"].get("nodeName", "") for pod in pods]

    async def are_bound() -> bool:
        return all(await found())

    await eventually(are_bound)
    nodes = await found()
    assert are_whole(world, "dragonfly", nodes, 2)
    assert len({homes(world, "switchbox")[node] for node in nodes}) == 1

    async def is_known_as_bound() -> bool:
        gang = await master.gang("own")
        return (gang["kind"], gang["state"], gang["bound"]) == ("PodGroup", "bound", 4)

    await eventually(is_known_as_bound)


async def test_a_scheduler_that_binds_the_pods_of_a_group_one_by_one_is_noticed(
    cluster: Cluster, api: Api, master: AdmissionMaster, world: World
) -> None:
    argv = cluster.scheduler.argv
    cluster.scheduler.stop()
    cluster.scheduler.argv = tuple(each for each in argv if each not in POD_GROUPS)
    cluster.scheduler.start()
    try:
        await api.create(BATCH_JOBS, asking.batch_job("single", 4, 16))
        await eventually(lambda: bound(api, "single", 4))
        assert are_whole(world, "dragonfly", await nodes_of(api, "single"), 2)

        async def is_noticed() -> bool:
            return "pod-groups-unheeded" in await codes(master)

        await eventually(is_noticed)
    finally:
        cluster.scheduler.stop()
        cluster.scheduler.argv = argv
        cluster.scheduler.start()


async def test_a_native_job_of_one_group_is_kept_in_one_domain_by_kube_scheduler(
    api: Api, master: AdmissionMaster, world: World
) -> None:
    """One node of each dragonfly but one is taken, so that two free nodes are in one alone."""
    flies: dict[str, list[str]] = {}
    for node, fly in homes(world, "dragonfly").items():
        flies.setdefault(fly, []).append(node)
    for nodes in list(flies.values())[1:]:
        await api.create(PODS, taker(f"taker-{nodes[0]}", nodes[0]))
    await eventually(lambda: are_labelled(api, f"{WORDS.domain}/dragonfly"))
    await api.create(BATCH_JOBS, asking.batch_job("native", 2, 16, gpus=8, **{WORDS.way: "native"}))
    await eventually(lambda: bound(api, "native", 2))
    assert are_whole(world, "dragonfly", await nodes_of(api, "native"), 2)

    async def is_told() -> bool:
        gang = await master.gang("native")
        return gang.get("state") == "bound" and "in one dragonfly (hard, tier 1)" in gang["text"]

    await eventually(is_told)
    assert "pod-groups-unconstrained" not in await codes(master)


async def test_a_native_job_without_labels_of_nfd_says_so_and_starts_once_nodes_have_them(
    api: Api, unlabelling: AdmissionMaster, world: World
) -> None:
    await api.create(BATCH_JOBS, asking.batch_job("native", 2, 16, gpus=8, **{WORDS.way: "native"}))

    async def is_told() -> bool:
        gang = await unlabelling.gang("native")
        return gang.get("state") == "no-labels" and "GangFindsNoLabels" in str(
            await events_of(api, "native")
        )

    await eventually(is_told)
    for node, fly in homes(world, "dragonfly").items():
        labels = {f"{WORDS.domain}/dragonfly": fly}
        await api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    await eventually(lambda: bound(api, "native", 2))
    assert are_whole(world, "dragonfly", await nodes_of(api, "native"), 2)


@pytest.mark.usefixtures("master")
async def test_the_example_with_a_stateful_set_is_taken_as_it_stands_and_its_pairs_are_whole(
    api: Api, world: World
) -> None:
    group, owner = yaml.safe_load_all(EXAMPLE.read_text())
    await api.call("POST", GROUPS, group, fieldValidation="Strict")
    await api.call("POST", STATEFUL_SETS, owner, fieldValidation="Strict")
    name = owner["metadata"]["name"]

    async def nodes() -> list[str]:
        found = [pod for pod in await api.items(PODS) if owner_of(pod) == name]
        found.sort(key=lambda pod: str(pod["metadata"]["name"]))
        return [pod["spec"].get("nodeName", "") for pod in found]

    async def all_are_bound() -> bool:
        found = await nodes()
        return len(found) == 4 and all(found)

    await eventually(all_are_bound)
    assert are_whole(world, "dragonfly", await nodes(), 2)
