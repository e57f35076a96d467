"""The ResourceQuota that keeps further pods of a gang from being created.

Source: kubernetes.io, "Resource Quotas": `pods` and `count/pods` count pods, `requests.<resource>`
and `limits.<resource>` sum what pods ask for, and `cpu` and `memory` are short for requests.

Example: pods of 8 GPUs, and the quota gpus with requests.metax-tech.com/gpu 12, of which 8 are used
    → "ResourceQuota jobs/gpus has no room for another pod: requests.metax-tech.com/gpu 8 of 12"
"""

from collections.abc import Iterable, Iterator

from master.kube.objects import QuotaObject
from topo.gangs.machine.gang import Gang
from topo.model.quantity import whole

_PODS = ("pods", "count/pods")
_SUMS = ("requests.", "limits.")
_SHORT = ("cpu", "memory", "ephemeral-storage")


def exhausted_quota(gang: Gang, gpu_resources: Iterable[str], quotas: Iterable[QuotaObject]) -> str:
    """Return which quota of the gang's namespace has no room for another pod; empty for none.

    Quotas with scopes are left out, since they need not count these pods. O(quotas).
    """
    needs = dict.fromkeys(_PODS, 1)
    for resource in gpu_resources:
        needs |= {f"{prefix}{resource}": gang.request.gpus_per_pod for prefix in _SUMS}
    for quota in quotas:
        is_scoped = quota.spec.scopes or quota.spec.scope_selector
        if quota.metadata.namespace == gang.namespace and not is_scoped:
            for text in _exhausted(quota, needs):
                name = f"{quota.metadata.namespace}/{quota.metadata.name}"
                return f"ResourceQuota {name} has no room for another pod: {text}"
    return ""


def _exhausted(quota: QuotaObject, needs: dict[str, int]) -> Iterator[str]:
    """Yield each resource of which a pod needs more than is left.

    What a pod needs of processors and memory is not known: such a resource is full once all of it
    is used.
    """
    for resource, hard in quota.status.hard.items():
        used = quota.status.used.get(resource, "0")
        if resource in needs:
            most, taken = whole(hard), whole(used)
            is_full = most is not None and taken is not None and taken + needs[resource] > most
        else:
            is_full = used == hard and (resource in _SHORT or resource.startswith(_SUMS))
        if is_full:
            yield f"{resource} {used} of {hard}"
