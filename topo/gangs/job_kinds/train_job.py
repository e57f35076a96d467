"""Reader of a TrainJob: what it asks for is passed on to the JobSet that is made of it.

Trainer makes a JobSet of the TrainJob's name, of its runtime's template and `spec.runtimePatches`.
Annotations of the TrainJob itself do not reach it; those of a patch do. So the patch of our own
manager repeats them on the JobSet, which is stamped at its own creation. Kueue makes its pod sets
before there is a JobSet, from the same patches: slices for it are in the patch, too, and say of how
many pods of what size only where the TrainJob does.

The initializers of a TrainJob have no GPUs: the gang is the Job `node` alone, whose pods come once
they have ended.

Source: github.com/kubeflow/trainer/v2 v2.3.0, pkg/apis/trainer/v1alpha1, pkg/runtime.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.templates import JobParts, Template, count
from topo.gangs.json_patch import Operation, Path, add, mapping, sequence

_PATCHES: Path = ("spec", "runtimePatches")
_NODE = "node"


def relay(
    job: Mapping[str, Any], asked: Mapping[str, str], slices: Mapping[str, str], domain: str
) -> tuple[Operation, ...]:
    """Return the operations that pass annotations on to the JobSet; none where it has them.

    `slices` are those of the pods.
    """
    found = sequence(mapping(job.get("spec")).get("runtimePatches"))
    manager = f"{domain}/gangs"
    template: dict[str, Any] = _annotated(asked)
    if slices:
        of_node = {"name": _NODE, "template": {"spec": {"template": _annotated(slices)}}}
        template["spec"] = {"replicatedJobs": [of_node]}
    patch = {"manager": manager, "trainingRuntimeSpec": {"template": template}}
    if any(mapping(each).get("manager") == manager for each in found):
        return ()
    if not found:
        return (add(_PATCHES, value=[patch]),)
    return (add((*_PATCHES, "-"), value=patch),)


def train_job(found: Mapping[str, Any]) -> JobParts:
    """Return its nodes as far as it says what they are; the rest is in its runtime."""
    trainer = mapping(mapping(found.get("spec")).get("trainer"))
    container = {"resources": mapping(trainer.get("resourcesPerNode"))}
    node = Template(
        path=("spec", "trainer"),
        name=_NODE,
        pods=count(trainer.get("numNodes")),
        body={"spec": {"containers": [container]}},
    )
    return JobParts(templates=(node,), is_complete=False)


def _annotated(values: Mapping[str, str]) -> dict[str, Any]:
    return {"metadata": {"annotations": dict(values)}}


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
