"""sysfs over trees that the test makes, among them files that hang."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.support.waiting import CEILING_S, eventually
from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.machine import NetworkPort, ProbeState
from worker.probes import sysfs
from worker.probes.identity import identify
from worker.probes.probe import Reading, failed

CHAIN = "/sys/devices/pci0000:0d/0000:0d:01.0"


def write(path: Path, content: str) -> None:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def card(root: Path, bdf: str, chain: str, **files: str) -> None:
    """A PCI device where the kernel puts it, and the symlink by which it is found."""
    home = root / "devices" / chain / bdf
    for name, content in files.items():
        write(home / name, content + "\n")
    link = root / "bus/pci/devices" / bdf
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(home, link.parent))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A MetaX card, a server's VGA chip, a bridge, and two NICs of which one is down."""
    root = tmp_path / "sys"
    gpu = {"vendor": "0x9999", "device": "0x4001", "class": "0x030200", "numa_node": "1"}
    card(root, "0000:0e:00.0", "pci0000:0d/0000:0d:01.0", local_cpulist="32-63", **gpu)
    card(root, "0000:03:00.0", "pci0000:00", vendor="0x1a03", **{"class": "0x030000"})
    card(root, "0000:0d:01.0", "pci0000:0d", vendor="0x10de", **{"class": "0x060400"})
    card(root, "0000:c0:00.0", "pci0000:b0", vendor="0x15b3", numa_node="0")
    for hca, state, phys in (
        ("mlx5_0", "4: ACTIVE", "5: LinkUp"),
        ("mlx5_1", "1: DOWN", "3: Disabled"),
    ):
        folder = root / "class/infiniband" / hca
        write(folder / "node_guid", "9c63:c003:0014:6f8a\n")
        write(folder / "ports/1/state", state + "\n")
        write(folder / "ports/1/phys_state", phys + "\n")
        write(folder / "ports/1/rate", "400 Gb/sec (4X NDR)\n")
    (root / "class/infiniband/mlx5_0/device").symlink_to("../../../bus/pci/devices/0000:c0:00.0")
    return root


def test_only_gpus_of_known_vendors_are_listed(host: Path) -> None:
    """Not the server's VGA chip and not the bridge; with the chain of bridges above the card."""
    reading = sysfs.pci(host)
    assert reading.text.splitlines() == [
        "/sys/bus/pci/devices/0000:0e:00.0/class: 0x030200",
        "/sys/bus/pci/devices/0000:0e:00.0/device: 0x4001",
        "/sys/bus/pci/devices/0000:0e:00.0/local_cpulist: 32-63",
        "/sys/bus/pci/devices/0000:0e:00.0/numa_node: 1",
        "/sys/bus/pci/devices/0000:0e:00.0/vendor: 0x9999",
        f"/sys/bus/pci/devices/0000:0e:00.0/realpath: {CHAIN}/0000:0e:00.0",
    ]


def test_an_rdma_adapter_is_listed_with_its_name_and_no_virtual_function(host: Path) -> None:
    write(host / "devices/pci0000:b0/0000:c0:00.0/infiniband/mlx5_0/node_desc", "gpu-1 mlx5_0\n")
    card(host, "0000:c0:00.2", "pci0000:b0", vendor="0x15b3")
    function = host / "devices/pci0000:b0/0000:c0:00.2"
    write(function / "infiniband/mlx5_2/node_desc", "gpu-1 mlx5_2\n")
    (function / "physfn").symlink_to("../0000:c0:00.0")
    lines = [each for each in sysfs.pci(host).text.splitlines() if "c0:00" in each]
    assert lines == [
        "/sys/bus/pci/devices/0000:c0:00.0/numa_node: 0",
        "/sys/bus/pci/devices/0000:c0:00.0/vendor: 0x15b3",
        "/sys/bus/pci/devices/0000:c0:00.0/realpath: /sys/devices/pci0000:b0/0000:c0:00.0",
        "/sys/bus/pci/devices/0000:c0:00.0/infiniband: mlx5_0",
    ]


def test_every_port_of_every_nic_is_listed(host: Path) -> None:
    """Up or down, with the NIC's place on the bus; a software device has none."""
    lines = sysfs.infiniband(host).text.splitlines()
    assert "/sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE" in lines
    assert "/sys/class/infiniband/mlx5_1/ports/1/phys_state: 3: Disabled" in lines
    assert "/sys/class/infiniband/mlx5_0/device/numa_node: 0" in lines
    assert [line for line in lines if "realpath" in line] == [
        "/sys/class/infiniband/mlx5_0/device/realpath: /sys/devices/pci0000:b0/0000:c0:00.0"
    ]


def test_the_carrier_of_an_adapters_interfaces_is_listed_where_it_can_be_read(host: Path) -> None:
    """The kernel refuses it of an interface that is off; a folder stands for that here."""
    net = host / "class/infiniband/mlx5_0/device/net"
    write(net / "eth2/carrier", "0\n")
    (net / "eth3/carrier").mkdir(parents=True)
    lines = sysfs.infiniband(host).text.splitlines()
    at = "/sys/class/infiniband/mlx5_0/device/net"
    assert [each for each in lines if at in each] == [f"{at}: eth2 eth3", f"{at}/eth2/carrier: 0"]


def test_the_counters_of_every_port_are_listed_and_none_is_no_fault(host: Path) -> None:
    assert sysfs.port_counters(host).state is ProbeState.ABSENT
    for name in ("link_downed", "symbol_error", "port_xmit_data"):
        write(host / "class/infiniband/mlx5_1/ports/1/counters" / name, "7\n")
    assert sysfs.port_counters(host).text.splitlines() == [
        f"/sys/class/infiniband/mlx5_1/ports/1/counters/{name}: 7"
        for name in ("symbol_error", "link_downed")
    ]


