"""Seats for pods that may use different nodes, in the fewest domains, by trying all that matters.

Result: a node for each pod, with the fewest groups split, then the fewest domains of each tier, the
top one first; with `complete` no other way has fewer. Of equal ones that with the least penalty of
nodes that was met. Or none; with `complete` there is none.

How: a matching of pods with seats, whatever their groups, shows that there are enough; where groups
may be split it is a first way. Then depth first, pod by pod, each into a tier-1 domain, where a
matching seats it with those that are there already. A way that cannot be better than the best one
so far is left: what it uses grows alone, and the pods that are left need at least so many more
domains as their seats make.

Why no way is missed. Inside a domain any seating is as good as any other, but for penalties, and a
matching finds one if there is one; it takes the nodes in their order. Of domains that no pod uses,
equal in the seats and penalties for each kind of pod and beside equal ones in all that is above
them, only the first is tried: to exchange two of them changes no cost. Pods of one kind and group
take domains in rising order. Of all solutions that differ by such exchanges the one with the lowest
domains in rising order passes both rules.

Cost: `most_steps` domains are looked at, each in O(tiers), and those of one more pod; after that
the best way so far is returned, not complete. A step is a microsecond; before the first one O(nodes
and pods that stay).

Example: pairs; rank 0 is tied to a1 or b1, rank 1 to b2, ranks 2 and 3 to nothing. Rank 1 has the
fewest nodes and comes first: b2. Then rank 0 can only be on b1. Ranks 2 and 3 cost a domain less in
the other half of b, if it has one, than in a.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from topo.gangs.decisions.matching import matched
from topo.model.ids import NodeName

Cost = tuple[int, ...]
"""Groups that are split, then domains used of each tier, the top one first, then the penalty."""
Homes = tuple[int, ...]
"""The domain of each tier, the top one first; the last is of tier 1."""


class SeatNode(NamedTuple):
    """A node with free seats; `kinds` has a bit for each kind of pod that may use it.

    `penalty`: of each pod that is there.
    """

    name: NodeName
    seats: int
    kinds: int
    homes: Homes
    penalty: int = 0


class Seeker(NamedTuple):
    """A pod that needs a seat: its group, and what kind of pod it is."""

    group: int
    kind: int


@dataclass(frozen=True, slots=True)
class SeatQuestion:
    """Who needs a seat, and which there are.

    Groups may not cross the domains at position `whole_at` of the homes; without `is_required` they
    may, at a cost. `stay` are the groups with pods that stay, and the homes of these.
    """

    seekers: Sequence[Seeker]
    nodes: Sequence[SeatNode]
    whole_at: int
    is_required: bool
    stay: Sequence[tuple[int, Homes]] = ()


class Seats(NamedTuple):
    """The node of each seeker, and the cost of all; `complete`: nothing is better."""

    nodes: tuple[NodeName, ...] | None
    cost: Cost
    complete: bool
    steps: int


class Judged(NamedTuple):
    """Whether there may be a seat for each, and the steps that it took."""

    is_able: bool
    steps: int


def find_seats(question: SeatQuestion, below: Cost | None, most_steps: int) -> Seats:
    """Return the best seats of a lower cost than `below`, if there are any; O(steps)."""
    if not question.nodes:
        return Seats(None, below or (), complete=True, steps=0)
    at = _seats_anywhere(question)
    if at is None:
        return Seats(None, below or (), complete=True, steps=len(question.seekers))
    search = _Search(question, below, most_steps)
    if not question.is_required:
        search.take(at)
    search.descend(0)
    nodes = None if search.found is None else tuple(search.found)
    is_complete = search.steps < most_steps
    return Seats(nodes, search.best or (), is_complete, search.steps)


def judge_seats(question: SeatQuestion, most_steps: int) -> Judged:
    """Return whether there may be a seat for each: there is, or the steps did not suffice."""
    if not question.nodes or _seats_anywhere(question) is None:
        return Judged(not question.seekers, steps=len(question.seekers))
    search = _FirstWay(question, None, most_steps)
    search.descend(0)
    return Judged(search.found is not None or search.steps >= most_steps, search.steps)


def cost_of(groups: Sequence[tuple[int, Homes]], whole_at: int, penalty: int = 0) -> Cost:
    """Return the cost of pods with these groups and homes; O(pods)."""
    of_group: dict[int, set[int]] = {}
    for group, homes in groups:
        of_group.setdefault(group, set()).add(homes[whole_at])
    split = sum(len(domains) > 1 for domains in of_group.values())
    tiers = zip(*(homes for _, homes in groups), strict=True)
    return (split, *(len({*domains}) for domains in tiers), penalty)


@dataclass(slots=True)
class _Leaf:
    """A domain of tier 1: its nodes by number, and the signs of it and of all above it."""

    homes: Homes
    nodes: list[int] = field(default_factory=list)
    kinds: int = 0
    seats: int = 0
    penalty: int = 0
    signs: tuple[object, ...] = ()


class _Search:
    """The state of one search: who is seated where, and the best way so far."""

    def __init__(self, question: SeatQuestion, below: Cost | None, most_steps: int) -> None:
        self._question, self._most_steps = question, most_steps
        self.best, self.steps = below, 0
        self.found: list[NodeName] | None = None
        self._free = [node.seats for node in question.nodes]
        self._seated: list[list[int]] = [[] for _ in question.nodes]
        self._node_of = [-1] * len(question.seekers)
        self._leaf_of = [-1] * len(question.seekers)
        self._leaves = _leaves(question.nodes)
        self._of_kind: dict[int, list[int]] = {}
        self._of_whole: dict[int, list[int]] = {}
        for number, leaf in enumerate(self._leaves):
            self._of_whole.setdefault(leaf.homes[question.whole_at], []).append(number)
            for kind in {each.kind for each in question.seekers}:
                if leaf.kinds >> kind & 1:
                    self._of_kind.setdefault(kind, []).append(number)
        self._most = max((leaf.seats for leaf in self._leaves), default=1)
        self._order = _order(question)
        tiers = len(question.nodes[0].homes)
        self._users: list[dict[int, int]] = [{} for _ in range(tiers)]
        self._domains: dict[int, dict[int, int]] = {}
        self._split = self._penalty = 0
        for group, homes in question.stay:
            self._use(group, homes, 1)
        self._left = sum(leaf.seats for leaf in self._leaves if leaf.homes[-1] in self._users[-1])

    def take(self, at: Sequence[int]) -> None:
        """Take a way that is allowed as the best one, if it is better."""
        nodes, seekers = self._question.nodes, self._question.seekers
        new = [(each.group, nodes[node].homes) for each, node in zip(seekers, at, strict=True)]
        penalty = sum(nodes[node].penalty for node in at)
        cost = cost_of([*self._question.stay, *new], self._question.whole_at, penalty)
        if self.best is None or cost < self.best:
            self.best, self.found = cost, [nodes[node].name for node in at]

    def descend(self, depth: int) -> None:
        """Seat the pods from this depth on in every way that may be better than the best one."""
        if depth == len(self._order):
            self._keep()
            return
        if self.steps >= self._most_steps:
            return
        pod = self._order[depth]
        seeker = self._question.seekers[pod]
        before = self._order[depth - 1] if depth else -1
        is_like = depth > 0 and self._question.seekers[before] == seeker
        first = self._leaf_of[before] if is_like else 0
        for _, at in sorted(self._candidates(seeker, first)):
            leaf = self._leaves[at]
            moves = self._seat(pod, leaf)
            if moves is None:
                continue
            is_new = leaf.homes[-1] not in self._users[-1]
            self._enter(pod, at, sign=1, seats=leaf.seats if is_new else 0)
            if not self._is_hopeless(len(self._order) - depth - 1):
                self.descend(depth + 1)
            self._enter(pod, at, sign=-1, seats=leaf.seats if is_new else 0)
            self._undo(moves)
            if self.steps >= self._most_steps:
                return

    def _keep(self) -> None:
        """Keep the way that was found as the best one."""
        self.best = self._cost()
        self.found = [self._question.nodes[at].name for at in self._node_of]

    def _candidates(self, seeker: Seeker, first: int) -> Iterator[tuple[Cost, int]]:
        """Yield the domains to try, of alike ones that are not used the first alone."""
        whole_at, bit = self._question.whole_at, 1 << seeker.kind
        inside = self._domains.get(seeker.group) if self._question.is_required else None
        seen: set[tuple[object, ...]] = set()
        able: Iterable[int] = self._of_kind.get(seeker.kind, ())
        if inside:
            able = sorted(at for home in inside for at in self._of_whole.get(home, ()))
        for at in able:
            leaf = self._leaves[at]
            self.steps += 1
            if not leaf.kinds & bit:
                continue
            new = next(
                (tier for tier, home in enumerate(leaf.homes) if home not in self._users[tier]),
                len(leaf.homes),
            )
            if new < len(leaf.homes):
                sign = (*leaf.homes[:new], *leaf.signs[new:])
                if sign in seen:
                    continue
                seen.add(sign)
            if at >= first:
                is_split = leaf.homes[whole_at] not in self._domains.get(seeker.group, {})
                tiers = (int(tier >= new) for tier in range(len(leaf.homes)))
                yield (int(is_split), *tiers, leaf.penalty), at

    def _cost(self) -> Cost:
        return (self._split, *map(len, self._users), self._penalty)

    def _is_hopeless(self, pods: int) -> bool:
        """Whether no way on from here is better than the best one; `pods` have no seat yet."""
        if self.best is None:
            return False
        *above, used, penalty = self._cost()
        more = -(-max(0, pods - self._left) // self._most)
        return (*above, used + more, penalty) >= self.best

    # One pod more or less

    def _enter(self, pod: int, at: int, *, sign: int, seats: int) -> None:
        self._left += sign * (seats - 1)
        self._leaf_of[pod] = at
        self._use(self._question.seekers[pod].group, self._leaves[at].homes, sign)

    def _use(self, group: int, homes: Homes, sign: int) -> None:
        domains = self._domains.setdefault(group, {})
        self._split -= len(domains) > 1
        used = [*zip(self._users, homes, strict=True), (domains, homes[self._question.whole_at])]
        for users, home in used:
            users[home] = users.get(home, 0) + sign
            if not users[home]:
                del users[home]
        self._split += len(domains) > 1

    def _seat(self, pod: int, leaf: _Leaf) -> list[tuple[int, int, int]] | None:
        """Seat a pod in a domain, moving others there; return the moves, or None if it cannot."""
        nodes, seekers = self._question.nodes, self._question.seekers
        came: dict[int, tuple[int, int]] = {}
        queue: deque[int] = deque()

        def reach(who: int, source: int) -> None:
            bit = 1 << seekers[who].kind
            for node in leaf.nodes:
                if node not in came and nodes[node].kinds & bit:
                    came[node] = who, source
                    queue.append(node)

        reach(pod, -1)
        while queue:
            node = queue.popleft()
            self.steps += 1
            if self._free[node]:
                return self._move(node, came)
            for other in self._seated[node]:
                reach(other, node)
        return None

    def _move(self, node: int, came: Mapping[int, tuple[int, int]]) -> list[tuple[int, int, int]]:
        moves: list[tuple[int, int, int]] = []
        while node >= 0:
            who, source = came[node]
            self._put(who, source, node)
            moves.append((who, source, node))
            node = source
        return moves

    def _undo(self, moves: Sequence[tuple[int, int, int]]) -> None:
        for who, source, node in reversed(moves):
            self._put(who, node, source)

    def _put(self, who: int, source: int, node: int) -> None:
        """Move a pod from a node to another one; -1: none."""
        if source >= 0:
            self._seated[source].remove(who)
            self._free[source] += 1
            self._penalty -= self._question.nodes[source].penalty
        if node >= 0:
            self._seated[node].append(who)
            self._free[node] -= 1
            self._penalty += self._question.nodes[node].penalty
        self._node_of[who] = node


class _FirstWay(_Search):
    """A search that ends with the first way that it finds."""

    def _keep(self) -> None:
        super()._keep()
        self._most_steps = 0


def _seats_anywhere(question: SeatQuestion) -> list[int] | None:
    """Return the number of a node for each seeker, whatever its group; None if there are too few.

    Of a kind as many seats as there are seekers suffice: whoever may have so many gets one,
    whatever the others have. O(nodes x kinds), and a matching of as many seats and seekers.
    """
    nodes, seekers = question.nodes, question.seekers
    chosen: dict[int, None] = {}
    for kind in {each.kind for each in seekers}:
        seats = 0
        for at, node in enumerate(nodes):
            if node.kinds >> kind & 1 and seats < len(seekers):
                chosen[at] = None
                seats += node.seats
    seats_of = [at for at in sorted(chosen) for _ in range(min(nodes[at].seats, len(seekers)))]
    able = {
        kind: [seat for seat, at in enumerate(seats_of) if nodes[at].kinds >> kind & 1]
        for kind in {each.kind for each in seekers}
    }
    found = matched([able[each.kind] for each in seekers])
    return [seats_of[seat] for seat in found] if found is not None else None


def _leaves(nodes: Sequence[SeatNode]) -> list[_Leaf]:
    """Return the domains of tier 1 in the order of the tree, each with its signs."""
    of_home: dict[int, _Leaf] = {}
    for number, node in enumerate(nodes):
        leaf = of_home.setdefault(node.homes[-1], _Leaf(node.homes))
        leaf.nodes.append(number)
        leaf.kinds |= node.kinds
        leaf.seats += node.seats
        leaf.penalty += node.penalty
    leaves = [of_home[home] for home in sorted(of_home)]
    signs: dict[object, int] = {}

    def sign(content: object) -> int:
        return signs.setdefault(content, len(signs))

    of_leaf = {
        leaf.homes[-1]: sign(tuple(sorted(_like(nodes[at]) for at in leaf.nodes)))
        for leaf in leaves
    }
    tiers = len(leaves[0].homes)
    above: list[dict[int, int]] = [of_leaf]
    for tier in range(tiers - 2, -1, -1):
        children: dict[int, dict[int, int]] = {}
        for leaf in leaves:
            below = leaf.homes[tier + 1]
            children.setdefault(leaf.homes[tier], {})[below] = above[0][below]
        above.insert(
            0, {home: sign((tier, *sorted(each.values()))) for home, each in children.items()}
        )
    for leaf in leaves:
        leaf.signs = tuple(("like", above[tier][home]) for tier, home in enumerate(leaf.homes))
    return leaves


def _like(node: SeatNode) -> tuple[int, int, int]:
    return node.kinds, node.seats, node.penalty


def _order(question: SeatQuestion) -> list[int]:
    """Return the pods in the order in which they are seated: what has the fewest seats first."""
    seekers, seats = question.seekers, dict[int, int]()
    for kind in {each.kind for each in seekers}:
        seats[kind] = sum(node.seats for node in question.nodes if node.kinds >> kind & 1)
    fewest: dict[int, int] = {}
    for group, kind in seekers:
        fewest[group] = min(fewest.get(group, seats[kind]), seats[kind])
    staying = {group for group, _ in question.stay}

    def rank(pod: int) -> tuple[object, ...]:
        group, kind = seekers[pod]
        return group not in staying, fewest[group], group, seats[kind], kind, pod

    return sorted(range(len(seekers)), key=rank)
