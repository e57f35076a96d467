"""A master that places gangs, as a process with an account's rights."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientError, ClientSession

from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.controlplane.processes import Program
from topo.sim.worlds.presets import World

TOKEN = "writer-1"
ACCOUNT, NAMESPACE = "topo-gangs", "default"
RULES = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]},
    {
        "apiGroups": [""],
        "resources": ["resourcequotas", "persistentvolumeclaims", "persistentvolumes"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["storage.k8s.io"],
        "resources": ["storageclasses"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": [
            "resourceslices",
            "deviceclasses",
            "resourceclaimtemplates",
            "resourceclaims",
        ],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["scheduling.volcano.sh"],
        "resources": ["podgroups", "queues"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["batch", "batch.volcano.sh"],
        "resources": ["jobs"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["apps"],
        "resources": ["statefulsets"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["jobset.x-k8s.io"],
        "resources": ["jobsets"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["kubeflow.org"],
        "resources": ["pytorchjobs", "mpijobs"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["events.k8s.io"],
        "resources": ["events"],
        "verbs": ["create", "patch"],
    },
)
"""What the chart grants to a master that leads and places gangs."""


@dataclass
class GangMaster:
    """One master; its log is at `program.log`."""

    program: Program
    state: Path

    def start(self) -> None:
        """Starts it, once more where it has ended."""
        self.program.start()

    @property
    def url(self) -> str:
        """Where its API is, as its log says."""
        return api_url(self.program)

    async def gang(self, job: str) -> dict[str, Any]:
        """Return what it says of a job's gang; empty where it says nothing or does not answer."""
        try:
            async with ClientSession() as session, session.get(f"{self.url}/v1/gangs") as answer:
                gangs = (await answer.json())["gangs"] if answer.ok else []
        except (ClientError, ValueError):  # it does not listen yet
            return {}
        return next((each for each in gangs if each["name"] == job), {})

    async def kill(self) -> None:
        """It ends as by a crash."""
        await asyncio.to_thread(self.program.stop, 0.0)


def api_url(master: Program) -> str:
    """Where a master's API is, as its log said last; empty while it does not listen."""
    url = ""
    for told in master.events:
        if (told.get("event"), told.get("site")) == ("listening", "api"):
            url = f"http://{told['host']}:{told['port']}"
    return url


@asynccontextmanager
async def gang_master(
    cluster: Cluster,
    world: World,
    home: Path,
    *flags: str,
    rules: Sequence[dict[str, Any]] = RULES,
) -> AsyncIterator[GangMaster]:
    """A master in mode config that places gangs, until the block ends."""
    async with cluster.api() as api:
        await service_account(api, NAMESPACE, ACCOUNT, rules)
    access = await account_access(cluster, NAMESPACE, ACCOUNT)
    kubeconfig = access.kubeconfig(home / "kubeconfig")
    config, state = home / "nodegroup.yaml", home / "state"
    (home / "writers").write_text(f"ops {TOKEN}\n")
    config.write_text(yaml.safe_dump(document(world)))
    argv = (
        *(sys.executable, "-m", "master", "--mode=config", f"--config-file={config}"),
        *("--server-port=0", "--rpc-server-port=0", "--bind-address=127.0.0.1"),
        "--ahead-share=1",  # one job may take all of these small clusters
        *(f"--kubeconfig={kubeconfig}", f"--state-file={state}", "--leader-elect=false"),
        *("--controllers=nomination", f"--api-token-file={home / 'writers'}", *flags),
    )
    environment = {"POD_NAMESPACE": NAMESPACE, "POD_NAME": "topo-master-0"}
    program = Program("topo-master", argv, home / "master.log", environment)
    program.start()
    try:
        yield GangMaster(program, state)
    finally:
        await asyncio.to_thread(program.stop)


def document(world: World) -> object:
    """The config file that declares the groups of the world."""
    tree: dict[str, dict[str, list[str]]] = {}
    for host in world.nodes:
        flies = tree.setdefault(str(host.switchbox), {})
        flies.setdefault(str(host.dragonfly), []).append(str(host.name))
    return {
        "group": [
            {
                "name": box,
                "kind": "switchbox",
                "child": [
                    {
                        "name": fly,
                        "kind": "dragonfly",
                        "child": [{"name": node, "kind": "node"} for node in nodes],
                    }
                    for fly, nodes in flies.items()
                ],
            }
            for box, flies in tree.items()
        ]
    }
