"""Pods as all code after the store reads them; parsed once, when the store receives a pod.

Two equal values mean no change: `resource_version` is excluded from the comparison.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from master.kube.objects import (
    SUCCEEDED_PHASE,
    Key,
    ObjectIdentity,
    OwnerReference,
    PodSpec,
    PodToleration,
)
from master.kube.schema.affinity import NodeSelector
from topo.gangs.machine.gang import GangId, Note, Selection
from topo.gangs.stamp import Stamp
from topo.gangs.status import Transition
from topo.gangs.terms import GroupTerms
from topo.model.cluster import USAGES
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.pod_requests import Amounts
from topo.placement.booking.events import PodSeen
from topo.placement.job.request import Kin, Toleration
from topo.shared_cards.formats import NO_SHARES, Shares

SHARED_VALUES = 1024
"""Values of templates that are kept, so that the pods of a gang share them: they save memory."""
MOST_SHARED_CHARS = 4096
MOST_SHARED_PARTS = 64
"""What is larger is not kept for others: whoever makes pods could fill the memory with what no pod
states any more."""
FAILED_PHASE = "Failed"
FINISHED = frozenset({SUCCEEDED_PHASE, FAILED_PHASE})
"""Phases in which a pod has given back what it took, even while its object stays."""


class PartOfJob(NamedTuple):
    """What its labels say of a pod of a job that has parts.

    `label`: in its domain by this label of nodes it suffers no pod of the kin but of its own part;
    empty where it does.
    """

    kin: Kin
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPod:
    """A pod of the cluster: its identity, where it is, and which GPUs or shared cards it takes.

    `gang_id` follows from its namespace and its controller, `owner` (`gang_of_owner`), or else from
    its uid; of a pod whose gang is a PodGroup of Kubernetes from the name of that. `gated`: our
    scheduling gate is on; `other_gates`: a gate of another controller is on. `resource` and `gpus`
    are the requested whole GPUs, empty and 0 if there are none; `booking` is what the pod takes of
    its node now, None for nothing. `shared` are the shares of cards that it asks for, (resource,
    number) pairs. `shares` are the cards that it got. `names_cards`: the pod names at least one
    resource of cards. `doubts`: requests that are not valid quantities, a sentence each. `takes` is
    what it asks of its node beside cards.
    `pod_group`: the key of its PodGroup of Volcano. `consumes`: the ProvisioningRequest of our
    class, or the Workload of Kueue (`of_workload`), that it takes its node from, empty for none.
    `finished`: it has ended and takes no GPUs, even while its object still exists; `terminating`:
    it is being deleted.
    """

    metadata: ObjectIdentity
    gang_id: GangId
    owner: OwnerReference | None = None
    node: NodeName | None = None
    nominated: NodeName | None = None
    phase: str = ""
    gated: bool = False
    other_gates: bool = False
    priority: int = 0
    is_preemptable: bool = True
    resource: str = ""
    gpus: int = 0
    shared: Amounts = ()
    shares: Shares = NO_SHARES
    booking: PodSeen | None = None
    names_cards: bool = False
    doubts: tuple[str, ...] = ()
    takes: Amounts = ()
    parts: tuple[PartOfJob, ...] = ()
    pod_group: Key | None = None
    consumes: str = ""
    finished: bool = False
    terminating: bool = False

    @property
    def takes_of(self) -> NodeName | None:
        """The node of which it takes what it asks for: where it is bound, or opened and planned."""
        if self.finished:
            return None
        return self.node or (self.booking.pod.node if self.booking is not None else None)


LabelIn = tuple[str, tuple[str, ...]]
"""A label, and the values of it that a node may have."""


@dataclass(frozen=True, slots=True)
class NodeWants:
    """What the spec of one pod requires of a node; `volumes`: where its volumes are.

    `usage`: what the pools that it names say that it is (`stated_usage`).
    """

    selector: tuple[tuple[str, str], ...]
    tolerations: frozenset[Toleration]
    required: NodeSelector | None
    usage: str = ""
    volumes: tuple[NodeSelector | LabelIn, ...] = ()


def node_wants(spec: PodSpec, usage_key: str) -> NodeWants:
    """Return what the spec of a pod requires of its node; `usage_key` as of `Policy`."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    selector = tuple(sorted(spec.node_selector.items()))
    chars = sum(len(text) + 1 for text in _texts(selector, spec.tolerations, required))
    read = _node_wants if chars <= MOST_SHARED_CHARS else _node_wants.__wrapped__
    return read(selector, spec.tolerations, required, usage_key)


