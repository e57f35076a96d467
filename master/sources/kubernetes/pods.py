"""Pod objects of the API server → `ClusterPod` and `GangPod`, once for each version of a pod."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from master.kube.gang_pod import (
    FINISHED,
    MOST_SHARED_CHARS,
    MOST_SHARED_PARTS,
    SHARED_VALUES,
    ClusterPod,
    GangPod,
    node_wants,
)
from master.kube.objects import (
    UNSCHEDULABLE,
    OwnerReference,
    PodObject,
    ReportedCondition,
    is_verdict,
)
from master.kube.schema.timestamps import unix_s
from master.sources.kubernetes.pod_gangs import PodGang, kind_of_pod, pod_gang, rank_of_pod
from master.sources.kubernetes.pods_apart import parts_of_job, places_apart
from topo.gangs import note_codec
from topo.gangs.annotation_keys import (
    HOSTNAME,
    KUEUE_WORKLOAD,
    OF_KUEUE,
    ONE_BY_ONE,
    POD_GROUP,
    PREEMPTABLE,
    AnnotationKeys,
)
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.job_kind import GangName, JobKind
from topo.gangs.machine.gang import GangId, Note, Selection
from topo.gangs.scale_in import DELETION_COST
from topo.gangs.stamp import Stamp, read_claimed, read_stamp, stated_pods
from topo.gangs.status import Transition
from topo.gangs.terms import GroupTerms, Way, read_terms
from topo.model.conditions.gang_states import STATE_OF_REASON
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.pod_requests import (
    Amounts,
    others_requested,
    requested,
    unreadable,
    whole_gpus,
)
from topo.model.quantity import MOST, devices
from topo.placement.booking.events import Pod, PodPhase, PodSeen
from topo.placement.booking.holds import HoldId
from topo.placement.job.policy import Policy
from topo.shared_cards.families import GPU_MANAGER, VOLCANO, by_name
from topo.shared_cards.formats import (
    NO_SHARES,
    VOLCANO_POD,
    Shares,
    manager_shares,
    pod_shares,
)

MAX_HOLD_CHARS = 64
_MESSAGE_CHARS = 300
"""What is kept of a scheduler's message; the rest counts nodes by lesser reasons."""
_OF_GROUP = "pod group is unschedulable"
"""How kube-scheduler's message begins where a pod would fit, and others of its PodGroup do not.
Source: pkg/scheduler/schedule_one_podgroup.go, v1.37."""
NEVER_PREEMPTS = "Never"
"""The `preemptionPolicy` of a pod for which no other pod is evicted."""
LAST_GATES = frozenset({"scheduling.volcano.sh/queue-allocation-gate"})
"""Gates whose keeper waits until its own is the last on the pod, so that ours goes first.

Volcano takes its gate off while it allocates, from pods that have no other one (v1.15.1,
pkg/scheduler/actions/allocate/allocate.go, `HasOnlyVolcanoSchedulingGate`).
"""
_FALSE = frozenset({"0", "f", "F", "false", "False", "FALSE"})
"""As Go reads a truth value."""


