"""Which ranks of a gang without gates need a node kept, and which holds keep none that is needed.

The scheduler binds such pods one by one and asks about each. So the nodes of a whole group are held
as soon as its first pod waits, and the answer to a question only reads the hold.

A hold is for ranks of one group, and its key says which: `extender/<gang>/<first>/<mask>`, where
bit i of the hexadecimal mask is rank `first` + i. So a pod belongs to the hold with its rank, also
for a master that starts later, and nothing but the hold has to be stored.

Ranks without a pod are needed for a while after the newest pod was made, since the pods of a job
are made one after the other: first those of the whole job, then those of groups of which a pod
waits (`absent_at`). A pod that is never bound keeps no rank but its own in the end.

Example: groups of 4 pods; rank 0 to 2 are bound, rank 3 waits, and so does rank 4.
    group 0     rank 3 is needed: key extender/g/0/8
    group 1     ranks 4 to 7 are needed, though only one pod exists: key extender/g/4/f
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from topo.gangs.machine.gang import GangId
from topo.model.ids import NodeName
from topo.model.limits import EXTENDER_KEYS, MAX_KEY_CHARS
from topo.placement.booking.holds import Hold, HoldId

MAX_GROUP_PODS = 512
"""Ranks of one group: its mask is a part of a key of `MAX_KEY_CHARS`."""


JOB_S, GROUP_S = 300.0, 3600.0
"""How long after its newest pod nodes are kept for the other ranks of a job, and of a group: a
controller makes its pods 500 at a time, and a quota or a webhook may hold the last ones up."""


UNSTATED_S = 5.0
"""So long after its newest pod nothing is kept for other ranks of a job whose size nobody states:
its controller makes pods within a second or two, and a later one goes beside the others."""


class AbsentRanks(IntEnum):
    """For which ranks without a pod nodes are kept; each value keeps more than the one before."""

    NONE = 0
    OF_GROUPS = 1
    """Of groups of which a pod waits."""
    OF_JOB = 2
    """Of the whole job, where its size is known and no pod is bound."""


def absent_at(age_s: float) -> AbsentRanks:
    """Return for which absent ranks nodes are kept so long after the newest pod was made."""
    if age_s < JOB_S:
        return AbsentRanks.OF_JOB
    return AbsentRanks.OF_GROUPS if age_s < GROUP_S else AbsentRanks.NONE


@dataclass(frozen=True, slots=True)
class HeldRanks:
    """Ranks of one gang for which a hold keeps nodes, ascending."""

    gang: GangId
    ranks: tuple[int, ...]

    @property
    def key(self) -> str:
        """The key of the hold."""
        first = self.ranks[0]
        mask = sum(1 << rank - first for rank in self.ranks)
        return f"{EXTENDER_KEYS}{self.gang}/{first}/{mask:x}"


def gang_of(hold: Hold) -> GangId | None:
    """Return the gang of a hold of this kind; None for any other hold. O(1)."""
    key = hold.wish.key or ""
    is_ours = key.startswith(EXTENDER_KEYS) and key.count("/") == 3
    return GangId(key.split("/")[1]) if is_ours else None


def held_ranks(hold: Hold) -> HeldRanks | None:
    """Return the ranks of a hold of this kind; None for any other hold."""
    key = hold.wish.key or ""
    if not key.startswith(EXTENDER_KEYS) or len(key) > MAX_KEY_CHARS:
        return None
    try:
        _, gang, first, mask = key.split("/")
        bits = int(mask, 16)
        ranks = tuple(int(first) + at for at in range(bits.bit_length()) if bits >> at & 1)
    except ValueError:
        return None
    return HeldRanks(GangId(gang), ranks) if ranks else None


def planned_nodes(hold: Hold, ranks: Iterable[int]) -> dict[int, NodeName]:
    """Return the node of each rank of a hold: its pods stand in the order of ranks."""
    nodes = (node for group in hold.groups for node, pods in group.pods for _ in range(pods))
    return dict(zip(ranks, nodes, strict=False))


def is_short(
    places: Mapping[int, NodeName], gpus: Mapping[int, int], awaited: Mapping[NodeName, int]
) -> bool:
    """Return whether a hold awaits fewer GPUs of a node than its waiting pods there ask for.

    `places` are the nodes of ranks, `gpus` those of waiting pods by rank. O(ranks).
    """
    needs = Counter[NodeName]()
    for rank, node in places.items():
        needs[node] += gpus.get(rank, 0)
    return any(number > awaited.get(node, 0) for node, number in needs.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingPod:
    """A live pod of a gang without gates; `node` is where it is bound."""

    rank: int
    node: NodeName | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """Ranks to place now, ascending, and the holds that this ends or replaces."""

    ranks: tuple[int, ...] = ()
    replaced: tuple[HoldId, ...] = ()
    ended: tuple[HoldId, ...] = ()

    def ranks_after(self, holds: Mapping[HoldId, tuple[int, ...]]) -> set[int]:
        """Return the ranks that have nodes held once this is done; O(ranks)."""
        over = {*self.replaced, *self.ended}
        kept = (rank for hold, ranks in holds.items() if hold not in over for rank in ranks)
        return {*self.ranks, *kept}


class GroupedPods(NamedTuple):
    """Pods of groups of which every pod exists, and those of each other group."""

    whole: list[AskingPod]
    partial: list[list[AskingPod]]


def grouped_pods(
    pods: Iterable[AskingPod],
    holds: Mapping[HoldId, tuple[int, ...]],
    *,
    group_pods: int,
    pods_total: int | None,
) -> GroupedPods:
    """Return pods by whether their group is complete; O(pods). Groups with nodes held go first."""
    of_group: dict[int, list[AskingPod]] = {}
    for pod in pods:
        of_group.setdefault(pod.rank // group_pods, []).append(pod)
    held, found = {ranks[0] // group_pods for ranks in holds.values()}, GroupedPods([], [])
    for group in sorted(of_group, key=lambda each: (each not in held, each)):
        left = group_pods if pods_total is None else pods_total - group * group_pods
        if len(of_group[group]) >= min(group_pods, left):
            found.whole.extend(of_group[group])
        else:
            found.partial.append(of_group[group])
    return found


def _ranks_of(groups: Iterable[int], group_pods: int, pods_total: int | None) -> set[int]:
    """Return the ranks of groups, none beyond the size of the gang if that is known; O(ranks)."""
    ranks = (range(group * group_pods, (group + 1) * group_pods) for group in groups)
    return {rank for each in ranks for rank in each if pods_total is None or rank < pods_total}


def needs_of(
    pods: Iterable[AskingPod],
    holds: Mapping[HoldId, tuple[int, ...]],
    unusable: Iterable[HoldId],
    *,
    group_pods: int,
    pods_total: int | None,
    absent: AbsentRanks = AbsentRanks.OF_JOB,
) -> Needs:
    """Return what differs between the pods of a gang and its holds.

    `holds` are the ranks of each hold, `unusable` those of which a node was lost. `pods_total` is
    the size of the gang where it is known: as long as no pod is bound, all of it is placed at
    once, else group by group as pods appear; no hold keeps ranks beyond it. `absent` limits the
    ranks that have no pod. O(pods and ranks of holds).
    """
    bound, waiting = set[int](), set[int]()
    for pod in pods:
        (waiting if pod.node is None else bound).add(pod.rank)
    waiting -= bound
    if not waiting | bound:
        return Needs(ended=tuple(holds))
    expected: set[int] = set()
    if waiting and absent is not AbsentRanks.NONE:
        groups = {rank // group_pods for rank in waiting}
        if pods_total is not None and not bound and absent is AbsentRanks.OF_JOB:
            groups |= set(range(-(-pods_total // group_pods)))
        expected = _ranks_of(groups, group_pods, pods_total)
    wanted = (expected - bound) | waiting
    lost, there = set(unusable), waiting | bound
    # Of ranks whose pods never come, or have ended.
    never = {
        rank
        for ranks in holds.values()
        for rank in ranks
        if rank not in there
        and (absent is AbsentRanks.NONE or (pods_total is not None and rank >= pods_total))
    }
    kept = {rank for hold, ranks in holds.items() if hold not in lost for rank in ranks}
    open_groups = {rank // group_pods for rank in wanted - kept}
    # The rest of a group is placed together, so that it stays whole where its hold is too small.
    replaced = tuple(
        hold
        for hold, ranks in holds.items()
        if not wanted.isdisjoint(ranks)
        and (hold in lost or ranks[0] // group_pods in open_groups or not never.isdisjoint(ranks))
    )
    again = {rank for hold in replaced for rank in holds[hold]} & wanted
    ended = tuple(
        hold
        for hold, ranks in holds.items()
        if hold not in replaced and (bound | never).issuperset(ranks)
    )
    return Needs(tuple(sorted((wanted - kept) | again)), replaced, ended)
