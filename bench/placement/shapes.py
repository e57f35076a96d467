"""Shapes that make a placement dear: what each takes of the loop, and what runs in a thread.

Every case does something before each call, so that nothing can be remembered from the call before.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from time import perf_counter

from bench.discovery.core import Collector
from bench.scale import SEED
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, Kind, NodeName
from topo.placement.advice.explain import alternatives
from topo.placement.advice.suggestions import find_suggestions
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import HOSTNAME, Host
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.request import Eligibility, PlacementMode, Request
from topo.sim.worlds.clusters import GPU_TYPE, GROUP_GPUS, NODE_GPUS, cluster

LOAD = 0.6
FULLER = 0.8
"""The load at which a switchbox rarely holds eight whole groups: a job for it must be split."""
TYPES = 200
LARGEST = 1_000
"""Pods of the largest job that is placed on the loop."""
_MANY = f"{TYPES} types, none named"
ASIDE = (f"{_MANY}, refused", f"{_MANY}, a pod", "find_suggestions", "alternatives")
"""What runs in a thread, on a copy: it takes nothing of the loop but the copy."""
_IN_SWITCHBOX = 50
"""Dragonflies, or nodes that are dragonflies of their own."""
_SPAN = 64


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured, and what happens before each call of it."""

    name: str
    call: Callable[[], object]
    before: Callable[[], object] = lambda: None


def shapes(nodes: int, calls: int) -> Mapping[str, tuple[float, ...]]:
    """Milliseconds of each call by case."""
    Collector.AS_MASTER.prepare()
    found: dict[str, tuple[float, ...]] = {}
    for cases in (_equal, _lone, _types, _labels, _anew, _words):
        for case in cases(nodes):
            found[case.name] = tuple(_ms(case) for _ in range(calls))
        gc.collect()
    return found


def _ms(case: Case) -> float:
    case.before()
    began = perf_counter()
    case.call()
    return (perf_counter() - began) * 1000


def _even(nodes: int, in_dragonfly: int, types: int = 1) -> Capacity:
    """Equal dragonflies, `_IN_SWITCHBOX` of them in each switchbox; the types one after another."""
    capacity = Capacity()
    for number in range(nodes):
        dragonfly = number // in_dragonfly
        names = [f"sbox-{dragonfly // _IN_SWITCHBOX}"]
        kinds: list[Kind] = [SWITCHBOX]
        if in_dragonfly > 1:
            names.append(f"df-{dragonfly}")
            kinds.append(DRAGONFLY)
        of_type = dragonfly * in_dragonfly * types // nodes
        capacity.upsert(
            Host(
                name=NodeName(f"node-{number}"),
                path=GroupPath(tuple(map(GroupName, names))),
                kinds=tuple(kinds),
                tiers=(2, 1)[: len(kinds)],
                gpus=NODE_GPUS,
                gpu_type=GPU_TYPE if types == 1 else f"{GPU_TYPE}-{of_type}",
            )
        )
    return capacity


def _stirred(capacity: Capacity) -> Callable[[], None]:
    """Books another node's GPUs at each call."""
    names = [host.name for host in capacity.hosts()]
    turn = count()
    return lambda: capacity.book("stir", {names[next(turn) % len(names)]: NODE_GPUS})


def _pods(pods: int, group_gpus: int, eligible: Eligibility = Eligibility()) -> Request:  # noqa: B008
    return Request(pods=pods, gpus_per_pod=NODE_GPUS, group_size=group_gpus, eligible=eligible)


def _equal(nodes: int) -> Iterator[Case]:
    capacity = _even(nodes * 2, 2)
    job = _pods(min(LARGEST, nodes) - 1, 2 * NODE_GPUS)
    name = f"{nodes:,} equal dragonflies of two, {job.pods:,} pods in groups of two"
    yield Case(name, lambda: place(capacity, job), _stirred(capacity))