class PodParser:
    """Parses pods under the settings of one master. `way` counts for pods that name none."""

    def __init__(self, policy: Policy, keys: AnnotationKeys, way: Way) -> None:
        self._policy, self._keys, self._way = policy, keys, way
        self._cards = (*policy.gpu_resources, *policy.shared_resources)
        self._manager = by_name(policy.domain)[GPU_MANAGER]
        self._devices = by_name(policy.domain)[VOLCANO].number
        self._marks = {keys.size, keys.placement, keys.ungrouped}
        self._asked = lru_cache(maxsize=SHARED_VALUES)(self._read_asked)

    def parse(self, found: PodObject) -> ClusterPod:
        """Return a `GangPod` for a pod with our gate or annotations; O(containers)."""
        annotations, keys = found.metadata.annotations, self._keys
        owner = next((each for each in found.metadata.owner_references if each.controller), None)
        gates = {each.name for each in found.spec.scheduling_gates} - LAST_GATES
        gang = pod_gang(found, owner, keys)
        place = annotations.get(keys.placement)
        note, unplanned = note_codec.decode(gang.id, place) if place is not None else (None, "")
        is_of_gang = keys.gate in gates or not self._marks.isdisjoint(annotations)
        has_claims = is_of_gang and bool(found.spec.resource_claims)
        claimed = read_claimed(annotations, keys, has_claims=has_claims)
        common = {
            **self._state(found, gang, owner, gates),
            **self._taken(found, note, claimed=claimed, is_held=bool(gates)),
        }
        if is_of_gang:
            claims = {**common, "claimed_gpus": claimed}
            return self._gang_pod(found, claims, gang, (note, unplanned))
        return ClusterPod(**common)

    def _state(
        self, found: PodObject, gang: PodGang, owner: OwnerReference | None, gates: Collection[str]
    ) -> dict[str, Any]:
        """Return the fields of `ClusterPod` that say which pod it is and how it stands."""
        metadata, spec = found.metadata, found.spec
        group = metadata.annotations.get(POD_GROUP)
        preemptable = metadata.annotations.get(PREEMPTABLE, metadata.labels.get(PREEMPTABLE))
        return {
            "metadata": metadata.identity,
            "gang_id": gang.id,
            "owner": owner,
            "node": spec.node_name or None,
            "nominated": found.status.nominated_node_name or None,
            "phase": found.status.phase,
            "gated": self._keys.gate in gates,
            "other_gates": any(gate != self._keys.gate for gate in gates),
            "priority": spec.priority,
            "is_preemptable": preemptable not in _FALSE,
            "pod_group": (metadata.namespace, group) if group else None,
            "consumes": gang.consumes,
            "finished": found.status.phase in FINISHED,
            "terminating": metadata.deletion_timestamp is not None,
        }

    def _taken(
        self, found: PodObject, note: Note | None, *, claimed: int, is_held: bool
    ) -> dict[str, Any]:
        """Return the fields of `ClusterPod` that say what the pod takes of its node."""
        metadata, spec = found.metadata, found.spec
        amounts = self._with_devices(requested(spec, self._cards), metadata.annotations)
        whole, gpus = whole_gpus(amounts, self._policy.gpu_resources)
        shares = self._shares(found, amounts)
        apart = places_apart(metadata.namespace, metadata.labels, spec.affinity)
        return {
            "resource": whole,
            "gpus": gpus + claimed,
            "shared": _same(self._shared(amounts)),
            "shares": NO_SHARES if isinstance(shares, Refusal) else shares,
            "booking": self._booking(found, amounts, note, claimed=claimed, is_held=is_held),
            "names_cards": bool(amounts) or claimed > 0,
            "doubts": _doubts(found, amounts, shares),
            "takes": _same(others_requested(spec, self._cards, apart)),
            "parts": parts_of_job(metadata.namespace, metadata.labels, spec.affinity),
        }

    def _with_devices(
        self, amounts: Mapping[str, int], annotations: Mapping[str, str]
    ) -> Mapping[str, int]:
        """Return what a pod takes, with GPUs that are parts of cards as devices (`renamed_family`).

        Nothing but the cards that Volcano chose tells such a pod from one with whole GPUs.
        """
        if VOLCANO_POD not in annotations or amounts.get(self._devices):
            return amounts
        gpus = sum(amounts.get(name, 0) for name in self._policy.gpu_resources)
        rest = {k: v for k, v in amounts.items() if k not in self._policy.gpu_resources}
        return {**rest, self._devices: gpus} if gpus else amounts

    def _shares(self, found: PodObject, amounts: Mapping[str, int]) -> Shares | Refusal:
        """Return the shared cards that the pod got, as annotations say; O(containers)."""
        if not any(amounts.get(name) for name in self._policy.shared_resources):
            return NO_SHARES
        annotations = found.metadata.annotations
        if not amounts.get(self._manager.cores):
            return pod_shares(annotations, self._policy.domain)
        wanted = (self._manager.cores, self._manager.memory)
        containers = [
            tuple(devices(each.resources.limits.get(name, "0")) for name in wanted)
            for each in found.spec.containers
        ]
        shares = manager_shares([(c, m) for c, m in containers], annotations)
        return shares if isinstance(shares, Refusal) else (GPU_MANAGER, shares)

    def _shared(self, amounts: Mapping[str, int]) -> Amounts:
        """Return what the pod asks for of resources in which cards are shared."""
        stated = ((name, amounts.get(name, 0)) for name in self._policy.shared_resources)
        return tuple(each for each in stated if each[1])

    def _booking(
        self,
        found: PodObject,
        amounts: Mapping[str, int],
        note: Note | None,
        *,
        claimed: int,
        is_held: bool,
    ) -> PodSeen | None:
        """Return what the pod takes of GPUs or shared cards on its node; None for nothing.

        A bound pod takes its share until it is finished or its object is gone, also while it
        terminates. A pod that is not bound yet takes it where it is planned, else where it is
        nominated to: a scheduler clears a nomination when an attempt fails, and the plan stays. A
        pod that a gate holds back takes nothing: the hold of its plan does.
        """
        metadata, bound_to = found.metadata, found.spec.node_name
        is_leaving = metadata.deletion_timestamp is not None
        waits = not (is_leaving or is_held)
        planned = note.node if note is not None and note.is_booked else ""
        node = bound_to or (waits and (planned or found.status.nominated_node_name))
        if not node or not (amounts or claimed) or found.status.phase in FINISHED:
            return None
        gpus = claimed + sum(amounts.get(name, 0) for name in self._policy.gpu_resources)
        hold = metadata.annotations.get(self._policy.hold_key, "")
        is_hold = 0 < len(hold) <= MAX_HOLD_CHARS and hold.isprintable()
        pod = Pod(
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            node=NodeName(node),
            gpus=gpus,
            hold=HoldId(hold) if is_hold else None,
            shared=self._shared(amounts),
        )
        phase = PodPhase.TERMINATING if is_leaving else PodPhase.BOUND
        is_some = pod.gpus or pod.shared
        return PodSeen(pod, phase if bound_to else PodPhase.NOMINATED) if is_some else None

    def _gang_pod(
        self,
        found: PodObject,
        common: dict[str, Any],
        gang: PodGang,
        place: tuple[Note | None, str],
    ) -> GangPod:
        keys, metadata, spec = self._keys, found.metadata, found.spec
        annotations, named, group = metadata.annotations, gang.named, spec.group_name
        stated = tuple(map(annotations.get, keys.of_template))
        is_short = sum(map(len, filter(None, stated))) <= MOST_SHARED_CHARS
        terms, stamp = (self._asked if is_short else self._read_asked)(*stated)
        common |= {"terms": terms, "stamp": stamp}
        kind = kind_of_pod(found, common["owner"], keys)
        rank, has_rank = rank_of_pod(found, stamp, kind, keys)
        chooses = not common["gpus"] and isinstance(stamp, Stamp) and bool(stamp.own_domains)
        fixed = spec.node_selector.get(HOSTNAME) if not chooses else None
        is_opened = not common["gated"] and common["node"] is None
        return GangPod(
            **common,
            **self._standing(found, common, gang, place[1]),
            **_read_conditions(found.status.conditions, keys.condition, is_opened=is_opened),
            **(_read_kind(kind, annotations) if kind is not None else {}),
            rank=rank,
            has_rank=has_rank,
            stated_pods=stated_pods(stamp, kind, annotations)
            if kind is not None and isinstance(stamp, Stamp) and not chooses
            else 0,
            is_late=annotations.get(keys.is_late) in {"true", ONE_BY_ONE},
            is_one_by_one=annotations.get(keys.is_late) == ONE_BY_ONE,
            job=_job(found, named, keys),
            by_links=keys.by_links in annotations,
            scheduling_group=(metadata.namespace, group) if group else None,
            makes_group=bool(group) and annotations.get(keys.pod_group) == group,
            topology_key=annotations.get(keys.topology_key, ""),
            is_of_group=gang.is_of_group,
            composite_group=(metadata.namespace, gang.composite) if gang.composite else None,
            created_s=metadata.created_s,
            wants=node_wants(spec, self._policy.usage_key) if fixed is None else None,
            fixed=NodeName(fixed) if fixed else None,
            claims=_claims(found) if spec.volumes else (),
            device_claims=_device_claims(found) if spec.resource_claims else (),
            is_of_kueue=not OF_KUEUE.isdisjoint(metadata.labels),
            workload=annotations.get(KUEUE_WORKLOAD, ""),
            note=place[0],
            selection=Selection(spec.node_selector.get(keys.node_label_prefix + gang.id, "")),
            other_gang=_other_gang(spec.node_selector, keys.node_label_prefix, gang.id)
            if spec.node_selector
            else None,
            may_preempt=spec.preemption_policy != NEVER_PREEMPTS,
            priority_class=spec.priority_class_name,
        )

    def _standing(
        self, found: PodObject, common: Mapping[str, Any], gang: PodGang, unplanned: str
    ) -> dict[str, Any]:
        """Return who chooses the pod's node, and whether that was done; fields of `GangPod`."""
        keys, annotations, owner = self._keys, found.metadata.annotations, common["owner"]
        terms, stamp = common["terms"], common["stamp"]
        way = (terms.way or self._way) if isinstance(terms, GroupTerms) else None
        gated, has_place = common["gated"], keys.placement in annotations
        # A gate that was opened because another gate keeper chose the node is no order to the gang.
        is_of_others = found.spec.node_selector.get(HOSTNAME) is not None and unplanned != ""
        has_gang = owner is not None or gang.is_of_group or gang.named is not None
        is_planned = isinstance(stamp, Stamp) and has_gang and way is Way.NOMINATION
        is_untouched = not gated and not has_place
        ungrouped = annotations.get(keys.ungrouped)
        if ungrouped is None and is_untouched and gang.named is None:
            ungrouped = _unsupported(owner)
        return {
            # A gated pod is always placed here, so that its gate is opened whatever else is wrong.
            "is_placed_here": gated or (not is_of_others if has_place else is_planned),
            "is_native": way is Way.NATIVE,
            "bypassed_webhook": is_untouched
            and ungrouped is None
            and way is Way.NOMINATION
            and bool(common["gpus"]),
            "ungrouped": ungrouped,
            "opened": has_place and not (gated or common["other_gates"]),
            "unplanned": "" if gated or is_of_others else unplanned,
        }

    def _read_asked(
        self, *values: str | None
    ) -> tuple[GroupTerms | Refusal | None, Stamp | Refusal | None]:
        """Return what the annotations of a template ask for; its pods share the values."""
        keys = self._keys
        found = {k: v for k, v in zip(keys.of_template, values, strict=True) if v is not None}
        return read_terms(found, keys), read_stamp(found, keys)


