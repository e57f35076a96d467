"""Facts that vanish are not facts that are well: fabrics, GPUs, ports and NICs that were there."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import (
    declared,
    discovery,
    fabric_facts,
    nodes,
    not_ready,
    shape,
)
from tests.builders import facts as metax_facts
from topo.diagnosis.steps import STEPS
from topo.discovery.modes import MISSED, Mode
from topo.discovery.state import Discovery
from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.machine import (
    Gpu,
    GpuFabric,
    Link,
    LinkKind,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NodeFacts,
    PortState,
    ProbeHealth,
    ProbeState,
)
from topo.model.observation import ConfigLoaded, Ticked, WorkerBeat, WorkerReported
from topo.recording.possible import facts_of
from topo.recording.timeline import Fault, FaultKind, apply, parse_faults
from topo.sim.bundles import bundle_of
from topo.sim.worlds.presets import preset

PROBES = Path(__file__).resolve().parents[2].parent / "shared/data/probes"
RACK = [f"node-{n}" for n in range(1, 5)]


def told(state: Discovery, at_s: float, *said: NodeFacts, times: int = 1) -> Discovery:
    """The same readings, so many times."""
    for _ in range(times):
        state.advance(at_s, *map(WorkerReported, said))
    return state


def codes(state: Discovery, node: str) -> set[str]:
    """The codes of the reasons why a node is NotReady."""
    return {reason.code for reason in nodes(state)[node].reasons}


def why(state: Discovery, node: str) -> str:
    """All reasons of a node."""
    return "; ".join(reason.text for reason in nodes(state)[node].reasons)


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


PAIR = ("a", "b")
"""The vendor's dragonfly: two nodes, wired to each other."""
DAY_S = 86_400.0


def matrix(rows: Iterable[Iterable[LinkKind]]) -> LinkMatrix:
    """A link matrix of GPUs alone."""
    links = tuple(tuple(Link(kind, kind.value) for kind in row) for row in rows)
    return LinkMatrix(tuple(f"GPU{n}" for n in range(len(links))), (), links)


def islands(*sizes: int, cut: Iterable[int] = ()) -> LinkMatrix:
    """GPUs in islands of MetaXLink, the system between them; those that are `cut` have no link."""
    island = [number for number, size in enumerate(sizes) for _ in range(size)]
    gone, gpus = set(cut), range(len(island))
    return matrix(
        (
            LinkKind.SELF
            if a == b
            else LinkKind.SYSTEM
            if island[a] != island[b] or {a, b} & gone
            else LinkKind.METAXLINK
            for b in gpus
        )
        for a in gpus
    )


def host(node: str, **more: object) -> NodeFacts:
    """A node of the pair with 8 GPUs of 7 wired ports each (one more unused) and 4 NICs."""
    peer = PAIR[1 - PAIR.index(node)]
    seen = metax_facts(node, [peer], **more)  # type: ignore[arg-type]
    ports = tuple(
        LinkPort(gpu.index, port, PortState.UP if port < 7 else PortState.UNUSED)
        for gpu in seen.gpus
        for port in range(8)
    )
    nics = tuple(NetworkPort(f"mlx5_{n}", 1, up=True) for n in range(4))
    gpus = tuple(replace(gpu, model="MXC550") for gpu in seen.gpus)
    return replace(seen, gpus=gpus, ports=ports, nics=nics, matrix=islands(4, 4))


def pair(**settings: object) -> Discovery:
    """A dragonfly of two such nodes, heard twice: what one reading alone shows is no fact."""
    return told(discovery(**settings), 0.0, *map(host, PAIR), times=2)  # type: ignore[arg-type]


def restarted(state: Discovery, at_s: float, **settings: object) -> Discovery:
    """Another process of the master with the same memory."""
    again = discovery(**settings)  # type: ignore[arg-type]
    again.restore(state.memory(), 1.0, at_s)
    again.validate()
    return again


