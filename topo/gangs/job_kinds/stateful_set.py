"""Reader of a StatefulSet: all of its pods are a gang, ranked by their ordinals.

Size: `spec.replicas` at its creation; pods of higher ordinals that come later are placed beside the
others. Identity: the uid of the StatefulSet. Rank: the label apps.kubernetes.io/pod-index, less
`spec.ordinals.start`.

With podManagementPolicy OrderedReady, the default, pod n + 1 is made once pod n is ready, and a
StatefulSet that is scaled in looks like one that is still growing. So it is refused: the field can
only be set at creation, and a gang has no use for that order.

Source: k8s.io/kubernetes v1.37, pkg/controller/statefulset.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.annotation_keys import POD_INDEX
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.templates import JobParts, Template, count
from topo.gangs.json_patch import mapping
from topo.model.errors import Refusal


def stateful_set(found: Mapping[str, Any]) -> JobParts:
    """Return the parts of a StatefulSet; O(1)."""
    spec = mapping(found.get("spec"))
    pods = count(spec.get("replicas", 1))
    template = Template(
        path=("spec", "template"),
        name="template",
        pods=pods,
        body=mapping(spec.get("template")),
        first_index=count(mapping(spec.get("ordinals")).get("start")),
    )
    return JobParts(templates=(template,), flaw=_flaw(spec) if pods > 1 else None)


def _flaw(spec: Mapping[str, Any]) -> Refusal | None:
    if spec.get("podManagementPolicy") == "Parallel":
        return None
    what = "its pods are made one by one, each once the one before is ready"
    return Refusal(what, "spec.podManagementPolicy", "set podManagementPolicy: Parallel")


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
