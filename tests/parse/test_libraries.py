"""The JSON of our library probes: raw numbers in, the agreed words out."""

import json
from typing import Any

import pytest

from tests.parse.answers import codes_of, items, matrix_of, refused, understood
from topo.model.ids import ServerUuid
from topo.model.machine import Gpu, GpuFabric, LinkKind, LinkPort, Peer, PortState, ServerPeers

LOCAL = ServerUuid("f7dfbb76-0487-570d-b564-cbf2b491860f")
REMOTE = ServerUuid("f3c2ca30-b744-531b-86b5-8b89b4971ff3")


def mx_device(index: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"GPU-4ed4fc28-6a71-5902-9af3-{index:012}",
        "bdf": f"0000:{index:02X}:00.0",
        "name": "MXC500",
        "state": 1,
        "unavailable_reason": "",
        "numa_affinity": 0,
        "memory_bytes": 2**36,
        "links": [],
        **more,
    }


def mxsml(*devices: dict[str, Any], **more: Any) -> str:
    return json.dumps({"format": "mxsml", "version": "2.3.1", "devices": devices, **more})


def nv_device(index: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": f"GPU-1182579c-5a69-8e8e-cb7a-{index:012}",
        "bdf": f"00000000:{index:02X}:00.0",
        "name": "NVIDIA B200",
        "memory_bytes": 2**37,
        "numa": -1,
        "fabric": None,
        "platform": None,
        "links": [],
        **more,
    }


def nvml(*devices: dict[str, Any], **more: Any) -> str:
    return json.dumps({"format": "nvml", "driver": "570", "devices": devices, **more})


def test_a_metax_device_is_read_whole():
    """Identity, memory, NUMA node, health."""
    found = understood(mxsml(mx_device(3)))
    assert found.format == "mxsml"
    (gpu,) = items(found, Gpu)
    assert (gpu.index, gpu.bdf, gpu.model, gpu.numa) == (3, "0000:03:00.0", "MXC500", 0)
    assert (gpu.memory_bytes, gpu.healthy) == (2**36, True)


@pytest.mark.parametrize(
    ("state", "reason", "healthy", "trouble"),
    [
        (1, "", True, ""),
        (0, "driver EID 1", False, "unavailable: driver EID 1"),
        (0, "", False, "unavailable: state 0"),
        (None, None, None, ""),
    ],
)
def test_availability_of_a_metax_device(state, reason, healthy, trouble):
    """A state that could not be asked says nothing."""
    (gpu,) = items(understood(mxsml(mx_device(state=state, unavailable_reason=reason))), Gpu)
    assert (gpu.healthy, gpu.trouble) == (healthy, trouble)


@pytest.mark.parametrize(
    ("version", "level", "kind"),
    [
        ("2.3.1", 0, LinkKind.PIX),
        ("2.3.1", 1, LinkKind.PIX),
        ("2.3.1", 2, LinkKind.PXB),
        ("2.3.1", 3, LinkKind.PHB),
        ("2.3.1", 4, LinkKind.NUMA_NODE),
        ("2.3.1", 5, LinkKind.METAXLINK),
        ("2.3.1", 6, LinkKind.SYSTEM),
        ("2.3.1", 7, LinkKind.ETHERNET),
        ("2.4", 7, LinkKind.ETHERNET),
        ("2.3.1", 8, LinkKind.NONE),
        ("2.3.0", 7, LinkKind.NONE),
        ("", 7, LinkKind.NONE),
        ("two", 7, LinkKind.NONE),
        ("2.3.0", 8, LinkKind.UNKNOWN),
        ("2.3.1", 9, LinkKind.UNKNOWN),
        ("2.3.1", -1, LinkKind.NONE),
        ("2.3.1", None, LinkKind.NONE),
    ],
)
def test_metax_levels_and_the_trap_in_level_seven(version, level, kind):
    """7 was UNDEFINED before it became ETH, and 8 took its place."""
    found = understood(
        mxsml(mx_device(0), mx_device(1), version=version, topology=[[0, level], [level, 0]])
    )
    matrix = matrix_of(found)
    assert matrix.links[0][0].kind is LinkKind.SELF
    assert matrix.links[0][1].kind is kind
    assert matrix.unknown_codes == 2 * (kind is LinkKind.UNKNOWN)


