"""What real workers take of their machine: recordings replayed at the default intervals."""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from bench import cluster
from bench.figure import Figure, at_most, worst
from bench.machine import usage
from bench.processes import LOOPBACK, Running, master, process
from bench.scale import Progress, Scale
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import SimNode

MIB_LIMIT, CORE_PERCENT_LIMIT = 64, 1.0


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Memory and processor time of workers whose hardware does not change."""
    seconds = scale.windows * scale.window_s
    progress(f"{scale.real_workers} workers settle, then {seconds:.0f} s are measured")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home = Path(folder)
        flags = ("--mode=dragonfly", "--allow-anonymous-workers", f"--beat-interval={scale.beat_s}")
        running = stack.enter_context(master(home, *flags))
        hosts = cluster.cluster(2 * scale.real_workers).nodes[: scale.real_workers]
        workers = [stack.enter_context(_worker(h, home, running.reports_port)) for h in hosts]
        for worker in workers:
            worker.wait_for(partial(_has_reported, worker), "report that arrived")
        time.sleep(scale.settle_s)
        before = [usage(worker.pid) for worker in workers]
        time.sleep(seconds)
        after = [usage(worker.pid) for worker in workers]
    note = f"the largest of {len(workers)} processes"
    rss = worst([reading.rss_mib for reading in after])
    yield Figure("worker RSS", rss, "MiB", at_most(MIB_LIMIT), note)
    percents = [100 * late.cores_since(early) for early, late in zip(before, after, strict=True)]
    note = f"the busiest of {len(workers)} over {seconds:.0f} s, default intervals"
    cpu = worst(percents)
    yield Figure("worker CPU", cpu, "% of a core", at_most(CORE_PERCENT_LIMIT), note)


def _worker(host: SimNode, home: Path, port: int) -> AbstractContextManager[Running]:
    recording = home / host.name
    write_bundle(recording, host)
    argv = (
        *(sys.executable, "-m", "worker"),
        f"--node-name={host.name}",
        f"--server-address={LOOPBACK}:{port}",
        f"--metrics-address={LOOPBACK}:0",
        f"--replay={recording}",
    )
    return process(f"topo-worker-{host.name}", argv, home)


def _has_reported(worker: Running) -> bool | None:
    return b"reports arrive" in worker.log.read_bytes() or None
