"""Ranks of pods that nobody numbers: replicas of a Deployment, workers of Ray, plain pods.

Result: a rank for each pod, each once. A pod that was placed stays in its group, whatever comes and
goes; the others take the lowest ranks that are free, from the first rank of their template on.

Why it is right. A group is what a plan decides, so that a rank has to stay in its group from the
plan on; the note of the pod says which. Before that any order will do, because such pods are alike.
Templates are taken from the last to the first, so that a template that grew beyond the ranks that
it was stamped with takes none of a later one.

Cost: O(pods log pods).

Example, groups of two: pods a, b, c and d were placed as groups 0, 0, 1 and 1; e replaces b.
    a, c and d keep their groups    → ranks 0, 2 and 3
    e takes the lowest free rank    → 1: it is placed beside a
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Unranked:
    """A pod without a number: the first rank of its template, and its group once it was placed."""

    first_rank: int
    group: int | None = None


def assign_ranks(
    pods: Sequence[Unranked], pods_per_group: int, taken: Sequence[int] = ()
) -> tuple[int, ...]:
    """Return a rank for each pod, in their order; none that is `taken`."""
    used = set(taken)
    ranks: dict[int, int] = {}
    free: dict[int, int] = {}
    """The lowest rank from each first one on that may be free: all before it are used."""

    def lowest(first: int, end: int | None = None) -> int:
        rank = free.get(first, first)
        while rank in used and rank != end:
            rank += 1
        free[first] = rank
        return rank

    for at, pod in enumerate(pods):
        if pod.group is None:
            continue
        first, end = pod.group * pods_per_group, (pod.group + 1) * pods_per_group
        if (rank := lowest(first, end)) != end:
            ranks[at] = rank
            used.add(rank)
    rest = [at for at in range(len(pods)) if at not in ranks]
    for at in sorted(rest, key=lambda at: -pods[at].first_rank):
        ranks[at] = lowest(pods[at].first_rank)
        used.add(ranks[at])
    return tuple(ranks[at] for at in range(len(pods)))
