"""sysfs as lines `path: content`: InfiniBand ports, and GPUs with their distance on PCI."""

import pytest

from tests.parse.answers import codes_of, items, matrix_of, refused, understood
from topo.facts import recognise
from topo.model.ids import Bdf
from topo.model.machine import Gpu, NetworkPort, PortErrors

HCA = "/sys/class/infiniband/mlx5_0"


def hca(state: str = "4: ACTIVE", phys: str = "5: LinkUp", *more: str) -> str:
    return "\n".join(
        [
            f"{HCA}/ports/1/state: {state}",
            f"{HCA}/ports/1/phys_state: {phys}",
            f"{HCA}/ports/1/rate: 400 Gb/sec (4X NDR)",
            f"{HCA}/ports/1/link_layer: InfiniBand",
            f"{HCA}/ports/1/counters/link_downed: 255",
            f"{HCA}/node_guid: B83F:D203:00C1:A2B4",
            f"{HCA}/device/numa_node: 1",
            *more,
        ]
    )


def port(text: str) -> NetworkPort:
    (found,) = items(understood(text, "sysfs-infiniband"), NetworkPort)
    return found


def test_an_infiniband_port_is_read_whole():
    """State words without their numbers, rate in Gb/s, GUID in lower case."""
    path = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0"
    assert port(hca("4: ACTIVE", "5: LinkUp", f"{HCA}/device/realpath: {path}")) == NetworkPort(
        hca="mlx5_0",
        port=1,
        up=True,
        state="ACTIVE",
        phys_state="LinkUp",
        rate_gbps=400.0,
        link_layer="InfiniBand",
        node_guid="b83f:d203:00c1:a2b4",
        bdf=Bdf("0000:16:00.0"),
        numa=1,
    )


@pytest.mark.parametrize(
    ("state", "phys", "up"),
    [
        ("4: ACTIVE", "5: LinkUp", True),
        ("ACTIVE", "LinkUp", True),
        ("1: DOWN", "2: Polling", False),
        ("1: DOWN", "3: Disabled", False),
        ("4: ACTIVE", "4: LinkErrorRecovery", False),
        ("2: INIT", "5: LinkUp", False),
    ],
)
def test_up_means_active_and_linked(state, phys, up):
    """Both; polling ports have no cable or no peer."""
    assert port(hca(state, phys)).up is up


@pytest.mark.parametrize(
    ("carriers", "physical"),
    [("00", "NoCarrier"), ("0", "Disabled"), ("", "Disabled"), ("01", "Disabled")],
    ids=["no carrier", "one is off", "both are off", "one has a carrier"],
)
def test_an_ethernet_port_without_a_carrier_is_told_from_one_that_is_switched_off(
    carriers: str, physical: str
) -> None:
    """Drivers call both disabled; a network device that is off has no carrier to be read."""
    words = [f"{HCA}/device/net/eth{at}/carrier: {each}" for at, each in enumerate(carriers)]
    text = hca("1: DOWN", "3: Disabled", f"{HCA}/device/net: eth0 eth1", *words)
    assert port(text.replace("link_layer: InfiniBand", "link_layer: Ethernet")).phys_state == (
        physical
    )
    assert port(text).phys_state == "Disabled", "InfiniBand says itself that nothing is there"


def test_the_address_may_come_from_the_events_file():
    """Uevent names the slot."""
    assert (
        port(hca("4: ACTIVE", "5: LinkUp", f"{HCA}/device/uevent: PCI_SLOT_NAME=0000:18:00.0")).bdf
        == "0000:18:00.0"
    )


def test_a_listing_by_grep_has_no_space_after_the_path():
    """`grep -r . /sys/class/infiniband` prints `path:content`."""
    text = hca().replace(": 4: ACTIVE", ":4: ACTIVE").replace(": 5: LinkUp", ":5: LinkUp")
    assert port(text).up


def test_a_port_without_a_state_is_left_out_and_told():
    """Nothing is guessed of it."""
    found = understood(hca() + "\n/sys/class/infiniband/mlx5_1/ports/2/rate: 10 Gb/sec (4X)\n")
    assert len(items(found, NetworkPort)) == 1
    assert found.warnings == ("mlx5_1 port 2 has no state and was left out",)


