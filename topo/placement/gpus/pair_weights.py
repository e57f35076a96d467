"""How near two GPUs of one node are, as a whole number from 0 (no known way) to 16 (nearest).

The scale is our own. Its order is that of the vendors' legends (`mx-smi topo -m`, `nvidia-smi topo
-m`, `npu-smi info -t topo`). Adding up pairs is what NVIDIA's go-gpuallocator does in its best
effort policy (SYS 10, NODE 20, PHB 30, PXB 40, PIX 50, 100 for every bonded NVLink). Differences:

- The best link weighs 16, so that the 120 pairs of a full mesh of 16 GPUs add up to 1920: sums are
  values on HAMi's scale of 0 to 2000 as they are, without rounding (see `gpu_sets`).
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

from collections.abc import Sequence
from types import MappingProxyType

from topo.model.machine import Link, LinkKind, LinkMatrix

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