def unplugged(facts: NodeFacts, gpu: int, left: int, how: PortState | None) -> NodeFacts:
    """Of the ports of a GPU only the first ones are up; the rest are in a state, or not listed."""
    ports = (
        port if port.gpu != gpu or port.port < left else how and replace(port, state=how)
        for port in facts.ports
    )
    return replace(facts, ports=tuple(port for port in ports if port))


GONE = {
    "a GPU": (host("a", gpus=7), "gpus-missing", "7 of 8 GPUs reported"),
    "no GPU is listed": (replace(host("a"), gpus=()), "gpus-missing", "0 of 8 GPUs reported"),
    "ports are not listed": (
        unplugged(host("a"), 2, 5, None),
        "ports-missing",
        "GPU 2: 5 of 7 link ports reported",
    ),
    "ports turn unused": (
        unplugged(host("a"), 2, 0, PortState.UNUSED),
        "ports-missing",
        "GPU 2: 0 of 7 link ports reported",
    ),
    "all ports, and why": (
        replace(
            host("a"), ports=(), probes=(ProbeHealth("mxsml", ProbeState.FAILED, "no driver"),)
        ),
        "ports-missing",
        "GPU 7: 0 of 7 link ports reported (probe mxsml: no driver)",
    ),
    "fast links inside": (
        replace(host("a"), matrix=islands(4, 4, cut=[2])),
        "links-missing",
        "GPU2 has fast links to 0 of 3 GPUs of its node",
    ),
    "a NIC": (
        replace(host("a"), nics=host("a").nics[:3]),
        "nics-missing",
        "3 of 4 network ports reported",
    ),
}


@pytest.mark.parametrize(("gone", "code", "text"), GONE.values(), ids=GONE)
def test_what_vanishes_makes_its_node_not_ready_until_it_is_back(gone, code, text):
    """After two readings; over a restart of the master; and three good readings heal it."""
    state = told(pair(), 1.0, gone)
    assert not_ready(state) == set(), "one bad reading is none"
    state = told(state, 2.0, gone)
    assert not_ready(state) == {"a"}
    assert code in codes(state, "a") <= {code, "gpu-cut-off"}
    assert text in why(state, "a")
    state = told(restarted(state, 3.0), 4.0, *map(host, PAIR), gone, times=4)
    assert code in codes(state, "a"), "what was there is known to the next master"
    told(state, 5.0, host("a"), times=3)
    assert not_ready(state) == set()
    state.validate()


@pytest.mark.parametrize(("gone", "code", "_text"), GONE.values(), ids=GONE)
def test_a_reboot_brings_nothing_back_by_itself(gone, code, _text):
    """A GPU that fell off the bus is still gone after it; the new boot is not a smaller machine."""
    again = replace(gone, identity=host("a", boot="boot-2").identity)
    state = told(pair(), 1.0, again, times=4)
    assert code in codes(state, "a")
    told(state, 2.0, host("a", boot="boot-2"), times=3)
    assert not_ready(state) == set()


def test_a_reboot_after_a_master_that_saw_no_gpu_brings_nothing_back_either():
    """A driver that was dead while the master restarted says nothing of the GPUs' type."""
    state = restarted(told(pair(), 1.0, GONE["no GPU is listed"][0], times=2), 2.0)
    told(state, 3.0, host("b"), host("a", gpus=7, boot="boot-2"), times=4)
    assert codes(state, "a") == {"gpus-missing"}


def test_a_reboot_with_other_gpus_is_another_machine():
    """Its hardware was changed: nothing of the old one is missed."""
    other = metax_facts("a", ["b"], gpus=4, boot="boot-2")
    other = replace(other, gpus=tuple(replace(gpu, model="MXC600") for gpu in other.gpus))
    state = told(pair(), 1.0, other, times=4)
    assert not_ready(state) == set()
    assert nodes(state)["a"].gpus == 4
    state.validate()


