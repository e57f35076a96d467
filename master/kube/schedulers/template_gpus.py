"""The whole GPUs of the pods of a template: the same number as of the pods that are made of it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from master.kube.objects import PodSpec
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.stamp import read_claimed
from topo.model.pod_requests import requested, whole_gpus


class TemplateGpus(NamedTuple):
    """The GPUs of each pod; `resource` is that of those in its requests, empty for none.

    `is_unknown`: they may have GPUs by claims of devices of which no number is stamped.
    """

    resource: str
    gpus: int
    is_unknown: bool = False


def template_gpus(
    spec: PodSpec,
    annotations: Mapping[str, str],
    resources: Sequence[str],
    keys: AnnotationKeys,
) -> TemplateGpus:
    """Return the whole GPUs of a pod of a template: in its requests, and by claims; O(containers).

    `resources` are those of whole GPUs, of which the first that the pod names counts.
    """
    resource, gpus = whole_gpus(requested(spec, resources), resources)
    has_claims = bool(spec.resource_claims)
    claimed = read_claimed(annotations, keys, has_claims=has_claims)
    is_unknown = has_claims and keys.claimed_gpus not in annotations and not gpus
    return TemplateGpus(resource, gpus + claimed, is_unknown)
