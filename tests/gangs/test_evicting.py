"""Where a gang would fit over pods of lower priority: as cheap as can be, and true."""

import random

import pytest

from tests.gangs.jobs import dragonflies, job
from tests.gangs.leader import Leader
from tests.gangs.world import Cluster
from topo.gangs.decisions.eviction import Evictable, cheapest_evictions
from topo.gangs.machine.gang import Binding, GangId, Member, PodUid
from topo.gangs.machine.instructions import Nominate, Place
from topo.gangs.machine.settings import GangSettings
from topo.model.conditions.gang_states import GangState
from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import NoFit


def asked(pods: int, size: int = 16, **more: object) -> Place:
    wanted = tuple(
        Member(uid=PodUid(f"p{rank}"), name=f"p{rank}", rank=rank, version="1")
        for rank in range(pods)
    )
    request = job("a", pods, size).request
    known = {"id": GangId("a"), "ask": 1, "request": request, "wanted": wanted, "over": 9}
    return Place(**(known | more))  # type: ignore[arg-type]


def full(capacity: Capacity, *pods: tuple[str, int, str]) -> list[Evictable]:
    """Pods of eight GPUs, each as (node, priority, job), booked."""
    found = []
    for number, (node, priority, unit) in enumerate(pods):
        owner = f"pod/{number}"
        capacity.book(owner, {NodeName(node): 8})
        found.append(Evictable(owner, NodeName(node), 8, priority, unit))
    return found


def test_the_example_of_the_module() -> None:
    capacity = dragonflies(3, 2)
    pods = full(
        capacity,
        ("n1-1-1", 1, "A"),
        ("n1-1-2", 1, "A"),
        ("n1-2-1", 0, "B"),
        ("n1-2-2", 0, "C"),
        ("n1-3-1", 0, "D"),
        *((f"n2-{fly}-{node}", 0, "D") for fly, node in ((1, 1), (1, 2), (2, 1))),
    )
    capacity.book("higher", {NodeName("n2-2-2"): 8})
    found = cheapest_evictions(capacity, asked(2), pods)
    assert found is not None
    assert found.nodes == ("n1-2-1", "n1-2-2")
    assert (found.cost.priority, found.cost.pods, found.cost.gpus) == (0, 2, 16)


def test_a_job_that_is_broken_already_costs_nothing_more() -> None:
    capacity = dragonflies(3)
    pods = full(
        capacity,
        *((f"n1-{fly}-{node}", 0, "A") for fly in (1, 3) for node in (1, 2)),
        ("n1-2-1", 0, "B"),
        ("n1-2-2", 0, "B"),
    )
    capacity.release("pod/0")
    pods = [pod for pod in pods if pod.owner != "pod/0"]
    found = cheapest_evictions(capacity, asked(2), pods)
    assert found is not None
    assert found.nodes == ("n1-2-1", "n1-2-2"), "two pods of B, not three of A"
    both = cheapest_evictions(capacity, asked(4), pods)
    assert both is not None
    assert both.cost.pods == 5
    assert {pod.unit for pod in both.victims} == {"A", "B"}


def test_what_may_be_mixed_stays_in_one_domain() -> None:
    capacity = dragonflies(2)
    every = [(f"n1-{fly}-{node}", 0, f"{fly}{node}") for fly in (1, 2) for node in (1, 2)]
    pods = full(capacity, *every)
    assert cheapest_evictions(capacity, asked(4, mixed=True), pods) is None
    assert cheapest_evictions(capacity, asked(4), pods) is not None
    assert cheapest_evictions(capacity, asked(2, mixed=True), pods) is not None


def test_where_others_are_planned_nobody_is_planned_over() -> None:
    capacity = dragonflies(2)
    every = [(f"n1-{fly}-{node}", 0, f"{fly}{node}") for fly in (1, 2) for node in (1, 2)]
    pods = full(capacity, *every)
    found = cheapest_evictions(capacity, asked(2, spoken_for=(NodeName("n1-1-2"),)), pods)
    assert found is not None
    assert found.nodes == ("n1-2-1", "n1-2-2")


