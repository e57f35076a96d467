"""Plain pods with the name of their gang: pods that a program or a person makes one by one.

    metax-tech.com/gpu-group-size: "16"        the groups, as of every job
    metax-tech.com/gang-name: train            annotation; pods of one namespace with one name
    metax-tech.com/gang-pods: "8"              annotation; how many pods the gang has
    metax-tech.com/gang-rank: "0"              annotation; which of them it is, if that matters

Pods of a group of Kueue say the same by its label kueue.x-k8s.io/pod-group-name, its annotation
kueue.x-k8s.io/pod-group-total-count and its label kueue.x-k8s.io/pod-group-pod-index.

There is no job: the pods themselves are stamped at their creation. Without ranks they are ranked as
they come (`topo.gangs.ranks`), once all are there.

Source: sigs.k8s.io/kueue v0.19.2, pkg/controller/jobs/pod/constants.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds.job_kind import GangName, JobKind, PodFacts
from topo.gangs.job_kinds.templates import JobParts
from topo.gangs.json_patch import text
from topo.gangs.machine.gang import gang_of

NAME = "pods"
_KUEUE = "kueue.x-k8s.io"
KUEUE_NAME = f"{_KUEUE}/pod-group-name"
KUEUE_TOTAL = f"{_KUEUE}/pod-group-total-count"
KUEUE_INDEX = f"{_KUEUE}/pod-group-pod-index"


def named_gang(
    labels: Mapping[str, Any], annotations: Mapping[str, Any], keys: AnnotationKeys
) -> str:
    """Return the name of the gang that a plain pod says it is of; empty for none."""
    return text(annotations.get(keys.gang_name)) or text(labels.get(KUEUE_NAME))


def _parts(_pod: Mapping[str, Any]) -> JobParts:
    return JobParts(templates=())


def _gang(pod: PodFacts) -> GangName | None:
    name = named_gang(pod.labels, pod.annotations, pod.keys)
    return GangName(gang_of(NAME, pod.namespace, name), name) if name else None


PLAIN_PODS = JobKind(
    name=NAME,
    title="pods with a gang-name",
    group="",
    version="v1",
    kind="Pod",
    resource="pods",
    index_key="",
    parts=_parts,
    gang=_gang,
)
