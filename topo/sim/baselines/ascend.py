"""Ascend for Volcano (mind-cluster), `sp-block`: logical super-nodes inside physical ones.

Re-implemented from the documented table: physical super-nodes stand in [remainder][count], with
count = (free - reserve) // block and remainder = (free - reserve) % block. First those that the job
uses up, smallest remainder first; then bigger ones; then, one block each, those that must give
their reserve. Sources: hiascend.com, MindCluster, "Affinity Scheduling of Logical SuperPoDs" and
the comment on the table in github.com/Ascend/mind-cluster, ascend-for-volcano, superpod. One tier
only. Upstream walks maps in any order, here the name decides. A tail is one more, smaller block.

Example: blocks of 14, reserve 2; super-nodes A to E with 47, 16, 31, 31 and 15 free nodes. They
stand at A [3][3], B [0][1], C and D [1][2], E [13][0]. Five blocks: 1 in B, 2 in C, 2 in D. Nine: 3
more in A, and one in E, which gives its reserve.
"""

from topo.placement.job.plan import Pods
from topo.placement.job.request import Request
from topo.sim.baselines.cluster import SlotsLeft, SlotView, Taken, in_ranks, spread

RESERVE, OF_NODES = 2, 48
"""`reserve-nodes` and `super-pod-size` of the published configuration: spares of a super-node.

In smaller domains the reserve is as much smaller, which for 8 and 16 nodes is none.
"""

Cell = tuple[int, int]
"""(remainder, count) of a super-node."""


def place(view: SlotView, request: Request) -> tuple[Pods, ...] | None:
    """Return the groups in rank order, or None; O(domains log domains)."""
    tier = view.group_tier
    if tier is None:
        return None
    left = SlotsLeft(view)
    reserve = _reserve(view, tier)
    taken: Taken = []
    for need, block in ((request.whole_groups, request.pods_per_group), (1, request.tail)):
        if need and block:
            shares = shared_out(left.slots[tier], need, block, reserve)
            if shares is None:
                return None
            taken += _filled(left, tier, shares, block)
    return in_ranks(view, taken, request)


def _reserve(view: SlotView, tier: int) -> int:
    """Return the spares of a domain, in slots."""
    node = max(host.gpus for host in view.tree.hosts) // view.gpus_per_pod
    return RESERVE * view.tree.largest[tier] // OF_NODES * node


def cell(free: int, block: int, reserve: int = RESERVE) -> Cell:
    """Return where a super-node with so many free nodes stands in the table."""
    spare = free - reserve
    if spare < 0:
        return free % block, 0
    return spare % block, spare // block


def shared_out(
    free: list[int], need: int, block: int, reserve: int = RESERVE
) -> dict[int, int] | None:
    """Blocks by super-node for so many blocks, or None where there is no room."""
    table = _Table(free, need, block, reserve)
    table.use_up()
    table.cut()
    table.give_reserve()
    return None if table.missing else table.shares


class _Table:
    """Super-nodes by remainder and count, and the blocks taken from each and missing so far."""

    def __init__(self, free: list[int], need: int, block: int, reserve: int) -> None:
        self.missing = need
        self._left = list(free)
        self._block, self._reserve = block, reserve
        self._cells: dict[Cell, list[int]] = {}
        self.shares: dict[int, int] = {}
        for domain, nodes in enumerate(free):
            if nodes >= block:
                self._cells.setdefault(cell(nodes, block, reserve), []).append(domain)

    def use_up(self) -> None:
        """Those that hold no more than what is still to place, smallest remainder first."""
        for at in sorted(self._cells):
            if 0 < at[1] <= self.missing:
                self._take(at)

    def cut(self) -> None:
        """Those that hold more, fewest blocks first."""
        missing = self.missing
        for at in sorted(self._cells, key=lambda at: (at[1], at[0])):
            if at[1] > missing:
                self._take(at)

    def give_reserve(self) -> None:
        """One block each, largest remainder first: it is nearest to a block without the reserve."""
        while giving := self._with_room():
            for domain in giving:
                if not self.missing:
                    return
                self._give(domain, 1)

    def _with_room(self) -> list[int]:
        cells = sorted(self._cells, key=lambda at: (-at[0], at[1]))
        full = (sorted(self._cells[at], key=lambda d: -self._left[d]) for at in cells)
        return [d for domains in full for d in domains if self._left[d] >= self._block]

    def _take(self, at: Cell) -> None:
        for domain in self._cells[at]:
            spare = cell(self._left[domain], self._block, self._reserve)[1]
            self._give(domain, min(self.missing, spare))

    def _give(self, domain: int, blocks: int) -> None:
        if blocks:
            self.shares[domain] = self.shares.get(domain, 0) + blocks
            self._left[domain] -= blocks * self._block
            self.missing -= blocks


def _filled(left: SlotsLeft, tier: int, shares: dict[int, int], block: int) -> Taken:
    taken: Taken = []
    for domain in sorted(shares):
        taken += spread(left, (tier, domain), shares[domain] * block)
    return taken
