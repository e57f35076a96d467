"""Node objects of the hosts of a simulated world, and what may be done to them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.kwok import HOLD
from tests.support.waiting import CEILING_S
from topo.sim.worlds.presets import SimNode, World, world

NODES = "/api/v1/nodes"
GPU = "metax-tech.com/gpu"
_EACH_S = 0.1
"""What a node may add to the time until all are Ready."""
_LOOK_S, _LOOK_EACH_S = 0.01, 0.001
"""Between two lists of all nodes, which cost the more the more there are."""
INSTALLED = "metax-tech.com/gpu.installed"


def default_world(switchboxes: int) -> World:
    """Switchboxes of two dragonflies of two hosts, of eight GPUs each: node-sample1, …."""
    return world(switchboxes, 2, 2, 8, stem="sample")


def node_object(host: SimNode, *, labels: Mapping[str, str] | None = None) -> Any:
    """The Node as the vendor's operator leaves it on such a host."""
    identity = host.identity
    amounts = {"cpu": "64", "memory": "1Ti", "pods": "110", GPU: str(host.hardware.gpus)}
    own = {"kubernetes.io/hostname": str(host.name), INSTALLED: "true", "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": str(host.name), "labels": {**own, **(labels or {})}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [
                {"type": "InternalIP", "address": identity.internal_ip},
                {"type": "Hostname", "address": identity.hostname},
            ],
        },
    }


async def create(api: Api, objects: Sequence[Any]) -> None:
    """Makes the nodes; returns when all of them are Ready and take pods."""
    await asyncio.gather(*(api.create(NODES, each) for each in objects))
    names = {each["metadata"]["name"] for each in objects}
    async with asyncio.timeout(CEILING_S + len(names) * _EACH_S):
        while not names <= {_name(node) for node in await api.items(NODES) if is_usable(node)}:
            await asyncio.sleep(_LOOK_S + len(names) * _LOOK_EACH_S)


def _name(node: Any) -> str:
    name: str = node["metadata"]["name"]
    return name


def is_usable(node: Any) -> bool:
    """Whether it is Ready and bears no taint."""
    conditions = node["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node["spec"].get("taints")


async def make_not_ready(api: Api, name: str) -> None:
    """The node is NotReady, as after the end of its kubelet, until `make_ready`."""
    path = f"{NODES}/{name}"
    await api.merge(path, {"metadata": {"annotations": {HOLD: "true"}}})
    node = await api.get(path)
    lost = {"status": "False", "reason": "KubeletNotReady", "message": "held by a test"}
    conditions = [
        {**each, **lost} if each["type"] == "Ready" else each
        for each in node["status"]["conditions"]
    ]
    await api.merge(f"{path}/status", {"status": {"conditions": conditions}})


async def make_ready(api: Api, name: str) -> None:
    """Takes `make_not_ready` back."""
    await api.merge(f"{NODES}/{name}", {"metadata": {"annotations": {HOLD: None}}})
