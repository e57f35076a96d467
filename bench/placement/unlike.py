"""What gangs take of the loop whose pods may use different nodes, or need domains of their own.

Half of the nodes are free, whole. Before every call a pod comes to a node or goes.
"""

import random
from collections.abc import Callable, Iterator, Mapping

from bench.discovery.core import Collector
from bench.placement.times import median_s
from bench.placement.whole_fit import asked_for
from bench.scale import SEED
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.events import Refused
from topo.model.errors import require
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import HOSTNAME, Host
from topo.placement.job.request import Eligibility, Kin, OwnDomains, Request
from topo.sim.worlds.clusters import GPU_TYPE, NODE_GPUS

RACK = "rack"
TIED = (8, 64, 256, 512)
"""Pods that are tied to a node each."""
PARTS = (1, 8, 64, 256)
"""Parts of four pods that need a rack each."""
_IN_BOX, _IN_RACK = 32, 16
"""Nodes."""
_FREE = 0.5


def unlike_gangs(nodes: int, calls: int) -> Mapping[str, float]:
    """Milliseconds of an answer by question, the median."""
    Collector.AS_MASTER.prepare()
    capacity, idle = _cluster(nodes)
    return {
        name: 1000 * median_s(_answers(capacity, request, wanted), _stir(capacity), calls)
        for name, request, wanted in _questions(idle)
    }


def _questions(idle: list[int]) -> Iterator[tuple[str, Request, type]]:
    """Yield questions for which the cluster is large enough, each with the expected answer."""
    for pods in filter(lambda pods: pods <= len(idle), TIED):
        flies = idle[: pods // 2]
        pairs = [_name(fly, at) for fly in flies for at in (0, 1)]
        yield f"{pods} pods tied to nodes", _tie_pods(pairs), Placed
        apart = [_name(fly, 0) for fly in idle[:pods]]
        yield f"{pods} pods tied to nodes, refused", _tie_pods(apart), Refused
    for parts in filter(lambda parts: 8 * parts <= len(idle), PARTS):
        own = (OwnDomains(parts, 4, RACK),)
        pods = 4 * parts
        request = Request(
            pods=pods, gpus_per_pod=NODE_GPUS, group_size=16, own_domains=own, kins=(Kin("k", "n"),)
        )
        yield f"{parts} parts with a rack each", request, Placed


def _tie_pods(names: list[NodeName]) -> Request:
    runs = tuple((1, Eligibility(selector=((HOSTNAME, name),))) for name in names)
    return Request(pods=len(names), gpus_per_pod=NODE_GPUS, group_size=16, by_rank=runs)


def _answers(capacity: Capacity, request: Request, wanted: type) -> Callable[[], None]:
    """Return a call for an answer; it raises where that is not of the type that is expected."""
    asked = asked_for(request)

    def answer() -> None:
        found = answer_place(capacity, asked, ())
        require(isinstance(found, wanted), f"bench: the answer is another one: {found}")

    return answer


def _cluster(nodes: int) -> tuple[Capacity, list[int]]:
    """Return dragonflies of two nodes, and which of them are free."""
    choice, capacity = random.Random(SEED), Capacity()
    idle = []
    for fly in range(nodes // 2):
        is_idle = choice.random() < _FREE
        idle += [fly] if is_idle else []
        for at in (0, 1):
            capacity.upsert(_host(fly, at))
            if not is_idle:
                capacity.book(f"on-{fly}-{at}", {_name(fly, at): NODE_GPUS})
    choice.shuffle(idle)
    return capacity, idle


def _host(fly: int, at: int) -> Host:
    number = 2 * fly + at
    path = GroupPath((GroupName(f"s{number // _IN_BOX}"), GroupName(f"d{fly}")))
    labels = ((HOSTNAME, _name(fly, at)), (RACK, f"r{number // _IN_RACK}"))
    return Host(
        name=_name(fly, at),
        path=path,
        kinds=(SWITCHBOX, DRAGONFLY),
        tiers=(2, 1),
        gpus=NODE_GPUS,
        gpu_type=GPU_TYPE,
        labels=tuple(sorted(labels)),
    )


def _name(fly: int, at: int) -> NodeName:
    return NodeName(f"n{2 * fly + at}")


def _stir(capacity: Capacity) -> Iterator[None]:
    """A pod takes a GPU of a node that is in use, and gives it back."""
    busy = [owner for owner in capacity.bookings() if owner.startswith("on-")]
    choice = random.Random(SEED)
    while True:
        owner = choice.choice(busy)
        gpus = dict(capacity.bookings()[owner])
        capacity.book(owner, {node: number - 1 for node, number in gpus.items()})
        yield
        capacity.book(owner, gpus)
        yield
