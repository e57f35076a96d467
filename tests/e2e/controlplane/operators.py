"""KubeRay, the Training Operator and the MPI Operator, with their own definitions."""

import base64
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.controlplane import sandbox
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.job_controllers import define
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.programs import OPERATORS, build, module_folder
from tests.support.ports import free_ports
from tests.support.waiting import eventually

_KUBEFLOW, _SECRET = "kubeflow", "training-operator-webhook-cert"
_CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - where the program looks
_SECRETS = f"/api/v1/namespaces/{_KUBEFLOW}/secrets"


@dataclass(frozen=True, slots=True)
class Operator:
    """One controller: its program, its Go module, its definitions there, its flags and settings."""

    name: str
    module: str
    definitions: tuple[str, ...]
    flags: Callable[[Path], tuple[str, ...]]
    environment: Mapping[str, str] = field(default_factory=dict)


KUBERAY = Operator(
    name="kuberay",
    module="github.com/ray-project/kuberay/ray-operator",
    definitions=tuple(
        f"config/crd/bases/ray.io_{kind}.yaml" for kind in ("rayclusters", "rayjobs", "rayservices")
    ),
    flags=lambda kubeconfig: (
        *(f"--kubeconfig={kubeconfig}", "--enable-leader-election=false"),
        *("--metrics-addr=0", "--health-probe-bind-address=0"),
    ),
    # It waits 30 s for a pod that it made and Kueue took away, and then for its next look.
    environment={"RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV": "10"},
)
TRAINING = Operator(
    name="training-operator",
    module="github.com/kubeflow/training-operator",
    definitions=("manifests/base/crds/kubeflow.org_pytorchjobs.yaml",),
    flags=lambda kubeconfig: (
        *(f"--kubeconfig={kubeconfig}", "--enable-scheme=pytorchjob"),
        *("--metrics-bind-address=0", "--health-probe-bind-address=0"),
    ),
)
MPI = Operator(
    name="mpi-operator",
    module="github.com/kubeflow/mpi-operator",
    definitions=("manifests/base/kubeflow.org_mpijobs.yaml",),
    flags=lambda kubeconfig: (f"--kubeConfig={kubeconfig}", "--lock-namespace=default"),
)


async def install(cluster: Cluster, api: Api, *operators: Operator) -> list[Program]:
    """Install these operators and start them. Their webhooks, which only judge, are left out."""
    build(OPERATORS)
    programs = []
    for each in operators:
        folder = module_folder(OPERATORS, each.module)
        await define(api, *(folder / path for path in each.definitions))
        argv = (str(OPERATORS.program(each.name)), *each.flags(cluster.files.kubeconfig))
        program = Program(each.name, argv, cluster.files.log(each.name), each.environment)
        if each is TRAINING:
            program.argv += (f"--webhook-server-port={free_ports((0,))[0]}",)
            await _give_certificates(cluster, api, program)
        else:
            program.start()
        programs.append(program)
    return programs


async def _give_certificates(cluster: Cluster, api: Api, program: Program) -> None:
    """Start a program that makes certificates, and waits until its Secret is mounted."""
    home = cluster.files.home / program.name
    mounted, root = home / "certificates", home / "root"
    for folder in (mounted, root):
        folder.mkdir(parents=True)
    own = {_CERTIFICATES: mounted}
    seen = (cluster.files.home, Path(program.argv[0]).parent)
    name, *rest = sandbox.command(root, {**own, **{str(at): at for at in seen}}, program.argv)
    program.argv = (shutil.which(name) or name, *rest)
    program.environment = sandbox.environment({})
    await api.namespace(_KUBEFLOW)
    await api.create(_SECRETS, {"metadata": {"name": _SECRET}})
    program.start()

    async def is_mounted() -> bool:
        program.must_live()
        found: dict[str, Any] = (await api.get(f"{_SECRETS}/{_SECRET}")).get("data", {})
        for name, text in found.items():
            (mounted / name).write_bytes(base64.b64decode(text))
        return "tls.crt" in found

    await eventually(is_mounted)
