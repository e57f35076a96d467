"""A gang as observed in the cluster: the pods of a job and the writes made for them, as values.

Each observation states the whole gang. What the controller wrote comes back in it (`nominated`,
`note`, `selection`, `labelled`, `holds`), so that a new leader continues from the observed state.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import NewType
from uuid import UUID, uuid5

from topo.model.ids import NodeName
from topo.model.pod_requests import Amounts
from topo.placement.booking.holds import HoldId
from topo.placement.job.request import Request

GangId = NewType("GangId", str)
"""What `gang_of` makes of the namespace, the kind and the name or uid of the object whose pods are
the gang, or the uid of a pod that is a gang alone. A job that restarts keeps it, its pods do not.

The namespace is in it, so that no pod can join a gang of another namespace, whatever it states.
"""
PodUid = NewType("PodUid", str)
Selection = NewType("Selection", str)
"""The value of the gang's label on a node. Pods select it, so that they go to such nodes alone.

Unique for each plan of a gang: a label that an earlier plan writes late selects nothing. Empty for
none.
"""

HeldPlaces = Mapping[HoldId, Mapping[NodeName, int]]
"""For how many pods each hold books GPUs of each node."""

_MOST_SHARED_CHARS = 1024
_OF_GROUPS = UUID("3c0f6c1e-6f0d-4f43-9d5b-6a0f6f1b7c52")


def gang_of(word: str, namespace: str, *parts: str) -> GangId:
    """Return the id of the gang that these names identify; the same names give the same id.

    `word` says what they are names of: no two uses of this function have the same one. The names
    are a tenant's words: any text is one name, also with a slash in it. O(their characters).
    """
    is_short = sum(map(len, parts)) <= _MOST_SHARED_CHARS
    return (_id_of if is_short else _id_of.__wrapped__)(word, namespace, *parts)


@lru_cache(maxsize=1024)
def _id_of(word: str, namespace: str, *parts: str) -> GangId:
    """Return an id; of short names only, so that no text of a pod is kept once the pod is gone."""
    names = (each.replace("%", "%25").replace("/", "%2F") for each in (word, namespace, *parts))
    return GangId(str(uuid5(_OF_GROUPS, "/".join(names))))


def gang_of_owner(namespace: str, api_version: str, kind: str, uid: str) -> GangId:
    """Return the id of the gang whose pods an object of this kind controls.

    Kubernetes looks for the owner of a pod in the namespace of the pod, and deletes the pod where
    there is none. A uid alone is no proof: it is public, and anybody can write it on a pod. Of
    `api_version` the version does not count, because controllers may write another one later.
    """
    group, slash, _ = api_version.rpartition("/")
    return gang_of("owner", namespace, group if slash else "", kind, uid)


def gang_of_group(namespace: str, name: str) -> GangId:
    """Return the id of the gang that is a PodGroup of Kubernetes.

    Its pods name the PodGroup and not its uid, so one that is made again under its name is the
    same gang.
    """
    return gang_of("pod-group", namespace, name)


def gang_of_request(namespace: str, name: str) -> GangId:
    """Return the id of the gang that consumes a ProvisioningRequest, whoever made its pods."""
    return gang_of("provisioning", namespace, name)


def gang_of_composite(namespace: str, name: str) -> GangId:
    """Return the id of the gang that is a CompositePodGroup of Kubernetes, as `gang_of_group`."""
    return gang_of("composite", namespace, name)


class Binding(StrEnum):
    """How the scheduler of a gang binds its pods, which decides what they may select."""

    WHOLE = "whole"
    """All that have to run together, or none (Volcano). It takes a node that it refused to one pod
    of a role as refused to the other pods of that role, so that all pods select the same value."""
    PIECEMEAL = "piecemeal"
    """Each pod by itself (kube-scheduler), so that the pods of a group select the nodes of that
    group: a pod whose node is taken can go to no other group."""
    POD_GROUP = "pod-group"
    """All or none by kube-scheduler, for a PodGroup of Kubernetes; the pods of a group select the
    nodes of that group. It tries none of them while one has a gate."""

    @property
    def is_together(self) -> bool:
        """Whether its pods are bound together, so that a part of the places is of no use."""
        return self is not Binding.PIECEMEAL


@dataclass(frozen=True, slots=True)
class Note:
    """The place of a pod, as its annotation states it; written together with the nomination.

    `certified`: the plan is proven the best. `inside` names the group of the kind that the job is
    within, empty for a job that names none. `over`: pods of lower priority have to be evicted
    first; then nothing is held and `hold` is only a name. `withdrawn`: the place was given up, so
    that the pod takes no GPUs and a later leader does not restore it.
    """

    node: NodeName
    group: int
    hold: HoldId
    selection: Selection
    generation: int
    certified: bool
    inside: str = ""
    over: bool = False
    withdrawn: bool = False

    @property
    def is_booked(self) -> bool:
        """Whether the GPUs of the place are kept for the pod."""
        return not (self.over or self.withdrawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A pod of a gang, as read in `version`.

    `gated`: our gate is on; `other_gates`: a gate of another controller is on. `fixed` is the node
    that another gate controller chose. `node` is the bound node, `nominated` the nominated node,
    `selection` the value of the gang's label that the pod selects, empty for none. `is_tried`: its
    scheduler has tried to bind the opened pod, and did not; `unscheduled` is why, at its last
    attempt. `succeeded`: the pod has finished its work and its rank need not be started again.
    `is_expected`: there is no such pod yet; its controller makes it once others run, and its place
    is kept for it until then. `lacks_cost`: its controller deletes pods by a cost that this one
    does not state. `gpus` is what it asks for; None: not known, and it counts as the largest of its
    gang.

    Three facts are derived from these, once, because each step reads them many times. `live`: the
    pod runs or will run. `waits`: it is live and not bound. `opened`: it waits and our gate is off,
    so that its scheduler may bind it at any moment.
    """

    uid: PodUid
    name: str
    rank: int
    version: str
    gated: bool = False
    other_gates: bool = False
    fixed: NodeName | None = None
    node: NodeName | None = None
    nominated: NodeName | None = None
    note: Note | None = None
    selection: Selection = Selection("")
    is_tried: bool = False
    unscheduled: str = ""
    terminating: bool = False
    finished: bool = False
    succeeded: bool = False
    is_expected: bool = False
    lacks_cost: bool = False
    gpus: int | None = None
    live: bool = field(init=False, repr=False, compare=False)
    waits: bool = field(init=False, repr=False, compare=False)
    opened: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        live = not (self.terminating or self.finished)
        waits = live and self.node is None
        object.__setattr__(self, "live", live)
        object.__setattr__(self, "waits", waits)
        object.__setattr__(self, "opened", waits and not self.gated)

    def takes_gpus(self, largest: int) -> int:
        """Return the GPUs that the pod takes in a gang whose largest pod takes `largest`."""
        return largest if self.gpus is None else min(self.gpus, largest)


