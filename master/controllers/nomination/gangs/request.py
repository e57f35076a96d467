"""The request of a gang: how many pods, in which groups, on which nodes; or why it has none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from master.controllers.nomination.gangs.context import GangContext
from master.controllers.nomination.gangs.size import ranks_of_job
from master.controllers.nomination.sources import Reservation
from master.kube.eligibility import with_eligibility
from master.kube.gang_pod import GangPod, NodeWants
from master.kube.schedulers.volcano import TOPOLOGY_MODE_HARD, PodGroupObject
from topo.gangs.stamp import Stamp, own_domains_of
from topo.model.errors import Refusal
from topo.model.ids import Kind
from topo.model.limits import MAX_PODS, MAX_PODS_AHEAD
from topo.placement.job.request import Kin, Request, flaw

SETTLE_S = 5.0
"""How long after its newest pod an elastic gang waits for further ones before it starts.

Controllers make the pods of one change within a second or two, 500 at a time."""


def stated_request(
    ranked: Sequence[GangPod],
    group: PodGroupObject | None,
    reservation: Reservation | None,
    context: GangContext,
) -> Request | str:
    """Return the request of the gang, or why the gang cannot be placed; O(pods).

    `group` is its PodGroup of Volcano, `reservation` what was booked for it before.
    """
    first = ranked[0]
    if first.stamp is None and reservation is not None:
        stated = _of_capacity_request(ranked, context, reservation)
    elif first.by_links and group is not None and group.spec.min_member > 1:
        return f"its PodGroup starts {group.spec.min_member} pods together, which have no group"
    else:
        stated = _of_job(ranked, group, context)
    if first.is_late and isinstance(stated, Request) and stated.pods > MAX_PODS_AHEAD:
        return f"places are kept for at most {MAX_PODS_AHEAD} pods, and it has {stated.pods}"
    return stated


def _of_job(
    ranked: Sequence[GangPod],
    group: PodGroupObject | None,
    context: GangContext,
) -> Request | str:
    """Return the request that the stamp on the pods describes."""
    first = ranked[0]
    stamp, terms = first.stamp, first.terms
    if isinstance(stamp, Refusal) or isinstance(terms, Refusal):
        refused = stamp if isinstance(stamp, Refusal) else terms
        return f"what it asks for cannot be read: {refused}"
    if stamp is None or terms is None:
        return "it has our gate, and does not say which gang and groups it belongs to"
    if first.owner is None and first.job is None and not first.is_of_group:
        return "it belongs to no job"
    within = terms.within or _within(group, context)
    for key in _unknown_keys(ranked, context):
        return f"its PodGroup wants one {key}, which is not a label of a group that is known here"
    if (kind := context.kind_of_label(_topology_key(first, context))) is not None:
        within = _inner_kind(kind, within, context)
    placed = [pod for pod in ranked if not pod.is_chooser]
    pods = max(1, _pods(ranked, stamp, context))
    own_domains = own_domains_of(stamp.own_domains, pods)
    gpus = max([pod.gpus for pod in placed], default=0) or terms.group_size // stamp.pods_per_group
    request = Request(
        pods=pods,
        gpus_per_pod=gpus,
        group_size=terms.group_size,
        mode=terms.mode,
        within=within,
        own_domains=own_domains or (),
        kins=_kins(ranked),
    )
    refusal = flaw(request)
    if refusal is not None or own_domains is None:
        parts = f"its {pods} pods are in more parts than may have domains of their own"
        return f"{refusal.what}; {refusal.fix}" if refusal is not None else parts
    return _with_wants(request, ranked, context)


def _pods(ranked: Sequence[GangPod], stamp: Stamp, context: GangContext) -> int:
    """Return how many ranks the gang has."""
    if not _is_settled(ranked, context):
        return ranks_of_job(ranked, stamp, context).size
    return min(ranked[-1].rank, MAX_PODS) + 1


def _kins(pods: Sequence[GangPod]) -> tuple[Kin, ...]:
    """Return the kins of pods, first those that they keep out of their domains; O(pods)."""
    parts = sorted((part for pod in pods for part in pod.parts), key=lambda part: not part.label)
    return tuple(dict.fromkeys(part.kin for part in parts))


def _of_capacity_request(
    ranked: Sequence[GangPod], context: GangContext, reservation: Reservation
) -> Request | str:
    """Return the request of pods without a stamp, from the ProvisioningRequest they consume."""
    asked = reservation.request
    most = max([pod.gpus for pod in ranked])
    if asked is None and reservation.awaits:
        return Request(pods=len(ranked), gpus_per_pod=max(1, most))
    if asked is None:
        return f"its ProvisioningRequest {ranked[0].consumes} is gone or says no groups"
    pods = max(asked.pods, min(ranked[-1].rank, MAX_PODS) + 1)
    request = replace(asked, pods=pods, gpus_per_pod=max(asked.gpus_per_pod, most))
    refusal = flaw(request)
    if refusal is not None:
        return f"{refusal.what}; {refusal.fix}"
    return _with_wants(replace(request, by_rank=()), ranked, context)


def _with_wants(request: Request, ranked: Sequence[GangPod], context: GangContext) -> Request:
    """Return the request with the nodes that its pods may use."""
    placed = [pod for pod in ranked if pod.wants is not None and not pod.is_chooser]
    wants = {pod.rank: _wants(pod, context) for pod in placed}
    choosers = (pod for pod in ranked if pod.is_chooser and not pod.terminating)
    for chooser in choosers if request.own_domains else ():
        wants = _beside(chooser, wants, request, context)
    own_label = context.keys.node_label_prefix + ranked[0].gang_id
    return with_eligibility(request, wants, context.nodes, own_label)


def _beside(
    chooser: GangPod, wants: Mapping[int, NodeWants], request: Request, context: GangContext
) -> dict[int, NodeWants]:
    """Return what pods want with the first part in the domain that this one has chosen for it.

    Pods that do not exist yet want what the chooser wants, since both templates state the same.
    """
    first, own, found = request.own_domains[0], chooser.wants, dict(wants)
    domain = _chosen(chooser, first.label, context)
    if own is not None:
        others = (each for each in own.selector if domain is None or each[0] != first.label)
        own = replace(own, selector=tuple(others))
        unknown = first.pods if wants else min(first.pods + 1, request.pods)
        found = dict.fromkeys(range(unknown), own) | found
    pair = {(first.label, domain)} if domain is not None else set()
    return {
        rank: replace(each, selector=tuple(sorted({*each.selector, *pair})))
        if rank < first.pods
        else each
        for rank, each in found.items()
    }


def _chosen(chooser: GangPod, label: str, context: GangContext) -> str | None:
    """Return the domain that a pod was opened in; O(nodes) for one that came without our gate."""
    if chooser.gated:
        return None
    stated = dict(chooser.wants.selector) if chooser.wants is not None else {}
    if label in stated or chooser.node is None:
        return stated.get(label)
    found = (each.metadata for each in context.nodes() if each.metadata.name == chooser.node)
    return next((each.labels.get(label) for each in found), None)


def _wants(pod: GangPod, context: GangContext) -> NodeWants:
    """Return what a pod, which wants something, requires of its node, with its volumes."""
    assert pod.wants is not None, "the caller has looked"  # noqa: S101 - for the type checker
    volumes = context.volume_nodes(pod) if pod.claims else ()
    return replace(pod.wants, volumes=volumes) if volumes else pod.wants


def _is_settled(ranked: Sequence[GangPod], context: GangContext) -> bool:
    """Return whether the pods that an elastic gang has now are all that it needs to start.

    So it is once one has passed its gate, or when no more came for a while: at the update of a
    Deployment the new pods are fewer than its replicas.
    """
    if not ranked[0].is_elastic:
        return False
    if any(not pod.gated for pod in ranked):
        return True
    newest_s = max(pod.created_s for pod in ranked) - context.ahead_s
    return context.clock() - newest_s >= SETTLE_S


def _topology_key(first: GangPod, context: GangContext) -> str:
    """Return the node label of which all pods of the gang need one value; empty for none."""
    if first.composite_group is not None:
        root = context.composite_group(first)
        return root.spec.topology_key if root is not None else ""
    group = context.scheduling_group(first)
    return group.spec.topology_key if group is not None else ""


def _unknown_keys(pods: Sequence[GangPod], context: GangContext) -> Iterator[str]:
    """Yield the labels that constraints of the pods' groups name, and that no kind of group has.

    A known label of a PodGroup below a CompositePodGroup needs nothing more: its pods are one
    group, whole in the lowest tier that takes it.
    """
    of_groups = {pod.scheduling_group: pod for pod in pods}.values()
    groups = filter(None, map(context.scheduling_group, of_groups))
    keys = (_topology_key(pods[0], context), *(each.spec.topology_key for each in groups))
    yield from (key for key in keys if key and context.kind_of_label(key) is None)


def _within(group: PodGroupObject | None, context: GangContext) -> Kind | None:
    """Return the kind of group that the user's own `networkTopology` asks all pods to share."""
    topology = group.spec.network_topology if group is not None else None
    if topology is None or topology.mode != TOPOLOGY_MODE_HARD or not topology.highest_tier_allowed:
        return None
    return context.kind_of_tier(topology.highest_tier_allowed)


def _inner_kind(kind: Kind, other: Kind | None, context: GangContext) -> Kind:
    """Return the smaller of two kinds of group: the one whose groups are inside the other's."""
    tier = context.tier_of_kind(kind)
    beside = context.tier_of_kind(other) if other is not None else None
    is_outer = tier is not None and beside is not None and tier > beside
    return other if is_outer and other is not None else kind