def _other_gang(selector: Mapping[str, str], prefix: str, gang_id: GangId) -> GangId | None:
    """Return the gang whose label a pod selects, where that is another one than its own."""
    gangs = (GangId(key.removeprefix(prefix)) for key in selector if key.startswith(prefix))
    return next((each for each in gangs if each != gang_id), None)


def _job(found: PodObject, named: GangName | None, keys: AnnotationKeys) -> tuple[str, str] | None:
    """Return kind and name of the gang that the labels of a pod name; a lone pod has its own."""
    if named is None:
        return None
    if keys.by_links in found.metadata.annotations:
        return "Pod", found.metadata.name
    return kinds.title(found.metadata.annotations.get(keys.kind, "")), named.name


def _unsupported(owner: OwnerReference | None) -> str | None:
    """Return why the pods of an owner get no groups; None for a kind of job that gets them."""
    if owner is not None and kinds.job_kind([(owner.api_version, owner.kind)]) is not None:
        return None
    whose = f"pods of a {owner.kind}" if owner is not None else "pods without a job"
    return f"{whose} get none, these do: {kinds.listed_titles()}"


def _same(amounts: Amounts) -> Amounts:
    """Return one object for equal amounts: pods of a template share it."""
    return _first_of_equals(amounts) if len(amounts) <= MOST_SHARED_PARTS else amounts