@pytest.mark.parametrize("what", ["ports are not listed", "a NIC"])
def test_what_is_gone_for_a_day_was_taken_out(what):
    """Then what is there is all there is; for GPUs the equals of the group still speak."""
    gone, _, _ = GONE[what]
    state = told(pair(), 1.0, gone, times=2)
    for at_s in range(10, int(DAY_S) + 60, 25):
        state.advance(float(at_s), *(WorkerBeat(NodeName(node)) for node in PAIR))
        if at_s < DAY_S:
            assert "a" in not_ready(state)
    assert not_ready(state) == set()
    state.validate()


def test_a_cable_that_comes_out_late_is_not_forgotten_with_a_port_that_is_gone_for_long():
    """Each loss has its own day: the group of a link that just died stays together."""
    gone, code, _ = GONE["a NIC"]
    state = told(pair(forget_s=100.0), 1.0, gone, times=2)
    beats = [WorkerBeat(NodeName(node)) for node in PAIR]
    for at_s in range(10, 90, 20):
        state.advance(float(at_s), *beats)
    before = shape(state)
    told(state, 95.0, replace(gone, peers=metax_facts("a").peers), times=2)
    assert codes(state, "a") == {code, "link-down"}
    state.advance(110.0, *beats)
    assert (codes(state, "a"), shape(state)) == ({"link-down"}, before)
    for at_s in range(120, 200, 20):
        state.advance(float(at_s), *beats)
        assert shape(state) == before
        state.validate()
    state.advance(199.0, *beats)
    assert shape(state) != before
    state.validate()


def test_a_gpu_that_is_gone_for_a_day_is_still_one_fewer_than_its_equals():
    """It is no longer missing of its own, and its group has more."""
    state = told(pair(forget_s=100.0), 1.0, host("a", gpus=7), times=2)
    for at_s in range(10, 130, 20):
        state.advance(float(at_s), *(WorkerBeat(NodeName(node)) for node in PAIR))
    assert codes(state, "a") == {"gpus-fewer"}
    state.validate()


@pytest.mark.parametrize(("gone", "code", "_text"), GONE.values(), ids=GONE)
def test_what_the_operator_does_not_miss_may_vanish(gone, code, _text):
    """`--missed-hardware` names what is missed."""
    missed = tuple(kind for kind in MISSED if not code.startswith(kind))
    assert len(missed) == len(MISSED) - 1
    assert codes(told(pair(missed=missed), 1.0, gone, times=3), "a") <= {"gpu-cut-off"}


def test_virtual_functions_come_and_go_with_the_pods():
    """They are shown, and nobody misses them."""
    more = tuple(NetworkPort(f"mlx5_{n}", 1, up=True, virtual=True) for n in range(4, 12))
    state = told(pair(), 1.0, replace(host("a"), nics=host("a").nics + more))
    assert not_ready(told(state, 2.0, host("a"), times=3)) == set()


# -- links inside the node ------------------------------------------------------------------------


def meshed(facts: NodeFacts, links: LinkMatrix | None) -> NodeFacts:
    return replace(facts, matrix=links)


def test_a_gpu_without_links_among_gpus_that_have_them_is_cut_off_from_the_first_reading():
    """As on a real B200; the links of the others are whole, so nobody misses one."""
    bad = meshed(host("a"), islands(8, cut=[2]))
    state = told(discovery(), 0.0, bad, host("b"))
    assert codes(state, "a") == {"gpu-cut-off"}
    assert why(state, "a") == "GPU2 has no fast link to the 7 other GPUs, which have them"
    told(state, 1.0, meshed(bad, None), times=4)
    assert codes(state, "a") == {"gpu-cut-off"}, "no matrix is no good matrix"
    told(state, 2.0, meshed(bad, islands(8)), times=3)
    assert not_ready(state) == set()


@pytest.mark.parametrize(
    "links", [islands(4, 4), islands(2, 2, 2, 1, 1), islands(2, 2, 2, 1), islands(*[1] * 8), None]
)
def test_boards_that_are_built_in_pairs_or_islands_or_without_links_are_well(links):
    """Whoever has no partner by design is not cut off."""
    assert not_ready(told(discovery(), 0.0, meshed(host("a"), links), host("b"), times=3)) == set()