def test_a_virtual_function_is_known_by_its_physical_one(host: Path) -> None:
    """The kernel links it there; the facts say so, for such ports come and go with the pods."""
    card(host, "0000:c0:00.2", "pci0000:b0", vendor="0x15b3")
    function = host / "devices/pci0000:b0/0000:c0:00.2"
    (function / "physfn").symlink_to("../0000:c0:00.0")
    write(host / "class/infiniband/mlx5_2/ports/1/state", "4: ACTIVE\n")
    (host / "class/infiniband/mlx5_2/device").symlink_to("../../../bus/pci/devices/0000:c0:00.2")
    parsed = parse(sysfs.infiniband(host).text)
    assert not isinstance(parsed, Refusal)
    (nics,) = parsed.facts
    assert isinstance(nics, tuple)
    found = {nic.hca: nic.virtual for nic in nics if isinstance(nic, NetworkPort)}
    assert found == {"mlx5_0": False, "mlx5_1": False, "mlx5_2": True}


def test_a_host_without_such_devices_is_absent(tmp_path: Path) -> None:
    """No folder, and an empty folder."""
    assert sysfs.infiniband(tmp_path).state is ProbeState.ABSENT
    assert sysfs.pci(tmp_path).state is ProbeState.ABSENT
    (tmp_path / "class/infiniband").mkdir(parents=True)
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    assert sysfs.infiniband(tmp_path).state is ProbeState.ABSENT
    assert sysfs.pci(tmp_path).state is ProbeState.ABSENT


async def test_a_file_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    """A named pipe with no writer: the reading is given up, and not begun a second time."""
    folder = tmp_path / "class/infiniband/mlx5_0"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "node_guid")
    reader = sysfs.SysfsReader(sysfs.infiniband, tmp_path)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(), 0.2)
    again = await reader.read()
    assert (again.state, again.detail) == (
        ProbeState.TIMED_OUT,
        "the kernel still hangs in the last reading",
    )
    with (folder / "node_guid").open("w") as writer:
        writer.write("9c63:c003:0014:6f8a\n")
    (folder / "node_guid").unlink()

    async def is_read_afresh() -> bool:
        return (await reader.read()).state is ProbeState.ABSENT

    await eventually(is_read_afresh)


def test_a_file_that_answers_after_the_worker_has_ended_disturbs_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the loop is closed at the very moment at which the thread speaks to it."""
    released = threading.Event()

    def late(_: Path) -> Reading:
        released.wait(CEILING_S)
        return failed("late")

    reader = sysfs.SysfsReader(late, tmp_path)

    async def shut_down() -> asyncio.AbstractEventLoop:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 0.05)
        return asyncio.get_running_loop()

    loop = asyncio.run(shut_down())
    readings = [thread for thread in threading.enumerate() if thread.name == "sysfs"]
    monkeypatch.setattr(loop, "is_closed", lambda: False)
    unheard: list[object] = []
    monkeypatch.setattr(threading, "excepthook", unheard.append)
    released.set()
    for thread in readings:
        thread.join(CEILING_S)
    assert len(readings) == 1
    assert unheard == []


async def test_a_mistake_of_our_own_is_a_failure_at_once(tmp_path: Path) -> None:
    """Not a timeout, and not a traceback on standard error."""

    def broken(_: Path) -> Reading:
        raise ValueError("no such luck")

    reading = await asyncio.wait_for(sysfs.SysfsReader(broken, tmp_path).read(), CEILING_S)
    assert reading == failed("our probe failed: ValueError('no such luck')")


def test_a_link_out_of_the_folder_is_left_out(host: Path, tmp_path: Path) -> None:
    """Where only parts of sysfs are mounted, the device is told without its place on the bus."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (host / "class/infiniband/mlx5_1/device").symlink_to(elsewhere)
    lines = sysfs.infiniband(host).text.splitlines()
    assert "/sys/class/infiniband/mlx5_1/ports/1/state: 1: DOWN" in lines
    assert [line.partition("/device/realpath")[0] for line in lines if "realpath" in line] == [
        "/sys/class/infiniband/mlx5_0"
    ]


async def test_a_reading_that_fails_names_the_file(tmp_path: Path) -> None:
    """An error that no file-by-file care caught."""

    def broken(root: Path) -> Reading:
        raise OSError(5, "Input/output error", str(root))

    reading = await sysfs.SysfsReader(broken, tmp_path).read()
    assert reading.state is ProbeState.FAILED
    assert reading.detail == f"{tmp_path}: Input/output error"


def test_the_identity_prefers_what_was_given(tmp_path: Path) -> None:
    """Kubernetes knows the node's name and address; the kernel the rest."""
    write(tmp_path / "class/dmi/id/product_uuid", "4C4C4544-0042\n")
    identity = identify("node-7", node_ip="10.0.0.7", sysfs_root=tmp_path)
    assert (identity.name, identity.internal_ip) == ("node-7", "10.0.0.7")
    assert identity.system_uuid == "4c4c4544-0042"
    assert len(identity.boot_id) == 36


def test_the_identity_falls_back_to_the_host_name(tmp_path: Path) -> None:
    """And to empty fields where nobody knows."""
    identity = identify("", node_ip="", sysfs_root=tmp_path)
    assert identity.name == identity.hostname
    assert (identity.internal_ip, identity.system_uuid) == ("", "")


def test_a_board_that_does_not_answer_keeps_no_worker_from_its_start(tmp_path: Path) -> None:
    """Nobody ever writes into the FIFO."""
    file = tmp_path / "class/dmi/id/product_uuid"
    file.parent.mkdir(parents=True)
    os.mkfifo(file)
    identity = identify("node-7", node_ip="", sysfs_root=tmp_path)
    assert identity.system_uuid == ""
