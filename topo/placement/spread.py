"""A job over the children of one domain: the fewest of them, tier by tier down to the cells."""

from collections.abc import Iterator, Sequence

from topo.placement.draft import Draft, Key, Share, joined, key_of
from topo.placement.field import Field
from topo.placement.flat import flat
from topo.placement.measure import effect_of
from topo.placement.window import fewest, window

TAIL_HOSTS = 4
"""Domains of a higher tier that are tried as the host of the tail."""
SINGLES = 16
"""Domains that could hold all and are looked into."""


def best_of(field: Field, drafts: Iterator[Draft]) -> tuple[Key, Draft] | None:
    """The best of some drafts by the objective."""
    best: tuple[Key, Draft] | None = None
    for draft in drafts:
        key = key_of(effect_of(field.layout, field.shape, field.slots, draft.cells), draft)
        if best is None or key < best[0]:
            best = key, draft
    return best


def inside(field: Field, tier: int, domain: int, need: tuple[int, bool]) -> Draft | None:
    """The best way found to put whole groups, and the tail or not, into one domain of a tier."""
    groups, tail = need
    if tier == field.shape.tier:
        return filled(field, domain, Share(domain, groups, tail))
    bounds = field.layout.below(tier, tier - 1)
    children = range(bounds[domain], bounds[domain + 1])
    found = best_of(field, over(field, tier - 1, children, need))
    return found[1] if found else None


def over(
    field: Field, tier: int, domains: Sequence[int], need: tuple[int, bool]
) -> Iterator[Draft]:
    """Ways to use the fewest of some domains of a tier."""
    groups, tail = need
    shape = field.shape
    if tier == shape.tier:
        rooms = field.rooms
        here = [int(rooms[d]) for d in domains]
        for shares in flat(domains, here, shape.k, (groups, shape.r if tail else 0)):
            yield joined(filled(field, share.domain, share) for share in shares)
        return
    for wanted in _sets(field, tier, domains, need):
        parts = [inside(field, tier, domain, part) for domain, part in wanted]
        if all(part is not None for part in parts):
            yield joined(part for part in parts if part is not None)


Wanted = list[tuple[int, tuple[int, bool]]]


def _sets(
    field: Field, tier: int, domains: Sequence[int], need: tuple[int, bool]
) -> Iterator[Wanted]:
    """What to ask of which domains of a tier above the groups', as few of them as can be."""
    groups, tail = need
    caps = field.groups(tier)
    order = sorted(((int(caps[d]), -d) for d in domains), reverse=True)
    pool = [(-minus, cap) for cap, minus in order]
    found: list[tuple[int, Wanted]] = []
    for host, beside in _hosts(field, tier, pool, tail=tail):
        rest = [each for each in pool if each[0] != host and each[1]]
        sizes = [cap for _, cap in rest]
        count = fewest(sizes, groups - beside)
        if count is not None:
            chosen = [rest[i] for i in window(sizes, count, groups - beside)]
            for wanted in _amounts(chosen, groups, (host, beside)):
                found.append((len(chosen) + (host >= 0), wanted))  # noqa: PERF401
    least = min((count for count, _ in found), default=0)
    singles = SINGLES if least == 1 else len(found)
    yield from [wanted for count, wanted in found if count == least][:singles]


def _hosts(
    field: Field, tier: int, pool: list[tuple[int, int]], *, tail: bool
) -> Iterator[tuple[int, int]]:
    """Domains that could host the tail and the groups they hold beside it; (-1, 0) without."""
    if not tail:
        yield -1, 0
        return
    losses = field.losses(tier)
    seen: set[tuple[int, int]] = set()
    for domain, cap in pool:
        kind = cap, int(losses[domain])
        if kind[0] >= kind[1] and kind not in seen:
            seen.add(kind)
            yield domain, cap - kind[1]


def _amounts(chosen: list[tuple[int, int]], groups: int, host: tuple[int, int]) -> Iterator[Wanted]:
    """Fill the chosen, and leave what is not needed in one of them, each in turn."""
    full = [(domain, cap, False) for domain, cap in chosen]
    if host[0] >= 0:
        full.append((*host, True))
    left = sum(cap for _, cap, _ in full) - groups
    able = [domain for domain, cap, _ in full if cap >= left]
    if not able:
        yield _levelled(full, left)
    for one in able if left else able[:1]:
        yield [(d, (cap - (left if d == one else 0), tail)) for d, cap, tail in full]


def _levelled(full: list[tuple[int, int, bool]], left: int) -> Wanted:
    wanted: Wanted = []
    for domain, cap, tail in reversed(full):
        less = min(cap, left)
        left -= less
        wanted.append((domain, (cap - less, tail)))
    return [(d, (groups, tail)) for d, (groups, tail) in wanted if groups or tail]


def filled(field: Field, domain: int, share: Share) -> Draft:
    """A share of a domain of the group tier, over the fewest of its cells."""
    shape = field.shape
    pods = share.groups * shape.k + (shape.r if share.tail else 0)
    if shape.tier == 1:
        return Draft((share,), {domain: pods})
    single = field.unit(pods)
    bounds = field.layout.below(shape.tier, shape.tier - 1)
    children = range(bounds[domain], bounds[domain + 1])
    found = best_of(single, over(single, shape.tier - 1, children, (pods, False)))
    if found is None:
        return Draft((), {})
    return Draft((share,), found[1].cells)
