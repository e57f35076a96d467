"""The table of job kinds: one row per kind of object whose pods can be gangs.

To add a kind, add a file with its row in this folder, and the row here. The row feeds the admission
webhook (which objects it reviews, which pods it gates), the gang and the rank of a pod, the metrics
of reviews, and the webhooks of the chart, which `tests/helm` checks against the table.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from topo.gangs.job_kinds.batch_job import BATCH_JOB
from topo.gangs.job_kinds.deployment import DEPLOYMENT
from topo.gangs.job_kinds.job_kind import GangName, JobKind, PodFacts
from topo.gangs.job_kinds.job_set import JOB_SET
from topo.gangs.job_kinds.leader_worker_set import LEADER_WORKER_SET
from topo.gangs.job_kinds.plain_pods import PLAIN_PODS
from topo.gangs.job_kinds.ray_cluster import RAY_CLUSTER
from topo.gangs.job_kinds.ray_job import RAY_JOB
from topo.gangs.job_kinds.stateful_set import STATEFUL_SET
from topo.gangs.job_kinds.train_job import TRAIN_JOB
from topo.gangs.job_kinds.training_operator import MPI_JOB, PYTORCH_JOB
from topo.gangs.job_kinds.volcano_job import VOLCANO_JOB
from topo.placement.job.request import Kin

JOB_KINDS: tuple[JobKind, ...] = (
    VOLCANO_JOB,
    BATCH_JOB,
    JOB_SET,
    TRAIN_JOB,
    LEADER_WORKER_SET,
    STATEFUL_SET,
    DEPLOYMENT,
    RAY_CLUSTER,
    RAY_JOB,
    PYTORCH_JOB,
    MPI_JOB,
)


_PART_KEYS = tuple((key, kind.part_scope) for kind in JOB_KINDS for key in kind.part_keys)
MOST_KINS = max(len(kind.part_keys) for kind in JOB_KINDS)
"""Kins that a pod may have: of one kind of job."""


def kins_of(namespace: str, labels: Mapping[str, str]) -> tuple[Kin, ...]:
    """Return the pods from which the controller of a pod may keep it apart; O(1)."""
    scopes = (
        (key, labels.get(scope) if scope else namespace)
        for key, scope in _PART_KEYS
        if key in labels
    )
    return tuple(_kin(key, scope) for key, scope in scopes if scope is not None)[:MOST_KINS]


@lru_cache(maxsize=1024)
def _kin(label: str, scope: str) -> Kin:
    """Return one value for equal kins: all pods of a namespace share it."""
    return Kin(label, scope)


def job_kind(owners: Iterable[tuple[str, str]]) -> JobKind | None:
    """Return the kind of the first owner that is a job of the table; None if there is none.

    An owner is its `apiVersion` and `kind`. O(owners).
    """
    known = {(each.api_version, each.kind): each for each in JOB_KINDS}
    return next((known[owner] for owner in owners if owner in known), None)


def names() -> tuple[str, ...]:
    """Return the names of the kinds, in the order of the table."""
    return tuple(each.name for each in JOB_KINDS)


def kind_of(kind: object, owner: tuple[str, str]) -> JobKind | None:
    """Return the kind of a pod: that which it is stamped with, else that of its controller."""
    return (named(kind) if isinstance(kind, str) else None) or job_kind([owner])


def gang_name(kind: object, pod: PodFacts) -> GangName | None:
    """Return the gang that a pod stamped with this kind is of; None where it does not say."""
    found = named(kind) if isinstance(kind, str) else None
    return found.gang(pod) if found is not None and found.gang is not None else None


def title(name: str) -> str:
    """Return the kind, as Kubernetes calls it, of a name of the table; the name for another one."""
    return next((each.kind for each in (*JOB_KINDS, PLAIN_PODS) if each.name == name), name)


def named(name: str) -> JobKind | None:
    """Return the kind of this name whose pods say themselves which gang they are of; else None."""
    known = (each for each in (*JOB_KINDS, PLAIN_PODS) if each.gang is not None)
    return next((each for each in known if each.name == name), None)


def others() -> str:
    """Return why a pod of no kind of the table gets no group, with those that do."""
    return f"it is of none of these: {listed_titles()}"


def listed_titles() -> str:
    """Return what people call all that get groups."""
    return ", ".join(each.title for each in (*JOB_KINDS, PLAIN_PODS))
