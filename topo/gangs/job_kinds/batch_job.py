"""Reader of a batch/v1 Job; the completion index of an Indexed Job is the rank."""

from collections.abc import Mapping
from typing import Any

from topo.gangs.annotation_keys import COMPLETION_INDEX
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.templates import JobParts, Template, count, field_path
from topo.gangs.json_patch import Path, mapping
from topo.model.errors import Refusal

_STOCK = (None, "", "default-scheduler")
"""Names of kube-scheduler, as far as they are known: another program may have any other."""


def batch_job(job: Mapping[str, Any]) -> JobParts:
    """Return the parts of a batch Job; O(1)."""
    spec = mapping(job.get("spec"))
    template = Template(
        path=("spec", "template"),
        name="template",
        pods=count(spec.get("completions")),
        body=mapping(spec.get("template")),
    )
    is_stock = template.spec.get("schedulerName") in _STOCK
    flaw = index_flaw(spec, ("spec",))
    return JobParts(templates=(template,), flaw=flaw, single=template if is_stock else None)


def index_flaw(spec: Mapping[str, Any], path: Path) -> Refusal | None:
    """Return why the pods of a Job have no ranks or never run together; None if they do both.

    `path` is where the Job's `spec` is in its object.
    """
    if spec.get("completionMode") != "Indexed":
        what = "the pods of a Job that is not Indexed have no ranks to group them by"
        return Refusal(what, field_path((*path, "completionMode")), "set completionMode: Indexed")
    completions = count(spec.get("completions"))
    parallelism = count(spec.get("parallelism", 1))
    if parallelism < completions:
        what = f"{parallelism} of {completions} pods run at once, so their groups are never whole"
        return Refusal(what, field_path((*path, "parallelism")), f"set parallelism: {completions}")
    return None


BATCH_JOB = JobKind(
    name="job",
    title="batch Job",
    group="batch",
    version="v1",
    kind="Job",
    resource="jobs",
    index_key=COMPLETION_INDEX,
    parts=batch_job,
    suspended_at=("spec", "suspend"),
    size_key="completions",
)
