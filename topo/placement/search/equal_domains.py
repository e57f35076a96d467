"""Which of equal domains a placement takes: those whose nodes have the least penalty.

Result: an allocation that is equal in every number but the penalty, which is no larger.

Why it is right: two domains are equal if they have the same free slots, the same use and, where
they hold domains, equal ones. What two equal domains of one parent give can change places: no count
of domains, whole groups or free slots differs, in any tier. So each domain tells its *share*: what
each of its children gives, equal children aside. Each share goes to the child for which it costs
least, given the others. Where all shares of equal children are the same, as they mostly are, the
cheapest children are the best. Where they differ, the largest share chooses first, then two
children change places as long as that saves something: the best there is in all but odd cases.

Cost: the children of the domains that are used, of each kind at most MOST_EQUAL; nothing where the
penalty is 0 already.

Example: a job of 2 pods over three dragonflies of one node, the first two of them hybrid (penalty
1). All are equal, and two of them give one pod each. Their penalties are 1, 1 and 0: the third and
the first take the pods, the penalty is 1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from topo.placement.capacity.penalties import Penalties
from topo.placement.job.plan import Allocation, Share
from topo.placement.view import FreeView

MOST_EQUAL = 64
"""Equal domains of one parent that are compared: those in use, and the first others."""
_ROUNDS = 4
"""How often all pairs of equal children are looked at for a change of places."""
_Kind = tuple[Any, ...]
"""Equal for equal domains."""
_Given = tuple[Any, ...]
"""What a domain gives: its share, if groups are whole in its tier, and its pods or its children's
kinds with what each gives. Empty: nothing. The pods in it come first."""
_Placed = tuple[int, Allocation]
"""A penalty, and the allocation that has it."""
_NOTHING: _Placed = (0, Allocation((), {}))


def with_least_penalty(view: FreeView, allocation: Allocation) -> Allocation:
    """Return the allocation, or an equal one on nodes of less penalty."""
    penalties = view.penalties
    if penalties is None or not any(penalties.of(*each) for each in allocation.tier1_pods.items()):
        return allocation
    exchange = _Exchange(view, penalties, allocation)
    tier = view.shape.tiers
    used = {view.layout.of[tier][at] for at in allocation.tier1_pods}
    tops = range(len(view.layout.firsts[tier]) - 1)
    _, found = exchange.cheapest(tier, tops, [(at, exchange.given(tier, at)) for at in used])
    return Allocation(tuple(sorted(found.shares)), dict(sorted(found.tier1_pods.items())))


@dataclass
class _Exchange:
    """One exchange; what was found of a domain is kept."""

    view: FreeView
    penalties: Penalties
    allocation: Allocation
    _kinds: dict[tuple[int, int], _Kind] = field(default_factory=dict)
    _known: dict[tuple[int, int, _Given], _Placed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._shares: Mapping[int, Share] = {each.domain: each for each in self.allocation.shares}

    def kind(self, tier: int, domain: int) -> _Kind:
        """Return a key that is equal for domains that are equal but for their penalties."""
        found = self._kinds.get((tier, domain))
        if found is None:
            if tier == 1:
                slots = self.view.slots
                free = int(self.view.free[domain])
                found = free, slots.free_list[domain], bool(slots.busy[domain])
            else:
                found = tuple(sorted(self.kind(tier - 1, at) for at in self._below(tier, domain)))
            self._kinds[tier, domain] = found
        return found

    def _below(self, tier: int, domain: int) -> range:
        bounds = self.view.layout.below(tier, tier - 1)
        return range(bounds[domain], bounds[domain + 1])

    def given(self, tier: int, domain: int) -> _Given:
        """Return what a domain gives; empty if it is not used."""
        if tier == 1:
            pods = self.allocation.tier1_pods.get(domain, 0)
            inner: _Given = (pods, ())
        else:
            parts = [
                (each, self.kind(tier - 1, at))
                for at in self._below(tier, domain)
                if (each := self.given(tier - 1, at))
            ]
            pods = sum(each[0] for each, _ in parts)
            inner = pods, tuple(sorted(parts))
        if not pods:
            return ()
        share = self._shares[domain][1:] if tier == self.view.shape.tier else ()
        return (*inner, share)

    def placed(self, tier: int, domain: int, given: _Given) -> _Placed:
        """Return how a domain gives something at the least penalty."""
        if not given:
            return _NOTHING
        key = tier, domain, given
        found = self._known.get(key)
        if found is None:
            pods, parts, share = given
            if tier == 1:
                found = self.penalties.of(domain, pods), Allocation((), {domain: pods})
            else:
                penalty, inner = self._inside(tier, domain, parts)
                found = penalty, inner
            if share:
                own = (Share(domain, *share),)
                found = found[0], Allocation(own, found[1].tier1_pods)
            self._known[key] = found
        return found

    def _inside(self, tier: int, domain: int, parts: Iterable[tuple[_Given, _Kind]]) -> _Placed:
        """Return what the children of a domain give: each part from one of its kind."""
        free: dict[_Kind, list[int]] = {}
        for at in self._below(tier, domain):
            free.setdefault(self.kind(tier - 1, at), []).append(at)
        used = [(free[kind].pop(0), given) for given, kind in parts]
        return self.cheapest(tier - 1, self._below(tier, domain), used)

    def cheapest(self, tier: int, children: range, used: Iterable[tuple[int, _Given]]) -> _Placed:
        """Return what some children of a domain give, on equal ones with the least penalty."""
        by_kind: dict[_Kind, dict[int, _Given]] = {}
        for at, given in sorted(used):
            by_kind.setdefault(self.kind(tier, at), {})[at] = given
        for at in children:
            equal = by_kind.get(self.kind(tier, at))
            if equal is not None and len(equal) < MOST_EQUAL:
                equal.setdefault(at, ())
        penalty = 0
        shares: list[Share] = []
        pods: dict[int, int] = {}
        for equal in by_kind.values():
            for at, given in self._dealt(tier, equal).items():
                more, allocation = self.placed(tier, at, given)
                penalty += more
                shares += allocation.shares
                pods |= allocation.tier1_pods
        return penalty, Allocation(tuple(shares), pods)

    def _dealt(self, tier: int, equal: Mapping[int, _Given]) -> dict[int, _Given]:
        """Return which of equal domains gives what."""
        wanted = sorted(filter(None, equal.values()), reverse=True)
        left = sorted(equal)

        def cost(at: int, given: _Given) -> int:
            return self.placed(tier, at, given)[0]

        dealt: dict[int, _Given] = {}
        for given in wanted:
            best = min(left, key=lambda at: (cost(at, given), at))
            left.remove(best)
            dealt[best] = given
        if len(set(wanted)) <= 1:
            return dealt
        dealt |= dict.fromkeys(left, ())
        for _ in range(_ROUNDS):
            before = dict(dealt)
            for one in dealt:
                for other in dealt:
                    mine, theirs = dealt[one], dealt[other]
                    if mine == theirs or one >= other:
                        continue
                    now = cost(one, mine) + cost(other, theirs)
                    if cost(one, theirs) + cost(other, mine) < now:
                        dealt[one], dealt[other] = theirs, mine
            if dealt == before:
                break
        return {at: given for at, given in dealt.items() if given}
