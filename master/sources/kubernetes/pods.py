"""A Pod object as an event of the bookings: which GPUs it takes, and where."""

from collections.abc import Iterator

from master.kube.objects import PodObject
from topo.model.ids import NodeName
from topo.model.pod_requests import requested, resources_of, unreadable
from topo.placement.booking.events import Pod, PodPhase, PodSeen
from topo.placement.booking.holds import HoldId
from topo.placement.job.policy import Policy

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod has given back what it took, even while its object stays."""
MAX_HOLD_CHARS = 64


def pod_seen(found: PodObject, policy: Policy) -> PodSeen | None:
    """What the pod takes of GPUs or shared cards on its node; None where it takes nothing.

    A bound pod takes its share until it is finished or its object is gone, also while it
    terminates; one that is not bound yet, where it is nominated to, with or without a scheduling
    gate. One that is to be deleted before it was bound never comes.
    """
    where = _where(found)
    if where is None:
        return None
    node, phase = where
    gpus = sum(_amounts(found, policy.gpu_resources).values())
    shared = tuple((name, n) for name, n in _amounts(found, policy.shared_resources).items() if n)
    if not gpus and not shared:
        return None
    metadata = found.metadata
    pod = Pod(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        node=node,
        gpus=gpus,
        hold=_hold(metadata.annotations.get(policy.hold_key, "")),
        shared=shared,
    )
    return PodSeen(pod, phase)


def asks_for_cards(found: PodObject, policy: Policy) -> bool:
    """Whether the pod names whole GPUs or shared cards at all: others need not be kept."""
    wanted = frozenset((*policy.gpu_resources, *policy.shared_resources))
    return not wanted.isdisjoint(resources_of(found.spec))


def doubts(found: PodObject, policy: Policy) -> Iterator[str]:
    """What the pod asks for and nobody can read, a sentence each."""
    name = f"{found.metadata.namespace}/{found.metadata.name}"
    wanted = (*policy.gpu_resources, *policy.shared_resources)
    for asked in unreadable(found.spec, wanted):
        yield f"pod {name}: {asked} is no quantity, so it counts as all that its node has"


def _where(found: PodObject) -> tuple[NodeName, PodPhase] | None:
    ends = found.metadata.deletion_timestamp is not None
    if found.status.phase in FINISHED:
        return None
    if found.spec.node_name:
        phase = PodPhase.TERMINATING if ends else PodPhase.BOUND
        return NodeName(found.spec.node_name), phase
    if found.status.nominated_node_name and not ends:
        return NodeName(found.status.nominated_node_name), PodPhase.NOMINATED
    return None


def _amounts(found: PodObject, resources: tuple[str, ...]) -> dict[str, int]:
    named = resources_of(found.spec)
    return {name: requested(found.spec, name) for name in resources if name in named}


def _hold(text: str) -> HoldId | None:
    return HoldId(text) if 0 < len(text) <= MAX_HOLD_CHARS and text.isprintable() else None
