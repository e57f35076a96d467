"""From parsed probes to a node's facts: precedence, identity of GPUs, and what joins by what."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.facts import parse
from topo.facts.assemble import assemble
from topo.model.errors import Refusal
from topo.model.ids import Bdf, BootId, GpuUuid, NodeName, ServerUuid
from topo.model.machine import (
    MAX_GPUS,
    Gpu,
    GpuFabric,
    Link,
    LinkKind,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NodeFacts,
    NodeIdentity,
    Peer,
    PortState,
    ProbeHealth,
    ProbeState,
    ServerPeers,
)
from topo.model.observation import ParsedProbe, ProbeFact

WHO = NodeIdentity(NodeName("node-1"), BootId("b"))


def facts(*probes: tuple[str, list[ProbeFact]]) -> NodeFacts:
    parsed = [(name, ParsedProbe(name, tuple(stated))) for name, stated in probes]
    return assemble(WHO, parsed, ())


def bdf(number: int) -> Bdf:
    return Bdf(f"0000:{number:02x}:00.0")


def uuid(number: int) -> GpuUuid:
    return GpuUuid(f"GPU-{number:08}")


def test_what_failed_adds_nothing_and_health_is_passed_on():
    """A refusal is told by its probe's health."""
    health = (ProbeHealth("mx-smi-topo", ProbeState.FAILED, "cut"),)
    found = assemble(WHO, [("a", Refusal("a", "b", "c")), ("b", None)], health)
    assert found == NodeFacts(WHO, probes=health)


def test_higher_sources_win_field_by_field():
    """Library, command, exporter, sysfs; what one leaves out the next one fills."""
    found = facts(
        ("sysfs-pci", [(Gpu(0, bdf=bdf(1), numa=3, model="d"),)]),
        ("mx-exporter", [(Gpu(0, uuid(0), bdf(1), "c", 7, healthy=False, trouble="t"),)]),
        ("mx-smi-table", [(Gpu(0, bdf=bdf(1), model="b"),)]),
        ("mxsml", [(Gpu(0, bdf=bdf(1)),)]),
    )
    assert found.gpus == (Gpu(0, uuid(0), bdf(1), "b", 7, 3, healthy=False, trouble="t"),)


def test_the_order_of_the_probes_of_different_ranks_does_not_matter():
    """The ranks decide."""
    probes: list[tuple[str, list[ProbeFact]]] = [
        ("mxsml", [(Gpu(0, uuid(0), bdf(1), "a"),)]),
        ("mx-smi-list", [(Gpu(0, uuid(0), bdf(1), "b", healthy=True),)]),
        ("mx-exporter", [(Gpu(0, uuid(0), model="c", memory_bytes=1),)]),
        ("sysfs-pci", [(Gpu(0, bdf=bdf(1), numa=1),)]),
    ]
    assert len({facts(*order) for order in permutations(probes)}) == 1


def test_gpus_join_by_address_then_uuid_then_index():
    """The exporter knows no addresses, the table no UUIDs."""
    found = facts(
        ("mxsml", [(Gpu(0, uuid(0), bdf(1)), Gpu(1, uuid(1), bdf(2)), Gpu(2))]),
        ("mx-smi-table", [(Gpu(7, bdf=bdf(2), model="by address"),)]),
        ("mx-exporter", [(Gpu(9, uuid(0), model="by uuid"), Gpu(2, model="by index"))]),
    )
    assert [gpu.model for gpu in found.gpus] == ["by uuid", "by address", "by index"]


def test_a_broken_card_that_the_library_leaves_out_is_kept():
    """`mx-smi -L` counts it, so the numbers behind it differ; nothing slips."""
    library = tuple(Gpu(i, uuid(n), bdf(n)) for i, n in enumerate((0, 2, 3)))
    listed = (
        Gpu(0, uuid(0), bdf(0), healthy=True),
        Gpu(1, healthy=False, trouble="Not Available"),
        Gpu(2, uuid(2), bdf(2), healthy=True),
        Gpu(3, uuid(3), bdf(3), healthy=True),
    )
    found = facts(("mxsml", [library]), ("mx-smi-list", [listed]))
    assert [(g.index, g.bdf, g.healthy) for g in found.gpus] == [
        (0, bdf(0), True),
        (1, bdf(2), True),
        (2, bdf(3), True),
        (3, None, False),
    ]


