"""A master as a process with an account's rights; a test writes its groups into its config file."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.controlplane.processes import Program

HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
FLY, BOX = "metax-tech.com/dragonfly", "metax-tech.com/switchbox"
RULES = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update"],
    },
    {
        "apiGroups": ["topology.volcano.sh"],
        "resources": ["hypernodes"],
        "verbs": ["list", "watch", "create", "patch", "delete"],
    },
    {
        "apiGroups": ["nfd.k8s-sigs.io"],
        "resources": ["nodefeatures"],
        "verbs": ["list", "watch", "create", "patch", "delete"],
    },
)
"""What the chart grants to a master that leads and writes labels, HyperNodes and NodeFeatures."""

Tree = Mapping[str, Mapping[str, Sequence[str]]]
"""Switchbox → dragonfly → nodes, as the config file is written here."""
VENDOR: Tree = {
    "switchbox-1": {
        "dragonfly-1": ["node-sample1", "node-sample2"],
        "dragonfly-2": ["node-sample3", "node-sample4"],
    },
    "switchbox-2": {
        "dragonfly-3": ["node-sample5", "node-sample6"],
        "dragonfly-4": ["node-sample7", "node-sample8"],
    },
}


@dataclass
class ForestMaster:
    """One master; its log is at `program.log`."""

    program: Program
    config: Path

    def beside(self, *flags: str) -> Program:
        """Another master with the same rights and config file, not started yet."""
        log = self.program.log.with_name("other-master.log")
        argv = (*self.program.argv, *flags)
        return Program("other-topo-master", argv, log, self.program.environment)

    def declare(self, tree: Tree) -> None:
        """Writes the config file, which the master reads at once."""
        nodes = [
            {
                "name": box,
                "kind": "switchbox",
                "child": [
                    {
                        "name": fly,
                        "kind": "dragonfly",
                        "child": [{"name": node, "kind": "node"} for node in members],
                    }
                    for fly, members in flies.items()
                ],
            }
            for box, flies in tree.items()
        ]
        beside = self.config.with_suffix(".new")
        beside.write_text(yaml.safe_dump({"group": nodes}))
        beside.replace(self.config)


@asynccontextmanager
async def forest_master(
    cluster: Cluster, namespace: str, home: Path, tree: Tree, *flags: str
) -> AsyncIterator[ForestMaster]:
    """A master in mode config with the rights of an account of its own, until the block ends."""
    async with cluster.api() as api:
        await service_account(api, namespace, "topo-master", RULES)
    access = await account_access(cluster, namespace, "topo-master")
    kubeconfig = access.kubeconfig(home / "kubeconfig")
    config = home / "nodegroup.yaml"
    argv = (
        *(sys.executable, "-m", "master", "--mode=config", f"--config-file={config}"),
        *("--server-port=0", "--rpc-server-port=0", "--bind-address=127.0.0.1"),
        *(f"--kubeconfig={kubeconfig}", *flags),
    )
    environment = {"POD_NAMESPACE": namespace, "POD_NAME": "topo-master-0"}
    program = Program("topo-master", argv, home / "master.log", environment)
    master = ForestMaster(program, config)
    master.declare(tree)
    program.start()
    try:
        yield master
    finally:
        await asyncio.to_thread(program.stop)


async def labels(api: Api) -> dict[str, dict[str, str]]:
    """The labels of our keys on all nodes."""
    return {
        node["metadata"]["name"]: {
            key: value
            for key, value in node["metadata"].get("labels", {}).items()
            if key in {FLY, BOX}
        }
        for node in await api.items("/api/v1/nodes")
    }


def wanted_labels(tree: Tree, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """What `labels` gives when the nodes of these names are labelled as the tree says."""
    placed = {
        node: {FLY: fly, BOX: box}
        for box, flies in tree.items()
        for fly, nodes in flies.items()
        for node in nodes
    }
    return {name: placed.get(name, {}) for name in names}


async def hypernodes(api: Api) -> dict[str, set[str]]:
    """The members of each HyperNode by name."""
    return {each["metadata"]["name"]: members(each) for each in await api.items(HYPERNODES)}


def members(hypernode: Any) -> set[str]:
    return {each["selector"]["exactMatch"]["name"] for each in hypernode["spec"]["members"]}


def wanted_hypernodes(tree: Tree) -> dict[str, set[str]]:
    """What `hypernodes` gives when they are as the tree says."""
    leaves = {fly: set(nodes) for flies in tree.values() for fly, nodes in flies.items()}
    return leaves | {box: set(flies) for box, flies in tree.items()}