def test_a_display_card_beside_linked_gpus_is_not_cut_off():
    """It is of another model."""
    seen = host("a")
    gpus = (*seen.gpus[:7], replace(seen.gpus[7], model="DGX Display"))
    odd = replace(seen, gpus=gpus, matrix=islands(8, cut=[7]))
    assert not_ready(told(discovery(Mode.AUTO), 0.0, odd, times=3)) == set()


def test_a_gpu_that_is_gone_is_not_also_a_link_that_is_gone():
    """One cause, one reason."""
    gone = meshed(host("a", gpus=7), islands(4, 3))
    assert codes(told(pair(), 1.0, gone, times=2), "a") == {"gpus-missing"}


@pytest.mark.skipif(not PROBES.exists(), reason="no probes of real machines here")
def test_the_real_b200_with_a_dead_nvlink_is_not_well():
    """The matrix of the file, cut to the rows that it has."""
    name = "nvidia-smi-topo-m.b200-8gpu-gpu2-nvlink-down-excerpt.txt"
    rows = [line.split() for line in (PROBES / name).read_text(encoding="utf-8").splitlines()]
    cells = [row[1 : 1 + 6] for row in rows if row and row[0].startswith("GPU")]
    kinds = {"X": LinkKind.SELF, "NV18": LinkKind.NVLINK, "NODE": LinkKind.NUMA_NODE}
    real = matrix([[kinds.get(cell, LinkKind.SYSTEM) for cell in row] for row in cells])
    assert len(real.gpus) == 6
    state = told(discovery(), 0.0, meshed(host("a", gpus=6), real), host("b", gpus=6))
    assert codes(state, "a") == {"gpu-cut-off"}


# -- equals of the group -------------------------------------------------------------------------


def tray(node: str, gpus: int, model: str | None = "GB200") -> NodeFacts:
    """A tray of a clique with so many GPUs."""
    seen = fabric_facts(node, "c1", gpus=gpus)
    return replace(seen, gpus=tuple(Gpu(i, model=model) for i in range(gpus)))


@pytest.mark.parametrize("order", ["short first", "short last"])
def test_a_node_that_never_showed_all_its_gpus_has_fewer_than_its_equals(order):
    """In a dragonfly of two, the one with fewer; as soon as both have shown their GPUs twice."""
    said = [host("a", gpus=7), host("b")]
    said = said if order == "short first" else said[::-1]
    state = told(discovery(), 0.0, *said)
    assert not_ready(state) == set()
    state.advance(0.5, *(WorkerBeat(facts.identity.name) for facts in said))
    assert codes(state, "a") == {"gpus-fewer"}
    assert why(state, "a") == "7 GPUs, where the others of its group have 8"
    assert not_ready(state) == {"a"}
    assert not_ready(told(state, 1.0, host("a"))) == set()
    state.validate()


def test_most_of_a_clique_decide_and_one_that_shows_too_many_blames_nobody():
    """17 trays of 4 and one of 3, or one of 8."""
    names = [f"node-{n}" for n in range(18)]
    for odd, found in ((3, {"node-5"}), (8, set()), (0, {"node-5"})):
        said = [tray(name, odd if name == "node-5" else 4) for name in names]
        if not odd:  # no GPU is listed, and its fabric is: a driver that half works
            said[5] = replace(said[5], fabrics=fabric_facts("node-5", "c1").fabrics)
        state = told(discovery(Mode.NVLINK), 0.0, *said, times=2)
        assert not_ready(state) == found
        state.validate()


def more_than_there_is(node: str, what: str) -> NodeFacts:
    """A reading of a node that shows more of something than it has."""
    seen = host(node, gpus=16) if what == "gpus" else host(node)
    gpus = tuple(replace(gpu, model="MXC550") for gpu in seen.gpus)
    if what == "ports":
        ports = tuple(replace(port, state=PortState.UP) for port in seen.ports)
        return replace(seen, ports=ports)
    if what == "links":
        return replace(seen, matrix=islands(8))
    if what == "nics":
        return replace(seen, nics=(*seen.nics, NetworkPort("mlx5_9", 1, up=True)))
    return replace(seen, gpus=gpus)


