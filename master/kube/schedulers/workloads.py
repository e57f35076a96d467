"""Workloads of Kueue, and the admission checks that its queues name.

Source: `kueue.x-k8s.io/v1beta2` of Kueue v0.19.2, `apis/kueue/v1beta2`.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any

from pydantic import BeforeValidator

from master.kube.objects import (
    BareObject,
    Metadata,
    ObjectCondition,
    OwnerReference,
    Resource,
    VersionedMetadata,
)
from master.kube.schedulers.provisioning import TemplateBody
from master.kube.schedulers.template_gpus import template_gpus
from master.kube.schema.slim import slim
from topo.gangs.annotation_keys import HELD_KINDS, AnnotationKeys
from topo.publish.topologies import kueue


def _is_there(found: Any) -> bool:
    return found is not None and found is not False


@slim
class DatedCondition(ObjectCondition):
    """A condition with the time of its last transition."""

    last_transition_time: str = ""


@slim
class PodSetUpdate:
    """What a check adds to the pods of a pod set; of it only annotations are read."""

    name: str = ""
    annotations: dict[str, str] = field(default_factory=dict)


@slim
class CheckEntry:
    """The state of a check of a workload."""

    name: str
    state: str
    message: str = ""
    last_transition_time: str = ""
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


@slim
class PodSetAssignment:
    """The flavors of a pod set, and whether Kueue has chosen its nodes."""

    name: str
    flavors: dict[str, str] = field(default_factory=dict)
    topology_assignment: Annotated[bool, BeforeValidator(_is_there)] = False


@slim
class AdmissionObject:
    """What a workload has its quota of."""

    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


@slim
class WorkloadStatus:
    """How far a workload has come."""

    conditions: tuple[DatedCondition, ...] = ()
    admission: AdmissionObject | None = None
    admission_checks: tuple[CheckEntry, ...] = ()


@slim
class WorkloadPodSet:
    """A number of pods of a template."""

    name: str = "main"
    count: int = 1
    template: TemplateBody


@slim
class WorkloadSpec:
    """The pods of a workload."""

    pod_sets: tuple[WorkloadPodSet, ...] = ()
    active: bool = True


@slim
class WorkloadObject:
    """A Workload: what Kueue gives quota for a job, its owner.

    Its version counts: a check is answered in the version that was read, from a copy.
    """

    metadata: VersionedMetadata
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)

    @property
    def owner(self) -> OwnerReference | None:
        """Its job; None for a workload of several owners, or of none."""
        return next((each for each in self.metadata.owner_references if each.controller), None)

    @property
    def held_as(self) -> Resource[BareObject] | None:
        """The kind of its job, where such jobs are held before their quota."""
        owner = self.owner
        kind = (owner.api_version, owner.kind) if owner is not None else None
        return next((each for each in HELD if (each.api_version, each.kind) == kind), None)


def reserved_gpus(found: WorkloadObject, resources: Sequence[str], keys: AnnotationKeys) -> int:
    """Return the whole GPUs that a queue reserved for a workload; 0 while it waits. O(pod sets)."""
    true = {each.type for each in found.status.conditions if each.status == "True"}
    if "QuotaReserved" not in true or not true.isdisjoint({"Finished", "Evicted"}):
        return 0
    return sum(
        each.count
        * template_gpus(
            each.template.spec, each.template.metadata.annotations, resources, keys
        ).gpus
        for each in found.spec.pod_sets
    )


@slim
class CheckSpec:
    """Who answers a check."""

    controller_name: str = ""


@slim
class CheckStatus:
    """Whether it is answered."""

    conditions: tuple[ObjectCondition, ...] = ()


@slim
class AdmissionCheckObject:
    """An AdmissionCheck, which queues name."""

    metadata: Metadata
    spec: CheckSpec = field(default_factory=CheckSpec)
    status: CheckStatus = field(default_factory=CheckStatus)

    @property
    def is_active(self) -> bool:
        """Whether it says that somebody answers it."""
        return any((c.type, c.status) == ("Active", "True") for c in self.status.conditions)


WORKLOADS = Resource(kueue.API_VERSION, "Workload", "workloads", WorkloadObject)
ADMISSION_CHECKS = Resource(
    kueue.API_VERSION, "AdmissionCheck", "admissionchecks", AdmissionCheckObject, namespaced=False
)
HELD = tuple(Resource(*of, plural, BareObject) for of, plural in HELD_KINDS.items())
"""The kinds of jobs that are held before their quota."""
