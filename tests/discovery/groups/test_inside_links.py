"""Links inside a node: cut off, degraded, dead, and boards that are built without."""

from dataclasses import replace

import pytest

from tests.builders import (
    discovery,
    not_ready,
    why,
)
from tests.discovery.hosts import (
    PAIR,
    PROBES,
    codes,
    host,
    islands,
    matrix,
    pair,
    restarted,
    told,
    unplugged,
)
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.errors import Refusal
from topo.model.machine import (
    LinkKind,
    LinkMatrix,
    NodeFacts,
    PortState,
)
from topo.recording.possible import facts_of
from topo.recording.timeline import apply, parse_faults
from topo.sim.bundles import bundle_of
from topo.sim.worlds.presets import preset


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
