"""The status of a gang whose nodes its scheduler chooses: its constraints, and the result.

The result is counted from the forest and not from reports of the scheduler: a group is whole if all
its running pods share one group of the requested tier, or are on one node. If the PodGroup has no
constraints, because it was created without our webhook, the lowest tier with a group that holds the
pods counts. A gang whose pods do not state their groups is not judged.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from topo.gangs.machine.gang import Gang
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.model.ids import GroupPath, Kind, NodeName
from topo.model.words import counted, listed
from topo.placement.capacity.host import Host
from topo.placement.job.request import PlacementMode, Request


@dataclass(frozen=True, slots=True)
class Nearness:
    """How close some pods must be: inside one group of tier `tier` or lower; None for no limit."""

    tier: int | None
    pods: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeAsked:
    """A gang's PodGroup: its policies, the constraint on all pods, and its phase.

    `unheeded` says why `scheduler` ignores groups or may ignore them; empty if it honours them.
    `unlabelled` is the label of nodes by which it chooses, where no node has it, else empty.
    `dropped` says why a PodGroup without any constraint has none.
    """

    policies: Sequence[Nearness] = ()
    together: Nearness | None = None
    phase: str = ""
    unheeded: str = ""
    unlabelled: str = ""
    scheduler: str = "Volcano"
    dropped: str = "it was made without our webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLookup:
    """Look-ups in the tree of groups.

    `kind_of_tier` returns the kind of the groups of a tier. `lowest` returns the lowest tier with a
    group that holds a group of the request on nodes of a GPU type, the highest tier if none does.
    """

    host: Callable[[NodeName], Host | None]
    kind_of_tier: Callable[[int], Kind | None]
    lowest: Callable[[Request, str], int]


def native_status(gang: Gang, asked: NativeAsked | None, tree: TreeLookup) -> GangStatus:
    """Return the status of the gang; O(members). `asked` is None if its PodGroup is unknown."""
    live = [member for member in gang.members if member.live]
    ended = sum(member.succeeded for member in gang.members)
    places = tuple((each.rank, each.node) for each in live if each.node is not None)
    groups: dict[int, set[NodeName]] = {}
    for rank, node in places if not gang.ungated else ():
        groups.setdefault(gang.group_of(rank), set()).add(node)
    tier = max((each.tier or 0 for each in asked.policies), default=0) if asked is not None else 0
    split = sorted(
        group
        for group, nodes in groups.items()
        if not _is_whole(nodes, tree, tier or _lowest(gang.request, nodes, tree))
    )
    together = asked.together.tier if asked is not None and asked.together is not None else None
    apart = together is not None and not _is_whole({node for _, node in places}, tree, together)
    state = GangState.NATIVE
    if apart or (split and _must_be_whole(gang, asked)):
        state = GangState.SPLIT
    elif live and len(places) == len(live) and _is_all(gang, len(live)):
        state = GangState.BOUND
    elif asked is not None and asked.unlabelled:
        state = GangState.NO_LABELS
    sentences = [
        _asked(asked, tree.kind_of_tier),
        _bound(len(places), gang.request.pods, len(groups), split),
    ]
    old = sum(each.terminating and not each.finished for each in gang.members)
    if old and not places and gang.is_of_kueue and _must_be_whole(gang, asked):
        # The webhook refuses it until then: `topo.gangs.admission.restarts`.
        sentences.append(f"none is started before the old ones are gone ({old} left)")
    if ended:
        sentences.append(f"{counted(ended, 'pod')} ended")
    if apart:
        sentences.append(f"its pods share no {_name(together or 0, tree.kind_of_tier)}")
    if asked is not None and asked.phase and state is GangState.NATIVE:
        sentences.append(f"its PodGroup is {asked.phase}")
    return GangStatus(state=state, text="; ".join(sentences), places=places)


def _is_all(gang: Gang, live: int) -> bool:
    """Whether no further pod of the gang is awaited beside so many live ones."""
    return live + len(gang.done_ranks | gang.later) >= gang.request.pods


def _must_be_whole(gang: Gang, asked: NativeAsked | None) -> bool:
    """Whether a split group is a fault: neither the mode nor the user's constraints allow it."""
    if gang.request.mode is not PlacementMode.REQUIRED:
        return False
    if asked is None or (not asked.policies and asked.together is None):
        return True
    return any(each.tier is not None for each in asked.policies)


def _lowest(request: Request, nodes: set[NodeName], tree: TreeLookup) -> int:
    first = tree.host(min(nodes))
    return tree.lowest(request, first.gpu_type if first is not None else "")


def _is_whole(nodes: set[NodeName], tree: TreeLookup, tier: int) -> bool:
    if len(nodes) <= 1:
        return True
    shared: set[GroupPath] | None = None
    for node in nodes:
        found = tree.host(node)
        above = set(_groups_of(found, tier)) if found is not None else set()
        shared = above if shared is None else shared & above
    return bool(shared)


def _groups_of(host: Host, tier: int) -> Iterator[GroupPath]:
    for depth, each in enumerate(host.tiers, 1):
        if each <= tier:
            yield GroupPath(host.path[:depth])


def _asked(asked: NativeAsked | None, kind_of_tier: Callable[[int], Kind | None]) -> str:
    if asked is None:
        return "its scheduler chooses its nodes, and its PodGroup is not known yet"
    if not asked.policies and asked.together is None:
        return f"its PodGroup asks {asked.scheduler} for no groups: {asked.dropped}"
    wishes = [
        f"{counted(each.pods, 'pod') if each.pods else 'each group'} {_where(each, kind_of_tier)}"
        for each in asked.policies
    ]
    if asked.together is not None:
        wishes.append(f"all pods {_where(asked.together, kind_of_tier)}")
    heeded = f", but {asked.unheeded}" if asked.unheeded else ", which it heeds"
    if asked.unlabelled:
        heeded = f", but no node has the label {asked.unlabelled}, so it can bind none"
    return f"{asked.scheduler} chooses its nodes; asked of it: {', '.join(wishes)}{heeded}"


def _where(near: Nearness, kind_of_tier: Callable[[int], Kind | None]) -> str:
    if near.tier is None:
        return "as near to each other as can be (soft)"
    return f"in one {_name(near.tier, kind_of_tier)} (hard, tier {near.tier})"


def _name(tier: int, kind_of_tier: Callable[[int], Kind | None]) -> str:
    return kind_of_tier(tier) or "HyperNode"


def _bound(bound: int, pods: int, groups: int, split: Sequence[int]) -> str:
    if not bound:
        return f"none of {counted(pods, 'pod')} is bound"
    if not groups:
        return f"{bound} of {counted(pods, 'pod')} bound"
    whole = f"{groups - len(split)} of {counted(groups, 'group')} whole"
    named = f" (split: {listed([f'group {at}' for at in split])})" if split else ""
    return f"{bound} of {counted(pods, 'pod')} bound, {whole}{named}"