@lru_cache(maxsize=SHARED_VALUES)
def _first_of_equals(amounts: Amounts) -> Amounts:
    return amounts


def _doubts(
    found: PodObject, amounts: Mapping[str, int], shares: Shares | Refusal
) -> tuple[str, ...]:
    name = f"{found.metadata.namespace}/{found.metadata.name}"
    if isinstance(shares, Refusal):
        return (f"pod {name}: the cards that it got are not counted: {shares}",)
    if MOST not in amounts.values():
        return ()
    return tuple(
        f"pod {name}: {asked} is not a quantity, so it counts as all that its node has"
        for asked in unreadable(found.spec, amounts)
    )


def _claims(found: PodObject) -> tuple[str, ...]:
    """Return the names of the claims of a pod's volumes, in their order."""
    names = (
        volume.persistent_volume_claim.claim_name
        if volume.persistent_volume_claim is not None
        else f"{found.metadata.name}-{volume.name}"
        for volume in found.spec.volumes
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None
    )
    return tuple(dict.fromkeys(names))


def _device_claims(found: PodObject) -> tuple[tuple[str, str], ...]:
    """Return the template and the claim of each claim of devices that is made for the pod."""
    made = {each.name: each.resource_claim_name for each in found.status.resource_claim_statuses}
    return tuple(
        (each.resource_claim_template_name, made.get(each.name) or "")
        for each in found.spec.resource_claims
        if each.resource_claim_template_name
    )