def expected_member(gang_id: GangId, rank: int) -> Member:
    """Return the member for a pod that is made once others run: it waits, gated, for its place."""
    uid = PodUid(f"expected-{gang_id}-{rank}")
    name = f"rank {rank}"
    return Member(uid=uid, name=name, rank=rank, version="", gated=True, is_expected=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The pods of a job that start together.

    `request` covers the whole job: `request.pods` is the final number of pods, and rank r is in
    group r // `request.pods_per_group`. `at_least` is how many of them the scheduler starts
    together.

    `awaits` says why the gang is not admitted yet (`queue q1 has 8 of 64 GPUs left`); it is empty
    once the gang is admitted. `hopeless`: the gang would not be admitted even if all other jobs had
    ended. `ungated` says why its gates are to be opened without a plan (a person's order, a
    clean-up); empty for a gang that is to be planned.

    `created_s` is on the clock of `Gangs.advance`. After `wait_s` from then, a required group may
    be split; None for never. `aside_s` is since when it is set aside (`unreadable`) by the word of
    an earlier leader, on the same clock; None where none said so.

    `preempts`: its pods may have others evicted. `unheeded_class` is the priority class of its pods
    where its scheduler goes by that of the job, which has none.
    `takes` is the most that any of its pods takes of a node beside GPUs. Where its pods take
    different numbers of GPUs each counts as the largest, and `fewest_gpus` is what the smallest
    takes; else it is 0.
    `by_links`: it is one pod that has no group, and gets its node by the links between the GPUs.
    `is_of_kueue`: Kueue admits its job. `is_elastic`: its pods may come and go while others run.
    `choosers` are pods without GPUs and ranks by whose node their controller chooses the domain of
    the others.
    `labelled` are the nodes with the gang's label, `holds` the holds made for it that exist, each
    with the places that it books.
    `booked` are holds of others that its pods take over with their places: those of a request for
    capacity that they consume.
    `ended` are ranks of which no pod is made again, though none of it has succeeded here; `later`
    those of which one is made only once pods of other ranks have ended.
    """

    id: GangId
    namespace: str
    name: str
    kind: str
    binding: Binding
    request: Request
    at_least: int
    priority: int
    created_s: float
    members: tuple[Member, ...]
    choosers: tuple[Member, ...] = ()
    awaits: str = ""
    hopeless: bool = False
    ungated: str = ""
    wait_s: float | None = None
    aside_s: float | None = None
    preempts: bool = False
    unheeded_class: str = ""
    takes: Amounts = ()
    fewest_gpus: int = 0
    by_links: bool = False
    is_of_kueue: bool = False
    is_elastic: bool = False
    labelled: Mapping[NodeName, Selection]
    holds: HeldPlaces = field(default_factory=dict)
    booked: tuple[HoldId, ...] = ()
    ended: frozenset[int] = frozenset()
    later: frozenset[int] = frozenset()

    @property
    def done_ranks(self) -> frozenset[int]:
        """The ranks of which no pod is awaited any more; O(members)."""
        pods = self.request.pods
        succeeded = (m.rank for m in self.members if m.succeeded and 0 <= m.rank < pods)
        return self.ended.union(succeeded)

    def bypassed_webhook(self) -> frozenset[PodUid]:
        """Return the pods that were created without a gate and wait for planned ones; O(members).

        Only for a gang that is bound together: otherwise kube-scheduler binds such a pod at once.
        They are planned like the others, since their scheduler puts a pod without a nomination
        anywhere, also on the node of a sibling, which can then be bound nowhere.
        """
        if not self.binding.is_together or self.ungated:
            return frozenset()
        found = [
            member.uid
            for member in self.members
            if member.opened and not member.selection and member.fixed is None
        ]
        is_planned = found and any(m.waits and (m.gated or m.selection) for m in self.members)
        return frozenset(found) if is_planned else frozenset()

    @property
    def start_pods(self) -> int:
        """How many pods, from rank 0, start an elastic gang, or one that Volcano binds as a whole.

        They are `at_least` pods and the others of their last group. kube-scheduler starts a
        PodGroup only once no pod of it has a gate, and so with all of them.
        """
        size, pods = self.request.pods_per_group, self.request.pods
        may_grow = self.binding is Binding.WHOLE or (
            self.is_elastic and self.binding is Binding.PIECEMEAL
        )
        least = self.at_least if may_grow else pods
        return min(pods, -(-least // size) * size)

    @property
    def starts_in_part(self) -> bool:
        """Whether some of its pods suffice to start; the others follow as there is room."""
        return self.start_pods < self.request.pods

    def group_of(self, rank: int) -> int:
        """Return the number of the group of a rank."""
        return rank // self.request.pods_per_group