@pytest.mark.parametrize("when", ["first", "later", "over a restart", "after a beat"])
@pytest.mark.parametrize("what", MISSED)
def test_one_reading_with_too_much_is_no_fact(what, when):
    """Neither the node nor its partner is held against it, by this master or the next."""
    odd = more_than_there_is("b", what)
    state = told(discovery(), 0.0, host("a"), times=2) if when == "first" else pair()
    if when == "after a beat":
        state.advance(0.5, *(WorkerBeat(NodeName(node)) for node in PAIR))
    told(state, 1.0, odd)
    assert not_ready(state) == set()
    if when == "over a restart":
        state = told(restarted(state, 2.0), 3.0, host("a"))
    for at_s in (4.0, 5.0, 6.0, 7.0):
        told(state, at_s, host("b"))
        assert not_ready(state) == set()
    state.validate()


@pytest.mark.parametrize("what", MISSED)
def test_what_two_readings_in_a_row_show_is_missed_when_it_is_gone(what):
    """Two reports, or a report and a beat."""
    odd = more_than_there_is("b", what)
    for again in (WorkerReported(odd), WorkerBeat(NodeName("b"))):
        state = told(pair(), 1.0, odd)
        state.advance(2.0, again)
        told(state, 3.0, host("b"), times=2)
        assert codes(state, "b") == {f"{what}-missing"}
        state = told(restarted(state, 4.0), 5.0, *map(host, PAIR), times=4)
        assert codes(state, "b") == {f"{what}-missing"}
        state.validate()


def test_nodes_of_another_type_or_of_a_written_group_are_no_equals():
    """A file may list what it likes, and 4 GPUs of one type say nothing of 8 of another."""
    said = [tray("a", 4, "GB200"), tray("b", 8, "H200")]
    assert not_ready(told(discovery(Mode.NVLINK), 0.0, *said)) == set()
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared({"box": {"fly": ["a", "b"]}})))
    assert not_ready(told(state, 1.0, host("a", gpus=4), host("b"), times=3)) == set()


def test_a_node_that_leaves_takes_its_number_with_it():
    """What two nodes of three have is no longer what most have."""
    said = [tray("a", 4), tray("b", 8), tray("c", 8)]
    state = told(discovery(Mode.NVLINK, forget_s=50.0), 0.0, *said, times=2)
    assert not_ready(state) == {"a"}
    for at_s in (25.0, 50.0, 75.0, 100.0):
        state.advance(at_s, WorkerBeat(NodeName("a")))
    assert state.known == ("a",)
    assert not_ready(state) == set()
    state.validate()


# -- links that are up and slow -------------------------------------------------------------------


def slowed(facts: NodeFacts, *links: int, why: str = "degraded: 1.562 GB/s") -> NodeFacts:
    """The facts with these links of GPU 2 up and far slower than their siblings."""
    ports = (
        replace(port, trouble=why) if port.gpu == 2 and port.port in links else port
        for port in facts.ports
    )
    return replace(facts, ports=tuple(ports))


def listed(state: Discovery) -> list[tuple[str, tuple[str, ...], str]]:
    """The conflicts: code, subjects, words."""
    return [(c.code, c.subjects, c.text) for c in state.snapshot.forest.conflicts]