@pytest.mark.parametrize(
    ("speed", "width", "state", "expected"),
    [
        (32.0, 16, 1, PortState.UP),
        (2.5, 16, 1, PortState.UP),
        (32.0, 16, None, PortState.UP),
        (16.0, 16, 1, PortState.DOWN),
        (0.0, 0, 1, PortState.DOWN),
        (0.0, 0, 2, PortState.DOWN),
        (0.0, 0, 3, PortState.DOWN),
        (0.0, 0, 4, PortState.UNUSED),
        (0.0, 0, 5, PortState.UNUSED),
        (0.0, 0, 0, PortState.UNUSED),
        (32.0, 16, 0, PortState.DOWN),
        (None, None, None, PortState.UNUSED),
    ],
)
def test_metax_port_states(speed, width, state, expected):
    """What the library calls down is down, plugged or not; what is used by nobody is not."""
    link = {"link": 6, "speed": speed, "width": width, "port_state": state, "remote_bdf": None}
    (port,) = items(understood(mxsml(mx_device(links=[link]))), LinkPort)
    assert (port.port, port.state) == (6, expected)
    assert bool(port.trouble) == (expected is PortState.DOWN)


def test_metax_peers_keep_their_slots():
    """An empty first slot does not move the second."""
    servers = {"local": LOCAL.upper(), "remotes": ["", REMOTE]}
    assert items(understood(mxsml(mx_device(), servers=servers)), ServerPeers) == [
        ServerPeers(LOCAL, (Peer(2, REMOTE),))
    ]


@pytest.mark.parametrize("servers", [None, {"local": "", "remotes": [REMOTE]}])
def test_hosts_without_inter_node_links_have_no_peers(servers):
    """OperationNotSupport is an answer."""
    assert items(understood(mxsml(mx_device(), servers=servers)), ServerPeers) == []


def test_failed_calls_are_told():
    """One line each, with the device where there is one."""
    errors = [{"call": "mxSmlGetMemoryInfo", "device": 3, "code": 4}, {"call": "x", "code": 8}]
    found = understood(mxsml(mx_device(), errors=errors))
    assert found.warnings == ("mxSmlGetMemoryInfo of device 3: code 4", "x: code 8")


@pytest.mark.parametrize("make", [mxsml, nvml])
def test_a_topology_that_is_not_square_is_left_out_and_told(make):
    """The rest of the reading stands."""
    device = mx_device() if make is mxsml else nv_device()
    found = understood(make(device, topology=[[0, 1]]))
    assert items(found, Gpu)
    assert "left out" in found.warnings[0]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"format": "mxsml"}', "devices"),
        (mxsml(), "devices"),
        (mxsml(mx_device(), mx_device()), "devices"),
        (mxsml(mx_device(index=500)), "devices.0.index"),
        (mxsml(mx_device(memory_bytes="much")), "devices.0.memory_bytes"),
        ('{"format": "mxsml", "devices": [', "the whole text"),
        ('{"format": "nvml", "devices": {}}', "devices"),
        (nvml(), "devices"),
        (nvml(nv_device(), nv_device()), "devices"),
    ],
)
def test_another_shape_is_refused_with_its_place(text, where):
    """The path of the first field that does not fit."""
    assert refused(text).where == where


def fabric(**more: Any) -> dict[str, Any]:
    return {
        "version": 3,
        "state": 3,
        "status": 0,
        "cluster_uuid": "dc6e40c4-d722-4357-9ba6-5291dd461278",
        "clique": 2,
        "health_mask": 0xAA,
        "summary": 1,
        **more,
    }


def nv_fabric(**more: Any) -> GpuFabric:
    (found,) = items(understood(nvml(nv_device(fabric=fabric(**more)))), GpuFabric)
    return found


@pytest.mark.parametrize(
    ("more", "state", "status"),
    [
        ({}, "Completed", "Success"),
        ({"status": 23}, "Completed", "Insufficient Resources"),
        ({"status": 77}, "Completed", "code 77"),
        ({"state": 0}, "N/A", "Success"),
        ({"state": 2}, "In Progress", "Success"),
        ({"state": 9}, "state 9", "Success"),
    ],
)
def test_fabric_numbers_become_nvidia_smis_words(more, state, status):
    """So that both sources state one thing."""
    found = nv_fabric(**more)
    assert (found.state, found.status) == (state, status)
    assert (found.member_of is not None) == (state == "Completed" and status == "Success")


def test_a_cluster_of_zeros_is_none():
    """A single host's fabric is no multi-node domain."""
    assert nv_fabric(cluster_uuid="00000000-0000-0000-0000-000000000000").cluster_uuid is None


@pytest.mark.parametrize(
    ("mask", "summary", "healthy", "trouble"),
    [
        (0xAA, 1, True, ""),
        (0xAA, 0, True, ""),
        (0xAA, None, True, ""),
        (0, 0, None, ""),
        (None, None, None, ""),
        (0xA9, 0, False, "degraded bandwidth"),
        (0x9A, 0, False, "route unhealthy"),
        (0x5A, 2, False, "Unhealthy; route unhealthy; access timeout recovery"),
        (0xAA, 3, False, "Limited Capacity"),
        (0x5AA, 0, False, "insufficient NVLinks"),
        (0x1AA, 0, True, ""),
    ],
)
def test_the_health_mask_reads_two_bits_at_a_time(mask, summary, healthy, trouble):
    """0xaa is FALSE four times: healthy, and not half of the paths down."""
    found = nv_fabric(health_mask=mask, summary=summary)
    assert (found.healthy, found.trouble) == (healthy, trouble)


