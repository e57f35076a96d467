"""MetaX: libmxsml, and in its place mx-smi and mx-exporter."""

from collections.abc import Iterator

from worker.probes import sources
from worker.probes.exporter import Exporter
from worker.probes.probe import Probe
from worker.settings import WorkerSettings

FOLDERS = ("/opt/mxdriver/bin", "/opt/maca/bin", "/usr/local/maca/bin")
"""Where drivers and MACA put mx-smi; these folders are not on the PATH."""


def probes(settings: WorkerSettings) -> Iterator[Probe]:
    """Yield the library first, then what stands in for it."""
    path = settings.mxsml_library
    arguments = () if path is None else (str(path),)
    yield sources.library(settings, "mxsml", "worker.probes.metax_library", *arguments)
    for name in ("mx-smi-list", "mx-smi-topo", "mx-smi-table"):
        yield sources.command(name, instead_of="mxsml", folders=FOLDERS)
    exporter = Exporter(settings.exporter_address)
    yield sources.stand_in("mx-exporter", exporter.read, instead_of="mxsml")