def _lone(nodes: int) -> Iterator[Case]:
    capacity = _even(nodes, 1)
    job = _pods(min(LARGEST, nodes) - 1, GROUP_GPUS)
    name = f"{nodes:,} nodes without a dragonfly, {job.pods:,} pods in groups of eight"
    yield Case(name, lambda: place(capacity, job), _stirred(capacity))


def _types(nodes: int) -> Iterator[Case]:
    capacity = _even(nodes, 2, TYPES)
    stir = _stirred(capacity)
    one, large = _pods(1, GROUP_GPUS), _pods(nodes, GROUP_GPUS)
    yield Case(ASIDE[0], lambda: place(capacity, large), stir)
    yield Case(ASIDE[1], lambda: place(capacity, one), stir)


def _labels(nodes: int) -> Iterator[Case]:
    capacity = _even(nodes, 2)
    for host in list(capacity.hosts()):
        labels = {HOSTNAME: host.name, "pool": f"p{len(host.name)}", "arch": "amd64"}
        labels |= dict(zip(("dragonfly", "switchbox"), host.path[::-1], strict=True))
        capacity.upsert(replace(host, labels=tuple(sorted(labels.items()))))
    hosts, turn = list(capacity.hosts()), count()

    def relabel() -> None:
        at = next(turn)
        extra = ("turn", str(at))
        host = hosts[at % len(hosts)]
        capacity.upsert(replace(host, labels=tuple(sorted((*host.labels, extra)))))

    def selected() -> object:
        box = f"sbox-{next(turn) % max(1, nodes // 2 // _IN_SWITCHBOX)}"
        wish = Eligibility(GPU_TYPE, selector=(("switchbox", box),))
        return place(capacity, _pods(1, GROUP_GPUS, wish))

    yield Case("a selector not asked for lately, after a change of labels", selected, relabel)


def _anew(nodes: int) -> Iterator[Case]:
    capacity, turn = cluster(nodes, "2", LOAD, SEED), count(1)
    place(capacity, _pods(1, GROUP_GPUS))

    def unknown_size() -> object:
        return place(capacity, Request(pods=4, gpus_per_pod=next(turn) % 128 + 1))

    def new_group() -> None:
        name = f"new-{next(turn)}"
        path = GroupPath((GroupName("sbox-1"), GroupName(name)))
        capacity.upsert(
            Host(
                name=NodeName(name),
                path=path,
                kinds=(SWITCHBOX, DRAGONFLY),
                tiers=(2, 1),
                gpus=NODE_GPUS,
                gpu_type=GPU_TYPE,
            )
        )

    yield Case("pods of a size not asked for lately", unknown_size, _stirred(capacity))
    first = _pods(8, GROUP_GPUS)
    yield Case("a copy of the capacity", capacity.copy, _stirred(capacity))
    yield Case("the first call after a group came", lambda: place(capacity, first), new_group)


def _words(nodes: int) -> Iterator[Case]:
    capacity = cluster(nodes, "8", FULLER, SEED)
    stir = _stirred(capacity)
    wish = replace(_pods(LARGEST, 2 * GROUP_GPUS), within=SWITCHBOX, mode=PlacementMode.PREFERRED)
    split = _split_inside(capacity, wish)
    refused, plan = place(capacity, wish), place(capacity, _pods(_SPAN, GROUP_GPUS))
    if split is not None:
        yield Case("split inside a switchbox", lambda: place(capacity, split), stir)
    if isinstance(refused, NoFit):
        yield Case(ASIDE[2], lambda: find_suggestions(capacity, refused), stir)
    if isinstance(plan, Plan):
        yield Case(ASIDE[3], lambda: alternatives(capacity, plan))


def _split_inside(capacity: Capacity, wish: Request) -> Request | None:
    """The largest job of a few sizes that fits, but not with every group whole."""
    for pods in (88, 80, 72, _SPAN):
        job = replace(wish, pods=pods, group_size=GROUP_GPUS)
        found = place(capacity, job)
        if isinstance(found, Plan) and found.mode is PlacementMode.PREFERRED:
            return job
    return None
