"""What a baseline looks at: the tree with the slots that are free in every domain.

Built from what `Capacity` says of itself, and remembered by its version. A simulation keeps one
scene and tells it what jobs take and give back, so that no policy pays for counting nodes again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from weakref import WeakKeyDictionary

from topo.model.errors import BadInputError
from topo.model.ids import GroupPath, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.eligible import eligible
from topo.placement.job.plan import Pods
from topo.placement.job.request import Request, flaw
from topo.sim.baselines.tree import Tree, tree_of

_VIEWS = 64
"""Views kept: a stream asks for a handful of pod sizes, a what-if may exclude ever other nodes."""


class View:
    """Free slots for pods of one size on the hosts that one job may use.

    `slots[tier][domain]`, tier 0 are hosts; `group_tier` is the lowest tier at which some domain
    could hold a whole group if it were empty, None where none could.
    """

    __slots__ = ("_usable", "gpu_type", "gpus_per_pod", "group_tier", "scene", "slots", "tree")

    def __init__(
        self, scene: "Scene", pod: tuple[str, int], usable: tuple[bool, ...], group_tier: int | None
    ) -> None:
        self.scene = scene
        self.tree = scene.tree
        self.gpu_type, self.gpus_per_pod = pod
        self.group_tier = group_tier
        self._usable = usable
        gpus_per_pod = self.gpus_per_pod
        free = [
            gpus // gpus_per_pod if ok else 0 for gpus, ok in zip(scene.free, usable, strict=True)
        ]
        self.slots = rolled_up(self.tree, free)

    def update(self, host: int, free: int) -> None:
        """Counts a host again; O(tiers)."""
        if not self._usable[host]:
            return
        change = free // self.gpus_per_pod - self.slots[0][host]
        if change:
            for slots, domain_of in zip(self.slots, self.tree.domain_of, strict=True):
                slots[domain_of[host]] += change

    def draft(self) -> "Draft":
        """A plan in the making, of which the view knows nothing."""
        return Draft(self)


class Draft:
    """What a policy has taken so far, and what is left of the slots."""

    __slots__ = ("slots", "tree")

    def __init__(self, view: View) -> None:
        self.tree = view.tree
        self.slots = [list(level) for level in view.slots]

    def take(self, host: int, pods: int) -> None:
        """Takes slots of a host; O(tiers)."""
        for slots, domain_of in zip(self.slots, self.tree.domain_of, strict=True):
            slots[domain_of[host]] -= pods

    def fill(self, hosts: Iterable[int], pods: int) -> list[tuple[int, int]]:
        """Takes so many pods from hosts in this order: (host, pods) for each one used."""
        taken = []
        for host in hosts:
            if pods <= 0:
                break
            here = min(pods, self.slots[0][host])
            if here > 0:
                taken.append((host, here))
                self.take(host, here)
                pods -= here
        return taken


Choice = Callable[[View, Request], tuple[Pods, ...] | None]
"""A policy: the groups of a job in rank order, or None where it finds no place now."""


class Scene:
    """The hosts of a capacity, what is free on each, and the views that were asked for.

    `free[host]` are GPUs. `gpus[tier][domain]` and `used[tier][domain]` count open hosts only.
    `version` grows with everything that changes.
    """

    def __init__(self, capacity: Capacity) -> None:
        hosts = tuple(capacity.hosts())
        self.tree: Tree = tree_of(hosts, max(1, capacity.tiers))
        self.free = [capacity.free(host.name) if host.open else 0 for host in hosts]
        self.gpus = rolled_up(self.tree, [host.gpus if host.open else 0 for host in hosts])
        used = [h.gpus - free if h.open else 0 for h, free in zip(hosts, self.free, strict=True)]
        self.used = rolled_up(self.tree, used)
        self.version = capacity.version
        self.types = capacity.gpu_types()
        self._views: dict[tuple[object, ...], View] = {}
        self._group_tiers: dict[tuple[int, str, int], int | None] = {}

    def place(self, request: Request, choose: Choice) -> tuple[Pods, ...] | None:
        """What a policy answers: the GPU types one after the other, the first that fits.

        Raises `BadInputError` for a request that is meaningless on any cluster.
        """
        if (refusal := flaw(request)) is not None:
            raise BadInputError(refusal)
        for view in self.views(request):
            if view.slots[-1][0] >= request.pods:
                groups = choose(view, request)
                if groups is not None:
                    return groups
        return None

    def views(self, request: Request) -> Iterator[View]:
        """One for each GPU type that the job may have and each group that `within` allows."""
        asked = request.eligible.gpu_type
        for gpu_type in self.types if asked is None else (asked,):
            for inside in self._insides(request):
                yield self._view(request, gpu_type, inside)

    def take(self, pods: Mapping[NodeName, int]) -> None:
        """A job starts: GPUs by node."""
        self._change({node: -gpus for node, gpus in pods.items()})

    def give(self, pods: Mapping[NodeName, int]) -> None:
        """A job has ended: the same GPUs by node are free again."""
        self._change(pods)

    def _change(self, freed: Mapping[NodeName, int]) -> None:
        self.version += 1
        for node, gpus in freed.items():
            host = self.tree.position[node]
            self.free[host] += gpus
            for used, domain_of in zip(self.used, self.tree.domain_of, strict=True):
                used[domain_of[host]] -= gpus
            for view in self._views.values():
                view.update(host, self.free[host])

    def _insides(self, request: Request) -> Iterator[GroupPath]:
        if request.within is None:
            yield GroupPath(())
            return
        found: dict[GroupPath, None] = {}
        for host in self.tree.hosts:
            for depth, kind in enumerate(host.kinds, start=1):
                if kind == request.within:
                    found[GroupPath(host.path[:depth])] = None
        yield from found

    def _view(self, request: Request, gpu_type: str, inside: GroupPath) -> View:
        group_tier = self._group_tier(request, gpu_type)
        key = (request.gpus_per_pod, request.eligible, gpu_type, inside, group_tier)
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= _VIEWS:
                self._views.clear()
            usable = tuple(
                host.open
                and host.gpu_type == gpu_type
                and host.path[: len(inside)] == inside
                and eligible(host, request.eligible)
                for host in self.tree.hosts
            )
            view = View(self, (gpu_type, request.gpus_per_pod), usable, group_tier)
            self._views[key] = view
        return view

    def _group_tier(self, request: Request, gpu_type: str) -> int | None:
        tier = self._tier_for(request.pods_per_group, request, gpu_type)
        if tier is None and not request.whole_groups:
            return self._tier_for(request.tail, request, gpu_type)
        return tier

    def _tier_for(self, pods: int, request: Request, gpu_type: str) -> int | None:
        key = (request.gpus_per_pod, gpu_type, pods)
        if key not in self._group_tiers:
            self._group_tiers[key] = self._lowest_tier_for(pods, request.gpus_per_pod, gpu_type)
        return self._group_tiers[key]

    def _lowest_tier_for(self, pods: int, gpus_per_pod: int, gpu_type: str) -> int | None:
        empty = [h.gpus // gpus_per_pod if h.gpu_type == gpu_type else 0 for h in self.tree.hosts]
        levels = rolled_up(self.tree, empty)
        real = range(1, self.tree.root)
        return next((tier for tier in real if max(levels[tier], default=0) >= pods), None)


def scene_of(capacity: Capacity) -> Scene:
    """The scene of a capacity as it is now, built anew only after a change; O(nodes) then."""
    scene = _SCENES.get(capacity)
    if scene is None or scene.version != capacity.version:
        scene = Scene(capacity)
        _SCENES[capacity] = scene
    return scene


_SCENES: WeakKeyDictionary[Capacity, Scene] = WeakKeyDictionary()


def rolled_up(tree: Tree, by_host: list[int]) -> list[list[int]]:
    """Sums by domain for every tier, tier 0 first; O(hosts x tiers)."""
    levels = [by_host]
    for paths, domain_of in zip(tree.paths[1:], tree.domain_of[1:], strict=True):
        sums = [0] * len(paths)
        for domain, value in zip(domain_of, by_host, strict=True):
            sums[domain] += value
        levels.append(sums)
    return levels


def in_ranks(view: View, taken: Iterable[tuple[int, int]], request: Request) -> tuple[Pods, ...]:
    """Pods by host in rank order, cut into the groups of the request, the tail last."""
    left = deque((view.tree.hosts[host].name, pods) for host, pods in taken if pods)
    return tuple(_first(left, size) for size in sizes_of(request))


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


def sizes_of(request: Request) -> tuple[int, ...]:
    """Pods of each group: k, k, …, and the tail."""
    tail = (request.tail,) if request.tail else ()
    return (request.pods_per_group,) * request.whole_groups + tail
