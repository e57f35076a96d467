"""Which GPUs of one node a pod should get, and what taking them costs the pods that come later.

Finds, for every number n of GPUs, the best set of n free ones, its score and its loss. The *value*
of a set is the sum of the weights of its pairs (`pair_weights`, 0 to 16 each). The definition is
our own: MetaX publishes the names of its annotations, and not the formula.

- The best set has the highest value; of equal ones the value of the GPUs that remain is highest; of
  equal ones it has most GPUs on the wanted rails; of equal ones it comes first in the order of
  rails, wanted ones first, and of GPU numbers. So nodes that are wired or cabled differently give
  GPUs of the same rails, and no rail is worth a slower link.
- `scores[n]` is its value. It never falls with n, and never rises when GPUs are taken.
- `losses[n]` is the value of all free GPUs less that of the GPUs that remain: the pairs inside the
  set and those from it to the rest. So four GPUs of one island cost less than four of two islands,
  and GPUs of a broken island less than those of a whole one.

Scale: whole numbers from 0 to 2000, so that HAMi's `2000 - losses[n]` (binpack) and `2000 -
scores[n]` (spread) stay in range. Up to 1920, the value of a full mesh of 16 GPUs, they are the
sums themselves: nothing is rounded, and numbers of any two nodes may be compared. The sums of
larger hosts share the last 80 steps in order. More GPUs than are free score 0 and lose 2000.

Why it is right: up to `EXACT_GPUS` free GPUs every set is valued, so the best is found. Above that
a set grows from every GPU as a start by the GPU with the highest weight to it, of equal ones the
one with the least weight to the rest, then the first in order, and the best of all starts counts
for each n. That is exact
in a full mesh and inside one island; elsewhere the score is a lower bound of the best.

Cost: O(2^G) array steps for G free GPUs up to 16, about 2 ms; O(G^3) above. Equal nodes share a
table.

Example: four GPUs, 0-1 and 2-3 joined by NVLink (weight 7), all other pairs by the system (1).
    all pairs of 4      7 + 7 + 4 x 1 = 18
    n = 2: {0, 1}       value 7, {2, 3} remains with 7: lost 18 - 7 = 11
           {0, 2}       value 1, {1, 3} remains with 1: lost 18 - 1 = 17
    chosen              {0, 1}: the highest value, and before {2, 3} by number
    n = 3: {0, 1, 2}    value 7 + 1 + 1 = 9, GPU 3 remains with 0: lost 18
    scores 1 to 4       0, 7, 9, 18
    losses 1 to 4       9 (GPU 0 ends a pair of 7 and two of 1), 11, 18, 18

A pair's weight says how near two GPUs of one node are: 0 (no known way) to 16 (nearest). The scale
is our own. Its order is that of the vendors' legends (`mx-smi topo -m`, `nvidia-smi topo -m`,
`npu-smi info -t topo`). Adding up pairs is what NVIDIA's go-gpuallocator does in its best effort
policy (SYS 10, NODE 20, PHB 30, PXB 40, PIX 50, 100 for every bonded NVLink). Differences:

- The best link weighs 16, so that the 120 pairs of a full mesh of 16 GPUs add up to 1920: sums are
  values on HAMi's scale of 0 to 2000 as they are, without rounding.
- NVLink grows by one for each bonded link and stops at ten. A collective goes as fast as the
  slowest link of its ring, so one more link on a pair must not outweigh a pair that has none.
  Beyond ten a pair is as near as its machine makes any.
- MX, HCCS and UB weigh as much as the best, since their tools do not print how many lanes a pair
  has.

Other links: `SIO` joins the two dies of one Ascend package, nothing is nearer. `HCCS_SW` goes
through a switch that all pairs share, so it is below SIO, which stands beside it in one matrix.
`ETH` (MetaXLink over Ethernet, C600) leaves by the GPU's own ports but as packets, and no bandwidth
is published: better than any way over PCIe, less than one NVLink. `NA`, an unknown code and a cell
that nobody printed prove no way at all and weigh 0.

Cost: O(G^2) for G GPUs.

Example: the rows of two GPUs print `X NV2` and `NODE X`; a third one is not in the matrix.
    NV2 weighs 6 + 2 = 8, NODE 2; the two ends disagree, so the pair weighs 2, the weaker one.
    weights   ((0, 2, 0), (2, 0, 0), (0, 0, 0))
    Three GPUs in a row: two pairs of NV1 (7 + 7 = 14) outweigh one of NV2 and one of PIX (8 + 5).
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from topo.model.machine import MAX_GPUS, Link, LinkKind, LinkMatrix

BEST = 16
"""The weight of the nearest pair."""
_NVLINK_BASE = 6
"""One NVLink is 7: above every link that is not one."""

_WEIGHTS = MappingProxyType(
    {
        LinkKind.SIO: BEST,
        LinkKind.METAXLINK: BEST,
        LinkKind.HCCS: BEST,
        LinkKind.UNIFIED_BUS: BEST,
        LinkKind.HCCS_SW: 14,
        LinkKind.ETHERNET: 6,
        LinkKind.PIX: 5,
        LinkKind.PXB: 4,
        LinkKind.PHB: 3,
        LinkKind.NUMA_NODE: 2,
        LinkKind.SYSTEM: 1,
        LinkKind.NONE: 0,
        LinkKind.UNKNOWN: 0,
        LinkKind.SELF: 0,
    }
)

Weights = tuple[tuple[int, ...], ...]
"""Weights of all pairs of so many GPUs: square, symmetric, 0…`BEST`, zeros on the diagonal."""
EXACT_GPUS = 16
"""Free GPUs up to which every set is looked at: 65,536 sets, about 2 ms."""
WORST_LOSS = 2000
_PLAIN = BEST * EXACT_GPUS * (EXACT_GPUS - 1) // 2
_MOST = BEST * MAX_GPUS * (MAX_GPUS - 1) // 2
_KEPT = 256
"""A table is about 2 kB; a cluster has few kinds of host, but many patterns of free GPUs."""

_Numbers = NDArray[np.int64]


def weight(link: Link) -> int:
    """Return the weight of a link, 0 (worst) to `BEST`; an uncounted NVLink is one link."""
    if link.kind is LinkKind.NVLINK:
        return min(BEST, _NVLINK_BASE + max(1, link.count))
    return _WEIGHTS[link.kind]


def weakest(matrix: LinkMatrix, one: int | None, other: int | None) -> Link | None:
    """Return the link between two GPUs, by their rows; the weaker one where the two ends disagree.

    None where the matrix has no cell for them, or no row for one: a report may come cut short.
    """
    if one is None or other is None:
        return None
    ways = [_cell(matrix, one, other), _cell(matrix, other, one)]
    said = [link for link in ways if link is not None]
    return min(said, key=weight) if said else None


def pair_weights(matrix: LinkMatrix, rows: Sequence[int | None]) -> Weights:
    """Return the weights between GPUs given by their rows; None is a GPU that the matrix does not
    show.

    O(len(rows)²).
    """
    return tuple(
        tuple(
            weight(link) if at != to and (link := weakest(matrix, a, b)) else 0
            for to, b in enumerate(rows)
        )
        for at, a in enumerate(rows)
    )


def _cell(matrix: LinkMatrix, row: int, column: int) -> Link | None:
    if row >= len(matrix.links) or column >= len(matrix.links[row]):
        return None
    return matrix.links[row][column]


@dataclass(frozen=True, slots=True)
class GpuSet:
    """The best set of `len(gpus)` GPUs, ascending; `value` and `lost` are sums of weights."""

    gpus: tuple[int, ...]
    value: int
    lost: int

    @property
    def score(self) -> int:
        """`value` on the scale 0…2000, higher is better."""
        return scale(self.value)

    @property
    def loss(self) -> int:
        """`lost` on the scale 0…2000, lower is better."""
        return scale(self.lost)


@dataclass(frozen=True, slots=True)
class BestSets:
    """The best set for every number of GPUs: `sets[n - 1]` has n, as many as are `free`.

    `gpus` counts all GPUs of the node, free or not. Not `exact`: found greedily.
    """

    gpus: int
    free: tuple[int, ...]
    sets: tuple[GpuSet, ...]
    exact: bool

    def of_size(self, count: int) -> GpuSet | None:
        """Return the best set of so many GPUs; None where fewer are free. O(1)."""
        return self.sets[count - 1] if 1 <= count <= len(self.sets) else None

    @property
    def scores(self) -> Mapping[int, int]:
        """The score for n = 1…`gpus`."""
        return {n: c.score if c else 0 for n, c in self._each()}

    @property
    def losses(self) -> Mapping[int, int]:
        """The loss for n = 1…`gpus`."""
        return {n: c.loss if c else WORST_LOSS for n, c in self._each()}

    def _each(self) -> Iterator[tuple[int, GpuSet | None]]:
        return ((count, self.of_size(count)) for count in range(1, self.gpus + 1))


def scale(total: int) -> int:
    """Return a sum of weights as 0…2000: itself up to 1920, then in proportion up to 128 GPUs."""
    if total <= _PLAIN:
        return total
    room, above = WORST_LOSS - _PLAIN, _MOST - _PLAIN
    return min(WORST_LOSS, _PLAIN + -(-(total - _PLAIN) * room // above))


def best_sets(
    weights: Weights,
    free: Iterable[int] | None = None,
    *,
    rails: Sequence[int | None] = (),
    wanted: Container[int] = (),
) -> BestSets:
    """Return the table of a node with these weights; `free` are rows of them, None for all.

    `rails`: the rail of each row, None where it has none; empty where the node has no rails.
    """
    everyone = range(len(weights))
    places = [*everyone] if free is None else sorted(set(free).intersection(everyone))
    on = [rails[place] if place < len(rails) else None for place in everyone]
    is_wanted = [rail is not None and rail in wanted for rail in on]
    places.sort(key=lambda at: (not is_wanted[at], on[at] is None, on[at] or 0))
    return _best_sets(weights, tuple(places), sum(is_wanted[at] for at in places))


@lru_cache(maxsize=_KEPT)
def _best_sets(weights: Weights, free: tuple[int, ...], wanted: int) -> BestSets:
    """Return the table for GPUs in the order of preference, of which the first are wanted."""
    among = np.array(
        [[weights[one][other] for other in free] for one in free], dtype=np.int64
    ).reshape(len(free), len(free))
    exact = len(free) <= EXACT_GPUS
    found = _exact(among, wanted) if exact else _greedy(among)
    sets = (GpuSet(tuple(sorted(free[at] for at in places)), v, lost) for places, v, lost in found)
    return BestSets(len(weights), tuple(sorted(free)), tuple(sets), exact)


_Found = tuple[tuple[int, ...], int, int]
"""Places, value, value lost."""


def _exact(among: _Numbers, wanted: int) -> Iterator[_Found]:
    """Return the best set of every size, by the value of all sets; the first `wanted` are wanted.

    A set is a mask whose highest bit is the first GPU, so that among sets of one size the larger
    mask is the one that comes first. Value, what remains, how many are wanted and mask are packed
    into one key of 38 + 11 bits.
    """
    size = len(among)
    if not size:
        return
    values = _values_of_masks(among[::-1, ::-1])
    whole = len(values) - 1
    masks = np.arange(whole + 1)
    keys = values << 38 | values[::-1] << 21 | _bits(size)[masks >> (size - wanted)] << 16 | masks
    order, starts = _by_size(size)
    for key in np.maximum.reduceat(keys[order], starts)[1:].tolist():
        mask = key & 0xFFFF
        places = tuple(at for at in range(size) if mask >> (size - 1 - at) & 1)
        value, rest = int(values[mask]), int(values[whole ^ mask])
        yield places, value, int(values[whole]) - rest


def _values_of_masks(among: _Numbers) -> _Numbers:
    """Return the sum of pair weights inside every set of GPUs; bit i of a mask is GPU i. O(2^G)."""
    values = np.zeros(1, dtype=np.int64)
    for at, row in enumerate(among):
        reach = np.zeros(1, dtype=np.int64)
        for other in row[:at]:
            reach = np.concatenate((reach, reach + other))
        values = np.concatenate((values, values + reach))
    return values


@lru_cache(maxsize=EXACT_GPUS)
def _by_size(gpus: int) -> tuple[_Numbers, _Numbers]:
    """Return all masks sorted by the number of their bits, and where each number begins."""
    bits = _bits(gpus)
    order = np.argsort(bits, kind="stable")
    return order, np.searchsorted(bits[order], np.arange(gpus + 1))


@lru_cache(maxsize=EXACT_GPUS)
def _bits(gpus: int) -> _Numbers:
    """Return how many GPUs each mask has. O(2^G)."""
    bits = np.zeros(1, dtype=np.int64)
    for _ in range(gpus):
        bits = np.concatenate((bits, bits + 1))
    return bits


def _greedy(among: _Numbers) -> Iterator[_Found]:
    """Grow a set from every start at once, a row of the arrays for each; see the module."""
    size = len(among)
    rows = np.arange(size)
    ends = among.sum(axis=1)
    reach = np.zeros((size, size), dtype=np.int64)
    taken = np.zeros((size, size), dtype=bool)
    value = np.zeros(size, dtype=np.int64)
    lost = np.zeros(size, dtype=np.int64)
    for count in range(1, size + 1):
        costs = ends - reach  # a further GPU takes this from those that stay
        worth = np.where(taken, np.iinfo(np.int64).min, reach * (ends.max() + 1) - costs)
        joins = rows if count == 1 else worth.argmax(axis=1)
        value += reach[rows, joins]
        lost += ends[joins] - reach[rows, joins]
        taken[rows, joins] = True
        reach += among[joins]
        yield _best_start(taken, value, lost)


def _best_start(taken: NDArray[np.bool_], value: _Numbers, lost: _Numbers) -> _Found:
    highest = np.flatnonzero(value == value.max())
    equals = highest[lost[highest] == lost[highest].min()]
    places = min(tuple(np.flatnonzero(taken[start]).tolist()) for start in equals)
    return places, int(value[equals[0]]), int(lost[equals[0]])
