"""A job over the children of one domain: the fewest of them, tier by tier down to the cells."""

from collections.abc import Iterable, Iterator, Sequence

from topo.placement.job.allocation import Draft, Share, joined
from topo.placement.quality.measure import Key, effect_of, key_of
from topo.placement.search.fewest_domains import flat
from topo.placement.search.free_view import FreeView
from topo.placement.search.window import fewest, window

TAIL_HOSTS = 4
"""Kinds of domains of a higher tier that are tried as the host of the tail."""

Need = tuple[int, bool]
"""Whole groups, and whether the tail too."""


def best_of(view: FreeView, drafts: Iterable[Draft]) -> tuple[Key, Draft] | None:
    """The best of some drafts by the objective; not measured where there is only one."""
    found = list(drafts)
    if len(found) <= 1:
        return ((), found[0]) if found else None
    best: tuple[Key, Draft] | None = None
    for draft in found:
        key = key_of(effect_of(view, draft.cells), draft)
        if best is None or key < best[0]:
            best = key, draft
    return best


def inside(view: FreeView, tier: int, domain: int, need: Need) -> Draft | None:
    """The best way found to put whole groups, and the tail or not, into one domain of a tier."""
    if tier == view.shape.tier:
        return filled(view, Share(domain, *need))
    key = tier, domain, need
    if key not in view.drafts:
        bounds = view.layout.below(tier, tier - 1)
        children = range(bounds[domain], bounds[domain + 1])
        found = best_of(view, over(view, tier - 1, children, need))
        view.drafts[key] = found[1] if found else None
    return view.drafts[key]


def over(view: FreeView, tier: int, domains: range, need: Need) -> Iterator[Draft]:
    """Ways to use the fewest of some adjacent domains of a tier."""
    groups, tail = need
    shape = view.shape
    if tier == shape.tier:
        here = view.rooms[domains.start : domains.stop].tolist()
        for shares in flat(domains, here, shape.k, (groups, shape.r if tail else 0)):
            yield _all_filled(view, shares)
        return
    for wanted in _sets(view, tier, domains, need):
        parts = [inside(view, tier, domain, part) for domain, part in wanted]
        if all(part is not None for part in parts):
            yield joined(part for part in parts if part is not None)


Wanted = list[tuple[int, Need]]


def _sets(view: FreeView, tier: int, domains: range, need: Need) -> Iterator[Wanted]:
    """What to ask of which domains of a tier above the groups', as few of them as can be."""
    groups, tail = need
    caps = view.groups(tier)[domains.start : domains.stop].tolist()
    pool = sorted(((cap, -d) for cap, d in zip(caps, domains, strict=True) if cap), reverse=True)
    sizes = [cap for cap, _ in pool]
    if not tail:
        count = fewest(sizes, groups)
        if count is not None:
            chosen = [pool[i] for i in window(sizes, sizes, count, groups)]
            yield _amounts(view, tier, [(-d, cap, False) for cap, d in chosen], groups)
        return
    for host, beside in _hosts(view, tier, domains, (sizes, groups)):
        rest = [each for each in pool if -each[1] != host]
        left = [cap for cap, _ in rest]
        count = fewest(left, groups - beside) or 0
        chosen = [rest[i] for i in window(left, left, count, groups - beside)]
        full = [(-d, cap, False) for cap, d in chosen]
        yield _amounts(view, tier, [*full, (host, beside, True)], groups)


def _hosts(
    view: FreeView, tier: int, domains: range, need: tuple[list[int], int]
) -> list[tuple[int, int]]:
    """Domains that could host the tail, and the groups they hold beside it, in order of promise.

    One of each kind, and only those with which as few domains as possible do.
    """
    sizes, groups = need
    found: list[tuple[int, int, int, int]] = []
    seen: set[tuple[int, int]] = set()
    for domain in domains:
        cap, loss = int(view.groups(tier)[domain]), int(view.losses(tier)[domain])
        if cap < loss or (cap, loss) in seen:
            continue
        seen.add((cap, loss))
        rest = sizes[:]
        if cap:
            rest.remove(cap)
        count = fewest(rest, groups - cap + loss)
        if count is not None:
            found.append((count, loss, cap, domain))
    found.sort()
    least = found[0][0] if found else 0
    return [(d, cap - loss) for count, loss, cap, d in found if count == least][:TAIL_HOSTS]


def _amounts(view: FreeView, tier: int, full: list[tuple[int, int, bool]], groups: int) -> Wanted:
    """Fill the chosen, and leave what is not needed in one of them: where it frees most cells."""
    left = sum(cap for _, cap, _ in full) - groups
    able = [(d, cap, tail) for d, cap, tail in full if cap >= left and (tail or cap > left)]
    if not left:
        return [(d, (cap, tail)) for d, cap, tail in full]
    if not able:
        return _levelled(full, left)
    saved = [
        (_cells(view, tier, (d, cap, tail)) - _cells(view, tier, (d, cap - left, tail)), -i)
        for i, (d, cap, tail) in enumerate(able)
    ]
    one = able[-max(saved)[1]][0]
    return [(d, (cap - (left if d == one else 0), tail)) for d, cap, tail in full]


def _cells(view: FreeView, tier: int, wanted: tuple[int, int, bool]) -> int:
    draft = inside(view, tier, wanted[0], wanted[1:])
    return len(draft.cells) if draft else 0


def _levelled(full: list[tuple[int, int, bool]], left: int) -> Wanted:
    wanted: Wanted = []
    for domain, cap, tail in reversed(full):
        less = min(cap, left)
        left -= less
        wanted.append((domain, (cap - less, tail)))
    return [(d, (groups, tail)) for d, (groups, tail) in wanted if groups or tail]


def _all_filled(view: FreeView, shares: Sequence[Share]) -> Draft:
    shape = view.shape
    if shape.tier > 1:
        return joined(filled(view, share) for share in shares)
    k, r = shape.k, shape.r
    cells = {share.domain: share.groups * k + (r if share.tail else 0) for share in shares}
    return Draft(tuple(shares), cells)


def filled(view: FreeView, share: Share) -> Draft:
    """A share of a domain of the group tier, over the fewest of its cells."""
    shape, domain = view.shape, share.domain
    pods = share.groups * shape.k + (shape.r if share.tail else 0)
    if shape.tier == 1:
        return Draft((share,), {domain: pods})
    key = shape.tier, domain, (share.groups, share.tail)
    known = view.drafts.get(key)
    if known is None:
        cells = _over_children(view, domain, pods)
        known = view.drafts[key] = Draft((share,), cells) if cells else Draft((), {})
    return known


def _over_children(view: FreeView, domain: int, pods: int) -> dict[int, int] | None:
    """Single pods over the fewest cells of a domain of the group tier."""
    tier = view.shape.tier - 1
    bounds = view.layout.below(tier + 1, tier)
    children = range(bounds[domain], bounds[domain + 1])
    if tier == 1:
        rooms = view.free[children.start : children.stop].tolist()
        ways = flat(children, rooms, 1, (pods, 0))
        return {share.domain: share.groups for share in ways[0]} if ways else None
    single = view.unit(pods)
    found = best_of(single, over(single, tier, children, (pods, False)))
    return found[1].cells if found else None
