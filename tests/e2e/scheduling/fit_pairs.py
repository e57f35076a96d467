"""Random pods on random nodes: what we say fits, beside kube-scheduler's verdict.

`make e2e-fits ROUNDS=32`, on a cluster of its own: a round has a pod for each of 64 nodes, which
alone it may go to. The exit code is 1 where the two differ.
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from master.kube.objects import NodeObject, PodObject
from master.sources.kubernetes import nodes as node_values
from master.sources.kubernetes.pods import PodParser
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.nodes import GPU, NODES
from tests.e2e.scheduling.fit_run import FitRun, judged
from tests.e2e.scheduling.jobs import PODS
from tests.support.waiting import eventually
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import Way
from topo.model.ids import NodeName
from topo.placement.capacity.node_room import NodeRoom
from topo.placement.job.policy import Policy
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made

NIC = "vendor.example/nic"
HUGE = "hugepages-2Mi"
SELECTS = {"app": "fit-pairs"}
_NODE, _POD = TypeAdapter(NodeObject), TypeAdapter(PodObject)
_PARSER = PodParser(Policy(), AnnotationKeys("metax-tech.com"), Way.NOMINATION)


@dataclass(frozen=True, slots=True)
class Pair:
    """A pod and the one node that it may go to."""

    pod: str
    node: str
    fits: bool
    bound: bool
    why: str

    @property
    def differs(self) -> bool:
        """Whether we say otherwise than the scheduler."""
        return self.fits is not self.bound


async def round_of_pairs(api: Api, world: World, chance: random.Random) -> list[Pair]:
    """A pair for each node, with other amounts on every node and other pods there."""
    hosts = [str(host.name) for host in world.nodes]
    for host in hosts:
        amounts = random_amounts(chance)
        status = {"status": {"allocatable": amounts, "capacity": amounts}}
        await api.merge(f"{NODES}/{host}/status", status)
        for number in range(chance.randrange(4)):
            filler = random_pod(
                chance, f"filler-{host}-{number}", gpus=chance.choice((0, 0, 0, 1, 4))
            )
            await api.create(PODS, _on(filler, nodeName=host))
    there = await _objects(api, hosts)
    for host in hosts:
        pod = random_pod(chance, f"pod-{host}", gpus=chance.choice((1, 1, 2, 4, 8)))
        await api.create(PODS, _on(pod, nodeSelector={"kubernetes.io/hostname": host}))
    await eventually(lambda: _are_judged(api))
    found = {pod["metadata"]["name"]: pod for pod in await api.items(PODS)}
    pairs = [_pair(found[f"pod-{host}"], host, there) for host in hosts]
    for name in found:
        await api.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    await eventually(lambda: _are_gone(api))
    return pairs


def _pair(pod: Any, host: str, there: tuple[dict[str, Any], list[Any]]) -> Pair:
    """Our verdict from the objects as they were before the pod, and the scheduler's."""
    room, free = NodeRoom(), 0
    of_nodes, pods = there
    node = _NODE.validate_python(of_nodes[host])
    gpus = node_values.whole_gpus(node, Policy())
    room.set_node(NodeName(host), node_values.other_amounts(node, Policy()), gpus)
    free = gpus
    for other in pods:
        parsed = _PARSER.parse(_POD.validate_python(other))
        if parsed.takes_of == host:
            room.set_pod(parsed.metadata.uid, NodeName(host), parsed.takes)
            free -= parsed.gpus
    wanted = _PARSER.parse(_POD.validate_python(pod))
    tight = room.tight(wanted.takes, wanted.gpus).get(NodeName(host))
    fits = free >= wanted.gpus and (tight is None or tight.pods > 0)
    conditions = pod["status"].get("conditions", ())
    why = next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")
    return Pair(pod["metadata"]["name"], host, fits, bool(pod["spec"].get("nodeName")), why)


async def _objects(api: Api, hosts: list[str]) -> tuple[dict[str, Any], list[Any]]:
    found = {each["metadata"]["name"]: each for each in await api.items(NODES)}
    return {host: found[host] for host in hosts}, await api.items(PODS)


async def _are_judged(api: Api) -> bool:
    """Whether each pod is bound, or was refused."""
    return all(
        pod["spec"].get("nodeName")
        or any(c.get("reason") == "Unschedulable" for c in pod["status"].get("conditions", ()))
        for pod in await api.items(PODS)
    )


async def _are_gone(api: Api) -> bool:
    return not await api.items(PODS)


