"""In which groups of another fabric a job is tried that must be within one of them.

Result: the groups that can hold the whole job, the most promising first; and what the fullest has.

A job keeps its groups whole in the tree, and all of it inside one group of the other fabric: a
leaf, across which dragonflies lie, say. So such a group has a part of some domains. What it has of
a domain is a *run* (`capacity/other_fabrics.py`), and whether the job fits follows from the runs as
it does elsewhere from the domains: whole groups are counted run by run, and one run takes the tail
beside its own. So what is not returned cannot hold the job, and what is returned can.

The first are those in which counting says that the job needs the fewest domains of the top tier,
then of tier 1, then breaks the fewest canonical groups; then those with the fewest free slots, so
that others stay free. That is an order, no more: the job is placed in the first ones, and the best
place wins.

Cost: some passes over the hosts that are in such groups, and two sorts of their runs.

Example: dragonflies of two nodes, a slot each. Of d1 to d4 one node is on leaf-a, of d5 and d6 both
are on leaf-b. A job of two groups of two: leaf-a has no run of two slots, leaf-b holds it.
"""

from dataclasses import replace

import numpy as np

from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.layout import Counts, DomainIndices
from topo.placement.capacity.other_fabrics import RoomElsewhere
from topo.placement.job.request import PlacementMode, Request
from topo.placement.view import TAIL_CANNOT_FIT, FreeView, view_of

MOST_TRIED = 4
"""Groups that could hold all groups of a job whole, and in which it is placed."""
_LESS, _TOO_FEW = 1 << 20, 1 << 20
"""More than the canonical groups of a job, and than the domains of any."""
MOST_INSIDE = 24
"""Groups of another fabric that a question looks into one by one."""


def able_groups(view: FreeView, room: RoomElsewhere, *, split: bool = False) -> DomainIndices:
    """Return the numbers of the groups that can hold the job, the most promising first.

    `split`: slots are enough, and the groups with the most whole groups of the job come first.
    """
    shape, layout = view.shape, view.layout
    by_run = room.by_run(layout, view.free)
    slots = room.by_group(by_run, 1, layout)
    whole = _whole_groups(view, room, by_run) if view.group_can_fit else np.full_like(slots, -1)
    able = np.flatnonzero(slots >= shape.pods if split else whole >= shape.m)
    if len(able) <= MOST_TRIED:
        return able  # all are tried
    keys: tuple[Counts, ...] = (-np.minimum(whole, shape.m),) if split else ()
    keys = keys or _ranks(view, room, (by_run, able))
    # The last key decides first.
    found: DomainIndices = able[np.lexsort([key[able] for key in (slots, *keys)])]
    return found


