"""GPUs that lost the domain of their node, and those that have none to lose."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.builders import (
    discovery,
    fabric_facts,
    not_ready,
    shape,
    why,
)
from tests.discovery.hosts import PROBES, codes, told
from topo.discovery.modes import Mode
from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.machine import (
    GpuFabric,
    NodeFacts,
)
from topo.recording.timeline import Fault, FaultKind, apply
from topo.sim.worlds.presets import preset

RACK = [f"node-{n}" for n in range(1, 5)]


def with_fabrics(facts: NodeFacts, changed: Iterable[GpuFabric]) -> NodeFacts:
    """The facts with these fabrics in the place of those of the same GPUs."""
    by_gpu = {fabric.gpu: fabric for fabric in (*facts.fabrics, *changed)}
    return replace(facts, fabrics=tuple(by_gpu[gpu] for gpu in sorted(by_gpu)))


BROKEN = {
    "insufficient resources": (
        GpuFabric(2, "Completed", "Insufficient Resources", None, 0),
        "Insufficient Resources",
    ),
    "in progress": (GpuFabric(2, "In Progress"), "In Progress"),
    "no cluster": (GpuFabric(2, "Completed", "Success", None, 0), "no cluster UUID"),
    "n/a": (GpuFabric(2, "N/A", "N/A"), "N/A"),
    "not stated": (None, "its fabric is not stated"),
}


def broken(node: str, how: str) -> NodeFacts:
    """A tray whose GPU 2 is outside the domain of the other three."""
    well = fabric_facts(node, "c1")
    fabric, _ = BROKEN[how]
    if fabric is None:
        return replace(well, fabrics=tuple(f for f in well.fabrics if f.gpu != 2))
    return with_fabrics(well, [fabric])


@pytest.mark.parametrize("mode", [Mode.NVLINK, Mode.AUTO])
@pytest.mark.parametrize("how", BROKEN)
def test_a_gpu_that_lost_the_domain_of_its_node_makes_it_not_ready_and_says_so(mode, how):
    """The node keeps its place, the others are untouched, and three good readings heal it."""
    state = told(discovery(mode), 0.0, *(fabric_facts(n, "c1") for n in RACK))
    before = shape(state)
    told(state, 1.0, broken("node-3", how))
    assert not_ready(state) == set(), "one bad reading is none"
    told(state, 2.0, broken("node-3", how))
    assert (shape(state), not_ready(state)) == (before, {"node-3"})
    assert codes(state, "node-3") == {"fabric-lost"}
    assert why(state, "node-3") == f"GPU 2 is in no NVLink domain: {BROKEN[how][1]}"
    detail = state.detail(NodeName("node-3"))
    assert detail is not None
    assert detail.facts is not None
    assert [gpu.healthy for gpu in detail.facts.gpus] == [None, None, False, None]
    assert BROKEN[how][1] in detail.facts.gpus[2].trouble
    told(state, 3.0, fabric_facts("node-3", "c1"), times=3)
    assert (shape(state), not_ready(state)) == (before, set())
    state.validate()


def test_a_tray_whose_gpus_all_fail_to_join_says_why_from_the_first_reading():
    """A master that never saw its domain has the tool's own words."""
    lost = [GpuFabric(i, "Completed", "Insufficient Resources", None, 0) for i in range(4)]
    bad = with_fabrics(fabric_facts("node-1", "c1"), lost)
    state = told(discovery(Mode.NVLINK), 0.0, bad, fabric_facts("node-2", "c1"))
    assert codes(state, "node-1") == {"fabric-lost"}
    assert shape(state)[""] == ["node-1"]


def test_a_single_host_whose_gpus_have_no_domain_to_lose_is_well():
    """B200 and H100 HGX say Completed, Success and a zero cluster; A100 and L40S say N/A."""
    zero = tuple(GpuFabric(i, "Completed", "Success", None, 0) for i in range(4))
    none = tuple(GpuFabric(i, "N/A", "N/A") for i in range(4))
    for fabrics in (zero, none, ()):
        single = replace(fabric_facts("node-1", "c1"), fabrics=fabrics)
        assert not_ready(told(discovery(Mode.AUTO), 0.0, single, times=3)) == set()


def test_a_card_of_another_model_beside_the_members_has_no_domain_to_lose():
    """A display card in the tray states N/A for ever, and is no fault."""
    tray = fabric_facts("node-1", "c1")
    gpus = (
        *(replace(gpu, model="GB200") for gpu in tray.gpus[:3]),
        replace(tray.gpus[3], model="T4"),
    )
    fabrics = (*tray.fabrics[:3], GpuFabric(3, "N/A", "N/A"))
    for said in (fabrics, fabrics[:3]):
        mixed = replace(tray, gpus=gpus, fabrics=said)
        assert not_ready(told(discovery(Mode.NVLINK), 0.0, mixed, times=3)) == set()


def test_the_demos_fault_is_the_real_one_and_is_found_in_the_nvl72_world():
    """`fabric of gpu 2 of node-3 breaks`, as recorded on a GB200 of Azure."""
    fault = frozenset({Fault(FaultKind.FABRIC_BROKEN, NodeName("node-3"), gpu=2)})
    world = preset("nvl72-18x4")
    assert world is not None
    rack = [fabric_facts(host.name, "c1") for host in world.nodes]
    state = told(discovery(Mode.AUTO), 0.0, *rack)
    told(state, 1.0, *(apply(fault, facts) for facts in rack), times=2)
    assert not_ready(state) == {"node-3"}
    assert codes(state, "node-3") == {"fabric-lost"}


@pytest.mark.skipif(not PROBES.exists(), reason="no probes of real machines here")
def test_the_real_output_of_a_bad_gb200_is_a_lost_domain():
    """The file of Azure's bad node, as the fabric of one GPU."""
    name = "nvidia-smi-q-fabric.gb200-azure-insufficient-resources.txt"
    parsed = parse((PROBES / name).read_text(encoding="utf-8"))
    assert not isinstance(parsed, Refusal)
    (real,) = [f for fact in parsed.facts if isinstance(fact, tuple) for f in fact][:1]
    assert isinstance(real, GpuFabric)
    tray = with_fabrics(fabric_facts("node-1", "c1"), [replace(real, gpu=2)])
    state = told(discovery(Mode.NVLINK), 0.0, tray, fabric_facts("node-2", "c1"))
    assert why(state, "node-1") == "GPU 2 is in no NVLink domain: Insufficient Resources"
