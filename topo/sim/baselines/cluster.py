"""What a baseline looks at: the free slots of every node and of every domain around it.

Nodes, domains and eligibility are those of `Capacity`. What it does not keep, because our own
search does not need it, are slots node by node with their sums at every tier: these are counted
here, once for each class of requests, and follow the bookings. So no policy of a stream pays for
counting the nodes again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from topo.model.errors import BadInputError
from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.slots import ELIGIBLE, Slots
from topo.placement.job.plan import Pods
from topo.placement.job.request import Request, flaw
from topo.placement.view import shape_of

_VIEWS = 64
"""Views kept: a stream asks for a handful of pod sizes, a what-if may exclude ever other nodes."""

Taken = list[tuple[int, int]]
"""(node, pods) by the nodes' numbers."""


class ClusterTree:
    """The domains of every tier as ranges of nodes, both numbered from 0 in natural order.

    Tier 0 are the nodes themselves, tier `root` is everything. `domain_of[tier][node]`;
    `largest[tier]` is the number of nodes of the largest domain. A domain that no source named (a
    node right under a switchbox) never holds more than what stands there alone.
    """

    def __init__(self, capacity: Capacity) -> None:
        layout = capacity.layout()
        rows = [row for at in range(len(layout.domains)) for row in capacity.members(at)]
        self.ids = [host_id for host_id, _, _ in rows]
        self.hosts = [host for _, host, _ in rows]
        self.root = layout.tiers + 1
        firsts = [[layout.offsets[at] for at in tier] for tier in layout.firsts[1:]]
        self._firsts = [list(range(len(rows) + 1)), *firsts, [0, len(rows)]]
        sizes = [[last - first for first, last in pairwise(tier)] for tier in self._firsts]
        self.domain_of = [
            [domain for domain, size in enumerate(tier) for _ in range(size)] for tier in sizes
        ]
        self.largest = [max(tier, default=0) for tier in sizes]

    @cached_property
    def position(self) -> dict[NodeName, int]:
        """The number of each node by its name."""
        return {host.name: number for number, host in enumerate(self.hosts)}

    def inside(self, tier: int, domain: int, lower: int) -> range:
        """Return the domains of a lower tier inside a domain; with `lower` = 0 its nodes. O(1)."""
        first, last = self._firsts[tier][domain], self._firsts[tier][domain + 1]
        of = self.domain_of[lower]
        return range(of[first], of[last - 1] + 1)

    def sums(self, by_node: list[int]) -> list[list[int]]:
        """Sums by domain for every tier, tier 0 first; O(nodes x tiers)."""
        return [[sum(by_node[a:b]) for a, b in pairwise(tier)] for tier in self._firsts]