def _ranks(
    view: FreeView, room: RoomElsewhere, found: tuple[Counts, DomainIndices]
) -> tuple[Counts, Counts]:
    """Return a rank of what the job needs below the top domains, and how many of these it needs.

    By group, as far as a group can hold it; `found`: slots by run, and the groups that can.

    The rank: tier-1 domains, then canonical groups that break, in the best run of the top tier that
    holds the job alone, or else in all of the group. Each is counted as if it alone mattered.
    """
    (by_run, able), shape, layout = found, view.shape, view.layout
    # Where groups have no tail, what is left of a run beside its whole groups is of no use.
    useful = by_run // shape.k * shape.k if shape.tier == 1 and not shape.r else by_run
    firsts, top_starts = room.firsts(1, layout), room.starts(shape.tiers, layout)
    tops = _fewest(
        room.rolled(useful, shape.tiers, layout), room.firsts(shape.tiers, layout), shape.pods
    )
    rest = _rests(view, room, by_run)

    def rank(starts: DomainIndices) -> Counts:
        lost = -(-np.maximum(0, shape.pods - np.add.reduceat(rest, starts)) // shape.canonical)
        found: Counts = _fewest(useful, starts, shape.pods) * _LESS + lost
        return found

    alone = room.by_group(rank(top_starts), shape.tiers, layout, np.minimum)
    # Where one domain of the top tier holds the job in each group, that is all.
    below = alone if int(tops[able].max()) == 1 else np.where(tops > 1, rank(firsts), alone)
    return below, tops


def _fewest(values: Counts, starts: DomainIndices, need: int) -> Counts:
    """Return how many of the largest values of each stretch cover the need; `_TOO_FEW`: not all."""
    found, lengths = np.full(len(starts), _TOO_FEW), np.diff(starts, append=len(values))
    enough = np.add.reduceat(values, starts) >= need
    if not enough.any():
        return found
    values, lengths = values[np.repeat(enough, lengths)], lengths[enough]
    most = int(values.max())
    # One number for the stretch and, the largest first, the value: numpy sorts numbers fastest.
    stretch = np.repeat(np.arange(len(lengths)), lengths)
    ranked = most - np.sort(stretch * (most + 1) + most - values) % (most + 1)
    before = ranked.cumsum() - ranked
    starts = lengths.cumsum() - lengths
    before -= np.repeat(before[starts], lengths)
    found[enough] = np.add.reduceat((before < need).astype(np.int64), starts)
    return found


def _rests(view: FreeView, room: RoomElsewhere, by_run: Counts) -> Counts:
    """Return the slots in no canonical group, each domain's at its first run of tier 1."""
    shape, layout, tier = view.shape, view.layout, view.shape.canonical_tier
    free = view.free_canonical[room.domains(tier, layout)]
    rests = np.minimum(room.rolled(by_run, tier, layout), free % shape.canonical)
    if tier == 1:
        return rests
    found = np.zeros_like(by_run)
    found[room.starts(tier, layout)] = rests
    return found


def _whole_groups(view: FreeView, room: RoomElsewhere, by_run: Counts) -> Counts:
    """Return the whole groups that each holds beside the tail; negative: it does not fit."""
    shape, layout = view.shape, view.layout
    slots = room.rolled(by_run, shape.tier, layout)
    groups = slots // shape.k
    found = room.by_group(groups, shape.tier, layout)
    if not shape.r:
        return found
    beside = (slots - shape.k * groups < shape.r).astype(np.int64)
    losses = np.where(slots < shape.r, TAIL_CANNOT_FIT, beside)
    return found - room.by_group(losses, shape.tier, layout, np.minimum)


def most_slots_in_one(view: FreeView, room: RoomElsewhere) -> int:
    """Return the most free slots that one group has."""
    by_run = room.by_run(view.layout, view.free)
    return int(room.by_group(by_run, 1, view.layout).max())


def slots_outside(view: FreeView, room: RoomElsewhere) -> int:
    """Return the free slots of nodes in none of the groups."""
    free = view.slots.free
    return int(free.sum() - room.by_run(view.layout, free).sum())


def requests_inside(
    capacity: CapacityView, request: Request, gpu_type: str, *, idle: bool = False
) -> list[Request]:
    """Return the request on the nodes of single groups of another fabric that it must be within.

    At most `MOST_INSIDE`, those with most free slots first; `idle`: of those that could hold it if
    nothing ran. Only the request itself where it names no such kind. For questions that go through
    the domains of the tree, and need no more than that some nodes are left out.
    """
    view = view_of(capacity, request, gpu_type)
    room = view.others
    if room is None or request.within is None:
        return [request]
    slots = room.by_group(room.by_run(view.layout, view.free), 1, view.layout)
    numbers = np.arange(len(slots))
    if idle:
        empty = capacity.empty_slots(view.slots, None)
        if_empty = capacity.room_elsewhere(empty, request.within, idle=True)
        assert if_empty is not None, "there are such groups"  # noqa: S101 - for mypy
        numbers = able_groups(
            replace(view, slots=empty, free=empty.free),
            if_empty,
            split=request.mode is PlacementMode.PREFERRED,
        )
    most = numbers[np.lexsort((numbers, -slots[numbers]))][:MOST_INSIDE].tolist()
    return [
        replace(
            request,
            within=None,
            eligible=replace(request.eligible, inside=room.groups[number]),
        )
        for number in most
    ]
