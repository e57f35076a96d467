"""What sysfs states of GPUs and NICs, as lines `path: content`.

Paths are printed as under `/sys`, whatever folder they were read from (a container mounts the
host's elsewhere). A file of a device can hang in its driver, so the reading runs in a thread of
its own; the thread is a daemon, for one that hangs must not keep the process from ending.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from topo.facts.sysfs.port_counters import KINDS
from topo.facts.vendors import PCI_IDS
from worker.probes.probe import Reading, absent, failed, ok, timed_out

_GPU_CLASSES = ("0x0300", "0x0302", "0x1200", "0x0b40")
"""VGA, 3D controller, processing accelerator, co-processor."""

_MAX_CONTENT_BYTES = 4096
_PCI_FILES = ("class", "device", "local_cpulist", "numa_node", "vendor")
_HCA_FILES = ("board_id", "fw_ver", "hca_type", "node_guid", "sys_image_guid")
_PORT_FILES = ("lid", "link_layer", "phys_state", "rate", "sm_lid", "state")


def infiniband(root: Path) -> Reading:
    """Every port of every HCA, InfiniBand and RoCE alike, with the HCA's place on the PCI bus."""
    folder = root / "class/infiniband"
    if not folder.is_dir():
        return absent("no InfiniBand or RoCE devices (no /sys/class/infiniband)")
    lines: list[str] = []
    for hca in _entries(folder):
        lines += _lines(root, hca, _HCA_FILES)
        lines += _lines(root, hca / "device", ("numa_node",))
        lines += _real_path(root, hca / "device")
        lines += _real_path(root, hca / "device/physfn")
        interfaces = _entries(hca / "device/net")
        if interfaces:
            names = " ".join(each.name for each in interfaces)
            lines.append(f"{_shown(root, hca / 'device/net')}: {names}")
        for each in interfaces:
            lines += _lines(root, each, ("carrier",))
        for port in _entries(hca / "ports"):
            lines += _lines(root, port, _PORT_FILES)
    return ok("\n".join([*lines, ""])) if lines else absent("no InfiniBand or RoCE devices")


def port_counters(root: Path) -> Reading:
    """Return the error counters of every port; a driver asks its firmware for each of them."""
    folder = root / "class/infiniband"
    ports = [port for hca in _entries(folder) for port in _entries(hca / "ports")]
    lines = [line for port in ports for line in _lines(root, port / "counters", tuple(KINDS))]
    return ok("\n".join([*lines, ""])) if lines else absent("no adapter counts errors")


def pci(root: Path) -> Reading:
    """Return every GPU of a known vendor and every RDMA adapter, with the bridges above it.

    Adapters of virtual machines are left out: they come and go with the pods.
    """
    folder = root / "bus/pci/devices"
    if not folder.is_dir():
        return absent("no PCI bus (no /sys/bus/pci)")
    lines: list[str] = []
    has_gpu = False
    for device in _entries(folder):
        if (is_gpu := _is_gpu(device)) or _is_adapter(device):
            lines += _lines(root, device, _PCI_FILES)
            lines += _real_path(root, device)
            lines += _adapters(root, device)
            has_gpu |= is_gpu
    return ok("\n".join([*lines, ""])) if has_gpu else absent("no GPU of a known vendor on PCI")


class SysfsReader:
    """Runs one of the functions above in a thread; never two at a time."""

    def __init__(self, function: Callable[[Path], Reading], root: Path) -> None:
        self._function = function
        self._root = root
        self._thread: threading.Thread | None = None

    async def read(self) -> Reading:
        """Return one reading; cancelled, it leaves the thread to itself."""
        if self._thread is not None and self._thread.is_alive():
            return timed_out("the kernel still hangs in the last reading")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Reading] = loop.create_future()

        def deliver(reading: Reading) -> None:
            if not outcome.done():
                outcome.set_result(reading)

        def work() -> None:
            try:
                reading = self._function(self._root)
            except OSError as error:
                reading = failed(f"{error.filename}: {error.strerror}")
            except Exception as error:  # noqa: BLE001 - an exception in a thread would be lost
                reading = failed(f"our probe failed: {error!r}")
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(deliver, reading)

        self._thread = threading.Thread(target=work, name="sysfs", daemon=True)
        self._thread.start()
        return await outcome


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _is_gpu(device: Path) -> bool:
    # A server's own display controller is of another vendor.
    pci_class = _content(device / "class") or ""
    return pci_class[:6] in _GPU_CLASSES and _content(device / "vendor") in PCI_IDS


def _is_adapter(device: Path) -> bool:
    return (device / "infiniband").is_dir() and not (device / "physfn").exists()


def _adapters(root: Path, device: Path) -> Iterator[str]:
    """Yield what an RDMA adapter is called."""
    if names := _entries(device / "infiniband"):
        yield f"{_shown(root, device / 'infiniband')}: {' '.join(each.name for each in names)}"


def _lines(root: Path, folder: Path, files: tuple[str, ...]) -> Iterator[str]:
    for file in files:
        content = _content(folder / file)
        if content is not None:
            yield f"{_shown(root, folder / file)}: {content}"


def _real_path(root: Path, link: Path) -> Iterator[str]:
    """Yield the chain of bridges; nothing for a device that has no place on a bus (a software one).

    Nor for a link that leads out of the folder: the host's sysfs is mounted there in part.
    """
    real_root, real = root.resolve(), link.resolve()
    if real.exists() and real.is_relative_to(real_root):
        yield f"{_shown(root, link)}/realpath: {_shown(real_root, real)}"


def _shown(root: Path, path: Path) -> str:
    return f"/sys/{path.relative_to(root)}"


def _content(path: Path) -> str | None:
    """One line of text; None for files that are absent or that the device refuses to give."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_CONTENT_BYTES)
    except OSError:
        return None
    return " ".join(raw.decode("utf-8", "replace").split())
