"""What pods cost that take more of a node than GPUs, beside the same pods that take GPUs alone."""

import random
from collections.abc import Iterator, Mapping, Sequence

from bench.discovery.core import Collector
from bench.placement.times import LOAD, job, median_s
from bench.scale import SEED
from topo.gangs.decisions.place import answer_place
from topo.gangs.machine.gang import GangId, Member, PodUid
from topo.gangs.machine.instructions import Place
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.node_room import NodeRoom
from topo.placement.capacity.pod_room import PodRoom
from topo.placement.job.request import Request
from topo.sim.worlds.clusters import NODE_GPUS, cluster

_HAS = {
    "cpu": 64_000,
    "memory": 1 << 50,
    "ephemeral-storage": 1 << 50,
    "pods": 110_000,
    "rdma/hca": 8_000,
}
_TAKES = tuple((resource, has // 8) for resource, has in _HAS.items())
"""Five resources of which a node has enough for eight such pods."""
TIGHT = 0.05
"""The share of nodes on which somebody left no CPU."""


def resource_ratios(
    nodes: int, pods: Sequence[int], runs: int, calls: int
) -> Mapping[int, tuple[float, ...]]:
    """How many times as long a gang takes with five resources as by GPUs alone, once a run.

    Nodes without CPU have no free GPU in the state without resources, so that both are asked for
    the same places. Before every call a pod comes to a node or goes.
    """
    full = cluster(nodes, "8", LOAD, SEED)
    alone, room = full.copy(), NodeRoom()
    full.limit_by(room)
    choice = random.Random(SEED)
    for host in full.hosts():
        room.set_node(host.name, _HAS, host.gpus)
        if choice.random() < TIGHT:
            room.set_pod(f"busy-{host.name}", host.name, (("cpu", 60_000),))
            alone.book(f"busy-{host.name}", {host.name: alone.free(host.name)})
    Collector.AS_MASTER.prepare()
    return {
        size: tuple(_ratio(full, alone, room, (size, calls)) for _ in range(runs)) for size in pods
    }


def _ratio(full: Capacity, alone: Capacity, room: NodeRoom, often: tuple[int, int]) -> float:
    pods, calls = often
    asked = asked_for(job(pods))
    own = tuple(pod.uid for pod in asked.wanted)
    beside = PodRoom(room, _TAKES, NODE_GPUS, own)
    by_gpus = median_s(lambda: answer_place(alone, asked, ()), _stir(alone, None), calls)
    by_all = median_s(lambda: answer_place(full, asked, (), room=beside), _stir(full, room), calls)
    return by_all / by_gpus


def asked_for(request: Request) -> Place:
    """Return the question of a gang of gated pods."""
    members = (
        Member(uid=PodUid(f"pod-{rank}"), name=f"pod-{rank}", rank=rank, version="1", gated=True)
        for rank in range(request.pods)
    )
    return Place(id=GangId("gang"), ask=1, request=request, wanted=tuple(members))


def _stir(capacity: Capacity, room: NodeRoom | None) -> Iterator[None]:
    """A pod comes to a node with its resources, and goes."""
    choice = random.Random(SEED)
    names = [host.name for host in capacity.hosts() if host.is_open]
    while True:
        name = choice.choice(names)
        capacity.book("stir", {name: 1})
        if room is not None:
            room.set_pod("stir", name, _TAKES)
        yield
        capacity.release("stir")
        if room is not None:
            room.remove_pod("stir")
        yield
