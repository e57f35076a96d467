"""NVIDIA: NVML, and in its place nvidia-smi."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from worker.probes import sources
from worker.probes.probe import Probe
from worker.settings import WorkerSettings

EXITS: Mapping[int, str] = MappingProxyType(
    {
        3: "not supported",
        4: "no permission",
        8: "a power cable is missing",
        9: "the driver is not loaded",
        10: "an interrupt problem",
        12: "the NVML library is missing",
        13: "the NVML library is too old",
        14: "the infoROM is corrupt",
        15: "a GPU has fallen off the bus",
    }
)
"""`man nvidia-smi`, RETURN VALUE."""
NOT_SUPPORTED = 3


def probes(settings: WorkerSettings) -> Iterator[Probe]:
    """Yield the library first, then what stands in for it, then what is only counted."""
    yield sources.library(settings, "nvml", "worker.probes.nvidia_library")
    for name in ("nvidia-smi-xml", "nvidia-smi-topo"):
        yield sources.command(name, instead_of="nvml", exits=EXITS)
    yield sources.counters("nvlink-errors", exits=EXITS, absent_exits={NOT_SUPPORTED})
