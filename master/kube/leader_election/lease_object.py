"""Leases, as far as an election reads them; fields: coordination.k8s.io/v1, Kubernetes v1.36."""

from dataclasses import field
from typing import Annotated

from pydantic import Field

from master.kube.objects import Metadata, Resource
from master.kube.schema.slim import slim


@slim
class LeaseSpec:
    """The holder of a lease and its times, in RFC 3339."""

    holder_identity: str | None = None
    lease_duration_seconds: Annotated[float | None, Field(ge=0)] = None
    lease_transitions: Annotated[int | None, Field(ge=0)] = None
    acquire_time: str | None = None
    renew_time: str | None = None


@slim
class LeaseObject:
    """A Lease."""

    metadata: Metadata
    spec: LeaseSpec = field(default_factory=LeaseSpec)


LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases", LeaseObject)
