"""Gangs as the documents of `topo.model.rest.gangs`."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from master.api.placements import inside_document
from master.booking.ahead import NamespaceAhead
from topo.gangs.machine.gang import Gang, Member
from topo.gangs.machine.placement_requests import current_request
from topo.gangs.status import GangStatus, Transition
from topo.model.cluster import HYBRID
from topo.model.ids import GroupPath, NodeName, natural_key
from topo.model.rest.gangs import (
    AheadDocument,
    GangDocument,
    GangPodDocument,
    GangSummary,
    KeeperDocument,
    LossDocument,
    TransitionDocument,
)
from topo.model.rest.moment_id import time_text
from topo.model.rest.placements import (
    DomainDocument,
    PodGroupDocument,
    PodsDocument,
    TolerationDocument,
)
from topo.model.rest.topology import NodeReasonDocument
from topo.placement.capacity.host import Host
from topo.placement.capacity.other_fabrics import shared_group

HostOf = Callable[[NodeName], Host | None]
_MOST_KEEPERS = 20
ReasonsOf = Callable[[NodeName], Iterable[NodeReasonDocument]]
"""Why a node is NotReady, and since when."""


class GangHistory(NamedTuple):
    """The last transitions of a gang, and since when they are seen (Unix time)."""

    transitions: Sequence[Transition] = ()
    from_s: float = 0.0


def gang_summary(gang: Gang, status: GangStatus, now_s: float, reasons: ReasonsOf) -> GangSummary:
    """Return the gang without its pods; `now_s` is on the clock of its creation. O(members)."""
    request, live = current_request(gang, now_s), [member for member in gang.members if member.live]
    return GangSummary(
        id=gang.id,
        namespace=gang.namespace,
        name=gang.name,
        kind=gang.kind,
        state=status.state,
        text=status.text,
        would_fit=status.would_fit,
        ahead=status.ahead,
        priority=gang.priority,
        age_s=round(max(0.0, now_s - gang.created_s), 3),
        mode=request.mode,
        within=request.within,
        pods=request.pods,
        gpus_per_pod=request.gpus_per_pod,
        group_size=request.group_size,
        there=len(live),
        placed=len(status.places),
        bound=sum(member.node is not None for member in live),
        losses=list(_losses(gang, reasons)),
    )


def _losses(gang: Gang, reasons: ReasonsOf) -> Iterator[LossDocument]:
    """Yield why nodes of bound pods are NotReady, by rank; each node once."""
    groups: dict[NodeName, int] = {}
    for member in gang.members:
        if member.live and member.node is not None:
            groups.setdefault(member.node, gang.group_of(member.rank))
    for node, group in groups.items():
        for why in reasons(node):
            yield LossDocument(
                node=node, group=group, code=why.code, text=why.text, since_s=why.since_s
            )


def gang_document(
    summary: GangSummary,
    gang: Gang,
    status: GangStatus,
    host: HostOf,
    *,
    kinds: Container[str],
    history: GangHistory,
) -> GangDocument:
    """Return the gang with its pods by rank, its nodes, groups and history.

    `kinds` are those of the tree. O(members x tiers + excluded).
    """
    places, eligible = dict(status.places), gang.request.eligible
    inside = shared_group(filter(None, map(host, places.values())), gang.request.within, kinds)
    return GangDocument(
        **summary,
        selector=dict(eligible.selector),
        tolerations=[
            TolerationDocument(key=t.key, operator=t.operator, value=t.value, effect=t.effect)
            for t in eligible.tolerations
        ],
        exclude=sorted(eligible.exclude, key=natural_key),
        usage=eligible.usage,
        inside=inside_document(inside),
        hybrid=sorted(_hybrid(places.values(), host), key=natural_key) if eligible.usage else [],
        members=[
            GangPodDocument(
                name=member.name,
                rank=member.rank,
                group=gang.group_of(member.rank),
                node=places.get(member.rank) if member.live else member.node,
                state=_state(member),
            )
            for member in gang.members
        ],
        groups=list(_groups(gang, places, host)),
        history=[
            TransitionDocument(
                at=time_text(each.at_s),
                state=each.state,
                text=each.text,
                source="pod" if each.is_read else "leader",
            )
            for each in history.transitions
        ],
        history_from=time_text(history.from_s),
    )


def _hybrid(nodes: Iterable[NodeName], host: HostOf) -> set[NodeName]:
    return {node for node in nodes if (at := host(node)) is not None and at.pool == HYBRID}


def _state(member: Member) -> str:
    if not member.live:
        return "ending"
    if member.node is not None:
        return "bound"
    if member.opened:
        return "open"
    return "gated" if member.nominated is None else "nominated"


def _groups(gang: Gang, places: Mapping[int, NodeName], host: HostOf) -> Iterator[PodGroupDocument]:
    by_group: dict[int, dict[NodeName, int]] = {}
    for rank, node in sorted(places.items()):
        pods = by_group.setdefault(gang.group_of(rank), {})
        pods[node] = pods.get(node, 0) + 1
    request = gang.request
    for index, pods in by_group.items():
        yield PodGroupDocument(
            index=index,
            tail=index >= request.whole_groups,
            domains=list(_domains(pods, host)),
            nodes=[PodsDocument(name=node, pods=count) for node, count in pods.items()],
        )


def _domains(nodes: Iterable[NodeName], host: HostOf) -> Iterator[DomainDocument]:
    """Yield the deepest group that all nodes share; where they share none, that of each node."""
    hosts = [found for node in nodes if (found := host(node)) is not None]
    shared = _shared([each.path for each in hosts])
    for each in hosts[:1] if shared else hosts:
        depth = len(shared) or len(each.path)
        if depth:
            path = each.path[:depth]
            yield DomainDocument(kind=each.kinds[depth - 1], name=path[-1], path=path)


def _shared(paths: list[GroupPath]) -> GroupPath:
    first, last = min(paths, default=GroupPath(())), max(paths, default=GroupPath(()))
    depth = 0
    while depth < min(len(first), len(last)) and first[depth] == last[depth]:
        depth += 1
    return GroupPath(first[:depth])


def ahead_document(row: NamespaceAhead) -> AheadDocument:
    """Return what a namespace keeps for pods that are not made yet."""
    return AheadDocument(
        namespace=row.namespace,
        gpu_type=row.gpu_type,
        gpus=row.gpus,
        counted=row.counted,
        limit=row.limit.gpus,
        source=row.limit.source,
        for_s=row.for_s,
        keepers=[
            KeeperDocument(kind=each.kind, name=each.name, gpus=each.gpus)
            for each in row.keepers[:_MOST_KEEPERS]
        ],
    )


def in_turn(summaries: Iterable[GangSummary]) -> list[GangSummary]:
    """Return the gangs in the queue in the order of their turns, then the others by name."""

    def key(each: GangSummary) -> tuple[bool, int, object]:
        ahead = each["ahead"]
        return ahead is None, ahead or 0, (each["namespace"], natural_key(each["name"]))

    return sorted(summaries, key=key)
