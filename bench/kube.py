"""A master beside a real API server: labels and HyperNodes of a cluster, written from nothing.

The tree comes from the configuration file, so that no worker shares the machine; nodes are kwok's.
Everything runs on one machine, so the API server takes its part of what is measured.
"""

import asyncio
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientSession

from bench import cluster as bench_cluster
from bench.figure import Figure, at_most, exact
from bench.machine import usage
from bench.processes import LOOPBACK, Master, master
from bench.scale import CannotRunError, Progress, Scale
from tests.chaos.ports import own_ports
from tests.e2e.controlplane import nodes, programs
from tests.e2e.controlplane.client import METADATA_ONLY, Api
from tests.e2e.controlplane.cluster import Cluster, account_access
from tests.e2e.controlplane.core import Ports
from tests.helm.chart import ON, built_helm, objects, template
from topo.cli import worlds
from topo.sim.worlds.presets import World

NAMESPACE = "metax-operator"
ACCOUNT = "topo-master"
_LABEL = "metax-tech.com/dragonfly"
_HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
_LOOK_S = 0.5
_QUIET_S = 20.0
"""After a restart: longer than a lease lasts and a comparison takes."""
_LEASE_S = 240
_LIMIT_S = 1200.0
_LAG = re.compile(r'^topo_master_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


@dataclass(slots=True)
class Seen:
    """What one size showed; times in seconds from the master's start."""

    nodes_s: float = 0.0
    labels_s: float = 0.0
    hypernodes_s: float = 0.0
    hypernodes: int = 0
    patches: int = 0
    again: int = 0
    peak_mib: float = 0.0
    late: float = 0.0


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Times, writes and memory for each size; a size that the machine cannot carry is told."""
    if (reason := programs.why_not()) is not None:
        raise CannotRunError(reason)
    for count in scale.kube_nodes:
        progress(f"{count:,} nodes: a control plane starts")
        seen = _measured(worlds.chosen(bench_cluster.world_name(count)), progress)
        yield from _figures(f"{count:,} nodes", count, seen)


def _figures(size: str, count: int, seen: Seen) -> Iterator[Figure]:
    yield Figure(f"{size} created and Ready", exact(seen.nodes_s), "s", None, "by kwok")
    yield Figure(f"labels from nothing, {size}", exact(seen.labels_s), "s", at_most(300))
    note = f"{seen.hypernodes:,} of them"
    name = f"HyperNodes from nothing, {size}"
    yield Figure(name, exact(seen.hypernodes_s), "s", at_most(300), note)
    yield Figure(f"writes per node, {size}", exact(seen.patches / count), "", at_most(1))
    yield Figure(f"writes after a restart, {size}", exact(seen.again), "", at_most(0))
    name = f"master beside Kubernetes, {size}: peak"
    yield Figure(name, exact(seen.peak_mib), "MiB", at_most(512))
    note = "looks at the loop, twice a second, that came more than 50 ms late"
    yield Figure(f"late looks at the loop, {size}", exact(seen.late), "", at_most(0), note)


def _measured(world: World, progress: Progress) -> Seen:
    with tempfile.TemporaryDirectory() as folder, own_ports() as ports:
        plane = Cluster(Path(folder), Ports(*ports), lease_s=_LEASE_S)
        try:
            return asyncio.run(_run(plane, world, progress))
        finally:
            plane.stop()


async def _run(plane: Cluster, world: World, progress: Progress) -> Seen:
    seen = Seen()
    await plane.start()
    async with plane.api() as api:
        began_s = time.monotonic()
        await nodes.create(api, [nodes.node_object(host) for host in world.nodes])
        seen.nodes_s = time.monotonic() - began_s
        flags = await _prepared(plane, api, world)
        progress(f"{len(world.nodes):,} nodes are Ready after {seen.nodes_s:.0f} s")
        with master(plane.files.home, *flags) as running:
            await _written(api, world, seen)
            progress(f"labels {seen.labels_s:.0f} s, HyperNodes {seen.hypernodes_s:.0f} s")
            seen.peak_mib = usage(running.pid).peak_mib
            seen.late = await _late(running)
        seen.patches = _patches(plane)
        with master(plane.files.home, *flags):
            await asyncio.sleep(_QUIET_S)
        seen.again = _patches(plane) - seen.patches
    return seen


async def _prepared(plane: Cluster, api: Api, world: World) -> Sequence[str]:
    """The flags of a master with its service account's rights only, and what they name."""
    await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for each in objects(template(built_helm(), *ON).stdout):
        if each["kind"] in _RIGHTS:
            await api.create(_collection(each), each)
    access = await account_access(plane, NAMESPACE, ACCOUNT)
    home = plane.files.home
    config = home / "nodegroup.yaml"
    config.write_text(yaml.safe_dump(worlds.nodegroup(world)))
    return (
        "--mode=config",
        f"--config-file={config}",
        "--kubernetes=on",
        f"--kubeconfig={access.kubeconfig(home / 'master.kubeconfig')}",
        f"--state-file={home / 'state' / 'state.json'}",
    )


_RIGHTS = {
    "ServiceAccount": "/api/v1",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1",
    "Role": "/apis/rbac.authorization.k8s.io/v1",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1",
}


def _collection(each: Any) -> str:
    base, plural = _RIGHTS[each["kind"]], each["kind"].lower() + "s"
    namespace = each["metadata"].get("namespace")
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


async def _written(api: Api, world: World, seen: Seen) -> None:
    """Returns when every node has its label and every group its HyperNode."""
    groups = {host.dragonfly for host in world.nodes} | {host.switchbox for host in world.nodes}
    wanted = len(groups - {None})
    began_s = time.monotonic()
    while not (seen.labels_s and seen.hypernodes_s):
        await asyncio.sleep(_LOOK_S)
        passed_s = time.monotonic() - began_s
        if passed_s > _LIMIT_S:
            raise CannotRunError(f"not written after {passed_s:.0f} s")
        if not seen.labels_s and await _count(api, nodes.NODES, _LABEL) == len(world.nodes):
            seen.labels_s = passed_s
        if not seen.hypernodes_s and (found := await _count(api, _HYPERNODES, "")) >= wanted:
            seen.hypernodes_s, seen.hypernodes = passed_s, found


async def _count(api: Api, path: str, selector: str) -> int:
    found = await api.call("GET", path, accept=METADATA_ONLY, labelSelector=selector)
    return len(found["items"] or ())


def _patches(plane: Cluster) -> int:
    calls = plane.calls(f"{NAMESPACE}:{ACCOUNT}")
    return sum((call.verb, call.resource) == ("patch", "nodes") for call in calls)


async def _late(running: Master) -> float:
    url = f"http://{LOOPBACK}:{running.api_port}/metrics"
    async with ClientSession() as session, session.get(url) as answer:
        buckets = {le: float(count) for le, count in _LAG.findall(await answer.text())}
    return buckets["+Inf"] - buckets["0.05"]
