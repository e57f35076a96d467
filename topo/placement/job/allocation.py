"""A placement as numbers, before pods are given to nodes."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """What one domain of the group tier takes: whole groups, the tail or not, loose pods.

    Loose pods belong to groups that had to be split.
    """

    domain: int
    groups: int
    tail: bool = False
    loose: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """Shares by domain of the group tier, and pods by cell."""

    shares: tuple[Share, ...]
    cells: dict[int, int]


def joined(drafts: Iterable[Draft]) -> Draft:
    """One draft of several that share no domain."""
    shares: list[Share] = []
    cells: dict[int, int] = {}
    for draft in drafts:
        shares += draft.shares
        cells |= draft.cells
    return Draft(tuple(shares), cells)
