"""The probes of this host, in the order of precedence: library, command line, exporter, sysfs."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from worker.probes import sysfs
from worker.probes.commands import METAX_FOLDERS, NVIDIA_EXITS, Command
from worker.probes.exporter import Exporter
from worker.probes.isolated import HelperProcess
from worker.probes.probe import Probe, Reading
from worker.settings import WorkerSettings

_PCI_INTERVAL_S = 60.0
"""Cards do not move; this finds one that fell off the bus."""


def probes(settings: WorkerSettings) -> tuple[Probe, ...]:
    """All probes of a real host. Sources that the host lacks are absent at their first reading."""
    return (
        *_libraries(settings),
        *_metax_tools(settings),
        *_nvidia_tools(settings),
        *_sysfs(settings),
    )


def _libraries(settings: WorkerSettings) -> Iterator[Probe]:
    path = settings.mxsml_library
    for name, arguments in (
        ("mxsml", ("mxsml",) if path is None else ("mxsml", str(path))),
        ("nvml", ("nvml",)),
    ):
        helper = HelperProcess(arguments)
        yield Probe(
            name=name,
            format=name,
            interval_s=settings.probe_interval,
            timeout_s=settings.probe_timeout,
            read=helper.read,
            close=helper.close,
        )


def _metax_tools(settings: WorkerSettings) -> Iterator[Probe]:
    for name, words, gives in (
        ("mx-smi-list", ("-L",), "gpus"),
        ("mx-smi-topo", ("topo", "-m"), "matrix"),
        ("mx-smi-table", (), "gpus"),
    ):
        command = Command(("mx-smi", *words), folders=METAX_FOLDERS)
        yield _stand_in(settings, name, command.read, instead_of="mxsml", gives=(gives,))
    exporter = Exporter(settings.exporter_address)
    yield _stand_in(
        settings, "mx-exporter", exporter.read, instead_of="mxsml", gives=("peers", "ports")
    )


def _nvidia_tools(settings: WorkerSettings) -> Iterator[Probe]:
    for name, words, gives in (
        ("nvidia-smi-xml", ("-q", "-x"), ("gpus", "fabrics")),
        ("nvidia-smi-topo", ("topo", "-m"), ("matrix",)),
    ):
        command = Command(("nvidia-smi", *words), exits=NVIDIA_EXITS)
        yield _stand_in(settings, name, command.read, instead_of="nvml", gives=gives)


def _stand_in(
    settings: WorkerSettings,
    name: str,
    read: Callable[[], Awaitable[Reading]],
    *,
    instead_of: str,
    gives: tuple[str, ...],
) -> Probe:
    return Probe(
        name=name,
        format=name,
        interval_s=settings.command_interval,
        timeout_s=settings.command_timeout,
        read=read,
        instead_of=(instead_of,),
        gives=frozenset(gives),
    )


def _sysfs(settings: WorkerSettings) -> Iterator[Probe]:
    root = Path(settings.sysfs_root)
    for name, function, interval_s in (
        ("sysfs-infiniband", sysfs.infiniband, settings.probe_interval),
        ("sysfs-pci", sysfs.pci, max(_PCI_INTERVAL_S, settings.probe_interval)),
    ):
        yield Probe(
            name=name,
            format=name,
            interval_s=interval_s,
            timeout_s=settings.probe_timeout,
            read=sysfs.SysfsReader(function, root).read,
        )
