"""Reader of a TrainJob: what it asks for is passed on to the JobSet that is made of it.

Trainer makes a JobSet of the TrainJob's name, of its runtime's template and `spec.runtimePatches`.
Annotations of the TrainJob itself do not reach it; those of a patch do. So the patch of our own
manager repeats them on the JobSet, which is stamped at its own creation.

The initializers of a TrainJob have no GPUs: the gang is the Job `node` alone, whose pods come once
they have ended.

Source: github.com/kubeflow/trainer/v2 v2.3.0, pkg/apis/trainer/v1alpha1, pkg/runtime.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.templates import JobParts
from topo.gangs.json_patch import Operation, Path, add, mapping, sequence

_PATCHES: Path = ("spec", "runtimePatches")


def relay(job: Mapping[str, Any], asked: Mapping[str, str], domain: str) -> tuple[Operation, ...]:
    """Return the operations that pass annotations on to the JobSet; none where it has them."""
    found = sequence(mapping(job.get("spec")).get("runtimePatches"))
    manager = f"{domain}/gangs"
    annotations = {"metadata": {"annotations": dict(asked)}}
    patch = {"manager": manager, "trainingRuntimeSpec": {"template": annotations}}
    if any(mapping(each).get("manager") == manager for each in found):
        return ()
    if not found:
        return (add(_PATCHES, value=[patch]),)
    return (add((*_PATCHES, "-"), value=patch),)


def train_job(_job: Mapping[str, Any]) -> JobParts:
    """Return no templates: those of its pods are in its runtime."""
    return JobParts(templates=())


TRAIN_JOB = JobKind(
    name="trainjob",
    title="TrainJob",
    group="trainer.kubeflow.org",
    version="v1alpha1",
    kind="TrainJob",
    resource="trainjobs",
    index_key="",
    parts=train_job,
    relay=relay,
)
