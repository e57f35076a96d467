"""What findings about cables cost, by the nodes at their ends."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from random import Random

import networkx as nx
import pytest

from tests.discovery.fabrics import read
from tests.support.fabric import Fabric, pairs
from tests.support.fabric_shapes import SHAPES, Shape, shaped
from topo.diagnosis.wiring.compare import CableFinding, CableState, CableVerdict
from topo.diagnosis.wiring.cost import CableCost, Costs, Job, NodeAt
from topo.diagnosis.wiring.seen import SeenCable, SeenCables, seen_in_dumps
from topo.facts.plans.plan import End

PAIR = ("dragonfly-2", "switchbox-1")
NODES = {
    "node-1": NodeAt(8, True, ("dragonfly-1", "switchbox-1"), ("switchbox-1",)),
    "node-3": NodeAt(8, False, PAIR, PAIR),
    "node-4.example.com": NodeAt(8, False, PAIR, PAIR),
}
JOBS = (
    Job("train/a", frozenset({"node-3", "node-4.example.com"})),
    Job("train/b", frozenset({"node-1"})),
    Job("train/c", would_fit="with dragonfly-2 Ready."),
    Job("train/d", would_fit="with dragonfly-22 Ready"),
)


def finding(*devices: str) -> CableFinding:
    one, other = (End(device, "1") for device in devices)
    return CableFinding(CableVerdict.MISSING, (CableState(one, other, None),), "")


def test_a_dead_cable_of_a_pair_costs_its_groups_its_gpus_and_its_jobs() -> None:
    costs = Costs(NODES, JOBS)
    assert costs.of(finding("NODE-3", "node-4")) == CableCost(PAIR, 16, ("train/a",), ("train/c",))


def test_a_cable_that_is_up_costs_no_gpu_and_still_has_the_jobs_across_it() -> None:
    found = Costs(NODES, JOBS).of(finding("node-1", "leaf-1"))
    assert found == CableCost(("switchbox-1",), 0, ("train/b",), ())


def test_a_short_name_that_two_nodes_have_costs_neither() -> None:
    nodes = {f"node-1.{site}.com": NodeAt(8, False, PAIR, PAIR) for site in ("east", "west")}
    assert not Costs(nodes, JOBS).of(finding("node-1", "leaf-1"))
    assert Costs(nodes, JOBS).of(finding("node-1.west.com", "leaf-1")).gpus == 8


def test_a_cable_of_a_leaf_has_the_jobs_across_whose_traffic_leaves_the_leaf() -> None:
    """What a spine that nobody saw leads to is everybody; a cable that nobody saw has no cost."""
    inside = Job("train/e", frozenset({"node-3"}))
    at_leaf = [SeenCable(End(node, "mlx5_0"), End("Leaf-1", node)) for node in ("node-1", "NODE-3")]
    costs = Costs(NODES, (*JOBS, inside), SeenCables(tuple(at_leaf), frozenset({"Leaf-1"})))
    assert costs.of(finding("leaf-1", "spine-1")) == CableCost(running=("train/a",))
    assert not costs.of(replace(finding("leaf-1", "spine-1"), verdict=CableVerdict.UNSEEN))
    assert not costs.of(finding("spine-1", "core-1"))
    assert "train/a" not in costs.of(finding("leaf-1", "node-1")).running


def _small(shape: Shape) -> Fabric:
    """Some pods of it, with a server on a spine, and storage on a leaf of its own."""
    small = replace(shape, hosts=2, units=2, leaves=min(shape.leaves, 2), spines=2)
    fabric = shaped(small, 12)
    spines = [g for g, each in fabric.devices.items() if "spine" in each.description]
    fabric.plug(fabric.adapter("ufm-1 mlx5_0"), spines[0])
    storage = fabric.switch("storage")
    for spine in spines[:2]:
        fabric.trunk(storage, spine)
    for _ in range(2):
        fabric.plug(fabric.adapter("store-1 mlx5_0"), storage)
    return fabric


FABRICS: dict[str, Callable[[], Fabric]] = {
    "pairs on leaves, as dragonflies are": lambda: pairs(6, 2).fabric,
    **{shape.name: partial(_small, shape) for shape in SHAPES},
}


@pytest.mark.parametrize("name", FABRICS)
def test_a_cable_between_switches_has_the_jobs_with_pods_on_both_of_its_sides(name: str) -> None:
    """Of each that is there or was cut, as a graph library finds them by the names of switches."""
    draw = Random(name)  # noqa: S311 - examples, no secrets
    fabric = FABRICS[name]()
    graph = _graph(fabric)
    hosts = sorted(each for each in graph if each.startswith("gpu"))
    jobs = [Job(f"j{n}", frozenset(draw.sample(hosts, draw.randint(1, 4)))) for n in range(24)]
    trunks = sorted(pair for pair in graph.edges if not {*pair} & {*hosts, "ufm-1", "store-1"})
    for one, other in draw.sample(trunks, 2):
        graph.remove_edge(one, other)
        fabric.cut(
            *next(at for at, far in fabric.ends.items() if _pair(fabric, at, far) == (one, other))
        )
    nodes = {host: NodeAt(8, True, (), ()) for host in hosts}
    costs = Costs(nodes, jobs, seen_in_dumps(map(read, fabric.dumps())))
    expected = {pair: _across(graph, pair, jobs) for pair in trunks}
    assert {pair: set(costs.of(finding(*pair)).running) for pair in trunks} == expected
    assert any(expected.values())


def _pair(fabric: Fabric, at: tuple[str, int], far: tuple[str, int, str]) -> tuple[str, str]:
    return _device(fabric, at[0]), _device(fabric, far[0])


def _device(fabric: Fabric, guid: str) -> str:
    """As people call it; what is inside a switch has the switch's name."""
    device = fabric.devices[fabric.devices[guid].system or guid]
    text = device.description
    return text.split(";")[1].split(":")[0] if device.is_switch else text.split()[0]


def _graph(fabric: Fabric) -> "nx.Graph[str]":
    """Devices by their names."""
    ends = (_pair(fabric, at, far) for at, far in fabric.ends.items())
    return nx.Graph((one, other) for one, other in ends if one != other)


def _across(graph: "nx.Graph[str]", pair: tuple[str, str], jobs: Iterable[Job]) -> set[str]:
    """The jobs with pods below the lower switch, and further on behind the other one."""
    leaves = {each for each in graph if "leaf" in each}
    hosts = {each for each in graph if each.startswith("gpu")}
    switches = graph.subgraph(each for each in graph if each not in {*hosts, "ufm-1", "store-1"})
    rank = nx.multi_source_dijkstra_path_length(switches, leaves)
    down = nx.DiGraph(
        (a, b) for a in rank for b in graph[a] if b in hosts or rank.get(b, 9) < rank[a]
    )
    down.add_nodes_from(graph)
    found: set[str] = set()
    for low, high in (pair, pair[::-1]):
        if rank[low] <= rank[high]:
            here = nx.descendants(down, low) & hosts
            upper = switches.subgraph(each for each in rank if rank[each] >= rank[high])
            over = nx.node_connected_component(upper, high)
            there = set().union(*(nx.descendants(down, each) for each in over)) & hosts - here
            found |= {job.name for job in jobs if job.nodes & here and job.nodes & there}
    return found
