"""The probes of this host: those of every file in `vendors`, and those of sysfs."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

from topo.facts.lldp import lldpcli
from topo.facts.sysfs import port_counters
from worker.probes import sysfs, vendors
from worker.probes.commands import Command
from worker.probes.probe import READING_TIMEOUT_S, Probe
from worker.probes.sources import COMMAND_INTERVAL_S, COMMAND_TIMEOUT_S
from worker.settings import WorkerSettings

_PCI_INTERVAL_S = 60.0
"""Cards do not move; this finds one that fell off the bus. Counters are looked at over minutes."""
_NO_DAEMON = (1,)
"""Of lldpcli where it cannot reach a daemon: none runs, or the socket is another user's."""


def probes(settings: WorkerSettings) -> tuple[Probe, ...]:
    """Return all probes of a real host: the libraries, what stands in for them, the kernel.

    Sources that the host lacks are absent at their first reading.
    """
    vendors_first = sorted(_vendors(settings), key=_precedence)
    return (*vendors_first, *_kernel(settings), *_network(settings))


def _network(settings: WorkerSettings) -> Iterator[Probe]:
    yield Probe(
        name=lldpcli.FORMAT,
        format=lldpcli.FORMAT,
        interval_s=max(COMMAND_INTERVAL_S, settings.probe_interval),
        timeout_s=COMMAND_TIMEOUT_S,
        read=Command(lldpcli.COMMAND.split(), absent_exits=_NO_DAEMON).read,
    )


def _vendors(settings: WorkerSettings) -> Iterator[Probe]:
    for file in pkgutil.iter_modules(vendors.__path__):
        yield from importlib.import_module(f"{vendors.__name__}.{file.name}").probes(settings)


def _precedence(probe: Probe) -> tuple[bool, bool]:
    return not probe.awaited, bool(probe.instead_of)


def _kernel(settings: WorkerSettings) -> Iterator[Probe]:
    root = Path(settings.sysfs_root)
    seldom_s = max(_PCI_INTERVAL_S, settings.probe_interval)
    for name, function, interval_s in (
        ("sysfs-infiniband", sysfs.infiniband, settings.probe_interval),
        ("sysfs-pci", sysfs.pci, seldom_s),
        (port_counters.FORMAT, sysfs.port_counters, seldom_s),
    ):
        yield Probe(
            name=name,
            format=name,
            interval_s=interval_s,
            timeout_s=READING_TIMEOUT_S,
            read=sysfs.SysfsReader(function, root).read,
            awaited=name != port_counters.FORMAT,
        )