def _read_kind(kind: JobKind, annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return what the kind of a pod's job says of the pod; fields of `GangPod`."""
    return {
        "stays_failed": kind.keeps_failed_pods,
        "is_elastic": kind.is_elastic,
        "lacks_cost": kind.has_deletion_costs and DELETION_COST not in annotations,
    }


def _read_conditions(
    conditions: Sequence[ReportedCondition], our_type: str, *, is_opened: bool
) -> dict[str, Any]:
    """Return what our condition and the scheduler's say of a pod; fields of `GangPod`."""
    ours = next((each for each in conditions if each.get("type") == our_type), None)
    is_tried = is_opened and any(map(is_verdict, conditions))
    return {
        "said": _status_and_reason(ours) if ours is not None else None,
        "reported": _reported(ours) if ours is not None else None,
        "is_tried": is_tried,
        "unscheduled": _unscheduled(conditions) if is_tried else "",
    }


def _status_and_reason(found: ReportedCondition) -> tuple[str, str]:
    """Return the status and the reason of a condition; only words of ours are kept as they are."""
    reason, status = found.get("reason", ""), found.get("status", "")
    return (
        status if status in {"True", "False"} else "",
        STATE_OF_REASON[reason].row.reason if reason in STATE_OF_REASON else "",
    )


def _reported(found: ReportedCondition) -> Transition | None:
    """Return what a leader wrote of the gang's state; None where it is not known since when."""
    if (state := STATE_OF_REASON.get(found.get("reason", ""))) is None:
        return None
    at_s = unix_s(found.get("lastTransitionTime") or "")
    return Transition(at_s, state, found.get("message", ""), is_read=True) if at_s else None


def _unscheduled(conditions: Sequence[ReportedCondition]) -> str:
    """Return why the pod's scheduler did not bind it at its last attempt.

    Empty if it is silent, or if the reason is another pod of its PodGroup.
    """
    found = (each for each in conditions if each.get("reason") == UNSCHEDULABLE)
    message = next((each.get("message", "")[:_MESSAGE_CHARS] for each in found), "")
    return "" if message.startswith(_OF_GROUP) else message