def test_equal_indexes_of_different_cards_do_not_join():
    """Two addresses are two cards."""
    found = facts(("mxsml", [(Gpu(0, bdf=bdf(1)),)]), ("mx-smi-table", [(Gpu(0, bdf=bdf(2)),)]))
    assert [(g.index, g.bdf) for g in found.gpus] == [(0, bdf(1)), (1, bdf(2))]


def test_a_uuid_that_several_gpus_claim_joins_nobody():
    """Scrubbed recordings have one UUID for all."""
    found = facts(
        ("nvml", [(Gpu(0, uuid(0)), Gpu(1, uuid(0)))]),
        ("nvlink-status", [(Gpu(0, uuid(0), model="m"), Gpu(1, uuid(0), model="m"))]),
    )
    assert [(g.index, g.model) for g in found.gpus] == [(0, "m"), (1, "m")]


def test_cards_on_the_bus_alone_are_gpus_only_if_no_driver_lists_any():
    """They may be given to virtual machines."""
    bus: tuple[str, list[ProbeFact]] = ("sysfs-pci", [(Gpu(0, bdf=bdf(1)), Gpu(1, bdf=bdf(2)))])
    assert len(facts(bus).gpus) == 2
    assert len(facts(bus, ("mxsml", [(Gpu(0, bdf=bdf(2)),)])).gpus) == 1


def test_more_gpus_than_a_host_can_have_are_cut():
    """Two sources that agree on nothing."""
    one = tuple(Gpu(i, bdf=bdf(i)) for i in range(100))
    other = tuple(Gpu(i, bdf=bdf(100 + i)) for i in range(100))
    assert len(facts(("mxsml", [one]), ("mx-smi-table", [other])).gpus) == MAX_GPUS


def matrix(*codes: str, names: tuple[str, ...] = ("GPU0", "GPU1"), **more: Any) -> LinkMatrix:
    """A matrix from rows of codes separated by spaces; columns beyond the GPUs are NICs."""
    kinds = {kind.value: kind for kind in LinkKind}
    links = tuple(
        tuple(Link(kinds.get(c, LinkKind.UNKNOWN), c) for c in row.split()) for row in codes
    )
    nics = tuple(f"mlx5_{i}" for i in range(len(links[0]) - len(names)))
    return replace(LinkMatrix(names, nics, links), **more)


def test_a_matrix_is_completed_by_lower_ones():
    """NUMA nodes, CPU lists and NICs of the command join the library's links."""
    found = facts(
        ("mxsml", [matrix("X MX", "MX X", numa=(None, 5), cpus=("", ""))]),
        (
            "mx-smi-topo",
            [matrix("X SYS PIX", "SYS X ?", "PIX ? X", numa=(0, 1), cpus=("0-7", "8-15"))],
        ),
    ).matrix
    assert found == matrix(
        "X MX PIX", "MX X ?", "PIX ? X", numa=(0, 5), cpus=("0-7", "8-15"), unknown_codes=2
    )


def test_a_matrix_follows_its_gpus_to_their_places():
    """Sysfs counts by address, the library in its own order."""
    found = facts(
        ("nvml", [(Gpu(0, bdf=bdf(9)), Gpu(1, bdf=bdf(8))), matrix("X PIX", "PIX X")]),
        (
            "sysfs-pci",
            [
                (Gpu(0, bdf=bdf(8), numa=0), Gpu(1, bdf=bdf(9), numa=1)),
                matrix("X SYS", "SYS X", numa=(0, 1), cpus=("0-7", "8-15")),
            ],
        ),
    )
    assert found.matrix == matrix("X PIX", "PIX X", numa=(1, 0), cpus=("8-15", "0-7"))
    assert [gpu.numa for gpu in found.gpus] == [1, 0]


