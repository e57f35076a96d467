"""Small seeded clusters with a job for each: the questions that oracle and rivals are asked."""

import random
from collections import Counter
from dataclasses import dataclass
from itertools import count

from topo.model.ids import SWITCHBOX, GroupName, GroupPath
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.policy import Policy
from topo.placement.job.request import PlacementMode, Request
from topo.sim.worlds.clusters import GROUP_GPUS, NODE_GPUS, node


@dataclass(frozen=True, slots=True)
class Instance:
    """One question for the oracle."""

    capacity: Capacity
    request: Request


def aligned(seed: int) -> Instance:
    """60 to 260 nodes in domains of 4 to 16, 30 to 80 % booked; a job of whole groups of 64."""
    choice = random.Random(f"aligned {seed}")
    capacity = _small_cluster(choice)
    room = sum(free // 8 for free in _free_nodes(capacity).values())
    pods = 8 * choice.randint(1, max(1, min(room, 12)))
    return Instance(capacity, Request(pods=pods, gpus_per_pod=8, group_size=GROUP_GPUS))


def mixed(seed: int) -> Instance:
    """As `aligned`, with groups of 2, 4 or 8 pods and, in most cases, a tail."""
    choice = random.Random(f"mixed {seed}")
    capacity = _small_cluster(choice)
    size = choice.choice((2, 4, 8))
    room = sum(free // size for free in _free_nodes(capacity).values()) * size
    pods = choice.randint(1, max(1, min(room, 96)))
    return Instance(capacity, Request(pods=pods, gpus_per_pod=8, group_size=size * NODE_GPUS))


def nested(seed: int) -> Instance:
    """12 to 48 nodes in dragonflies of mostly two; a job of groups that only a switchbox holds."""
    choice = random.Random(f"nested {seed}")
    capacity = _vendor_cluster(choice, choice.choice((32, 64)))
    size = choice.choice((3, 4, 6, 8))
    free = sum(_free_nodes(capacity).values())
    pods = choice.randint(1, max(1, min(free * 2 // 3, 24)))
    return Instance(capacity, Request(pods=pods, gpus_per_pod=8, group_size=size * NODE_GPUS))


def torn(seed: int) -> Instance:
    """As `nested`, for a job so large that in most cases groups of it have to be split."""
    choice = random.Random(f"torn {seed}")
    capacity = _vendor_cluster(choice, choice.choice((16, 32, 64)))
    size = choice.choice((2, 2, 3, 4, 6))
    free = sum(_free_nodes(capacity).values())
    pods = choice.randint(max(1, min(free * 2 // 3, 40)), max(1, min(free, 40)))
    within = SWITCHBOX if choice.random() < 0.15 else None
    return Instance(
        capacity,
        Request(
            pods=pods,
            gpus_per_pod=8,
            group_size=size * NODE_GPUS,
            mode=PlacementMode.PREFERRED,
            within=within,
        ),
    )


def torn_wide(seed: int) -> Instance:
    """As `torn`, at 60 to 260 nodes; the job takes at least two thirds of what is free."""
    choice = random.Random(f"torn wide {seed}")
    capacity = _vendor_cluster(choice, choice.choice((16, 32, 64)), nodes=(60, 260))
    size = choice.choice((2, 3, 4, 6, 8))
    free = sum(_free_nodes(capacity).values())
    return Instance(capacity, _split_job(size, choice.randint(free * 2 // 3, free)))


def torn_uneven(seed: int) -> Instance:
    """As `mixed`, for a job with more pods than the whole groups that there are."""
    choice = random.Random(f"torn uneven {seed}")
    capacity = _small_cluster(choice)
    size = choice.choice((2, 4, 8))
    free_nodes = _free_nodes(capacity).values()
    room, free = sum(free // size * size for free in free_nodes), sum(free_nodes)
    return Instance(capacity, _split_job(size, choice.randint(min(room + 1, free), free)))


def _split_job(size: int, pods: int) -> Request:
    """A job in groups of `size` pods that may be split."""
    return Request(
        pods=pods,
        gpus_per_pod=NODE_GPUS,
        group_size=size * NODE_GPUS,
        mode=PlacementMode.PREFERRED,
    )


def kept(seed: int) -> Instance:
    """12 to 48 nodes in dragonflies of mostly two, some groups of them reserved."""
    choice = random.Random(f"kept {seed}")
    reserves = tuple(
        (GroupPath((GroupName(f"sbox-{top}"),)), choice.randint(1, 2))
        for top in sorted(choice.sample(range(1, 4), choice.randint(1, 2)))
    )
    capacity = _vendor_cluster(choice, choice.choice((16, 32)), reserves)
    size = choice.choice((1, 2, 2, 3, 4))
    free = sum(_free_nodes(capacity).values())
    pods = choice.randint(1, max(1, min(free, 16)))
    mode = choice.choice(tuple(PlacementMode))
    return Instance(
        capacity, Request(pods=pods, gpus_per_pod=8, group_size=size * NODE_GPUS, mode=mode)
    )


def _vendor_cluster(
    choice: random.Random,
    canonical: int,
    reserves: tuple[tuple[GroupPath, int], ...] = (),
    *,
    nodes: tuple[int, int] = (12, 48),
) -> Capacity:
    """Switchboxes of dragonflies of one to four nodes, two most often; each node may be booked."""
    capacity = Capacity(Policy(canonical_gpus=canonical, reserves=reserves))
    load, made, number = choice.uniform(0.2, 0.7), 0, 0
    sizes = choice.choice(((2,), (2,), (1, 2, 3), (2, 4), (3, 4)))
    wanted = choice.randint(*nodes)
    in_top = choice.randint(2, 6)
    while made < wanted:
        number += 1
        for _ in range(choice.choice(sizes)):
            made += 1
            host = node((number // in_top + 1, number), made)
            capacity.upsert(host)
            if choice.random() < load:
                capacity.book(f"job-{made}", {host.name: NODE_GPUS})
    return capacity


def _free_nodes(capacity: Capacity) -> Counter[GroupPath]:
    """Empty nodes by domain."""
    return Counter(h.path for h in capacity.hosts() if capacity.free(h.name) == NODE_GPUS)


def _small_cluster(choice: random.Random) -> Capacity:
    """Full-size nodes only; every domain draws its own size, and every node may be booked alone."""
    capacity = Capacity()
    nodes, load = choice.randint(60, 260), choice.uniform(0.3, 0.8)
    sizes = tuple(choice.sample(range(4, 17), choice.randint(1, 4)))
    in_top = choice.randint(3, 8)
    by_gang = choice.random() < 0.5
    made = 0
    for number in count():
        if made >= nodes:
            break
        wanted = min(choice.choice(sizes), nodes - made)
        domain_load = choice.choice((0.0, 1.0, load)) if by_gang else load
        for _ in range(wanted):
            made += 1
            host = node((number // in_top + 1, number + 1), made)
            capacity.upsert(host)
            if choice.random() < domain_load:
                capacity.book(f"job-{made}", {host.name: NODE_GPUS})
    return capacity