def test_the_platform_gives_rack_and_tray():
    """Numbers and texts alike; what is not there is None."""
    place = {"chassis_serial": "1820000000001", "tray": 4}
    (found,) = items(understood(nvml(nv_device(fabric=fabric(), platform=place))), GpuFabric)
    assert (found.rack, found.tray) == ("1820000000001", "4")
    assert (nv_fabric().rack, nv_fabric().tray) == (None, None)


def link(number: int, state: int = 1, remote: str | None = None, kind: int | None = 2) -> Any:
    return {"link": number, "state": state, "remote_bdf": remote, "remote_type": kind}


SYS = [[0, 50, 50], [50, 0, 50], [50, 50, 0]]


def test_the_node_of_a_gpus_own_memory_is_not_the_node_of_its_cpus():
    """NVML numbers GB200's HBM as nodes 2, 10, …; the affinity comes from others."""
    (gpu,) = items(understood(nvml(nv_device(numa=10))), Gpu)
    assert gpu.numa is None


def test_direct_nvlinks_count_per_pair():
    """Two bridges between 0 and 1, none to 2: NV2, and the PCI ancestor elsewhere."""
    here, there = "00000000:00:00.0", "00000000:01:00.0"
    found = understood(
        nvml(
            nv_device(0, links=[link(0, 1, there, 0), link(1, 1, there, 0), link(2, 0)]),
            nv_device(1, links=[link(0, 1, here, 0), link(1, 1, here, 0)]),
            nv_device(2),
            topology=SYS,
        )
    )
    assert codes_of(matrix_of(found)) == (
        ("X", "NV2", "SYS"),
        ("NV2", "X", "SYS"),
        ("SYS", "SYS", "X"),
    )
    assert {p.remote for p in items(found, LinkPort) if p.gpu == 1} == {"0000:00:00.0"}


def test_nvswitches_join_all_with_the_links_of_the_lesser():
    """A GPU that lost links reaches everyone with what it has left, one without reaches nobody."""
    found = understood(
        nvml(
            nv_device(0, links=[link(i) for i in range(4)]),
            nv_device(1, links=[link(i) for i in range(3)] + [link(3, 0)]),
            nv_device(2, links=[link(i, 0) for i in range(4)]),
            topology=SYS,
        )
    )
    assert codes_of(matrix_of(found))[0] == ("X", "NV3", "SYS")
    down = [p for p in items(found, LinkPort) if p.state is PortState.DOWN]
    assert [(p.gpu, p.port) for p in down] == [(1, 3), (2, 0), (2, 1), (2, 2), (2, 3)]


@pytest.mark.parametrize(
    ("p2p", "code"),
    [(None, "NV1"), ([[0, 0], [0, 0]], "NV1"), ([[0, 5], [5, 0]], "PIX"), ([[0]], "NV1")],
)
def test_a_no_of_peer_to_peer_unjoins_switched_gpus(p2p, code):
    """Two GPUs in two partitions of one switch do not reach each other."""
    devices = [nv_device(i, links=[link(0)]) for i in (0, 1)]
    found = understood(nvml(*devices, topology=[[0, 10], [10, 0]], p2p=p2p))
    assert matrix_of(found).links[0][1].code == code


def test_links_to_a_gpu_elsewhere_join_nobody_here():
    """A remote GPU that is not on this host is none of its pairs."""
    devices = [nv_device(i, links=[link(0, 1, "0000:99:00.0", 0)]) for i in (0, 1)]
    assert (
        matrix_of(understood(nvml(*devices, topology=[[0, 40], [40, 0]]))).links[0][1].code
        == "NODE"
    )


@pytest.mark.parametrize(("level", "code"), [(-1, "NA"), (None, "NA"), (0, "INTERNAL"), (60, "60")])
def test_odd_nvml_levels(level, code):
    """A failed call, one board, a number of the future."""
    devices = [nv_device(i) for i in (0, 1)]
    found = matrix_of(understood(nvml(*devices, topology=[[0, level], [level, 0]])))
    assert found.links[0][1].code == code
    assert found.unknown_codes == 2 * (code == "60")


def test_a_device_without_a_handle_is_an_unhealthy_gpu():
    """A GPU off the bus must not vanish from the list."""
    errors = [{"call": "nvmlDeviceGetHandleByIndex", "device": 1, "code": 15}]
    found = understood(nvml(nv_device(0), topology=[[0, -1], [-1, 0]], errors=errors))
    lost = items(found, Gpu)[1]
    assert (lost.index, lost.healthy, lost.trouble) == (1, False, "no handle: GPU is lost")
    assert matrix_of(found).gpus == ("GPU0", "GPU1")
