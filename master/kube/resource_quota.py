"""The ResourceQuotas of Kubernetes, which keep pods of a namespace from being created."""

from dataclasses import field

from master.kube.objects import Metadata, Resource, slim


@slim
class QuotaSpec:
    """A quota with scopes counts some pods only, such as those of a priority class."""

    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, object] | None = None


@slim
class QuotaStatus:
    """The limits that are in force, and what is used of each, by resource."""

    hard: dict[str, str] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)


@slim
class QuotaObject:
    """A quota of a namespace."""

    metadata: Metadata
    spec: QuotaSpec = field(default_factory=QuotaSpec)
    status: QuotaStatus = field(default_factory=QuotaStatus)


QUOTAS = Resource("v1", "ResourceQuota", "resourcequotas", QuotaObject)
