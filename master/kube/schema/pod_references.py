"""Objects that the spec and the status of a pod name: volumes, devices, a PodGroup."""

from master.kube.schema.slim import slim


@slim
class ClaimSource:
    """A PersistentVolumeClaim of the pod's namespace."""

    claim_name: str = ""


@slim
class PodVolume:
    """A volume of a pod; for an `ephemeral` one Kubernetes makes a claim, `<pod>-<volume>`."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, object] | None = None


@slim
class PodClaim:
    """Devices that a pod claims: a ResourceClaim, or one that is made for it of a template."""

    name: str = ""
    resource_claim_template_name: str = ""


@slim
class PodClaimStatus:
    """The ResourceClaim that was made for a claim of a pod; None where none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


@slim
class PodSchedulingGroup:
    """The PodGroup of Kubernetes that a pod is of, in its namespace."""

    pod_group_name: str = ""
