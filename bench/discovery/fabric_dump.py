"""One `ibnetdiscover` dump: the processor time to read it in seconds, and the memory in MiB.

The fabric is the largest that is supported: eight adapters a host, a leaf for each rail of 32
hosts, and as many cables up from a leaf as down.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from bench.discovery.core import Collector
from bench.figure import Figure, at_most, exact, median
from bench.machine import usage
from bench.processes import in_child
from bench.scale import CannotRunError, Progress, Scale
from tests.support.fabric import rails
from topo.facts.infiniband.ibnetdiscover import read
from topo.model.errors import Refusal

_RAILS, _UNIT, _SPINES = 8, 32, 32


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """The time with the collector as the master sets it and as Python does, and the memory."""
    progress(f"a dump of {scale.nodes:,} hosts with {_RAILS} adapters is read {scale.builds} times")
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "subnet.txt"
        in_child(_write, dump, scale.nodes)
        for collector in Collector:
            times, peak_mib = in_child(_measured, dump, scale.builds, collector)
            name = f"dump of {scale.nodes:,} hosts of {_RAILS}, {collector}"
            note = f"{dump.stat().st_size / 1e6:.0f} MB of text"
            is_judged = collector is Collector.AS_MASTER
            limit = at_most(2) if is_judged else None
            yield Figure(f"{name}: read", median(times), "s", limit, note)
            yield Figure(f"{name}: memory", exact(peak_mib), "MiB", at_most(200))


def _write(dump: Path, hosts: int) -> None:
    """Write what the tool prints of a fabric of this size."""
    names = [f"gpu-{number:05}" for number in range(hosts)]
    units = [names[at : at + _UNIT] for at in range(0, hosts, _UNIT)]
    dump.write_text(rails(units, _RAILS, _SPINES).text())


def _measured(dump: Path, times: int, collector: Collector) -> tuple[list[float], float]:
    """Return the seconds of each reading, and by how much this process grew, text included."""
    before_mib = usage(os.getpid()).rss_mib
    text = dump.read_bytes().decode()
    collector.prepare()
    found = []
    for _ in range(times):
        began = process_time()
        parsed = read(text)
        found.append(process_time() - began)
        if isinstance(parsed, Refusal):
            raise CannotRunError(f"the dump was refused: {parsed}")
        del parsed
    return found, usage(os.getpid()).peak_mib - before_mib
