"""What findings about cables cost, by the nodes at their ends."""

from topo.diagnosis.wiring.compare import CableFinding, CableState, CableVerdict
from topo.diagnosis.wiring.cost import CableCost, Costs, Job, NodeAt
from topo.diagnosis.wiring.seen import SeenCable
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


def test_a_cable_of_a_leaf_to_a_spine_has_the_jobs_across_whose_traffic_leaves_the_leaf() -> None:
    """Of one further up nobody says whose traffic it carries."""
    inside = Job("train/e", frozenset({"node-3"}))
    at_leaf = [SeenCable(End(node, "mlx5_0"), End("Leaf-1", node)) for node in ("node-1", "NODE-3")]
    costs = Costs(NODES, (*JOBS, inside), at_leaf)
    assert costs.of(finding("leaf-1", "spine-1")) == CableCost(running=("train/a",))
    assert not costs.of(finding("spine-1", "core-1"))
    assert "train/a" not in costs.of(finding("leaf-1", "node-1")).running
