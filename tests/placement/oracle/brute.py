"""The best placement by looking at every one: for a dozen domains and a few pods."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import comb

from tests.placement.oracle.model import Domain, Model, spends_reserve, vector
from tests.placement.oracle.solution import Solution, allowed_tier, dealt
from topo.placement.job.request import PlacementMode


def size(model: Model) -> int:
    """No more than so many ways are looked at."""
    return comb(model.request.pods + len(model.domains(1)) - 1, model.request.pods)


def best(model: Model) -> Solution | None:
    """The best of all ways to hand out pods to the domains of tier 1, None where none is allowed.

    Which host of a domain takes a pod matters to the penalty alone, where the cheapest win.
    O(ways * hosts).
    """
    tier = allowed_tier(model)
    if tier is None:
        return None
    found: tuple[tuple[object, ...], Solution] | None = None
    for group in model.within():
        members = {
            key: hosts
            for key, hosts in model.domains(1).items()
            if all(model.inside(host, group) for host in hosts)
        }
        rooms = [len(model.filling(hosts)) for hosts in members.values()]
        for counts in _ways(model.request.pods, rooms):
            pods = dict(zip(members, counts, strict=True))
            if not _whole(model, pods, tier):
                continue
            candidate = dealt(model, pods)
            worth = vector(model, candidate)
            order = worth.split > 0, spends_reserve(model, candidate), worth.stages()
            if found is None or order < found[0]:
                found = order, candidate
    return None if found is None else found[1]


def _ways(pods: int, rooms: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not rooms:
        if not pods:
            yield ()
        return
    behind = sum(rooms[1:])
    for here in range(max(0, pods - behind), min(rooms[0], pods) + 1):
        for rest in _ways(pods - here, rooms[1:]):
            yield here, *rest


def _whole(model: Model, pods: dict[Domain, int], tier: int) -> bool:
    """Whether the groups can be whole with so many pods in each domain, where they must."""
    if model.request.mode is PlacementMode.PREFERRED:
        return True
    inside: dict[Domain, int] = defaultdict(int)
    above = {key: domain_of for domain_of, keys in model.below(tier).items() for key in keys}
    for key, some in pods.items():
        inside[above[key]] += some
    left = [some % model.k for some in inside.values() if some % model.k]
    return left == ([model.request.tail] if model.request.tail else [])
