"""Taints of devices of broken GPUs, on the real API server and scheduler."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.controlplane.programs import KUBE, NEWEST
from tests.e2e.controlplane.terminal import documented, typed
from tests.e2e.kubernetes.test_cleanup import RULES as CLEANUP
from tests.e2e.kubernetes.test_cleanup import clean
from tests.master.world import TOKEN, Master, facts, running
from tests.support.waiting import eventually
from topo.model.ids import GpuUuid
from topo.model.machine import Gpu, NodeFacts

pytestmark = pytest.mark.skipif(KUBE is not NEWEST, reason="resource.k8s.io/v1 is not served here")
V1 = "/apis/resource.k8s.io/v1"
RULES_AT = f"{V1}/devicetaintrules"
DRIVER, CLASS = "gpu.example.com", "gpus"
RIGHTS = (
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["devicetaintrules"],
        "verbs": ["list", "watch", "create", "patch", "delete"],
    },
)
"""What the chart grants to a master that writes taints of devices and nothing else."""


@dataclass(frozen=True)
class Devices:
    """A node of which a driver publishes two GPUs, and who may use them."""

    cluster: Cluster
    api: Api
    namespace: str
    home: Path
    node: str

    async def publish(self) -> None:
        """What a driver and an administrator make."""
        chosen = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
        await self.api.create(
            f"{V1}/deviceclasses", {"metadata": {"name": CLASS}, "spec": {"selectors": [chosen]}}
        )
        devices = [
            {"name": f"gpu-{at}", "attributes": {"uuid": {"string": f"GPU-{at}"}}} for at in (0, 1)
        ]
        pool = {"name": self.node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": self.node, "devices": devices}
        await self.api.create(f"{V1}/resourceslices", {"metadata": {"name": "s"}, "spec": spec})

    async def pod(self, name: str) -> None:
        """A pod that claims one GPU."""
        asked = {"name": "gpu", "exactly": {"deviceClassName": CLASS}}
        at = f"{V1}/namespaces/{self.namespace}/resourceclaims"
        claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [asked]}}}
        await self.api.create(at, claim)
        resources = {"claims": [{"name": "gpu"}]}
        spec = {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        await self.api.create(path, {"metadata": {"name": name}, "spec": spec})

    async def device_of(self, name: str) -> str:
        """The device that the claim of a pod has; empty while it has none."""
        path = f"{V1}/namespaces/{self.namespace}/resourceclaims/{name}"
        allocated = (await self.api.get(path)).get("status", {}).get("allocation")
        return str(allocated["devices"]["results"][0]["device"]) if allocated else ""

    async def rules(self) -> dict[str, str]:
        """The effect of each rule by its device."""
        return {
            each["spec"]["deviceSelector"]["device"]: each["spec"]["taint"]["effect"]
            for each in await self.api.items(RULES_AT)
        }

    def seen(self, *sick: int, gpus: tuple[int, ...] = (0, 1)) -> NodeFacts:
        """What the node's worker sees."""
        known = facts(self.node)
        found = (Gpu(at, uuid=GpuUuid(f"GPU-{at}"), healthy=at not in sick) for at in gpus)
        return replace(known, gpus=tuple(found))

    @asynccontextmanager
    async def master(self, effect: str = "NoSchedule") -> AsyncIterator[Master]:
        """A master with the rights of the chart."""
        access = await account_access(self.cluster, self.namespace, "topo-master")
        kubeconfig = access.kubeconfig(self.home / "kubeconfig")
        (self.home / "tokens").write_text(f"{TOKEN}\n")
        flags = (
            "--controllers=device-taints",
            f"--device-taint-effect={effect}",
            f"--worker-token-file={self.home / 'tokens'}",
        )
        async with running("--mode=dragonfly", f"--kubeconfig={kubeconfig}", *flags) as master:
            yield master


@pytest.fixture
async def devices(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> AsyncIterator[Devices]:
    """Two GPUs of the first node."""
    await service_account(api, namespace, "topo-master", RIGHTS)
    node = (await api.items("/api/v1/nodes"))[0]["metadata"]["name"]
    made = Devices(cluster, api, namespace, tmp_path, node)
    await made.publish()
    yield made
    for each in await api.items(RULES_AT):
        await api.delete(f"{RULES_AT}/{each['metadata']['name']}")
    await api.delete(f"{V1}/resourceslices/s")
    await api.delete(f"{V1}/deviceclasses/{CLASS}")


async def test_no_claim_gets_a_broken_gpu_until_it_is_well_again(devices: Devices) -> None:
    async with devices.master() as master:
        worker = master.worker(devices.node)
        await worker.full(devices.seen(0))
        await eventually(lambda: _are(devices, {"gpu-0": "NoSchedule"}))
        await devices.pod("first")
        await eventually(lambda: _gets(devices, "first", "gpu-1"))
        shown = await typed(devices.cluster, documented("kubernetes.md")[1])
        assert shown.split()[-3:] == ["gpu-0", devices.node, "NoSchedule"]
        await devices.pod("second")

        async def is_well() -> bool:
            await worker.full(devices.seen())
            return await _are(devices, {})

        await eventually(is_well)
        await eventually(lambda: _gets(devices, "second", "gpu-0"))


async def test_a_rule_stays_while_nothing_is_known_of_its_gpu_and_a_clean_up_removes_it(
    devices: Devices,
) -> None:
    """A restart, and a worker that no longer sees the GPU: silence heals nothing."""
    async with devices.master("None") as master:
        await master.worker(devices.node).full(devices.seen(1))
        await eventually(lambda: _are(devices, {"gpu-1": "None"}))
    async with devices.master("NoSchedule") as master:
        worker = master.worker(devices.node)
        await worker.full(devices.seen(0, gpus=(0,)))
        await eventually(lambda: _has(devices, "gpu-0"))
        assert (await devices.rules())["gpu-1"] == "None"
    rights = {"apiGroups": ["resource.k8s.io"], "resources": ["devicetaintrules"]}
    granted = (*CLEANUP, {**rights, "verbs": ["list", "delete"]})
    code, told = await clean(devices.cluster, devices.namespace, devices.home, granted)
    assert code == 0, told
    assert "2 DeviceTaintRules" in told
    assert await devices.rules() == {}


async def _are(devices: Devices, wanted: dict[str, str]) -> bool:
    return await devices.rules() == wanted


async def _gets(devices: Devices, pod: str, device: str) -> bool:
    found = await devices.device_of(pod)
    assert found in {"", device}
    return found == device


async def _has(devices: Devices, device: str) -> bool:
    return device in await devices.rules()