def test_an_adapter_without_a_port_is_told():
    """Its port's lines are lost: no such adapter exists."""
    found = understood(hca() + "\n/sys/class/infiniband/mlx5_1/node_guid: b83f:d203:0000:0001\n")
    assert len(items(found, NetworkPort)) == 1
    assert found.warnings == ("mlx5_1 has no port and was left out",)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{HCA}/fw_ver: 28.41.1000", "no port"),
        (
            "\n".join(f"/sys/class/infiniband/m{i}/ports/1/state: 4: ACTIVE" for i in range(257)),
            "257 InfiniBand ports are more",
        ),
    ],
)
def test_trees_without_usable_ports_are_refused(text, what):
    """None, or more than a host has."""
    assert what in refused(text).what


@pytest.mark.parametrize("line", ["", "pdsh@node-0: node-3: ssh exited with exit code 1\n"])
def test_a_path_behind_the_name_of_a_host_is_no_line_of_this_one(line):
    """One line without a prefix keeps the prefixes of all others on."""
    one, other = hca(), hca("1: DOWN", "3: Disabled")
    text = "".join(f"node-1: {a}\nnode-2: {b}\n" for a, b in zip(
        one.splitlines(), other.splitlines(), strict=True
    ))  # fmt: skip
    assert refused(text + line).fix
    assert refused(text + line, "sysfs-infiniband").fix


@pytest.mark.parametrize("roots", [("node-1", "node-2"), ("node-1:", "node-2:"), ("", "/host")])
def test_the_trees_of_two_hosts_are_not_one(roots):
    """`grep -r . node-*/sys/class/infiniband`, and the same of the PCI bus."""
    for text in (hca(), device("0000:22:00.0")):
        both = "\n".join(text.replace("/sys/", f"{root}/sys/") for root in roots)
        assert "2 trees" in refused(both).what
        one = text.replace("/sys/", f"{roots[1]}/sys/")
        assert understood(one).facts == understood(text).facts


def device(
    bdf: str, path: str = "", *, vendor: str = "0x10de", kind: str = "0x030200", numa: int = 0
) -> str:
    root = f"/sys/bus/pci/devices/{bdf}"
    lines = [f"{root}/vendor: {vendor}", f"{root}/class: {kind}", f"{root}/numa_node: {numa}"]
    lines += [f"{root}/realpath: {path}/{bdf}"] if path else []
    return "\n".join([*lines, f"{root}/local_cpulist: 0-31,64-95"])


ROOT = "/sys/devices/pci0000:15"
PORT = f"{ROOT}/0000:15:01.0"
SWITCH = f"{PORT}/0000:16:00.0"


@pytest.mark.parametrize(
    ("one", "other", "numa", "code"),
    [
        (f"{SWITCH}/0000:17:00.0", f"{SWITCH}/0000:17:01.0", (0, 0), "PIX"),
        (
            f"{SWITCH}/0000:17:00.0/0000:18:00.0/0000:19:00.0",
            f"{SWITCH}/0000:17:01.0/0000:1c:00.0/0000:1d:00.0",
            (0, 0),
            "PXB",
        ),
        (PORT, f"{ROOT}/0000:15:02.0", (0, 0), "PHB"),
        (PORT, "/sys/devices/pci0000:30/0000:30:01.0", (0, 0), "NODE"),
        (PORT, "/sys/devices/pci0000:30/0000:30:01.0", (-1, -1), "NODE"),
        (PORT, "/sys/devices/pci0000:80/0000:80:01.0", (0, 1), "SYS"),
        (PORT, "/sys/devices/pci0000:80/0000:80:01.0", (0, -1), "SYS"),
    ],
)
def test_distance_is_what_two_paths_share(one, other, numa, code):
    """NVML's levels: one switch, several, a host bridge, a NUMA node, the system."""
    text = "\n".join(
        [
            device("0000:a0:00.0", one, numa=numa[0]),
            device("0000:b0:00.0", other, numa=numa[1]),
        ]
    )
    found = understood(text)
    assert found.format == "sysfs-pci"
    assert codes_of(matrix_of(found)) == (("X", code), (code, "X"))
    assert matrix_of(found).cpus == ("0-31,64-95",) * 2