def test_a_degraded_link_is_listed_with_its_node_which_stays_ready():
    """After two readings, over a restart, until three readings say that it is well."""
    state = told(pair(), 1.0, slowed(host("a"), 3))
    assert listed(state) == [], "one bad reading is none"
    told(state, 2.0, slowed(host("a"), 3))
    text = "jobs that need every link run slowly on a: GPU 2 link port 3 is degraded: 1.562 GB/s"
    assert listed(state) == [("link-degraded", ("a",), text)]
    assert not_ready(state) == set()
    state.validate()
    state = restarted(state, 3.0)
    assert listed(state) == [("link-degraded", ("a",), text)]
    told(state, 4.0, slowed(host("a"), 3, 4), times=2)
    assert listed(state) == [("link-degraded", ("a",), f"{text} (and 1 more)")]
    told(state, 5.0, *map(host, PAIR), times=3)
    assert listed(state) == []
    state.validate()


def test_a_degraded_link_of_which_nothing_is_said_is_not_well_and_one_that_goes_down_is_down():
    state = told(pair(missed=()), 1.0, slowed(host("a"), 3), times=2)
    quiet = replace(host("a"), ports=())
    told(state, 2.0, quiet, times=4)
    assert [code for code, *_ in listed(state)] == ["link-degraded"]
    down = unplugged(host("a"), 2, 6, PortState.DOWN)
    told(state, 3.0, slowed(down, 3), times=2)
    assert codes(state, "a") == {"port-down"}
    assert all("is Ready" not in text for *_, text in listed(state)), "another link is down"
    told(state, 3.0, slowed(down, 6), times=3)
    assert (listed(state), codes(state, "a")) == ([], {"port-down"})
    state.validate()


def test_the_fault_that_slows_a_link_of_the_nvl72_world_is_found_there():
    fault = parse_faults("link 3 of gpu 2 of node-3 slows down")
    assert not isinstance(fault, Refusal)
    world = preset("nvl72-18x4")
    assert world is not None
    rack = [facts_of(bundle_of(node)) for node in world.nodes]
    state = told(discovery(Mode.AUTO), 0.0, *rack, times=2)
    told(state, 1.0, *(apply(fault, facts) for facts in rack), times=2)
    assert [(code, who) for code, who, _ in listed(state)] == [("link-degraded", ("node-3",))]
    assert not_ready(state) == set()


# -- silence of a part that was bad ---------------------------------------------------------------


def sick(facts: NodeFacts) -> dict[str, NodeFacts]:
    """A bad reading of each kind of part."""
    fabrics = fabric_facts(str(facts.identity.name), "c1", gpus=8).fabrics
    member = replace(facts, fabrics=fabrics)
    return {
        "gpu": replace(facts, gpus=(replace(facts.gpus[0], healthy=False), *facts.gpus[1:])),
        "port": replace(
            facts, ports=(replace(facts.ports[0], state=PortState.DOWN), *facts.ports[1:])
        ),
        "fabric": replace(member, fabrics=(replace(fabrics[0], healthy=False), *fabrics[1:])),
    }


def silent(facts: NodeFacts) -> dict[str, NodeFacts]:
    """A reading of each kind that says nothing of the part."""
    return {
        "gpu": replace(facts, gpus=tuple(replace(gpu, healthy=None) for gpu in facts.gpus)),
        "port": replace(
            facts, ports=(replace(facts.ports[0], state=PortState.UNUSED), *facts.ports[1:])
        ),
        "fabric": replace(facts, fabrics=fabric_facts("a", "c1", gpus=8).fabrics),
    }


@pytest.mark.parametrize("part", ["gpu", "port", "fabric"])
def test_a_part_that_was_bad_and_is_told_no_more_is_not_well(part):
    """A stand-in that states no health heals nothing; a reading that states it does."""
    codes_of = {"gpu": "gpu-unhealthy", "port": "port-down", "fabric": "fabric-unhealthy"}
    state = told(pair(missed=()), 1.0, sick(host("a"))[part], times=2)
    assert codes(state, "a") == {codes_of[part]}
    told(state, 2.0, silent(host("a"))[part], times=4)
    assert codes(state, "a") == {codes_of[part]}
    well = silent(host("a"))["fabric"]
    healed = replace(well, fabrics=tuple(replace(f, healthy=True) for f in well.fabrics))
    told(state, 3.0, healed if part == "fabric" else host("a"), times=3)
    assert not_ready(state) == set()


