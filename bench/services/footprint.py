"""What a master takes of the machine that holds a large cluster at rest, every worker connected."""

import asyncio
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench import cluster
from bench.client import Connection, get, on_uvloop, once_ready
from bench.figure import Figure, at_most, exact, mean, p99, worst
from bench.machine import Usage, usage
from bench.processes import LOOPBACK, Master, in_child, switchbox_master
from bench.scale import CannotRunError, Progress, Scale
from bench.simulated_workers import simulated_workers
from topo.sim.fleet.facts import facts_of_host

MIB_LIMIT, CORES_LIMIT = 512, 0.5
"""The vendor's own limits for its master."""
_SPARE_FILES = 100
_ASK_EVERY_S = 0.05


@dataclass(slots=True)
class Rest:
    """What was seen: the time of the first reports, the usage around every window, latencies."""

    arrival_s: float
    readings: list[Usage] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Memory and processor time at a steady beat, and what arriving took."""
    _check_file_limit(scale.nodes)
    steady_s = scale.settle_s + scale.windows * scale.window_s
    progress(f"{scale.nodes:,} workers connect, then {steady_s:.0f} s of beats")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        flags = (f"--beat-interval={scale.beat_s}", f"--state-file={home / 'state' / 'state.json'}")
        name = cluster.world_name(scale.nodes)
        with switchbox_master(home, name, *flags) as (running, token):
            rest = in_child(watched, scale, running, token)
    nodes = f"{scale.nodes:,} nodes"
    beats = scale.nodes / scale.beat_s
    note = "8 GPUs and link matrix each; a connection each; state file written"
    rss = [reading.rss_mib for reading in rest.readings]
    yield Figure(f"master RSS, {nodes}", worst(rss), "MiB", at_most(MIB_LIMIT), note)
    peak = exact(rest.readings[-1].peak_mib)
    yield Figure(f"master RSS, {nodes}: peak since start", peak, "MiB", at_most(MIB_LIMIT))
    cores = [after.cores_since(before) for before, after in pairwise(rest.readings)]
    cpu = f"master CPU, {nodes}, {beats:,.0f} beats/s"
    note = f"mean of {scale.windows} windows of {scale.window_s:g} s; the manager is polled too"
    yield Figure(cpu, mean(cores), "cores", at_most(CORES_LIMIT), note)
    yield Figure("GET /health meanwhile: p99", p99(rest.latencies_ms), "ms")
    yield Figure(f"first reports of {nodes}", exact(rest.arrival_s), "s", note="all at once")


def _check_file_limit(connections: int) -> None:
    """Each connection is a file in the generator and one in the master, which raises its limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < connections + _SPARE_FILES:
        raise CannotRunError(f"{connections} connections need `ulimit -Hn` above the {hard} it is")


def watched(scale: Scale, running: Master, token: str) -> Rest:
    """The master's usage while this process holds and moves all its workers."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def watch() -> Rest:
        facts = (facts_of_host(node) for node in cluster.cluster(scale.nodes).nodes)
        began_s = time.monotonic()
        async with simulated_workers(running.reports_port, token, facts, scale.beat_s):
            rest = Rest(time.monotonic() - began_s)
            api = await Connection.open(LOOPBACK, running.api_port)
            for path in ("/node_group", "/v1/topology", "/metrics"):
                # somebody reads: what is kept for readers is then in memory too
                await once_ready(api, get(path, Accept_Encoding="gzip"))
            await asyncio.sleep(scale.settle_s)
            rest.readings.append(usage(running.pid))
            for _ in range(scale.windows):
                await _ask_for(scale.window_s, api, rest.latencies_ms)
                rest.readings.append(usage(running.pid))
            return rest

    with on_uvloop() as runner:
        return runner.run(watch())


async def _ask_for(seconds: float, api: Connection, latencies_ms: list[float]) -> None:
    """Asks for the least there is, so that what is measured is how long the master was busy."""
    until_s = time.monotonic() + seconds
    while (began_s := time.monotonic()) < until_s:
        await api.ask(get("/health"))
        latencies_ms.append((time.monotonic() - began_s) * 1000)
        await asyncio.sleep(_ASK_EVERY_S)
