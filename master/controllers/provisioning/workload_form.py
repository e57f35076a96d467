"""What is written for a workload of Kueue: its admission check, or that its job is let go."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from master.controllers.provisioning.form import MESSAGE_CHARS
from master.controllers.provisioning.workload_stores import WorkloadStores
from master.kube.schedulers.workloads import ADMISSION_CHECKS, WORKLOADS, WorkloadObject
from master.kube.schema.timestamps import timestamp
from master.kube.store import Store
from master.kube.writing.writes import MANAGER_PREFIX, Apply, WriteTarget
from topo.gangs.annotation_keys import ADMISSION_GATED_BY, AnnotationKeys, holders
from topo.model.conditions.master import MasterCondition
from topo.model.ids import Kind
from topo.provisioning.course import Phase, ProvisioningRequest
from topo.provisioning.messages import WriteStatus
from topo.provisioning.workloads import REQUEUE_S, CheckState, check_message, check_state
from topo.publish.event_series import Regarding


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadForm:
    """Workloads: our checks in their status, and the annotation of a job that is held.

    `label_keys`: the label of each kind of group, by which pods are kept to the booked ones.
    """

    stores: WorkloadStores
    keys: AnnotationKeys
    label_keys: Mapping[Kind, str]
    server_now: Callable[[], float]

    manager = f"{MANAGER_PREFIX}kueue-workloads"
    unserved = (
        MasterCondition.KUEUE_UNSERVED,
        "the API server lists no Workloads of kueue.x-k8s.io/v1beta2",
    )

    @property
    def followed(self) -> tuple[Store[Any], ...]:
        """Workloads and checks; a job that is let go shows in its workload."""
        return self.stores.workloads, self.stores.checks

    def writes(self, asked: WriteStatus) -> Iterator[Apply]:
        """Yield the entry of each check of ours; of a job that is held its annotation instead."""
        found = self.stores.find(asked.request)
        if found is None:
            return
        if asked.request.is_gated:
            yield from self._letting_go(found)
            return
        state = check_state(asked)
        entries = [
            self._entry(found, asked, entry.name, state)
            for entry in self.stores.entries(asked.request)
        ]
        yield Apply(
            target=WriteTarget(WORKLOADS, asked.request.name, asked.request.namespace),
            manager=self.manager,
            uid=asked.request.uid,
            version=asked.request.version,
            subresource="status",
            fields={"status": {"admissionChecks": entries}},
            force=True,
        )

    def standing(self) -> Iterator[Apply]:
        """Yield for each check of ours that it is answered, if it does not say so."""
        for each in self.stores.our_checks():
            if each.is_active:
                continue
            condition = {
                "type": "Active",
                "status": "True",
                "reason": "Active",
                "message": "topo-master books whole groups",
                # One time for all tries, so that they are one write.
                "lastTransitionTime": each.metadata.creation_timestamp,
            }
            yield Apply(
                target=WriteTarget(ADMISSION_CHECKS, each.metadata.name),
                manager=self.manager,
                uid=each.metadata.uid,
                subresource="status",
                fields={"status": {"conditions": [condition]}},
                force=True,
            )

    def about(self, request: ProvisioningRequest) -> Regarding:
        """Return the job of a workload, or the workload where it has none."""
        found = self.stores.find(request)
        owner = found.owner if found is not None else None
        if owner is None:
            at = WORKLOADS.api_version, WORKLOADS.kind, request.name, request.uid
            return Regarding(*at, request.namespace)
        return Regarding(owner.api_version, owner.kind, owner.name, owner.uid, request.namespace)

    def _letting_go(self, found: WorkloadObject) -> Iterator[Apply]:
        owner, resource = found.owner, found.held_as
        if owner is None or resource is None:
            return
        target = WriteTarget(resource, owner.name, found.metadata.namespace)
        annotations = found.metadata.annotations
        yield letting_go(target, owner.uid, annotations, self.keys, manager=self.manager)

    def _entry(
        self, found: WorkloadObject, asked: WriteStatus, name: str, state: CheckState
    ) -> dict[str, Any]:
        since = (c.since_s for c in asked.conditions if c.type == asked.phase.value)
        entry: dict[str, Any] = {
            "name": name,
            "state": state.value,
            "message": check_message(asked)[:MESSAGE_CHARS],
            "lastTransitionTime": timestamp(next(since, self.server_now())),
        }
        if state is CheckState.RETRY and asked.phase is Phase.FAILED:
            entry["requeueAfterSeconds"] = REQUEUE_S
        if asked.hold:
            entry["podSetUpdates"] = list(self._updates(found, asked))
        return entry

    def _updates(self, found: WorkloadObject, asked: WriteStatus) -> Iterator[dict[str, Any]]:
        """Yield what the pods get: the booking, and the labels of the groups that they share.

        A key that the template has is left out: Kueue ends a workload for which two values meet.
        """
        details = dict(asked.details)
        labels = {key: details[kind] for kind, key in self.label_keys.items() if kind in details}
        for each in found.spec.pod_sets:
            if self.keys.size not in each.template.metadata.annotations:
                continue
            own = each.template.spec.node_selector
            yield {
                "name": each.name,
                "annotations": {self.keys.booking: asked.hold},
                "nodeSelector": {key: value for key, value in labels.items() if key not in own},
            }


def letting_go(
    target: WriteTarget,
    uid: str,
    annotations: Mapping[str, str],
    keys: AnnotationKeys,
    *,
    manager: str,
) -> Apply:
    """Return the annotation of a job without our name; an empty one holds nobody.

    Kueue's own webhook refuses it where somebody else took a name away meanwhile: names are never
    added.
    """
    others = ",".join(each for each in holders(annotations) if each != keys.whole_groups)
    fields = {"metadata": {"annotations": {ADMISSION_GATED_BY: others}}}
    return Apply(target=target, manager=manager, uid=uid, fields=fields, force=True)


def is_held(annotations: Mapping[str, str], keys: AnnotationKeys) -> bool:
    """Return whether our name is among those that hold a job."""
    return keys.whole_groups in holders(annotations)
