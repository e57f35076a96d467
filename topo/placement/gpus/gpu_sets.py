"""Which GPUs of one node a pod should get, and what that does to those who come later.

**Definition** (our own: MetaX publishes the names of its annotations and not the formula). The
*value* of a set of GPUs is the sum of the weights of its pairs (`pair_weights`, 0…16 each).

- The best set of n GPUs is the free one with the highest value, among equals the one whose taking
  leaves the most, among equals again the first in the order of GPU numbers.
- `scores[n]` is its value. It never falls with n, and never rises when GPUs are taken.
- `losses[n]` is the value of all free GPUs less that of those that remain: all pairs that end with
  it, inside the set or across. It is what others can no longer have, so an island of four costs
  less than four GPUs of two islands, and GPUs of an island already broken less than those of a
  whole one.

**Scale.** Both are whole numbers from 0 to 2000, so HAMi's `2000 - losses[n]` (binpack) and
`2000 - scores[n]` (spread) stay in range and order nodes as the sums do. They are the sums
themselves up to 1920, the value of a full mesh of 16 GPUs, so numbers of any two nodes may be
compared and nothing is rounded. The sums of larger hosts share the last 80 steps in order. More
GPUs than are free have the score 0 and the loss 2000, the worst of both.

Exact up to `EXACT_GPUS` free GPUs: all 2^G sets are valued by doubling. Above that greedy: from
every GPU as the start the set grows by the GPU with the highest weight to it, among equals by the
one with the least weight to the rest, and the best of all starts counts for each n. The score is
then exact in full meshes and inside one island, and a lower bound of the best elsewhere.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from topo.model.machine import MAX_GPUS
from topo.placement.gpus.pair_weights import BEST, Weights

EXACT_GPUS = 16
"""Free GPUs up to which every set is looked at: 65,536 sets, about 2 ms."""
WORST_LOSS = 2000
_PLAIN = BEST * EXACT_GPUS * (EXACT_GPUS - 1) // 2
_MOST = BEST * MAX_GPUS * (MAX_GPUS - 1) // 2
_KEPT_TABLES = 256
"""A table is about 2 kB; a cluster has few kinds of host, but many patterns of free GPUs."""

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Choice:
    """The best set of `len(gpus)` GPUs, ascending; `value` and `lost` are sums of weights."""

    gpus: tuple[int, ...]
    value: int
    lost: int

    @property
    def score(self) -> int:
        """`value` on the scale 0…2000, higher is better."""
        return scaled(self.value)

    @property
    def loss(self) -> int:
        """`lost` on the scale 0…2000, lower is better."""
        return scaled(self.lost)


@dataclass(frozen=True, slots=True)
class Table:
    """The best set for every number of GPUs: `choices[n - 1]` has n, as many as are `free`.

    `gpus` counts all GPUs of the node, free or not. Not `exact`: found greedily.
    """

    gpus: int
    free: tuple[int, ...]
    choices: tuple[Choice, ...]
    exact: bool

    def choice(self, count: int) -> Choice | None:
        """The best set of so many GPUs; None where fewer are free. O(1)."""
        return self.choices[count - 1] if 1 <= count <= len(self.choices) else None

    @property
    def scores(self) -> Mapping[int, int]:
        """The score for n = 1…`gpus`."""
        return {n: c.score if c else 0 for n, c in self._each()}

    @property
    def losses(self) -> Mapping[int, int]:
        """The loss for n = 1…`gpus`."""
        return {n: c.loss if c else WORST_LOSS for n, c in self._each()}

    def _each(self) -> Iterator[tuple[int, Choice | None]]:
        return ((count, self.choice(count)) for count in range(1, self.gpus + 1))


def scaled(total: int) -> int:
    """A sum of weights as 0…2000: itself up to 1920, the rest in proportion up to 128 GPUs."""
    if total <= _PLAIN:
        return total
    room, above = WORST_LOSS - _PLAIN, _MOST - _PLAIN
    return min(WORST_LOSS, _PLAIN + -(-(total - _PLAIN) * room // above))


def table(weights: Weights, free: Iterable[int] | None = None) -> Table:
    """The table of a node with these weights; `free` are places in them, None for all.

    Kept by value, so equal nodes share it. O(2^G) for G ≤ 16 free GPUs, O(G³) above.
    """
    everyone = range(len(weights))
    places = everyone if free is None else sorted(set(free).intersection(everyone))
    return _table(weights, tuple(places))


@lru_cache(maxsize=_KEPT_TABLES)
def _table(weights: Weights, free: tuple[int, ...]) -> Table:
    among = np.array(
        [[weights[one][other] for other in free] for one in free], dtype=np.int64
    ).reshape(len(free), len(free))
    exact = len(free) <= EXACT_GPUS
    found = _exact(among) if exact else _greedy(among)
    choices = (Choice(tuple(free[at] for at in places), v, lost) for places, v, lost in found)
    return Table(len(weights), free, tuple(choices), exact)


_Found = tuple[tuple[int, ...], int, int]
"""Places, value, value lost."""


def _exact(among: _Numbers) -> Iterator[_Found]:
    """The best set of every size, by the value of all sets.

    A set is a mask whose highest bit is GPU 0, so that among sets of one size the larger mask is
    the one that comes first by GPU numbers. Value, what remains and mask are packed into one key.
    """
    size = len(among)
    if not size:
        return
    values = _values_of_masks(among[::-1, ::-1])
    whole = len(values) - 1
    keys = (values << 38 | values[::-1] << 16) + np.arange(whole + 1)
    order, starts = _by_size(size)
    for key in np.maximum.reduceat(keys[order], starts)[1:].tolist():
        mask = key & 0xFFFF
        places = tuple(at for at in range(size) if mask >> (size - 1 - at) & 1)
        value, rest = int(values[mask]), int(values[whole ^ mask])
        yield places, value, int(values[whole]) - rest


def _values_of_masks(among: _Numbers) -> _Numbers:
    """The sum of pair weights inside every set of GPUs, by mask with GPU i as bit i. O(2^G)."""
    values = np.zeros(1, dtype=np.int64)
    for at, row in enumerate(among):
        reach = np.zeros(1, dtype=np.int64)
        for other in row[:at]:
            reach = np.concatenate((reach, reach + other))
        values = np.concatenate((values, values + reach))
    return values


@lru_cache(maxsize=EXACT_GPUS)
def _by_size(gpus: int) -> tuple[_Numbers, _Numbers]:
    """All masks sorted by the number of their bits, and where each number begins."""
    bits = np.zeros(1, dtype=np.int64)
    for _ in range(gpus):
        bits = np.concatenate((bits, bits + 1))
    order = np.argsort(bits, kind="stable")
    return order, np.searchsorted(bits[order], np.arange(gpus + 1))


def _greedy(among: _Numbers) -> Iterator[_Found]:
    """Grows a set from every start at once, a row of the arrays for each; see the module."""
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
