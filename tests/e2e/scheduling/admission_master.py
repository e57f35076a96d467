"""A master that serves the chart's own webhook, as a process with the chart's rights."""

import asyncio
import copy
import itertools
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from tests.e2e.controlplane.admission import CONFIGURATIONS, NAME, is_trusted
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.controlplane.processes import Program
from tests.e2e.scheduling.gang_master import api_url
from tests.helm.chart import golden, one, rules
from tests.support.waiting import eventually

OWN = "vendor"
WITH_POD_GROUPS = "podgroups"
OWN_CERTIFICATES = (OWN, WITH_POD_GROUPS, "kueue")
"""The renderings of the chart in which the masters make their certificates."""
MAKES_POD_GROUPS = "--controllers=labels,nomination,pod-groups"
_OWN_OCTET = 201
"""The last of the address that its webhook listens on."""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class AdmissionMaster:
    """One master, the namespace of its account and of its Secret, and where its webhook is."""

    program: Program
    namespace: str
    address: str

    async def url(self) -> str:
        """Return where its API is; empty while it does not listen."""
        self.program.must_live()
        return api_url(self.program)

    def stop(self) -> None:
        """It ends as by a crash."""
        self.program.stop(number=signal.SIGKILL)

    def start(self) -> None:
        """Start it once more."""
        self.program.start()

    async def gang(self, name: str) -> dict[str, Any]:
        """What the master says of a gang; empty where it says nothing."""
        async with ClientSession() as session, session.get(f"{await self.url()}/v1/gangs") as said:
            gangs = (await said.json())["gangs"]
        return next((each for each in gangs if each["name"] == name), {})

    async def disturb(self) -> None:
        """Leave it alone: the only one is not killed while jobs arrive."""


@asynccontextmanager
async def admission_master(
    cluster: Cluster,
    api: Api,
    home: Path,
    *flags: str,
    rendering: str = OWN,
    reached_at: int = _OWN_OCTET,
) -> AsyncIterator[AdmissionMaster]:
    """The webhook is installed and trusted, and a master answers it, until the block ends.

    It knows no groups but those that `nodegroup.yaml` in its home names. In another rendering of
    the chart than `OWN` somebody else makes the certificates, and has the webhook trusted. Where
    the ClusterIP ends otherwise than the master's address, somebody else passes on what comes
    there.
    """
    namespace = f"topo-placing-{next(_numbers)}"
    address = f"{cluster.ports.services}.{_OWN_OCTET}"
    kubeconfig = await granted(cluster, api, namespace, home, rendering=rendering)
    argv = (*command(home, kubeconfig, address), *flags)
    environment = {"POD_NAMESPACE": namespace, "POD_NAME": "topo-master-0"}
    program = Program("topo-master", argv, home / "master.log", environment)
    program.start()
    try:
        service = f"{cluster.ports.services}.{reached_at}"
        await install_webhook(api, namespace, service, rendering=rendering)
        if rendering in OWN_CERTIFICATES:
            await eventually(lambda: _is_installed(api, program))
        yield AdmissionMaster(program, namespace, address)
    finally:
        await asyncio.to_thread(program.stop)


async def granted(
    cluster: Cluster, api: Api, namespace: str, home: Path, *, rendering: str = OWN
) -> Path:
    """Create a namespace and an account with the chart's rights; return its kubeconfig."""
    await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    rights = [copy.deepcopy(rule) for _, rule in rules(golden(rendering), "topo-master")]
    await service_account(api, namespace, "topo-master", rights)
    access = await account_access(cluster, namespace, "topo-master")
    return access.kubeconfig(home / "kubeconfig")


def command(home: Path, kubeconfig: Path, address: str) -> tuple[str, ...]:
    """Return the command line of a master that serves the webhook at an address.

    One job may take all of these small clusters, also where its pods are made one by one.
    """
    config = home / "nodegroup.yaml"
    if not config.exists():
        config.write_text("group: []\n")
    return (
        *(sys.executable, "-m", "master", "--mode=config", f"--config-file={config}"),
        *("--server-port=0", "--rpc-server-port=0", f"--bind-address={address}"),
        *(f"--kubeconfig={kubeconfig}", "--placement=nomination"),
        *("--controllers=nomination", "--admission-port=443", "--ahead-share=1"),
    )


async def install_webhook(api: Api, namespace: str, service: str, *, rendering: str = OWN) -> None:
    """Create what the chart installs for the webhook, in a namespace and at a ClusterIP."""
    for path, each in _objects(rendering, namespace, service):
        await api.create(path, each)


def _objects(rendering: str, namespace: str, address: str) -> Iterator[tuple[str, Any]]:
    """What the chart installs for the webhook, in this namespace and at this ClusterIP."""
    found = copy.deepcopy(golden(rendering))
    service = one(found, "Service", NAME)
    configuration = one(found, "MutatingWebhookConfiguration", NAME)
    service["metadata"]["namespace"] = namespace
    service["spec"] = {"clusterIP": address, "ports": [{"port": 443}]}
    for each in configuration["webhooks"]:
        each["clientConfig"]["service"]["namespace"] = namespace
    if rendering in OWN_CERTIFICATES:
        secret = one(found, "Secret", NAME)
        secret["metadata"]["namespace"] = namespace
        yield f"/api/v1/namespaces/{namespace}/secrets", secret
    yield f"/api/v1/namespaces/{namespace}/services", service
    yield CONFIGURATIONS, configuration


async def _is_installed(api: Api, program: Program) -> bool:
    program.must_live()
    return await is_trusted(api)
