"""`make cluster`: a real control plane with Volcano and our chart installed, until Ctrl-C.

Two simulated switchboxes of four pairs of nodes, unless `--world` names another size: one takes the
manual's job of 64 GPUs as a whole. Masters and workers are processes of this machine, with the
rights of their own service accounts.
"""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.e2e.controlplane import programs
from tests.e2e.controlplane.admission import is_trusted
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.hosts import FAULTS_FILE, Hosts
from tests.e2e.controlplane.kubelet import kubelet
from tests.e2e.controlplane.kwok import REAL_PREFIX
from tests.e2e.controlplane.release import Release, release
from tests.e2e.controlplane.volcano import CONFIG_MAPS, config_map, vendor_configuration
from tests.support.waiting import eventually
from topo.cli.worlds import chosen
from topo.kit.tasks import on_signals
from topo.sim.worlds.presets import World

NAMESPACE = f"{REAL_PREFIX}topo"
DEFAULT_WORLD = "2x4x2"
SAMPLE = "tests/e2e/scheduling/vendor/sample-volcano-supernode.yaml"


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _run(cluster: Cluster, home: Path, world: World) -> None:
    """Runs all of it until a signal comes, be it while it still starts."""
    life = asyncio.create_task(_live(cluster, home, world))
    with (
        on_signals(lambda _: life.cancel(), signal.SIGINT, signal.SIGTERM),
        suppress(asyncio.CancelledError),
    ):
        await life
    _tell("ending all of it")


async def _live(cluster: Cluster, home: Path, world: World) -> None:
    began_s = time.monotonic()
    _tell(
        "starting Kubernetes: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok"
    )
    _tell("and stock Volcano, its scheduler with the vendor's configuration")
    hosts = Hosts(home / "hosts", world)
    await cluster.start(world)
    async with (
        cluster.api() as api,
        kubelet(cluster, home / "kubelet", hosts.folder) as running,
        release(api, running, NAMESPACE, cluster.files.kubeconfig, hosts) as made,
    ):
        _tell(f"installing the chart into the namespace {NAMESPACE}")
        await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await api.create(CONFIG_MAPS, config_map(vendor_configuration()))
        await made.install()
        await eventually(lambda: is_trusted(api))
        _tell(await _advice(made, home, time.monotonic() - began_s))
        await asyncio.Event().wait()


async def _advice(made: Release, home: Path, took_s: float) -> str:
    node = made.hosts.world.nodes[0].name
    faults = made.hosts.folder / node / FAULTS_FILE
    url = await made.url()
    return f"""
The cluster runs after {took_s:.0f} s; Ctrl-C ends all of it. In another terminal:

  export KUBECONFIG={made.kubeconfig}
  kubectl get nodes -L metax-tech.com/dragonfly,metax-tech.com/switchbox
  kubectl get hypernodes
  curl {url}/node_group

  kubectl create -f {SAMPLE}   # the manual's job, its groups whole
  export TOPO_MASTER={url}
  .venv/bin/topo why pytorch-demo

  echo 'remote 1 of {node} vanishes' > {faults}   # pull a cable
  rm {faults}   # plug it in

Logs of Kubernetes: {home}/*.log, of the pods: {home}/kubelet/pods/*/*.log
"""


def main(world: World) -> int:
    """The exit code: 0 after Ctrl-C, 1 where no Go builds the programs."""
    if (reason := programs.why_not()) is not None:
        sys.stderr.write(f"{reason}\n")
        return 1
    home = Path(tempfile.mkdtemp(prefix="topo-cluster-"))
    try:
        with own_cluster(home, volcano_configuration=vendor_configuration()) as cluster:
            asyncio.run(_run(cluster, home, world))
    finally:
        shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    asked = argparse.ArgumentParser(prog="python -m tests.e2e.controlplane", description=__doc__)
    asked.add_argument("--world", type=chosen, default=DEFAULT_WORLD, help="such as 2x2x2")
    sys.exit(main(asked.parse_args().world))