def test_rdma_adapters_are_in_the_matrix_by_their_names():
    """Beside the GPUs, whichever address comes first."""
    text = "\n".join(
        [
            device("0000:17:00.0", f"{SWITCH}/0000:17:01.0", vendor="0x15b3", kind="0x020700"),
            "/sys/bus/pci/devices/0000:17:00.0/infiniband: mlx5_0",
            device("0000:18:00.0", f"{SWITCH}/0000:17:02.0"),
            device("0000:c0:00.0", "/sys/devices/pci0000:c0", numa=1),
        ]
    )
    found = matrix_of(understood(text))
    assert (found.gpus, found.nics) == (("GPU0", "GPU1"), ("mlx5_0",))
    assert codes_of(found) == (("X", "SYS", "PIX"), ("SYS", "X", "SYS"))


def test_gpus_are_known_by_vendor_and_class():
    """Management chips, switches and sound devices are none; MetaX and NVIDIA cards are."""
    text = "\n".join(
        [
            device("0000:03:00.0", vendor="0x1a03", kind="0x030000"),
            device("0000:20:00.0", kind="0x068000"),
            device("0000:21:00.1", kind="0x040300"),
            device("10000:01:00.0", vendor="0x9999", kind="0x120000"),
            device("0000:22:00.0"),
        ]
    )
    found = understood(text)
    assert [gpu.bdf for gpu in items(found, Gpu)] == ["0000:22:00.0", "10000:01:00.0"]
    assert found.warnings == ("no real paths: PCI distances are left out",)


def test_a_node_of_minus_one_is_unknown():
    """The firmware names none."""
    (gpu,) = items(understood(device("0000:22:00.0", numa=-1)), Gpu)
    assert gpu.numa is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (device("0000:03:00.0", vendor="0x1a03"), "no GPU on the PCI bus"),
        ("\n".join(device(f"0000:{i:02x}:00.0") for i in range(129)), "129 GPUs are more"),
    ],
)
def test_buses_without_usable_gpus_are_refused(text, what):
    """None, or more than a host has."""
    assert what in refused(text).what


def test_a_device_without_its_vendor_is_told():
    """A line is lost; the card would be lost with it."""
    whole = device("0000:01:00.0") + "\n" + device("0000:02:00.0")
    found = understood(whole.replace("/sys/bus/pci/devices/0000:02:00.0/vendor: 0x10de\n", ""))
    assert len(items(found, Gpu)) == 1
    assert found.warnings[0] == "0000:02:00.0 has no vendor or no class: it may be a GPU"


COUNTERS = f"""{HCA}/ports/1/counters/link_downed: 255
{HCA}/ports/1/counters/link_error_recovery: 3
{HCA}/ports/1/counters/port_xmit_data: 123456789
{HCA}/ports/1/counters/symbol_error: 0
"""


def test_the_counters_of_a_port_are_read_and_a_whole_tree_is_still_one_of_ports():
    read = understood(COUNTERS, "sysfs-infiniband-counters")
    assert [(e.hca, e.port, e.kind, e.count) for e in items(read, PortErrors)] == [
        ("mlx5_0", 1, "link-downed", 255),
        ("mlx5_0", 1, "recovery", 3),
        ("mlx5_0", 1, "symbol", 0),
    ]
    assert recognise(COUNTERS) == "sysfs-infiniband-counters"
    assert recognise(hca()) == "sysfs-infiniband"
    cut = understood(COUNTERS.replace(": 3", ": "), "sysfs-infiniband-counters")
    assert len(items(cut, PortErrors)) == 2
    assert cut.warnings
    assert refused("/sys/class/infiniband/mlx5_0/fw_ver: 1", "sysfs-infiniband-counters").fix
    twice = COUNTERS + "host-2" + COUNTERS
    assert "several hosts" in refused(twice, "sysfs-infiniband-counters").what