def _texts(
    selector: tuple[tuple[str, str], ...],
    tolerations: tuple[PodToleration, ...],
    required: NodeSelector | None,
) -> Iterator[str]:
    """Yield the texts that a pod states of its node, one at least for each part."""
    for pair in selector:
        yield from pair
    for each in tolerations:
        yield from (each.key, each.value)
    for term in required.node_selector_terms if required is not None else ():
        yield ""
        for requirement in (*term.match_expressions, *term.match_fields):
            yield from (requirement.key, *requirement.values)


@lru_cache(maxsize=SHARED_VALUES)
def _node_wants(
    selector: tuple[tuple[str, str], ...],
    tolerations: tuple[PodToleration, ...],
    required: NodeSelector | None,
    usage_key: str,
) -> NodeWants:
    borne = frozenset(Toleration(t.key, t.operator, t.value, t.effect) for t in tolerations)
    words = {value for key, value in selector if key == usage_key}
    words |= {each.value for each in borne if each.key == usage_key and each.operator == "Equal"}
    for term in required.node_selector_terms if required is not None else ():
        for each in term.match_expressions:
            if each.key == usage_key and each.operator == "In":
                words |= set(each.values)
    return NodeWants(selector, borne, required, stated_usage(words))


def stated_usage(words: Collection[str]) -> str:
    """Return what a job is by the pools that it names: training, inference, or empty for any.

    Nothing in a pod says so but the pools that its user let it into: the values of the taint that
    it tolerates, and of the label that it selects. The hybrid pool is of both kinds, so one that
    names that alone, or both kinds, is any.
    """
    named = [usage for usage in USAGES if usage in words]
    return named[0] if len(named) == 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPod(ClusterPod):
    """A pod that has our gate or asks for groups, with what it states about its gang.

    `is_placed_here`: this program chooses its node; `is_native`: Volcano does, in groups;
    `bypassed_webhook`: it asks for groups and has neither gate nor place; `ungrouped`: why it gets
    no groups, None where it may. `fixed` is the node that another gate controller chose, and then
    `wants` is None. `opened`: this program opened its gate and no other gate is left. `unplanned`:
    why its gate was opened without a plan; that holds for the whole gang, also under a later
    leader. `is_tried`: its scheduler has tried to bind the opened pod, and did not; `unscheduled`:
    why, at its last attempt.
    `claimed_gpus`: how many of its GPUs it has by claims of devices.
    `is_late`: some pods of its gang are made only once others run; `is_one_by_one`: each of them
    once the one before it does.
    `stated_pods`: how many ranks its controller says its gang has, 0 where it does not.
    `stays_failed`: its controller makes no other pod in its place once it has failed.
    `is_elastic`: the pods of its gang come and go while others run. `has_rank`: it states its rank;
    else `rank` is only the order in which the pods of its gang get theirs. `lacks_cost`: its
    controller deletes pods by a cost that this one does not state (`topo.gangs.scale_in`).
    `job`: the kind and the name of its gang where its labels say that, and not its controller.
    `claims`: the PersistentVolumeClaims of its namespace that it mounts. `device_claims`: for each
    claim of devices that is its own the template, and the claim, empty before it is made.
    `selection`: what it selects of the label of its gang, `other_gang`: another gang whose label it
    selects. `by_links`: it has no group, and gets its node by the links between the GPUs.
    `is_of_kueue`: Kueue admits its job. `workload`: the Workload by which Kueue admitted it.
    `scheduling_group`: the key of its PodGroup of Kubernetes; `makes_group`: this program makes
    that object, with `topology_key`, if there is one, as its constraint; `is_of_group`: the pods of
    that object are the gang, also where they have several owners or none. `composite_group`: the
    key of the CompositePodGroup whose pods are the gang, where the PodGroup is below one.
    `said`: the status and the reason of our condition on it, each empty where it is none of ours;
    None without the condition. `reported`: the gang's state that a leader wrote there; a change of
    its text alone does not count as a change of the pod.
    """

    is_placed_here: bool = False
    is_native: bool = False
    bypassed_webhook: bool = False
    ungrouped: str | None = None
    stamp: Stamp | Refusal | None = None
    terms: GroupTerms | Refusal | None = None
    rank: int = 0
    job: tuple[str, str] | None = None
    stated_pods: int = 0
    stays_failed: bool = False
    is_elastic: bool = False
    lacks_cost: bool = False
    is_late: bool = False
    is_one_by_one: bool = False
    has_rank: bool = True
    scheduling_group: Key | None = None
    makes_group: bool = False
    topology_key: str = ""
    is_of_group: bool = False
    composite_group: Key | None = None
    created_s: float = 0.0
    wants: NodeWants | None = None
    fixed: NodeName | None = None
    claimed_gpus: int = 0
    claims: tuple[str, ...] = ()
    device_claims: tuple[tuple[str, str], ...] = ()
    by_links: bool = False
    is_of_kueue: bool = False
    workload: str = ""
    note: Note | None = None
    selection: Selection
    other_gang: GangId | None = None
    opened: bool = False
    unplanned: str = ""
    is_tried: bool = False
    unscheduled: str = ""
    may_preempt: bool = True
    priority_class: str = ""
    said: tuple[str, str] | None = None
    reported: Transition | None = field(default=None, compare=False)

    @property
    def is_chooser(self) -> bool:
        """Whether it takes no GPUs, and its node decides the domain of its gang's other pods."""
        return not self.gpus and isinstance(self.stamp, Stamp) and bool(self.stamp.own_domains)

    @property
    def named(self) -> Iterator[Key]:
        """The objects that decide when and where it can run: PodGroups, claims, requests."""
        groups = self.pod_group, self.scheduling_group, self.composite_group
        yield from (key for key in groups if key is not None)
        of_request = (self.consumes,) if self.consumes else ()
        of_devices = (template for template, _ in self.device_claims)
        for name in (*self.claims, *of_devices, *of_request):
            yield self.metadata.namespace, name


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPod:
    """A pod that has succeeded, or `failed` for good. `gang_id` is empty for one of no gang."""

    metadata: ObjectIdentity
    gang_id: GangId
    rank: int
    created_s: float
    failed: bool = False


def ended_pod(pod: ClusterPod) -> EndedPod:
    """Return what is kept of a pod that has ended.

    One that is made again is of no gang: one that is deleted, and most that have failed.
    """
    failed = pod.phase == FAILED_PHASE
    is_of_gang = isinstance(pod, GangPod) and (pod.is_placed_here or pod.is_native)
    if isinstance(pod, GangPod) and is_of_gang and _has_ended_for_good(pod, failed=failed):
        return EndedPod(
            metadata=pod.metadata,
            gang_id=pod.gang_id,
            rank=pod.rank,
            created_s=pod.created_s,
            failed=failed,
        )
    return EndedPod(metadata=pod.metadata, gang_id=GangId(""), rank=0, created_s=0.0)


def _has_ended_for_good(pod: GangPod, *, failed: bool) -> bool:
    return not pod.terminating and (not failed or pod.stays_failed)
