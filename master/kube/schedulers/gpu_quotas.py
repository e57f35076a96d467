"""What ResourceQuotas leave a namespace of its GPUs.

Source: kubernetes.io, "Resource Quotas": of an extended resource only `requests.<resource>` is
taken by API servers; `limits.<resource>` and the bare name are those of cpu and memory, and are
read in the same way.

Example: requests.metax-tech.com/gpu 64, of which pods use 8 → 56 are left
"""

from collections.abc import Iterable, Iterator, Sequence

from master.kube.objects import QuotaObject
from topo.model.quantity import whole
from topo.placement.booking.ahead import AheadLimit

_FORMS = ("requests.", "limits.", "")


def gpu_quota(
    quotas: Iterable[QuotaObject], namespace: str, resources: Sequence[str]
) -> AheadLimit | None:
    """Return the least that the quotas of a namespace leave of these resources; None without one.

    Quotas with scopes are left out, since they need not count the pods in question. One that was
    not counted yet leaves nothing. O(quotas).
    """
    found = [
        limit
        for quota in quotas
        if quota.metadata.namespace == namespace
        and not (quota.spec.scopes or quota.spec.scope_selector)
        for limit in _limits(quota, resources)
    ]
    return min(found, key=lambda each: each.gpus or 0, default=None)


def _limits(quota: QuotaObject, resources: Sequence[str]) -> Iterator[AheadLimit]:
    """Yield what a quota leaves of each resource that it bounds."""
    name = f"ResourceQuota {quota.metadata.namespace}/{quota.metadata.name}"
    for key in (f"{form}{resource}" for resource in resources for form in _FORMS):
        stated = quota.status.hard.get(key, quota.spec.hard.get(key))
        if stated is None:
            continue
        used = quota.status.used.get(key)
        hard, taken = whole(stated), whole(used) if used is not None else None
        left = max(0, hard - taken) if hard is not None and taken is not None else 0
        of = f"{key} {used if used is not None else 'not counted yet'} of {stated} used"
        yield AheadLimit(left, f"{name}: {of}", is_quota=True)
