"""The tiers of HyperNodes with what their groups hold, for jobs whose nodes Volcano chooses."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from topo.gangs.native import Tier, Tiers
from topo.model.forest import Forest
from topo.model.ids import GroupPath
from topo.placement.capacity.host import Host
from topo.publish.hypernodes import group_tiers

OLD_S = 5.0


def tiers(forest: Forest, hosts: Iterable[Host]) -> Tiers:
    """Those of the groups with hosts in them. O(hosts times the depth of the tree)."""
    numbers = group_tiers(forest)
    nodes: dict[GroupPath, Counter[int]] = {}
    for host in hosts:
        for depth in range(1, len(host.path) + 1):
            above = GroupPath(host.path[:depth])
            if above in numbers:
                nodes.setdefault(above, Counter())[host.gpus] += 1
    by_number: dict[int, list[GroupPath]] = {}
    for path in nodes:
        by_number.setdefault(numbers[path].number, []).append(path)
    return tuple(
        Tier(
            number,
            frozenset(numbers[path].kind for path in paths),
            frozenset(tuple(sorted(nodes[path].items())) for path in paths),
        )
        for number, paths in sorted(by_number.items())
    )


@dataclass(slots=True, kw_only=True)
class KnownTiers:
    """The tiers as of a moment ago: counted at most every few seconds, and only when asked for.

    `forest` is None while groups or their GPUs are not known. `version` changes with the hosts.
    """

    forest: Callable[[], Forest | None]
    hosts: Callable[[], Iterable[Host]]
    version: Callable[[], int]
    clock: Callable[[], float]
    _tiers: Tiers = ()
    _of: tuple[Forest | None, int] = (None, -1)
    _counted_s: float = field(default=float("-inf"))

    def __call__(self) -> Tiers:
        """The tiers; empty while they are not known."""
        forest = self.forest()
        if forest is None:
            return ()
        now_s, of = self.clock(), (forest, self.version())
        if of[0] is not self._of[0] or (of != self._of and now_s - self._counted_s >= OLD_S):
            self._tiers, self._of, self._counted_s = tiers(forest, self.hosts()), of, now_s
        return self._tiers
