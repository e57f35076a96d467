"""The stock controllers of other kinds of jobs, with their own definitions and webhooks."""

import base64
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import DEFINITIONS, Cluster
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.programs import JOBS, build, module_folder
from tests.support.waiting import eventually
from topo.sim.certificates import Authority

_HTTPS = 443
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class JobController:
    """One controller: its program, its Go module, and where its manifests lie in that.

    `octet` is the last of the address that its webhooks listen on. `certificates` is the field of
    its configuration about them, `takes_folder`: one says where they are, not only the environment.
    """

    name: str
    module: str
    definitions: tuple[str, ...]
    webhooks: str
    configuration: str
    octet: int
    certificates: str = "internalCertManagement"
    takes_folder: bool = True

    def folder(self) -> Path:
        """The folder of its module."""
        return module_folder(JOBS, self.module)

    @property
    def service(self) -> str:
        """The Service of its webhooks, in the namespace of the same name."""
        return f"{self.name}-webhooks"


JOB_SET = JobController(
    name="jobset",
    module="sigs.k8s.io/jobset",
    definitions=("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",),
    webhooks="config/components/webhook/manifests.yaml",
    configuration="config.jobset.x-k8s.io/v1alpha1",
    octet=220,
)
LEADER_WORKER_SET = JobController(
    name="lws",
    module="sigs.k8s.io/lws",
    definitions=(
        "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
        "config/crd/bases/disaggregatedset.x-k8s.io_disaggregatedsets.yaml",
    ),
    webhooks="config/webhook/manifests.yaml",
    configuration="config.lws.x-k8s.io/v1alpha1",
    octet=221,
)
TRAINER = JobController(
    name="trainer",
    module="github.com/kubeflow/trainer/v2",
    definitions=tuple(
        f"manifests/base/crds/trainer.kubeflow.org_{kind}.yaml"
        for kind in ("trainjobs", "trainingruntimes", "clustertrainingruntimes")
    ),
    webhooks="manifests/base/webhook/manifests.yaml",
    configuration="config.trainer.kubeflow.org/v1alpha1",
    octet=222,
    certificates="certManagement",
    takes_folder=False,
)
_TORCH = "manifests/base/runtimes/torch_distributed.yaml"


def torch_runtime() -> Any:
    """Trainer's own runtime for PyTorch, of which a TrainJob becomes a JobSet."""
    return yaml.safe_load((TRAINER.folder() / _TORCH).read_text())


async def install(cluster: Cluster, api: Api, *controllers: JobController) -> list[Program]:
    """Install these controllers and start them; return when their webhooks answer."""
    build(JOBS)
    authority = Authority.at(cluster.files.home / "pki")
    programs = []
    for each in controllers:
        await define(api, *(each.folder() / path for path in each.definitions))
        address = f"{cluster.ports.services}.{each.octet}"
        program = _program(cluster, each, authority, address)
        program.start()
        programs.append(program)
        for path, found in _objects(each, authority, address):
            await api.create(path, found)
    return programs


async def define(api: Api, *files: Path) -> None:
    """Make the definitions in these files; return when discovery lists all of their kinds.

    A controller looks a kind up there once, at its start, and ends where it finds none. A
    definition is called established a moment earlier.
    """
    wanted: set[tuple[str, str]] = set()
    for path in files:
        found = yaml.safe_load(path.read_text())
        spec = found["spec"]
        spec.pop("conversion", None)
        served = (each["name"] for each in spec["versions"] if each["served"])
        wanted |= {(f"/apis/{spec['group']}/{each}", spec["names"]["plural"]) for each in served}
        await api.create(DEFINITIONS, found)

    async def are_listed() -> bool:
        listed = {
            (at, each["name"])
            for at in {at for at, _ in wanted}
            for each in await _listed_at(api, at)
        }
        return wanted <= listed

    await eventually(are_listed)


async def _listed_at(api: Api, path: str) -> Sequence[Any]:
    """The resources of a version of an API; none while it is not served."""
    try:
        found: Sequence[Any] = (await api.get(path))["resources"]
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return ()
    return found


def _program(
    cluster: Cluster, controller: JobController, authority: Authority, address: str
) -> Program:
    home = cluster.files.home / controller.name
    folder = home / "k8s-webhook-server" / "serving-certs"  # what their library takes by default
    folder.mkdir(parents=True)
    certificate, key = authority.leaf(
        controller.name, f"{controller.service}.{controller.name}.svc"
    )
    shutil.copy(certificate, folder / "tls.crt")
    shutil.copy(key, folder / "tls.key")
    webhook = {"port": _HTTPS, "host": address}
    if controller.takes_folder:
        webhook["certDir"] = str(folder)
    configuration = {
        "apiVersion": controller.configuration,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        controller.certificates: {"enable": False},
        "webhook": webhook,
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
    }
    file = home / "configuration.yaml"
    file.write_text(yaml.safe_dump(configuration))
    argv = (
        str(JOBS.program(controller.name)),
        f"--config={file}",
        f"--kubeconfig={cluster.files.kubeconfig}",
    )
    log = cluster.files.log(controller.name)
    return Program(controller.name, argv, log, {"TMPDIR": str(home)})


def _objects(
    controller: JobController, authority: Authority, address: str
) -> Iterator[tuple[str, Any]]:
    """Yield what its manifests install for its webhooks: path of the collection, and object."""
    namespace = controller.name
    yield "/api/v1/namespaces", {"metadata": {"name": namespace}}
    service = {
        "metadata": {"name": controller.service},
        "spec": {"clusterIP": address, "ports": [{"port": _HTTPS}]},
    }
    yield f"/api/v1/namespaces/{namespace}/services", service
    trusted = base64.b64encode(authority.certificate_file.read_bytes()).decode()
    for each in yaml.safe_load_all((controller.folder() / controller.webhooks).read_text()):
        each["metadata"]["name"] = f"{controller.name}-{each['metadata']['name']}"
        for webhook in each["webhooks"]:
            client = webhook["clientConfig"]
            client["service"] |= {"name": controller.service, "namespace": namespace}
            client["caBundle"] = trusted
        yield f"{_REGISTRATION}/{each['kind'].lower()}s", each
