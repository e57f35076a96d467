"""What a master pays for the list of a large cluster's nodes, from a server in another process."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import prometheus_client as prom

from bench.client import on_uvloop
from bench.figure import Figure, at_most, median, worst
from bench.processes import LOOPBACK, in_child, process
from bench.scale import CannotRunError, Progress, Scale
from master.kube.client import KubeClient
from master.kube.credentials.config import KubeConfig
from master.kube.metrics import KubeMetrics
from master.kube.objects import NODES, NodeObject
from master.kube.reflector import Reflector
from topo.kit.process import collector


@dataclass(frozen=True, slots=True)
class Listed:
    """How long a list took, how long nobody else had a turn at most, and what is kept of it."""

    took_s: float
    blocked_ms: float
    kept_mib: float


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Lists as after a start of the master, each in a process of its own."""
    size = f"{scale.nodes:,} nodes of 12 kB"
    progress(f"a server of {size}")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        argv = (sys.executable, "-m", "bench.kubernetes.node_list_pages", str(scale.nodes))
        with process("api-server", argv, home) as server:
            (port,) = server.ports("api")
            kubeconfig = _kubeconfig(home, port)
            progress(f"{scale.builds} lists")
            found = [in_child(listed, kubeconfig, scale.nodes) for _ in range(scale.builds)]
    note = "a page at a time, each read while nobody else has a turn"
    yield Figure(f"list of {size}", median([each.took_s for each in found]), "s", at_most(2))
    blocked = worst([each.blocked_ms for each in found])
    yield Figure("worst block of the loop", blocked, "ms", at_most(50), note)
    yield Figure("kept of them", median([each.kept_mib for each in found]), "MiB")


def listed(kubeconfig: Path, nodes: int) -> Listed:
    """Lists once, in this process; raises `CannotRunError` where there are not so many."""
    collector.freeze_startup()
    with on_uvloop() as runner:
        return runner.run(_listed(kubeconfig, nodes))


async def _listed(kubeconfig: Path, nodes: int) -> Listed:
    async with _client(kubeconfig) as client:
        metrics = KubeMetrics(prom.CollectorRegistry())
        reflector: Reflector[NodeObject] = Reflector(client, NODES, metrics=metrics)
        done = asyncio.Event()
        reflector.subscribe(lambda _: done.set())
        gaps_s: list[float] = []
        watch = asyncio.create_task(_gaps(gaps_s))
        before_mib, began_s = _resident_mib(), time.perf_counter()
        work = asyncio.create_task(reflector.run())
        await done.wait()
        took_s = time.perf_counter() - began_s
        for task in (watch, work):
            task.cancel()
        await asyncio.wait([watch, work])
        if len(reflector.objects) != nodes:
            raise CannotRunError(f"{len(reflector.objects)} nodes were listed")
        return Listed(took_s, max(gaps_s) * 1000, _resident_mib() - before_mib)


def _kubeconfig(home: Path, port: int) -> Path:
    context = {"name": "c", "context": {"cluster": "c"}}
    cluster = {"name": "c", "cluster": {"server": f"http://{LOOPBACK}:{port}"}}
    document = {"current-context": "c", "contexts": [context], "clusters": [cluster]}
    path = home / "kubeconfig"
    path.write_bytes(orjson.dumps(document))
    return path


@asynccontextmanager
async def _client(kubeconfig: Path) -> Any:
    client = KubeClient(KubeConfig(kubeconfig=kubeconfig))
    await client.open()
    try:
        yield client
    finally:
        await client.close()


async def _gaps(into: list[float]) -> None:
    while True:
        asked_s = time.perf_counter()
        await asyncio.sleep(0)
        into.append(time.perf_counter() - asked_s)


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20
