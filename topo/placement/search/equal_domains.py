"""Which of equal domains a placement takes: those whose nodes have the least penalty.

Result: an allocation that is equal in every number but the penalty, which is no larger.

Why it is right: two domains are equal if they have the same free slots, the same use and, where
they hold domains, equal ones. What two equal domains of one parent give can change places: no count
of domains, whole groups or free slots differs, in any tier. So each domain tells its *share*: what
each of its children gives, equal children aside. Each share goes to the child for which it costs
least, given the others. Where all shares of equal children are the same, as they mostly are, the
cheapest children are the best. Where they differ, the largest share chooses first. Then, for each
two shares, children change places as long as that saves something, and so do used and unused ones.
That is the best there is but for savings that take three children to change places at once.

Cost: nothing where the penalty is 0 already; else O(n log n) for n equal children and each of their
d different shares, and for each pair of shares in each of at most _ROUNDS rounds. Above
MOST_SHARES different shares of equal children, these stay where they are.

Example: a job of 2 pods over three dragonflies of one node, the first two of them hybrid (penalty
1). All are equal, and two of them give one pod each. Their penalties are 1, 1 and 0: the third and
the first take the pods, the penalty is 1.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import combinations
from typing import Any

from topo.placement.capacity.penalties import Penalties
from topo.placement.job.plan import Allocation, Share
from topo.placement.view import FreeView

MOST_SHARES = 8
"""Different shares of equal domains up to which these change places; there are mostly 1 or 2."""
_ROUNDS = 4
"""How often all pairs of shares are looked at for a change of places."""
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
        """Return how a domain above tier 1 gives something at the least penalty."""
        if not given:
            return _NOTHING
        key = tier, domain, given
        found = self._known.get(key)
        if found is None:
            _, parts, share = given
            found = self._inside(tier, domain, parts)
            if share:
                penalty, inner = found
                found = penalty, Allocation((Share(domain, *share),), inner.tier1_pods)
            self._known[key] = found
        return found

    def _cost(self, tier: int, domain: int, given: _Given) -> int:
        """Return the least penalty at which a domain gives something."""
        if tier == 1:
            return self.penalties.of(domain, given[0]) if given else 0
        return self.placed(tier, domain, given)[0]

    def _inside(self, tier: int, domain: int, parts: Iterable[tuple[_Given, _Kind]]) -> _Placed:
        """Return what the children of a domain give: each part from one of its kind."""
        free: dict[_Kind, list[int]] = {}
        for at in self._below(tier, domain):
            free.setdefault(self.kind(tier - 1, at), []).append(at)
        first = {kind: iter(equal) for kind, equal in free.items()}
        used = [(next(first[kind]), given) for given, kind in parts]
        return self.cheapest(tier - 1, self._below(tier, domain), used)

    def cheapest(self, tier: int, children: range, used: Iterable[tuple[int, _Given]]) -> _Placed:
        """Return what some children of a domain give, on equal ones with the least penalty."""
        by_kind: dict[_Kind, dict[int, _Given]] = {}
        for at, given in sorted(used):
            by_kind.setdefault(self.kind(tier, at), {})[at] = given
        equal: dict[_Kind, list[int]] = {kind: [] for kind in by_kind}
        for at in children:
            if (kind := self.kind(tier, at)) in equal:
                equal[kind].append(at)
        penalty = 0
        shares: list[Share] = []
        pods: dict[int, int] = {}
        for kind, giving in by_kind.items():
            for at, given in self._dealt(tier, equal[kind], giving).items():
                if tier == 1:
                    pods[at], _, share = given
                    if share:
                        shares.append(Share(at, *share))
                    penalty += self.penalties.of(at, pods[at])
                else:
                    more, allocation = self.placed(tier, at, given)
                    shares += allocation.shares
                    pods |= allocation.tier1_pods
                    penalty += more
        return penalty, Allocation(tuple(shares), pods)

    def _dealt(
        self, tier: int, equal: Iterable[int], giving: Mapping[int, _Given]
    ) -> Mapping[int, _Given]:
        """Return which of equal domains gives what; `giving`: which of them gives what now."""
        numbers = Counter(giving.values())
        if len(numbers) > MOST_SHARES:
            return giving
        left = dict.fromkeys(equal)
        members: dict[_Given, list[int]] = {}
        for given in sorted(numbers, reverse=True):
            costs = ((self._cost(tier, at, given), at) for at in left)
            members[given] = [at for _, at in nsmallest(numbers[given], costs)]
            for at in members[given]:
                del left[at]
        if len(numbers) > 1:
            members[()] = list(left)
            self._change_places(tier, members)
        return {at: given for given, some in members.items() if given for at in some}

    def _change_places(self, tier: int, members: dict[_Given, list[int]]) -> None:
        """Let equal domains change places, two by two, while that saves something.

        `members`: the domains that give the same. Those that save most by a change come first, so
        what two shares cost on the domains of both is the least there is.
        """

        def by_saving(own: _Given, other: _Given) -> list[tuple[int, int]]:
            return sorted(
                (self._cost(tier, at, other) - self._cost(tier, at, own), at) for at in members[own]
            )

        for _ in range(_ROUNDS):
            is_changed = False
            for one, other in combinations(tuple(members), 2):
                ones, others = by_saving(one, other), by_saving(other, one)
                number = sum(a + b < 0 for (a, _), (b, _) in zip(ones, others, strict=False))
                if number:
                    is_changed = True
                    ones[:number], others[:number] = others[:number], ones[:number]
                    members[one] = [at for _, at in ones]
                    members[other] = [at for _, at in others]
            if not is_changed:
                break
