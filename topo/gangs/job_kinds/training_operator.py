"""Readers of PyTorchJob and MPIJob, whose pods carry their index among those of one role.

Size: the replicas of each role. Identity: the job, which controls its pods itself. Rank:
the label replica-index, of a PyTorchJob the master first. The launcher of an MPIJob has no GPUs and
no part in the gang; one with GPUs would be a Job of its own beside the workers. With
`runLauncherAsWorker` it is rank 0 of the job, and since 0.7 the workers are numbered from 1.

Sources: github.com/kubeflow/training-operator v1.9.3, pkg/apis/kubeflow.org/v1;
github.com/kubeflow/mpi-operator v0.7.0, pkg/controller/mpi_job_controller.go.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.templates import JobParts, Template, count
from topo.gangs.json_patch import mapping
from topo.model.errors import Refusal

_AS_WORKER = Refusal(
    "the launcher is a worker, and a Job of its own whose pod comes for itself",
    "spec.runLauncherAsWorker",
    "leave it out, and give GPUs to the workers alone",
)
_INDEX = "training.kubeflow.org/replica-index"
_SUSPENDED = ("spec", "runPolicy", "suspend")


def pytorch_job(found: Mapping[str, Any]) -> JobParts:
    """Return the parts of a PyTorchJob; O(1)."""
    roles = mapping(mapping(found.get("spec")).get("pytorchReplicaSpecs"))
    names = [name for name in ("Master", "Worker") if name in roles]
    return JobParts(templates=tuple(_role("pytorchReplicaSpecs", name, roles) for name in names))


def mpi_job(found: Mapping[str, Any]) -> JobParts:
    """Return the parts of an MPIJob; O(1)."""
    spec = mapping(found.get("spec"))
    roles = mapping(spec.get("mpiReplicaSpecs"))
    what = "the launcher is a Job of its own and no part of the gang"
    where = "spec.mpiReplicaSpecs.Launcher.template.spec.containers"
    flaw = Refusal(what, where, "give GPUs to the workers alone")
    templates = (
        _role("mpiReplicaSpecs", "Worker", roles),
        _role("mpiReplicaSpecs", "Launcher", roles, flaw=flaw),
    )
    return JobParts(
        templates=tuple(each for each in templates if each.name in roles),
        flaw=_AS_WORKER if spec.get("runLauncherAsWorker") is True else None,
    )


def _role(specs: str, name: str, roles: Mapping[str, Any], **more: Any) -> Template:
    role = mapping(roles.get(name))
    return Template(
        path=("spec", specs, name, "template"),
        name=name,
        pods=count(role.get("replicas", 1)),
        body=mapping(role.get("template")),
        **more,
    )


PYTORCH_JOB = JobKind(
    name="pytorchjob",
    title="PyTorchJob",
    group="kubeflow.org",
    version="v1",
    kind="PyTorchJob",
    resource="pytorchjobs",
    index_key=_INDEX,
    parts=pytorch_job,
    suspended_at=_SUSPENDED,
)
MPI_JOB = JobKind(
    name="mpijob",
    title="MPIJob",
    group="kubeflow.org",
    version="v2beta1",
    kind="MPIJob",
    resource="mpijobs",
    index_key=_INDEX,
    parts=mpi_job,
    suspended_at=_SUSPENDED,
    leaves_pods_beyond=True,
)
