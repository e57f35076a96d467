"""Ranks for pods that consume a ProvisioningRequest and belong to no job that was stamped.

Any pods may consume one: of a Job without indices, of several jobs, of none. They are one gang, and
alike within a template, so that any order is right as long as it stays. A pod that was placed keeps
a rank of its group, because its node is in that group's domain; the others get the ranks that are
left, in the order of their own index and name.

Cost: O(pods log pods).

Example: groups of two; a, b, c are placed in groups 0, 0, 1, and d is new
    → a 0, b 1, c 2, d 3; if a is deleted and e comes: b 0, e 1, c 2, d 3
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop


@dataclass(frozen=True, slots=True)
class Consumer:
    """A pod: its `index` as its job states it, else 0; `group` is None before it is placed."""

    uid: str
    name: str
    index: int
    group: int | None


def consumer_ranks(pods: Iterable[Consumer], pods_per_group: int) -> Mapping[str, int]:
    """Return the rank of each pod by uid, from 0 and each once."""
    ordered = sorted(pods, key=lambda pod: (pod.index, pod.name))
    ranks: dict[str, int] = {}
    taken: set[int] = set()
    within: dict[int, int] = {}
    for pod in ordered:
        if pod.group is None:
            continue
        number = within.get(pod.group, 0)
        if number < pods_per_group:  # more than a group has are new pods in it
            within[pod.group] = number + 1
            ranks[pod.uid] = pod.group * pods_per_group + number
            taken.add(ranks[pod.uid])
    left = [rank for rank in range(len(ordered) + len(taken)) if rank not in taken]
    heapify(left)
    for pod in ordered:
        if pod.uid not in ranks:
            ranks[pod.uid] = heappop(left)
    return ranks