def test_a_peer_that_was_not_connected_and_of_which_nothing_is_said_is_not_connected():
    """A stand-in names it without its state; out and in again, it is another story."""
    state = told(discovery(), 0.0, metax_facts("a", ["b"]), metax_facts("b", ["a"]))
    told(state, 1.0, metax_facts("a", ["b"], unplugged=["b"]), times=2)
    told(state, 2.0, metax_facts("a", ["b"]), times=4)
    assert codes(state, "a") == {"link-down"}
    told(state, 3.0, metax_facts("a"))
    told(state, 4.0, metax_facts("a", ["b"]), times=3)
    assert not_ready(state) == set()


def test_a_peer_that_is_told_to_be_not_connected_is_down_in_a_new_boot_too():
    """A boot ends what was said before it, not what its own first reading says."""
    state = told(discovery(), 0.0, metax_facts("a", ["b"]), metax_facts("b", ["a"]))
    told(state, 1.0, metax_facts("a", ["b"], unplugged=["b"], boot="boot-2"))
    state.advance(2.0, WorkerBeat(NodeName("a")))
    assert codes(state, "a") == {"link-down"}
    state.advance(3.0, *[WorkerBeat(NodeName("a"))] * 3)
    assert codes(state, "a") == {"link-down"}
    state.validate()


def test_a_boot_ends_what_was_said_of_a_part_before_it():
    """The driver starts anew, and so does what is known of its cards."""
    state = told(pair(), 1.0, sick(host("a"))["gpu"], times=2)
    booted = silent(host("a", boot="boot-2"))["gpu"]
    assert not_ready(told(state, 2.0, booted, times=3)) == set()


parts = st.fixed_dictionaries(
    {
        "gpus": st.sets(st.integers(0, 7), max_size=8),
        "ports": st.sets(st.integers(0, 63), max_size=64),
        "nics": st.sets(st.integers(0, 3), max_size=4),
    }
)


@settings(max_examples=60)
@given(parts, st.sampled_from(["same boot", "another boot", "master restarts"]))
def test_no_set_of_facts_that_vanishes_leaves_a_node_ready(left, when):
    """Whatever is no longer listed, whenever it goes: Ready is who shows all that it showed."""
    whole = host("a", boot="boot-2" if when == "another boot" else "boot-1")
    cut = replace(
        whole,
        gpus=tuple(gpu for gpu in whole.gpus if gpu.index in left["gpus"]),
        ports=tuple(port for at, port in enumerate(whole.ports) if at in left["ports"]),
        nics=tuple(nic for at, nic in enumerate(whole.nics) if at in left["nics"]),
    )
    state = pair()
    if when == "master restarts":
        state = restarted(state, 1.0)
        told(state, 1.5, host("b"))
    told(state, 2.0, cut, times=2)
    wired = {port for port in whole.ports if port.state is PortState.UP}
    is_whole = cut.gpus == whole.gpus and cut.nics == whole.nics and wired <= set(cut.ports)
    assert ("a" in not_ready(state)) == (not is_whole)
    state.advance(3.0, Ticked())
    state.validate()


def test_every_reason_of_a_node_is_documented_and_has_a_next_step():
    """The table of docs/master.md, and the doctor's steps."""
    root = Path(__file__).parents[2]
    given = set()
    for folder in ("node", "tree"):
        for source in (root / "topo/discovery" / folder).glob("*.py"):
            given |= set(re.findall(r'Reason\(\s*"([a-z-]+)"', source.read_text(encoding="utf-8")))
    of_groups = {"incomplete", "empty", "oversize", "child-not-ready"}
    table = (root / "docs/master.md").read_text(encoding="utf-8")
    table = table.partition("## Why a node is NotReady")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE))
    assert given - of_groups <= documented
    assert documented <= STEPS.keys()
    assert {"fabric-lost", "gpus-fewer", "ports-missing", "nics-missing"} <= given
