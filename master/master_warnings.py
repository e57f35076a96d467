"""The warnings of all parts about how a master is run."""

from dataclasses import dataclass

from master.admission.admission import Admission
from master.authentication.cleartext import CleartextSecrets
from master.booking.ahead import AheadBudget
from master.cluster import Cluster
from master.controllers.table import Controllers
from master.extender.port import ExtenderPort
from master.file_warnings import FileWarnings
from master.object_errors import ObjectErrors
from master.replicas.replicas import Replicas
from master.settings import MasterSettings
from master.wiring.check import WiringCheck
from topo.model.conditions.master import MasterCondition
from topo.model.rest.topology import WarningDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterWarnings:
    """The parts with warnings. Parts that a master lacks are None."""

    settings: MasterSettings
    cleartext: CleartextSecrets
    files: FileWarnings
    objects: ObjectErrors
    cluster: Cluster | None
    replicas: Replicas | None
    admission: Admission | None
    extender: ExtenderPort | None
    controllers: Controllers
    wiring: WiringCheck | None
    ahead: AheadBudget

    def now(self) -> tuple[WarningDocument, ...]:
        """Return the current warnings with their next steps."""
        of_cluster = self.cluster.warnings if self.cluster is not None else ()
        of_replicas = self.replicas.warnings if self.replicas is not None else ()
        of_cables = self.wiring.warnings if self.wiring is not None else ()
        of_us = (*self.cleartext.warnings, *self.files.warnings, *of_cables)
        of_jobs = (*self._of_webhook(), *self._of_extender(), *self.controllers.warnings)
        of_jobs = (*of_jobs, *self.ahead.warnings())
        return (*of_us, *of_cluster, *of_replicas, *of_jobs, *self.objects.warnings())

    def _of_extender(self) -> tuple[WarningDocument, ...]:
        if self.extender is None:
            return ()
        found = []
        if self.extender.is_open:
            text = (
                f"port {self.settings.extender_port} answers whoever reaches it: which nodes are "
                "kept for the group of a pod, and how the quota of a namespace stands"
            )
            found.append(WarningDocument.of(MasterCondition.EXTENDER_OPEN, text))
        if doubt := self.extender.quota.doubt:
            namespace, name = self.settings.gpu_quota
            fix = f"kubectl edit configmap -n {namespace} {name}"
            found.append(WarningDocument.of(MasterCondition.GPU_QUOTA, doubt, fix))
        return tuple(found)

    def _of_webhook(self) -> tuple[WarningDocument, ...]:
        if self.admission is None:
            return ()
        nomination = self.controllers.nomination
        is_used = self.settings.placement == "native" or (nomination and nomination.has_native)
        reader = self.admission.reader
        of_volcano = reader.warnings if is_used else ()
        over = reader.preemption_warnings if self.settings.preempt_after else ()
        if of_volcano and over:
            of_volcano, over = reader.joint_warnings, ()
        return (*self.admission.keeper.warnings, *of_volcano, *over)