class SlotView:
    """Free slots for pods of one size on the nodes that one job may use: `slots[tier][domain]`.

    `group_tier` is the lowest tier at which some domain could hold a whole group if it were empty,
    None where none could.
    """

    def __init__(
        self, cluster: "BaselineCluster", slots: Slots, nodes: range, group_tier: int | None
    ) -> None:
        self.cluster, self.tree, self.group_tier = cluster, cluster.tree, group_tier
        self.gpu_type, self.gpus_per_pod = slots.eligibility.gpu_type, slots.gpus
        self._usable = [
            node in nodes and slots.mask[host_id] == ELIGIBLE
            for node, host_id in enumerate(self.tree.ids)
        ]
        free = zip(cluster.free, self._usable, strict=True)
        self.slots = self.tree.sums([gpus // slots.gpus if ok else 0 for gpus, ok in free])

    def update(self, node: int, free: int) -> None:
        """Count a node again; O(tiers)."""
        if not self._usable[node]:
            return
        change = free // self.gpus_per_pod - self.slots[0][node]
        if change:
            for slots, domain_of in zip(self.slots, self.tree.domain_of, strict=True):
                slots[domain_of[node]] += change


class SlotsLeft:
    """The slots of a view less what a policy has taken for a job so far."""

    def __init__(self, view: SlotView) -> None:
        self.tree = view.tree
        self.slots = [list(level) for level in view.slots]

    def take(self, node: int, pods: int) -> None:
        """Take slots of a node; O(tiers)."""
        for slots, domain_of in zip(self.slots, self.tree.domain_of, strict=True):
            slots[domain_of[node]] -= pods

    def fill(self, nodes: Iterable[int], pods: int) -> Taken:
        """Take so many pods from nodes in this order."""
        taken = []
        for node in nodes:
            if pods <= 0:
                break
            here = min(pods, self.slots[0][node])
            if here > 0:
                taken.append((node, here))
                self.take(node, here)
                pods -= here
        return taken


def best_fit(free: Sequence[int], domains: Sequence[int], need: int) -> int | None:
    """The domain with least that still holds the need, else the one with most; None: all full.

    Several schedulers fill domains by this rule; so does `spread` inside of one.
    """
    fits = [d for d in domains if free[d] >= need]
    if fits:
        return min(fits, key=lambda d: (free[d], d))
    best = max(domains, key=lambda d: (free[d], -d), default=None)
    return best if best is not None and free[best] > 0 else None


def spread(left: SlotsLeft, place: tuple[int, int], pods: int) -> Taken:
    """(host, pods) for pods that fit in one domain: few lower domains, hosts in natural order."""
    tier, domain = place
    if tier == 1:
        return left.fill(left.tree.inside(1, domain, 0), pods)
    taken: Taken = []
    while pods > 0:
        children = left.tree.inside(tier, domain, tier - 1)
        child = best_fit(left.slots[tier - 1], children, pods)
        if child is None:
            break
        here = min(pods, left.slots[tier - 1][child])
        taken += spread(left, (tier - 1, child), here)
        pods -= here
    return sorted(taken)


Baseline = Callable[[SlotView, Request], tuple[Pods, ...] | None]
"""A scheduler's rule: the groups of a job in rank order, or None where it finds no place now."""


class BaselineCluster:
    """A capacity, and what is free on each of its nodes.

    Its owner books and releases here, and the capacity follows. `free[node]` are GPUs;
    `gpus[tier][domain]` and `used[tier][domain]` count open nodes only.
    """

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.tree = ClusterTree(capacity)
        hosts = self.tree.hosts
        self.free = [capacity.free(host.name) for host in hosts]
        gpus = [host.gpus if host.is_open else 0 for host in hosts]
        self.gpus = self.tree.sums(gpus)
        self.used = self.tree.sums([a - free for a, free in zip(gpus, self.free, strict=True)])
        self._views: dict[tuple[object, ...], SlotView] = {}
        self._group_tiers: dict[tuple[object, ...], int | None] = {}

    def place(self, request: Request, baseline: Baseline) -> tuple[Pods, ...] | None:
        """Return what a policy answers: the GPU types one after the other, the first that fits.

        Raises `BadInputError` for a request that is meaningless on any cluster.
        """
        if (refusal := flaw(request)) is not None:
            raise BadInputError(refusal)
        for view in self.views(request):
            if view.slots[-1][0] >= request.pods:
                groups = baseline(view, request)
                if groups is not None:
                    return groups
        return None

    def views(self, request: Request) -> Iterator[SlotView]:
        """Yield one for each GPU type that the job may have and each group that `within` allows."""
        asked = request.eligible.gpu_type
        for gpu_type in self.capacity.gpu_types() if asked is None else (asked,):
            for nodes in self._within(request):
                yield self._view(request, gpu_type, nodes)

    def book(self, owner: str, gpus: Mapping[NodeName, int]) -> None:
        """A job starts: GPUs by node."""
        self.capacity.book(owner, gpus)
        self._count(gpus)

    def release(self, owner: str) -> None:
        """A job has ended."""
        gpus = self.capacity.bookings()[owner]
        self.capacity.release(owner)
        self._count(gpus)

    def _count(self, changed: Iterable[NodeName]) -> None:
        for name in changed:
            node = self.tree.position[name]
            free = self.capacity.free(name)
            change = self.free[node] - free
            self.free[node] = free
            for used, domain_of in zip(self.used, self.tree.domain_of, strict=True):
                used[domain_of[node]] += change
            for view in self._views.values():
                view.update(node, free)

    def _within(self, request: Request) -> Iterator[range]:
        """Yield the nodes of each group that the job must stay inside of, or all."""
        tree, layout = self.tree, self.capacity.layout()
        if request.within is None:
            yield range(len(tree.hosts))
            return
        for tier, domain in layout.groups_of(request.within):
            yield tree.inside(tier, domain, 0)

    def _view(self, request: Request, gpu_type: str, nodes: range) -> SlotView:
        group_tier = self._group_tier(request, gpu_type)
        key = (request.gpus_per_pod, request.eligible, gpu_type, nodes, group_tier)
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= _VIEWS:
                self._views.clear()
            slots = self.capacity.slots(request.eligible, gpu_type, request.gpus_per_pod)
            view = self._views[key] = SlotView(self, slots, nodes, group_tier)
        return view

    def _group_tier(self, request: Request, gpu_type: str) -> int | None:
        key = (gpu_type, request.gpus_per_pod, request.pods, request.group_size)
        if key not in self._group_tiers:
            self._group_tiers[key] = shape_of(self.capacity, request, gpu_type).tier or None
        return self._group_tiers[key]


def place(capacity: Capacity, request: Request, baseline: Baseline) -> tuple[Pods, ...] | None:
    """`BaselineCluster.place` on a capacity as it is now: counts all its nodes."""
    return BaselineCluster(capacity).place(request, baseline)


def in_ranks(
    view: SlotView, taken: Iterable[tuple[int, int]], request: Request
) -> tuple[Pods, ...]:
    """Pods by node in rank order, cut into the groups of the request, the tail last."""
    left = deque((view.tree.hosts[node].name, pods) for node, pods in taken if pods)
    return tuple(_first(left, size) for size in request.group_pods)


def _first(left: deque[tuple[NodeName, int]], size: int) -> Pods:
    """So many pods from the front, which are gone from it then."""
    group: list[tuple[NodeName, int]] = []
    while size:
        name, pods = left.popleft()
        here = min(pods, size)
        group.append((name, here))
        if pods > here:
            left.appendleft((name, pods - here))
        size -= here
    return tuple(group)
