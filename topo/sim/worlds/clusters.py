"""Seeded clusters under load, and what jobs ask of them: for figures and streams.

The shares are those that the figures of docs/benchmarks.md stand for: 10 % of the domains
ragged, 5 % of the nodes not open, 3 % with 4 GPUs and 3 % with 16. Equal arguments, equal cluster.
"""

import random
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host
from topo.placement.fragmentation import ASSUMED_SIZES
from topo.placement.job.request import Request

SHAPES: Mapping[str, tuple[int, ...]] = {
    "2": (2,),
    "8": (8,),
    "16": (16,),
    "8+16": (8, 16),
    "48": (48,),
}
"""Nodes of a whole domain; where there are two sizes each domain draws one. Two nodes make the
vendor's dragonfly: a group of 64 GPUs then lies in a switchbox."""
NODE_GPUS = 8
GROUP_GPUS = 64
GPU_TYPE = "MXC500"

RAGGED = 0.10
CLOSED = 0.05
SMALL = 0.03
LARGE = 0.03
_DOMAINS_PER_TOP = range(10, 15)
_RELEASED = 0.25
"""The share of the cluster that is booked beyond the load and released: this makes the holes."""

_PARTLY_KEPT = 16
"""Partly used nodes that are looked at for a small pod."""


def cluster(nodes: int, shape: str, load: float, seed: int) -> Capacity:
    """So many nodes in domains of a shape of `SHAPES`, `load` of their open GPUs booked by gangs.

    A bit more is booked and then released at random, so that there are holes of all sizes.
    O(nodes).
    """
    capacity = Capacity()
    domains = _domains(nodes, SHAPES[shape], random.Random(f"{nodes} {shape} {seed}"))
    for domain in domains:
        for host in domain:
            capacity.upsert(host)
    _book_gangs(capacity, domains, load, random.Random(f"{nodes} {shape} {seed} {load}"))
    return capacity


def requests(seed: int) -> Iterator[Request]:
    """Jobs without end, sizes drawn from `ASSUMED_SIZES` in GPUs.

    Under a node's size one pod, else pods of 8 GPUs in groups of 64; a tenth of the jobs from 8
    GPUs on has pods of half a node.
    """
    choice = random.Random(f"requests {seed}")
    sizes, weights = zip(*ASSUMED_SIZES, strict=True)
    while True:
        gpus = choice.choices(sizes, weights)[0]
        if gpus < NODE_GPUS:
            yield Request(pods=1, gpus_per_pod=gpus)
            continue
        pod_gpus = NODE_GPUS // 2 if choice.random() < 0.1 else NODE_GPUS
        yield Request(pods=gpus // pod_gpus, gpus_per_pod=pod_gpus, group_size=GROUP_GPUS)


def node(place: tuple[int, int], number: int, gpus: int = NODE_GPUS, state: float = 1.0) -> Host:
    """Return the node of a number, in a top group and a domain by their numbers.

    `state` below half of `CLOSED`: not ready; below `CLOSED`: cordoned; else open.
    """
    top, domain = place
    return Host(
        name=NodeName(f"node-{number}"),
        path=GroupPath((GroupName(f"sbox-{top}"), GroupName(f"df-{domain}"))),
        kinds=(SWITCHBOX, DRAGONFLY),
        tiers=(2, 1),
        gpus=gpus,
        gpu_type=GPU_TYPE,
        ready=state >= CLOSED / 2,
        cordoned=CLOSED / 2 <= state < CLOSED,
    )


def _domains(nodes: int, sizes: Sequence[int], choice: random.Random) -> list[list[Host]]:
    """Return the nodes of each domain, in natural order."""
    domains: list[list[Host]] = []
    made, top, left_in_top = 0, 0, 0
    while made < nodes:
        if not left_in_top:
            top, left_in_top = top + 1, choice.choice(_DOMAINS_PER_TOP)
        left_in_top -= 1
        whole = choice.choice(sizes)
        size = choice.randint(whole // 2, whole - 1) if choice.random() < RAGGED else whole
        size = min(size, nodes - made)
        number = len(domains) + 1
        domains.append(
            [node((top, number), made + i + 1, _gpus(choice), choice.random()) for i in range(size)]
        )
        made += size
    return domains


def _gpus(choice: random.Random) -> int:
    drawn = choice.random()
    if drawn < SMALL:
        return NODE_GPUS // 2
    return NODE_GPUS * 2 if drawn < SMALL + LARGE else NODE_GPUS


class _Supply:
    """Nodes for gangs, domain by domain; what is left of a partly used node goes first."""

    def __init__(self, domains: list[list[Host]]) -> None:
        self._domains = domains
        self._nodes: list[tuple[NodeName, int]] = []
        self._partly: deque[tuple[NodeName, int]] = deque(maxlen=_PARTLY_KEPT)

    def take(self, pods: int, gpus: int) -> dict[NodeName, int]:
        """GPUs by node of a gang; of fewer pods when all is taken."""
        taken: dict[NodeName, int] = defaultdict(int)
        for _ in range(pods):
            found = self._partly_used(gpus) or self._unused(gpus)
            if found is None:
                break
            name, free = found
            taken[name] += gpus
            if free > gpus:
                self._partly.append((name, free - gpus))
        return dict(taken)

    def _partly_used(self, gpus: int) -> tuple[NodeName, int] | None:
        for name, free in self._partly:
            if free >= gpus:
                self._partly.remove((name, free))
                return name, free
        return None

    def _unused(self, gpus: int) -> tuple[NodeName, int] | None:
        while self._nodes or self._domains:
            if not self._nodes:
                self._nodes = [(h.name, h.gpus) for h in reversed(self._domains.pop()) if h.is_open]
            elif (found := self._nodes.pop())[1] >= gpus:
                return found
            else:
                self._partly.append(found)
        return None


def _supplies(domains: list[list[Host]], choice: random.Random) -> tuple[_Supply, _Supply]:
    """Return a third of the top groups for small jobs, the others for large ones."""
    tops: dict[GroupName, list[list[Host]]] = defaultdict(list)
    for domain in domains:
        tops[domain[0].path[0]].append(domain)
    order = choice.sample(list(tops.values()), len(tops))
    cut = len(order) // 3
    return _Supply(list(chain(*order[:cut]))), _Supply(list(chain(*order[cut:])))


def _book_gangs(
    capacity: Capacity, domains: list[list[Host]], load: float, choice: random.Random
) -> None:
    """Gangs on the next free nodes until more than the load is booked; then some of them end."""
    in_all = sum(host.gpus for domain in domains for host in domain if host.is_open)
    small, large = _supplies(domains, choice)
    booked: dict[str, int] = {}
    total, most = 0, in_all * min(1.0, load + _RELEASED)
    for number, request in enumerate(requests(choice.randrange(1 << 30)), start=1):
        pods, gpus = request.pods, request.gpus_per_pod
        first, second = (small, large) if pods * gpus < GROUP_GPUS else (large, small)
        gang = first.take(pods, gpus) or second.take(pods, gpus)
        if total >= most or not gang:
            break
        owner = f"job-{number}"
        capacity.book(owner, gang)
        booked[owner] = sum(gang.values())
        total += booked[owner]
    for owner in choice.sample(list(booked), len(booked)):
        if total - booked[owner] >= in_all * load:
            capacity.release(owner)
            total -= booked[owner]
