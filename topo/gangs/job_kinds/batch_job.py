"""Reader of a batch/v1 Job; the completion index of an Indexed Job is the rank."""

from collections.abc import Mapping
from typing import Any

from topo.gangs.job_kinds.templates import JobParts, Template, count
from topo.gangs.json_patch import mapping
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
    return JobParts(templates=(template,), flaw=_flaw(spec), single=template if is_stock else None)


def _flaw(spec: Mapping[str, Any]) -> Refusal | None:
    """Return why the job's pods have no ranks or never run together; None if they do both."""
    if spec.get("completionMode") != "Indexed":
        what = "the pods of a Job that is not Indexed have no ranks to group them by"
        return Refusal(what, "spec.completionMode", "set completionMode: Indexed")
    completions = count(spec.get("completions"))
    parallelism = count(spec.get("parallelism", 1))
    if parallelism < completions:
        what = f"{parallelism} of {completions} pods run at once, so their groups are never whole"
        return Refusal(what, "spec.parallelism", f"set parallelism: {completions}")
    return None
