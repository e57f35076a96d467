"""Pods without cards take CPUs and memory of their nodes; nothing else of them is kept."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from master.kube.gang_pod import ClusterPod
from master.kube.objects import PODS, parsed
from master.kube.reflector import Scope
from master.sources.kubernetes.other_pods import OtherPods
from master.sources.kubernetes.pods import PodParser
from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.plain import kubeconfig
from tests.kube.reflector.reflecting import reflecting
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import Way
from topo.model.ids import NodeName
from topo.placement.capacity.node_room import NodeRoom
from topo.placement.job.policy import Policy

pytestmark = pytest.mark.virtual_time
RESOURCE = parsed(PODS, PodParser(Policy(), AnnotationKeys("metax-tech.com"), Way.NOMINATION).parse)
IDLE = {"cpu": 64_000, "pods": 10_000}


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as running:
        yield running


async def put(server: FakeServer, name: str, node: str, **requests: str) -> None:
    """A pod on a node, "" for one that waits; it takes a CPU and what else it names."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"} | requests}}]
    spec: dict[str, Any] = {"containers": containers} | ({"nodeName": node} if node else {})
    await server.put("pods", name, "jobs", metadata={"uid": f"uid-{name}"}, spec=spec)


async def taken(room: NodeRoom, cpus: int) -> None:
    """Return once so many CPUs of node n1 are taken, and no more."""
    for left in (cpus, cpus + 1):
        shape = (("cpu", (64 - left) * 1000 + 1000),)
        while (NodeName("n1") in room.tight(shape, 8)) is (left > cpus):
            await asyncio.sleep(0.01)


async def test_what_they_take_follows_lists_changes_and_ends(
    server: FakeServer, tmp_path: Path
) -> None:
    """Listed, bound later, gone while no watch saw it, gone in sight of one."""
    room = NodeRoom()
    room.set_node(NodeName("n1"), IDLE, 8)
    await put(server, "a", "n1", cpu="8")
    await put(server, "b", "n1", cpu="4")
    scope = Scope[ClusterPod](keep=lambda pod: pod.names_cards, dropped=OtherPods(room))
    config = kubeconfig(tmp_path, server.url)
    async with reflecting(config, scope=scope, resource=RESOURCE) as found:
        await found.ear.until(lambda: found.reflector.synced)
        await taken(room, 12)
        await put(server, "c", "")
        await put(server, "with-gpus", "n1", **{"nvidia.com/gpu": "1"})
        await found.ear.until(lambda: found.names == {"with-gpus"})
        await taken(room, 12)
        await put(server, "c", "n1", cpu="2")
        await taken(room, 14)
        await server.delete("pods", "a", "jobs")
        await taken(room, 6)
        server.compact()
        server.cut_watches()
        await server.delete("pods", "b", "jobs")
        await taken(room, 2)
    room.validate()
