"""Reader of a Deployment: its replicas are alike, and groups of them come and go.

    replicas 8 of 8 GPUs, gpu-group-size 16 → four groups of two; scaled to 10, one group more

Size: `spec.replicas` at its creation, which all start together; afterwards the pods that there are.
Identity: the ReplicaSet, so that the pods of a new template are a gang of their own beside the old
ones. Rank: none on the pods; see `topo.gangs.ranks`.

At an update Kubernetes makes as many new pods as `maxSurge` and `maxUnavailable` allow, and waits
until they are ready. So a gang of less than all replicas starts after a while with those there are.

Source: k8s.io/kubernetes v1.37, pkg/controller/deployment, pkg/controller/replicaset.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.job_kinds.job_kind import GangName, JobKind, PodFacts
from topo.gangs.job_kinds.templates import JobParts, Template, count
from topo.gangs.json_patch import mapping
from topo.gangs.machine.gang import gang_of_owner

NAME = "deployment"
_HASH = "pod-template-hash"


def deployment(found: Mapping[str, Any]) -> JobParts:
    """Return the parts of a Deployment; O(1)."""
    spec = mapping(found.get("spec"))
    template = Template(
        path=("spec", "template"),
        name="template",
        pods=count(spec.get("replicas", 1)),
        body=mapping(spec.get("template")),
    )
    return JobParts(templates=(template,), stamped_kind=NAME)


def _gang(pod: PodFacts) -> GangName | None:
    if not pod.owner_uid or _HASH not in pod.labels:
        return None
    gang_id = gang_of_owner(pod.namespace, pod.owner_version, pod.owner_kind, pod.owner_uid)
    return GangName(gang_id, pod.owner_name.removesuffix(f"-{pod.labels[_HASH]}"))


DEPLOYMENT = JobKind(
    name=NAME,
    title="Deployment",
    group="apps",
    version="v1",
    kind="Deployment",
    resource="deployments",
    index_key="",
    parts=deployment,
    gang=_gang,
    is_elastic=True,
    has_deletion_costs=True,
)
