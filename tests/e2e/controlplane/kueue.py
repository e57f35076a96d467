"""Stock Kueue as its own module has it: definitions and webhooks of its chart, and its manager."""

import asyncio
import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientError, ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.core import Files, Ports
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.programs import KUEUE, TOOLS, module_folder
from tests.helm.chart import run
from tests.support.waiting import CEILING_S, eventually

GROUP = "kueue.x-k8s.io"
API = f"/apis/{GROUP}/v1beta2"
FLAVORS, TOPOLOGIES = f"{API}/resourceflavors", f"{API}/topologies"
QUEUES, COHORTS, CHECKS = f"{API}/clusterqueues", f"{API}/cohorts", f"{API}/admissionchecks"
NAMESPACE = "kueue-system"
SERVICE, SECRET = "kueue-webhook-service", "kueue-webhook-server-cert"
_HTTPS, _HEALTH = 443, 8081
_LOOK_S = 0.1

FRAMEWORKS = ("batch/job", "jobset.x-k8s.io/jobset", "pod", "deployment", "statefulset")
"""Kinds that it manages; a kind whose API is not served is waited for."""
_REQUESTS = Path("config", "crd", "autoscaling.x-k8s.io_provisioningrequests.yaml")
_AUTOSCALER = "k8s.io/autoscaler/cluster-autoscaler/apis"
_OF_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class Kueue:
    """Its manager; `more` goes into its configuration, the defaults of the version hold else."""

    def __init__(self, files: Files, ports: Ports, more: Mapping[str, Any]) -> None:
        self._address = f"{ports.services}.210"
        self._certificates = files.home / "kueue-certificates"
        self._certificates.mkdir()
        self._file = files.home / "kueue.yaml"
        self._configuration = self._configured(more)
        self._file.write_text(self._configuration)
        argv = (
            str(KUEUE.program("kueue")),
            f"--config={self._file}",
            f"--kubeconfig={files.kubeconfig}",
            "--zap-log-level=2",
        )
        self.program = Program("kueue", argv, files.log("kueue"))

    async def start(self, api: Api) -> None:
        """Return when its webhooks answer; its queues are active a moment later.

        It makes its certificates itself and writes them into its Secret, which is mounted here.
        """
        objects = list(self._rendered())
        await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await api.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": SECRET}})
        await api.create(f"/api/v1/namespaces/{NAMESPACE}/services", self._service())
        for each in objects:
            if each["kind"] in _OF_WEBHOOKS:
                plural = f"{each['kind'].lower()}s"
                await api.create(f"/apis/admissionregistration.k8s.io/v1/{plural}", each)
        self.program.start()
        await eventually(lambda: self._is_mounted(api))
        await self._answers()

    async def restart(self) -> None:
        """Return when it answers again: of some kinds it looks for the definitions once."""
        await asyncio.to_thread(self.program.stop, 0.0)
        self.program.start()
        await self._answers()

    async def _answers(self) -> None:
        async with asyncio.timeout(CEILING_S):
            while not await self._is_ready():
                self.program.must_live()
                await asyncio.sleep(_LOOK_S)

    def definitions(self) -> list[Any]:
        """Return the CustomResourceDefinitions of its chart, and that of ProvisioningRequests.

        It looks for the latter when it starts, and never again.
        """
        requests = module_folder(KUEUE, _AUTOSCALER) / _REQUESTS
        of_chart = (x for x in self._rendered() if x["kind"] == "CustomResourceDefinition")
        return [*of_chart, yaml.safe_load(requests.read_text())]

    async def _is_mounted(self, api: Api) -> bool:
        """Write the certificates as a kubelet would, once they are in the Secret."""
        secret = await api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}")
        for name, text in secret.get("data", {}).items():
            (self._certificates / name).write_bytes(base64.b64decode(text))
        return "tls.crt" in secret.get("data", {})

    async def _is_ready(self) -> bool:
        url = f"http://{self._address}:{_HEALTH}/readyz"
        try:
            async with ClientSession() as session, session.get(url) as answer:
                return answer.ok
        except ClientError:
            return False

    def _service(self) -> Any:
        spec = {"clusterIP": self._address, "ports": [{"port": _HTTPS}]}
        return {"metadata": {"name": SERVICE}, "spec": spec}

    def _configured(self, more: Mapping[str, Any]) -> str:
        own = {
            "apiVersion": f"config.{GROUP}/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "leaderElection": {"leaderElect": False},
            "health": {"healthProbeBindAddress": f"{self._address}:{_HEALTH}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {
                "host": self._address,
                "port": _HTTPS,
                "certDir": str(self._certificates),
            },
            "clientConnection": {"qps": -1},
            "integrations": {"frameworks": list(FRAMEWORKS)},
            # What it serves for visibility has a fixed port, and needs an APIService.
            "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False},
        }
        configuration: str = yaml.safe_dump({**own, **more})
        return configuration

    def _rendered(self) -> Iterator[Any]:
        """Yield the objects of its own chart for this configuration."""
        values = self._file.with_name("kueue-values.yaml")
        configured = {"controllerManagerConfigYaml": self._configuration}
        values.write_text(yaml.safe_dump({"managerConfig": configured}))
        chart = module_folder(KUEUE, "sigs.k8s.io/kueue") / "charts" / "kueue"
        done = run(
            TOOLS.program("helm"),
            *("template", "kueue", str(chart), "--namespace", NAMESPACE, "--values", str(values)),
        )
        assert done.returncode == 0, done.stderr
        return (each for each in yaml.safe_load_all(done.stdout) if each is not None)


async def is_active(api: Api, queue: str) -> bool:
    """Whether a ClusterQueue admits."""
    found = await api.get(f"{QUEUES}/{queue}")
    return any(
        (each["type"], each["status"]) == ("Active", "True")
        for each in found.get("status", {}).get("conditions", ())
    )