def test_matrices_over_other_gpus_do_not_mix():
    """The higher one stands alone."""
    high = matrix("X MX", "MX X")
    low = matrix("X SYS", "SYS X", names=("GPU0", "GPU2"), numa=(0, 1))
    assert facts(("mxsml", [high]), ("mx-smi-topo", [low])).matrix == high


def test_a_card_that_only_the_bus_knows_is_no_row_of_another():
    """Its row keeps a name that joins with nothing."""
    found = facts(
        ("mxsml", [(Gpu(0, bdf=bdf(2)),)]),
        ("sysfs-pci", [(Gpu(0, bdf=bdf(1)), Gpu(1, bdf=bdf(2))), matrix("X SYS", "SYS X")]),
    )
    assert found.matrix is not None
    assert found.matrix.gpus == ("unlisted GPU0", "GPU0")


def test_chips_that_are_numbered_otherwise_keep_their_names():
    """Phy-ID is no GPU index."""
    found = facts(("npu-smi-topo", [matrix("X SIO", "SIO X", names=("Phy-ID2", "Phy-ID3"))]))
    assert found.matrix is not None
    assert found.matrix.gpus == ("Phy-ID2", "Phy-ID3")


def test_gpus_take_their_numa_node_from_the_matrix():
    """`-L` has none."""
    found = facts(
        ("mx-smi-list", [(Gpu(0), Gpu(1, numa=7), Gpu(2))]),
        ("mx-smi-topo", [matrix("X MX", "MX X", numa=(3, 4))]),
    )
    assert [gpu.numa for gpu in found.gpus] == [3, 7, None]


def test_ports_are_filled_and_their_state_is_not_overridden():
    """The library's state stands, the exporter's speed is added."""
    found = facts(
        ("mxsml", [(LinkPort(0, 1, PortState.DOWN, trouble="t"),)]),
        ("mx-exporter", [(LinkPort(0, 1, PortState.UP, 32.0, 16), LinkPort(0, 2, PortState.UP))]),
    )
    assert found.ports == (
        LinkPort(0, 1, PortState.DOWN, 32.0, 16, trouble="t"),
        LinkPort(0, 2, PortState.UP),
    )


def test_a_degraded_port_is_told_by_whoever_sees_it():
    """The library calls it up, and the command that names its speed adds the trouble."""
    found = facts(
        ("nvml", [(LinkPort(0, 1, PortState.UP, remote="r"), LinkPort(0, 2, PortState.UP))]),
        (
            "nvlink-status",
            [
                (
                    LinkPort(0, 1, PortState.UP, trouble="degraded: 1 GB/s"),
                    LinkPort(0, 2, PortState.DOWN, trouble="inactive"),
                )
            ],
        ),
    )
    assert found.ports == (
        LinkPort(0, 1, PortState.UP, remote="r", trouble="degraded: 1 GB/s"),
        LinkPort(0, 2, PortState.UP),
    )


STATUS = """
GPU 0: NVIDIA H100 PCIe (UUID: GPU-00000000)
 Link 0: 26.562 GB/s
 Link 6: 26.562 GB/s
GPU 1: NVIDIA H100 PCIe (UUID: GPU-00000001)
 Link 0: 26.562 GB/s
 Link 6: 26.562 GB/s
"""
REMOTE = """
GPU 0: NVIDIA H100 PCIe (UUID: GPU-00000000)
 Link 0: Remote Device 00000000:01:00.0: Link 0
 Link 1: Remote Device 00000000:01:00.0: Link 6
GPU 1: NVIDIA H100 PCIe (UUID: GPU-00000001)
 Link 0: Remote Device 00000000:00:00.0: Link 0
 Link 1: Remote Device 00000000:99:00.0: Link 6
"""