@pytest.mark.parametrize("seed", range(60))
def test_it_is_found_where_it_fits_without_them_and_holds_what_it_promises(seed: int) -> None:
    """Beside the engine on the same cluster without the pods that may go."""
    rng = random.Random(seed)
    capacity = dragonflies(*(rng.randint(1, 3) for _ in range(rng.randint(1, 3))))
    pods = []
    for host in list(capacity.hosts()):
        for part in range(rng.choice((0, 1, 2))):
            owner, gpus = f"pod/{host.name}/{part}", rng.choice((4, 4, 2))
            capacity.book(owner, {host.name: gpus})
            priority, unit = rng.randint(0, 2), f"u{rng.randint(0, 4)}"
            if rng.random() < 0.8:
                pods.append(Evictable(owner, host.name, gpus, priority, unit))
    question = asked(rng.choice((1, 2, 3, 4, 5)), rng.choice((8, 16, 16, 32)))
    found = cheapest_evictions(capacity, question, pods)
    without = capacity.copy()
    for pod in pods:
        without.release(pod.owner)
    assert (found is None) == isinstance(place(without, question.request), NoFit)
    if found is None:
        return
    after = capacity.copy()
    for pod in found.victims:
        after.release(pod.owner)
    for rank, node in enumerate(found.nodes):
        after.book(f"rank {rank}", {node: 8})
        assert after.used(node) <= 8
    size = question.request.pods_per_group
    if size == 2:
        for first in range(0, len(found.nodes), size):
            assert len({node[:4] for node in found.nodes[first : first + size]}) == 1
    broken = {pod.unit for pod in found.victims}
    assert found.cost.pods == sum(pod.unit in broken for pod in pods)


@pytest.mark.parametrize("seed", range(20))
def test_for_one_group_over_single_pods_it_is_the_least_there_is(seed: int) -> None:
    """Beside all dragonflies tried."""
    rng = random.Random(seed)
    capacity = dragonflies(rng.randint(1, 5))
    taken = [(host.name, rng.randint(0, 5), host.name) for host in capacity.hosts()]
    pods = full(capacity, *(each for each in taken if rng.random() < 0.8))
    found = cheapest_evictions(capacity, asked(2), pods)
    assert found is not None
    on = {pod.node: pod for pod in pods}
    homes: dict[str, list[Evictable]] = {}
    for host in capacity.hosts():
        homes.setdefault(host.name[:4], [])
        if host.name in on:
            homes[host.name[:4]].append(on[host.name])
    least = min(
        (max((pod.priority for pod in each), default=-1), len(each)) for each in homes.values()
    )
    assert (max(found.cost.priority, -1), found.cost.pods) == least


@pytest.mark.parametrize(
    ("binding", "mode", "ends", "stands"),
    [
        (Binding.WHOLE, "required", False, GangState.NO_ROOM),
        (Binding.PIECEMEAL, "required", False, GangState.BOUND),
        (Binding.WHOLE, "preferred", False, GangState.BOUND),
        (Binding.WHOLE, "required", True, GangState.BOUND),
    ],
)
def test_what_several_groups_that_volcano_would_mix_are_told_to_do_has_them_run(
    *, binding: Binding, mode: str, ends: bool, stands: GangState
) -> None:
    """As a batch Job, with preferred groups, or once the pods of lower priority have ended."""
    world = Cluster(dragonflies(2), preempts=True)
    leader = Leader.over(world, GangSettings(preempt_s=60.0))
    for host in list(world.capacity.hosts()):
        world.intrude(f"on-{host.name}", host.name, priority=0)
    world.submit(job("a", 4, binding=binding, mode=mode, priority=5))
    leader.settle()
    leader.now_s = 61.0
    leader.settle()
    for name in list(world.foreign) if ends else ():
        world.leave(name)
    leader.settle()
    found = leader.gangs.status(GangId("a"))
    assert found is not None
    assert found.state is stands


def test_pods_keep_the_nodes_of_their_group_to_which_volcano_nominated_them() -> None:
    """It evicts and nominates in an order of its own; the plan that follows has none to add."""
    world = Cluster(dragonflies(1), preempts=True)
    leader = Leader.over(world, GangSettings(preempt_s=60.0))
    for host in list(world.capacity.hosts()):
        world.intrude(f"on-{host.name}", host.name, priority=0)
    world.submit(job("a", 2, binding=Binding.WHOLE, priority=5))
    leader.settle()
    leader.now_s = 61.0
    leader.settle()
    assert world.bound(GangId("a")) == {0: "n1-1-2", 1: "n1-1-1"}
    given = (each for each in leader.given if isinstance(each, Nominate) and each.node)
    assert {each.pod.rank: each.node for each in given} == {0: "n1-1-2", 1: "n1-1-1"}
