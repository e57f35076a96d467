"""Jobs of the kinds that say how many pods they have: which ranks each has now, and no more.

Their objects are large, so what follows from one is kept and not the object. Two values are equal
if nothing of it differs, so a heartbeat of a job's status is no change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from master.kube.objects import BareObject, ObjectIdentity, Resource, parsed
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.kinds import JOB_KINDS
from topo.gangs.job_ranks import JobRanks, read_job
from topo.gangs.json_patch import mapping, text
from topo.gangs.machine.gang import GangId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObject:
    """A job, or a part of one. `gang_id` is empty for one that asks for no groups."""

    metadata: ObjectIdentity
    gang_id: GangId
    ranks: JobRanks


SIZED_KINDS = tuple(each for each in JOB_KINDS if each.states_size)
"""The kinds whose objects say the size of one gang."""


def job_resource(kind: JobKind) -> Resource[BareObject]:
    """Return the resource of the jobs of a kind."""
    return Resource(kind.api_version, kind.kind, kind.resource, BareObject)


def read_resource(kind: JobKind, keys: AnnotationKeys) -> Resource[JobObject]:
    """Return the same with each job read as its ranks as soon as it is decoded."""
    document: Any = dict[str, Any]
    raw = Resource(kind.api_version, kind.kind, kind.resource, document)
    return parsed(raw, partial(_read, kind=kind, keys=keys))


def _read(found: Mapping[str, Any], kind: JobKind, keys: AnnotationKeys) -> JobObject:
    stated = mapping(found.get("metadata"))
    fields = ("name", "namespace", "uid")
    metadata = ObjectIdentity(
        **{each: text(stated.get(each)) for each in fields},
        resource_version=text(stated.get("resourceVersion")),
    )
    gang_id, ranks = read_job(found, kind, keys) or (GangId(""), JobRanks())
    return JobObject(metadata=metadata, gang_id=gang_id, ranks=ranks)
