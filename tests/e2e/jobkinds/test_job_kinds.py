"""Jobs of each kind by its stock controller: the examples, whole in the order of their ranks."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.job_controllers import torch_runtime
from tests.e2e.scheduling.jobs import PODS, WORDS, homes
from tests.e2e.scheduling.test_examples import FOLDER, OF_OTHER_CONTROLLERS
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

PATHS = {
    "jobset": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
    "leaderworkerset": "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets",
    "statefulset": "/apis/apps/v1/namespaces/default/statefulsets",
    "trainjob": "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs",
    "deployment": "/apis/apps/v1/namespaces/default/deployments",
}
RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
PODS_OF_ALL = 16
"""Each example takes all nodes of the cluster: eight pairs."""
pytestmark = pytest.mark.usefixtures("master")


@dataclass(frozen=True, slots=True)
class Placed:
    """A bound pod of a gang: its group there, and its rank where its kind has ranks."""

    uid: str
    name: str
    gang: str
    group: int
    rank: int | None
    node: str


async def placed(api: Api) -> list[Placed]:
    """Return the bound pods that were placed in a group."""
    found = []
    for pod in await api.items(PODS):
        metadata, node = pod["metadata"], pod["spec"].get("nodeName", "")
        annotations = metadata.get("annotations", {})
        if not node or WORDS.placement not in annotations or "deletionTimestamp" in metadata:
            continue
        note = json.loads(annotations[WORDS.placement])
        rank = annotations.get(WORDS.rank)
        ranked = int(rank) if rank is not None else None
        one = Placed(metadata["uid"], metadata["name"], note["gang"], note["group"], ranked, node)
        found.append(one)
    return found


def are_pairs_whole(world: World, pods: Sequence[Placed]) -> bool:
    """Whether each pair is in one dragonfly, and consists of two ranks beside each other."""
    home = homes(world, "dragonfly")
    pairs: dict[tuple[str, int], list[Placed]] = {}
    for pod in pods:
        pairs.setdefault((pod.gang, pod.group), []).append(pod)
    return all(
        len(pair) == 2
        and len({home[pod.node] for pod in pair}) == 1
        and {pod.rank // 2 for pod in pair if pod.rank is not None} <= {group}
        for (_, group), pair in pairs.items()
    )


async def are_all_placed(api: Api, pods: int = PODS_OF_ALL, gone: str = "") -> bool:
    """Whether so many pods are bound, none of them the one with the uid `gone`."""
    found = await placed(api)
    return len(found) == pods and gone not in {pod.uid for pod in found}


async def is_gone(api: Api, path: str) -> bool:
    """Whether there is no such object, and no pod."""
    try:
        await api.get(path)
    except ApiError:
        return not await api.items(PODS)
    return False


def example(name: str) -> Any:
    """The job of an example."""
    return yaml.safe_load(Path(FOLDER / f"{name}.yaml").read_text())


@pytest.mark.parametrize("name", sorted(OF_OTHER_CONTROLLERS))
async def test_the_pairs_of_a_job_are_whole_also_after_the_loss_of_a_pod_and_of_the_job(
    api: Api, world: World, name: str
) -> None:
    """No field of the example is unknown to the API server, and the webhook knows the kind."""
    if name == "trainjob":
        await api.create(RUNTIMES, torch_runtime())
    path = f"{PATHS[name]}/train"
    await api.call("POST", PATHS[name], example(name), fieldValidation="Strict")
    await eventually(partial(are_all_placed, api))
    pods = await placed(api)
    assert are_pairs_whole(world, pods)
    await api.delete(f"{PODS}/{pods[3].name}", grace_s=0)
    await eventually(partial(are_all_placed, api, gone=pods[3].uid))
    assert are_pairs_whole(world, await placed(api))
    await api.delete(path)
    await eventually(partial(is_gone, api, path))
    await api.create(PATHS[name], example(name))
    await eventually(partial(are_all_placed, api))
    assert are_pairs_whole(world, await placed(api))


async def test_a_deployment_that_shrinks_and_grows_keeps_what_runs_and_its_pairs_whole(
    api: Api, world: World
) -> None:
    await api.create(PATHS["deployment"], example("deployment"))
    await eventually(partial(are_all_placed, api))
    await api.merge(f"{PATHS['deployment']}/train", {"spec": {"replicas": 11}})
    await eventually(partial(are_all_placed, api, 11))
    kept = {pod.uid: pod.node for pod in await placed(api)}
    await api.merge(f"{PATHS['deployment']}/train", {"spec": {"replicas": 16}})
    await eventually(partial(are_all_placed, api))
    pods = await placed(api)
    assert are_pairs_whole(world, pods)
    assert kept.items() <= {pod.uid: pod.node for pod in pods}.items()


def in_order(name: str) -> Any:
    """The job of an example, made in an order: the workers of a group once its leader is ready."""
    job = example(name)
    if name == "leaderworkerset":
        job["spec"]["startupPolicy"] = "LeaderReady"
        return job
    workers = job["spec"]["replicatedJobs"][1]
    more = {**workers, "name": "more", "replicas": 1}
    job["spec"]["replicatedJobs"][1] = {**workers, "replicas": 1}
    job["spec"]["replicatedJobs"].append(more)
    job["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    return job


@pytest.mark.parametrize("name", ["jobset", "leaderworkerset"])
async def test_jobs_that_start_in_an_order_are_whole(api: Api, world: World, name: str) -> None:
    """Their first pods are opened while the others do not exist."""
    await api.create(PATHS[name], in_order(name))
    await eventually(partial(are_all_placed, api))
    assert are_pairs_whole(world, await placed(api))


async def test_plain_pods_that_name_their_gang_are_a_pair(api: Api, world: World) -> None:
    for pod in yaml.safe_load_all((FOLDER / "plain-pods.yaml").read_text()):
        await api.call("POST", PODS, pod, fieldValidation="Strict")
    await eventually(partial(are_all_placed, api, 2))
    assert are_pairs_whole(world, await placed(api))