def test_remote_ends_join_by_the_far_links_number():
    """`nvlink -R` renumbers its own links: its GPU 0 link 1 says what is behind link 6 of GPU 1."""
    gpus: list[ProbeFact] = [tuple(Gpu(i, uuid(i), bdf(i)) for i in (0, 1))]
    texts = [("nvlink-status", STATUS), ("nvlink-remote", REMOTE)]
    parsed = [("nvidia-smi-xml", ParsedProbe("nvidia-smi-xml", tuple(gpus)))]
    found = assemble(WHO, [*parsed, *((name, parse(text, name)) for name, text in texts)], ())
    assert {(p.gpu, p.port): p.remote for p in found.ports} == {
        (0, 0): bdf(1),
        (0, 6): None,
        (1, 0): bdf(0),
        (1, 6): bdf(0),
    }


LOCAL, ONE, TWO = ServerUuid("l"), ServerUuid("u1"), ServerUuid("u2")


@pytest.mark.parametrize(("local", "connected"), [(LOCAL, True), (ServerUuid("m"), None)])
def test_who_the_peers_are_is_the_librarys_word_alone(local, connected):
    """A scrape may be older than a pulled cable; it only adds what it knows of the connection."""
    found = facts(
        ("mx-exporter", [ServerPeers(local, (Peer(1, ONE, connected=True), Peer(2, TWO)))]),
        ("mxsml", [ServerPeers(LOCAL, (Peer(1, ONE),))]),
    )
    assert found.peers == ServerPeers(LOCAL, (Peer(1, ONE, connected),))


def test_a_known_connection_is_not_overridden():
    """Not even by a better-looking one."""
    found = facts(
        ("mxsml", [ServerPeers(LOCAL, (Peer(1, ONE, connected=False),))]),
        ("mx-exporter", [ServerPeers(LOCAL, (Peer(1, ONE, connected=True),))]),
    )
    assert found.peers == ServerPeers(LOCAL, (Peer(1, ONE, connected=False),))


def test_fabrics_are_filled():
    """Old drivers' NVML has no health, nvidia-smi's words do."""
    found = facts(
        ("nvml", [(GpuFabric(1, "Completed", "Success", "c", 2),)]),
        (
            "nvidia-smi-xml",
            [
                (
                    GpuFabric(0, "N/A"),
                    GpuFabric(1, "N/A", healthy=False, trouble="t", rack="r", tray="4"),
                )
            ],
        ),
    )
    assert found.fabrics == (
        GpuFabric(0, "N/A"),
        GpuFabric(1, "Completed", "Success", "c", 2, False, "t", "r", "4"),
    )


def test_nics_come_in_natural_order():
    """mlx5_2 before mlx5_10, the first source's word."""
    nics = tuple(NetworkPort(f"mlx5_{i}", 1, up=True) for i in (10, 2))
    again = (NetworkPort("mlx5_2", 1, up=False),)
    found = facts(("sysfs-infiniband", [nics]), ("sysfs-infiniband", [again]))
    assert [(n.hca, n.up) for n in found.nics] == [("mlx5_2", True), ("mlx5_10", True)]


gpus = st.builds(
    Gpu,
    st.integers(0, MAX_GPUS - 1),
    st.none() | st.integers(0, 5).map(uuid),
    st.none() | st.integers(0, 5).map(bdf),
    healthy=st.none() | st.booleans(),
)
lists = st.lists(gpus, max_size=6, unique_by=lambda gpu: gpu.index).map(tuple)


@given(lists, lists, lists)
def test_whatever_sources_list_indexes_stay_unique_and_the_first_list_stands(one, two, three):
    """No GPU of the most trusted source is lost, moved or contradicted."""
    found = facts(("mxsml", [one]), ("mx-smi-list", [two]), ("mx-exporter", [three])).gpus
    indexes = [gpu.index for gpu in found]
    assert len(set(indexes)) == len(indexes)
    by_index = {gpu.index: gpu for gpu in found}
    for gpu in one:
        kept = by_index[gpu.index]
        assert kept.bdf == (gpu.bdf or kept.bdf)
        assert kept.uuid == (gpu.uuid or kept.uuid)
        assert gpu.healthy is None or kept.healthy == gpu.healthy
