"""Which gang a pod is of, from its own labels, annotations and controller.

The first of these that a pod states, as its stamp says: the ProvisioningRequest that it consumes,
the gang that its labels name, its CompositePodGroup, its PodGroup; else its controller is the gang,
else the pod alone.

Example: the webhook stamped a pod of a JobSet, whose labels give its uid and attempt: the gang is
jobset/<namespace>/<uid>/<attempt>, whichever Job controls the pod.
"""

from typing import NamedTuple

from master.kube.objects import OwnerReference, PodObject
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.job_kind import GangName, JobKind, PodFacts
from topo.gangs.job_kinds.plain_pods import PLAIN_PODS
from topo.gangs.machine.gang import (
    GangId,
    gang_of_composite,
    gang_of_group,
    gang_of_owner,
    gang_of_request,
)
from topo.gangs.stamp import Stamp, first_order, pod_rank
from topo.model.errors import Refusal


class PodGang(NamedTuple):
    """The gang of a pod.

    `named`: what its labels say, None where its controller says it. `is_of_group`: its PodGroup of
    Kubernetes is the gang, or `composite` above that, empty for none. `consumes`: the
    request, or the Workload of Kueue, that it takes its node from, empty for none.
    """

    id: GangId
    named: GangName | None = None
    is_of_group: bool = False
    composite: str = ""
    consumes: str = ""


def pod_gang(found: PodObject, owner: OwnerReference | None, keys: AnnotationKeys) -> PodGang:
    """Return the gang of a pod that `owner` controls. O(1)."""
    metadata, group = found.metadata, found.spec.group_name
    namespace, annotations = metadata.namespace, metadata.annotations
    named = _named(found, owner, keys)
    is_of_group = bool(group) and annotations.get(keys.of_pod_group) == group
    root = annotations.get(keys.of_composite, "") if is_of_group and named is None else ""
    consumes = keys.consumed(annotations)
    if consumes and keys.pods not in annotations:
        gang_id = gang_of_request(namespace, consumes)
    elif named is not None:
        gang_id = named.id
    elif root:
        gang_id = gang_of_composite(namespace, root)
    elif is_of_group:
        gang_id = gang_of_group(namespace, group)
    elif owner is not None:
        gang_id = gang_of_owner(namespace, owner.api_version, owner.kind, owner.uid)
    else:
        gang_id = GangId(metadata.uid)
    return PodGang(gang_id, named, is_of_group, root, keys.consumes(annotations))


def _named(found: PodObject, owner: OwnerReference | None, keys: AnnotationKeys) -> GangName | None:
    metadata = found.metadata
    kind = metadata.annotations.get(keys.kind)
    if kind is None:
        return None
    facts = PodFacts(
        keys=keys,
        namespace=metadata.namespace,
        labels=metadata.labels,
        annotations=metadata.annotations,
        owner_version=owner.api_version if owner is not None else "",
        owner_kind=owner.kind if owner is not None else "",
        owner_name=owner.name if owner is not None else "",
        owner_uid=owner.uid if owner is not None else "",
    )
    return kinds.gang_name(kind, facts)


def kind_of_pod(
    found: PodObject, owner: OwnerReference | None, keys: AnnotationKeys
) -> JobKind | None:
    """Return the kind of job that a pod is of, None for one that gets no groups."""
    controller = (owner.api_version, owner.kind) if owner is not None else ("", "")
    return kinds.kind_of(found.metadata.annotations.get(keys.kind), controller)


def rank_of_pod(
    found: PodObject, stamp: Stamp | Refusal | None, kind: JobKind | None, keys: AnnotationKeys
) -> tuple[int, bool]:
    """Return the rank of a pod in its gang, and whether that is its own.

    Where it is not, it is the order in which pods get their ranks.
    """
    annotations, labels = found.metadata.annotations, found.metadata.labels
    if kind is None or not kind.is_elastic:
        has_rank = kind is not PLAIN_PODS or keys.rank in annotations
        return pod_rank(stamp, annotations, labels, keys), has_rank
    if isinstance(stamp, Stamp):
        return first_order(stamp, kind, annotations, labels), False
    return pod_rank(stamp, annotations, labels, keys), False
