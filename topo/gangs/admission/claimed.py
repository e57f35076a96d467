"""GPUs that pods of a new job get by claims of devices (`resource.k8s.io/v1`).

A claim that is made of a ResourceClaimTemplate is its pod's own, so its devices are the pod's. The
number is stamped on the pod template: a pod is read without its templates, as without its job.

    resourceClaims: [{name: gpus, resourceClaimTemplateName: eight-gpus}]
    eight-gpus: requests: [{exactly: {deviceClassName: gpu.nvidia.com, count: 8}}]
    → gang-claimed-gpus 8

A claim that states no number of GPUs for one pod is refused: one that several pods share, one for
all devices of a node, one for the first kind that is there. A template that is not known counts as
nothing for a pod that has GPUs in its requests, too; for one that has none it is waited for.

Source: core/v1 `PodResourceClaim`. Cost: O(claims).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from topo.gangs.admission.outcome import ClaimedGpus, Rules
from topo.gangs.job_kinds.templates import field_path, pod_gpus
from topo.gangs.json_patch import Path, mapping, sequence
from topo.model.errors import Refusal

MAX_CLAIMS = 64
"""Claims of a pod that are read; a pod can use a few devices only."""


@dataclass(frozen=True, slots=True)
class UnknownTemplate:
    """A ResourceClaimTemplate that is not known: the watch may show it later."""

    refusal: Refusal


@dataclass(frozen=True, slots=True)
class PodGpus:
    """The GPUs of a pod; `claimed` are those that it has by claims."""

    gpus: int
    claimed: int = 0


def gpus_of(
    spec: Mapping[str, Any], namespace: str, rules: Rules, path: Path = ("spec",)
) -> PodGpus | Refusal | UnknownTemplate:
    """Return the GPUs of a pod: those in its requests, and those of its claims."""
    asked = pod_gpus(spec, rules.gpu_resources, path)
    if isinstance(asked, Refusal):
        return asked
    claims = sequence(spec.get("resourceClaims"))
    if len(claims) > MAX_CLAIMS:
        what = f"a pod has {len(claims)} claims of devices"
        return Refusal(what, field_path((*path, "resourceClaims")), f"give at most {MAX_CLAIMS}")
    claimed = 0
    for number, claim in enumerate(claims):
        found = _of_claim(mapping(claim), namespace, rules, (*path, "resourceClaims", number))
        if isinstance(found, Refusal) or (isinstance(found, UnknownTemplate) and not asked):
            return found
        claimed += found if isinstance(found, int) else 0
    return PodGpus(asked + claimed, claimed)


def _of_claim(
    claim: Mapping[str, Any], namespace: str, rules: Rules, path: Path
) -> int | Refusal | UnknownTemplate:
    shared = claim.get("resourceClaimName")
    if isinstance(shared, str) and shared:
        of_claim = rules.shared_claim(namespace, shared)
        if of_claim is None or not (of_claim.gpus or of_claim.undecided):
            return 0
        what = f"all pods share the GPUs of the ResourceClaim {shared}, which one node has"
        fix = "use resourceClaimTemplateName, so that each pod has a claim of its own"
        return Refusal(what, field_path((*path, "resourceClaimName")), fix)
    template = claim.get("resourceClaimTemplateName")
    if not isinstance(template, str) or not template:
        return 0
    where = field_path((*path, "resourceClaimTemplateName"))
    found = rules.claim_template(namespace, template)
    if found is None:
        what = f"no ResourceClaimTemplate {template} is known, so the GPUs of a pod are not either"
        fix = "create it before its job (resource.k8s.io/v1, read by the controller nomination)"
        return UnknownTemplate(Refusal(what, where, fix))
    return found.gpus if not found.undecided else _undecided(template, found, where)


def _undecided(template: str, found: ClaimedGpus, where: str) -> Refusal:
    what = f"the ResourceClaimTemplate {template} says no number of GPUs: {found.undecided}"
    return Refusal(what, where, "ask for `exactly` a `count` of devices, without tolerations")
