"""Reader of a StatefulSet: all of its pods are a gang, ranked by their ordinals.

Size: `spec.replicas`; pods of higher ordinals that come later are placed beside the others.
Identity: the StatefulSet itself. Rank: the label apps.kubernetes.io/pod-index, less
`spec.ordinals.start`.

With podManagementPolicy OrderedReady, the default, pod n + 1 is made once pod n is ready: its pods
come late. No place is kept once no further pod came for an hour (`gangs.members`).

Source: k8s.io/kubernetes v1.37, pkg/controller/statefulset.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.annotation_keys import POD_INDEX
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.templates import JobParts, Template, Wait, count
from topo.gangs.json_patch import mapping

_NAME = "template"


def stateful_set(found: Mapping[str, Any]) -> JobParts:
    """Return the parts of a StatefulSet; O(1)."""
    spec = mapping(found.get("spec"))
    template = Template(
        path=("spec", "template"),
        name=_NAME,
        pods=count(spec.get("replicas", 1)),
        body=mapping(spec.get("template")),
        first_index=count(mapping(spec.get("ordinals")).get("start")),
        waits=_waits(spec),
    )
    return JobParts(templates=(template,))


def _waits(spec: Mapping[str, Any]) -> Wait | None:
    if spec.get("podManagementPolicy") == "Parallel":
        return None
    where, fix = "spec.podManagementPolicy", "set Parallel"
    first = frozenset({_NAME})
    return Wait(first, until_ended=False, where=where, fix=fix, is_one_by_one=True)


STATEFUL_SET = JobKind(
    name="statefulset",
    title="StatefulSet",
    group="apps",
    version="v1",
    kind="StatefulSet",
    resource="statefulsets",
    index_key=POD_INDEX,
    parts=stateful_set,
)
