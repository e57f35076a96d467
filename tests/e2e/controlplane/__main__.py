"""`make cluster`: a real control plane with our chart installed, until Ctrl-C.

Four simulated switchboxes of four nodes; masters and workers are processes of this machine, with
the rights of their own service accounts.
"""

import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos.ports import own_ports
from tests.e2e.controlplane import programs
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.core import Ports
from tests.e2e.controlplane.hosts import Hosts
from tests.e2e.controlplane.kubelet import kubelet
from tests.e2e.controlplane.kwok import REAL_PREFIX
from tests.e2e.controlplane.nodes import default_world
from tests.e2e.controlplane.release import Release, release
from topo.kit.tasks import on_signals

NAMESPACE = f"{REAL_PREFIX}topo"


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _run(cluster: Cluster, home: Path) -> None:
    over = asyncio.Event()
    with on_signals(lambda _: over.set(), signal.SIGINT, signal.SIGTERM):
        _tell("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok")
        hosts = Hosts(home / "hosts", default_world())
        await cluster.start(hosts.world)
        kubeconfig = cluster.files.kubeconfig
        async with (
            cluster.api() as api,
            kubelet(cluster, home / "kubelet", hosts.folder) as running,
            release(api, running, NAMESPACE, kubeconfig, hosts) as made,
        ):
            _tell(f"installing the chart into the namespace {NAMESPACE}")
            await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            await made.install()
            _tell(await _advice(made, home))
            await over.wait()
            _tell("ending all of it")


async def _advice(made: Release, home: Path) -> str:
    node = "node-sample3"
    return f"""
The cluster runs; Ctrl-C ends all of it. In another terminal:

  export KUBECONFIG={made.kubeconfig}
  kubectl get nodes -L metax-tech.com/dragonfly,metax-tech.com/switchbox
  kubectl get hypernodes
  curl {await made.url()}/node_group
  echo 'remote 1 of {node} vanishes' > {made.hosts.folder / node / "faults.txt"}   # pull a cable
  rm {made.hosts.folder / node / "faults.txt"}   # plug it in

Logs of Kubernetes: {home}/*.log, of the pods: {home}/kubelet/pods/*/*.log
"""


def main() -> int:
    """The exit code: 0 after Ctrl-C, 1 where no Go builds the programs."""
    if (reason := programs.why_not()) is not None:
        sys.stderr.write(f"{reason}\n")
        return 1
    home = Path(tempfile.mkdtemp(prefix="topo-cluster-"))
    try:
        with own_ports() as ports:
            cluster = Cluster(home, Ports(*ports))
            try:
                asyncio.run(_run(cluster, home))
            finally:
                cluster.stop()
    finally:
        shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