def random_amounts(chance: random.Random) -> dict[str, str]:
    """What a node has, with halves, suffixes and resources that it does not name."""
    found = {
        "cpu": chance.choice(("4", "16", "7500m", "64")),
        "memory": chance.choice(("8Gi", "16G", "1Ti")),
        "pods": chance.choice(("3", "110", "110")),
        "ephemeral-storage": chance.choice(("10Gi", "1Ti")),
        GPU: chance.choice(("8", "8", "4")),
    }
    some = {HUGE: chance.choice(("0", "64Mi")), NIC: chance.choice(("0", "2"))}
    return found | {name: value for name, value in some.items() if chance.random() < 0.6}


def _requests(chance: random.Random) -> dict[str, str]:
    kinds = {
        "cpu": ("100m", "1", "1500m", "4"),
        "memory": ("64Mi", "1G", "4Gi", "8Gi"),
        "ephemeral-storage": ("1Gi", "8Gi"),
        NIC: ("1", "2"),
        HUGE: ("2Mi", "64Mi"),
    }
    found = {
        name: chance.choice(values)
        for name, values in kinds.items()
        if chance.random() < (0.7 if name in {"cpu", "memory"} else 0.15)
    }
    if HUGE in found:  # which an API server takes only beside cpu or memory
        found.setdefault("cpu", "100m")
    return found


def _container(chance: random.Random, name: str, gpus: int = 0, **more: Any) -> dict[str, Any]:
    requests = _requests(chance) | ({GPU: str(gpus)} if gpus else {})
    fixed = {key: value for key, value in requests.items() if key in {GPU, NIC, HUGE}}
    resources = {"requests": requests, "limits": fixed}
    return {"name": name, "image": "alpine:3.19", "resources": resources, **more}


def random_pod(chance: random.Random, name: str, gpus: int) -> dict[str, Any]:
    """Containers, init containers and sidecars; sometimes an amount for the pod as a whole."""
    port: dict[str, Any] = {"containerPort": 80, "hostPort": chance.choice((7001, 7002))}
    port["protocol"] = chance.choice(("TCP", "UDP"))
    ports = {"ports": [port]} if chance.random() < 0.3 else {}
    containers = [_container(chance, "main", gpus, **ports)]
    containers += [_container(chance, f"more-{at}") for at in range(chance.randrange(2))]
    init = list(_init_containers(chance))
    spec: dict[str, Any] = {"containers": containers, "initContainers": init}
    apart = _apart(chance.choice(("x", "y"))) if chance.random() < 0.3 else {}
    labels = SELECTS | apart.pop("labels", {})
    return {"metadata": {"name": name, "labels": labels}, "spec": spec | apart}


def _apart(role: str) -> dict[str, Any]:
    """Labels of pods that keep off each other, and their affinity; of two roles, written in two
    ways.
    """
    in_words = {"matchExpressions": [{"key": "role", "operator": "In", "values": [role]}]}
    selector: dict[str, Any] = {"matchLabels": {"role": role}} if role == "x" else in_words
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"labels": {"role": role}, "affinity": {"podAntiAffinity": required}}


def _init_containers(chance: random.Random) -> Iterator[dict[str, Any]]:
    for at in range(chance.choice((0, 0, 1, 2))):
        sidecar: dict[str, Any] = {"restartPolicy": "Always"} if chance.random() < 0.5 else {}
        yield _container(chance, f"init-{at}", **sidecar)


def _on(pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return pod | {"spec": pod["spec"] | spec}


async def _judge_rounds(run: FitRun) -> int:
    world = made(8, 4, 2, 8, stem="fit")
    await run.cluster.start(world)
    seen: list[Pair] = []
    async with run.cluster.api() as api:
        for chance in run.chances():
            seen += await round_of_pairs(api, world, chance)
            bound, wrong = sum(pair.bound for pair in seen), sum(pair.differs for pair in seen)
            sys.stdout.write(f"{len(seen)} pairs, {bound} bound, {wrong} differ\n")
            sys.stdout.flush()
    differing = [pair for pair in seen if pair.differs]
    for pair in differing:
        sys.stdout.write(f"{pair}\n")
    return 1 if differing else 0


def main() -> int:
    """The exit code: 0 where no verdict differed."""
    return judged("tests.e2e.scheduling.fit_pairs", 32, _judge_rounds)


if __name__ == "__main__":
    sys.exit(main())
