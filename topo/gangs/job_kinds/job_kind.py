"""What the product knows of a kind of job: a row of the table `kinds`.

A gang is found from its pods. At its creation the webhook reads the size and the order of ranks
from the job and stamps them on its templates; identity and number of a pod are on labels that the
kind's controller writes. How many pods there are now says the job, where the master follows it
(`states_size`).

    where               what
    the job             size: its templates and their pods (`parts`)
    the pod's template  the stamp: pods of the gang at first, rank of the first, pods of a group
    the pod's labels    which gang (`gang`), and which pod of its template (`index_key`)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds.templates import JobParts
from topo.gangs.json_patch import Operation, Path
from topo.gangs.machine.gang import GangId


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What identifies the gang of a pod; the owner is its controller, empty where it has none.

    `owner_version` is the `apiVersion` of its reference to the owner.
    """

    keys: AnnotationKeys
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner_version: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""


@dataclass(frozen=True, slots=True)
class GangName:
    """The gang of a pod: its id, and the name that people know it by."""

    id: GangId
    name: str


Relay = Callable[
    [Mapping[str, Any], Mapping[str, str], Mapping[str, str], str], tuple[Operation, ...]
]
"""Of a job, its annotations, those of its pods, and our domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind of job in Kubernetes, and how a gang is read from it.

    `name` labels its reviews in metrics and is stamped on pods where `gang` is given, `title` names
    the kind to people, `resource` is the plural of the REST path. `api_version` is that of its
    objects and of references to them. `parts` reads a job's templates from its JSON object.

    `index_key` is the label or annotation of a pod that holds its number within its template, from
    0; empty where the pods have none. Where a template is repeated, `repeat_key` holds the number
    of the repetition. `gang` returns the gang of a pod, None where its labels do not say; a kind
    without it controls its pods itself, so that their controller is the gang
    (`gang_of_owner`).

    `part_keys`: labels whose values are those of the pods of one part of the job (`Parts`), by each
    of which the kind's controller may keep them apart from others: from all that have the same
    value of the label `part_scope`, or without that from those of their namespace.

    `relay`: another kind of the table is made of it, and gets its annotations by these operations,
    and its pods those that slice them for Kueue.
    `is_elastic`: its pods have no lasting numbers and may come and go while others run; the keys
    then only say in which order they get their ranks at first (`topo.gangs.ranks`).
    `has_deletion_costs`: where it is scaled in, its controller deletes pods by their costs
    (`topo.gangs.scale_in`).
    `suspended_at`: where it says that it is stopped, of a kind that is not started by Kueue before
    its old pods are gone (`topo.gangs.admission.restarts`); empty for others. `size_key`: the
    field beside its template that is the number of pods, empty where that never changes.
    `leaves_pods_beyond`: its controller deletes the pods of one that is stopped up to its size
    alone. `gang_of_job` returns the gang of a job; without it the job itself is the gang.
    `pod_size_key`: the annotation in which its controller tells each pod how many pods of its
    templates the gang has, of a kind whose object does not say it of each gang.
    `keeps_failed_pods`: its controller makes no pod again while the one that failed is there.
    """

    name: str
    title: str
    group: str
    version: str
    kind: str
    resource: str
    index_key: str
    parts: Callable[[Mapping[str, Any]], JobParts]
    repeat_key: str = ""
    part_keys: tuple[str, ...] = ()
    part_scope: str = ""
    gang: Callable[[PodFacts], GangName | None] | None = None
    relay: Relay | None = None
    is_elastic: bool = False
    has_deletion_costs: bool = False
    suspended_at: Path = ()
    size_key: str = "replicas"
    leaves_pods_beyond: bool = False
    gang_of_job: Callable[[Mapping[str, Any]], GangId] | None = None
    pod_size_key: str = ""
    keeps_failed_pods: bool = False
    api_version: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}")

    @property
    def states_size(self) -> bool:
        """Whether an object of the kind says how many pods one gang has, as long as that lasts."""
        is_gang = self.gang is None or self.gang_of_job is not None
        return is_gang and not self.is_elastic and self.relay is None
