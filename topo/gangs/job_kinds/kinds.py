"""The table of job kinds: one row per kind of object whose pods can be gangs.

To add a kind, add a row here and its reader in this folder. The row feeds the admission webhook
(which objects it reviews, which pods it gates), the index of a pod in its job, the metrics of
reviews, and the rights and webhooks of the chart, which `tests/helm` checks against the table.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from topo.gangs.annotation_keys import COMPLETION_INDEX, TASK_INDEX
from topo.gangs.job_kinds.batch_job import batch_job
from topo.gangs.job_kinds.templates import JobParts
from topo.gangs.job_kinds.volcano_job import volcano_job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind of job in Kubernetes, and how a gang is read from it.

    `name` labels its reviews in metrics, `title` names the kind to people, `resource` is the plural
    of the REST path. `index_key` is the label or annotation of a pod that holds its
    number within its template, from 0. `parts` reads a job's templates from its JSON object.
    `api_version` is that of its objects and of references to them.
    """

    name: str
    title: str
    group: str
    version: str
    kind: str
    resource: str
    index_key: str
    parts: Callable[[Mapping[str, Any]], JobParts]
    api_version: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}")


JOB_KINDS: tuple[JobKind, ...] = (
    JobKind(
        name="volcano-job",
        title="Volcano Job",
        group="batch.volcano.sh",
        version="v1alpha1",
        kind="Job",
        resource="jobs",
        index_key=TASK_INDEX,
        parts=volcano_job,
    ),
    JobKind(
        name="job",
        title="batch Job",
        group="batch",
        version="v1",
        kind="Job",
        resource="jobs",
        index_key=COMPLETION_INDEX,
        parts=batch_job,
    ),
)


def job_kind(owners: Iterable[tuple[str, str]]) -> JobKind | None:
    """Return the kind of the first owner that is a job of the table; None if there is none.

    An owner is its `apiVersion` and `kind`. O(owners).
    """
    known = {(each.api_version, each.kind): each for each in JOB_KINDS}
    return next((known[owner] for owner in owners if owner in known), None)


def names() -> tuple[str, ...]:
    """Return the names of the kinds, in the order of the table."""
    return tuple(each.name for each in JOB_KINDS)
