"""A refused job on the nodes of one GPU type: what a search saw, and where the job may stand."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from topo.model.forest import ROOT
from topo.model.ids import GroupPath
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.layout import Counts, Layout
from topo.placement.engine import view_of
from topo.placement.job.request import Request
from topo.placement.search.free_view import FreeView


class Scope(NamedTuple):
    """Where a whole job may stand: the tier-1 domains `first` to `last` - 1, the group that they
    are, their free slots.
    """

    first: int
    last: int
    path: GroupPath
    free_slots: int


@dataclass(frozen=True)
class RefusedJob:
    """A request, and the free slots and groups that a search for it saw."""

    request: Request
    view: FreeView

    @cached_property
    def scopes(self) -> tuple[Scope, ...]:
        """All nodes, or each group of the kind that the job must stay in; most free slots first.

        Empty where no such group exists. O(domains).
        """
        sums = [0, *self.view.free.cumsum().tolist()]
        scopes = (
            Scope(first, last, path, sums[last] - sums[first])
            for first, last, path in _ranges(self.view.layout, self.request)
        )
        return tuple(sorted(scopes, key=lambda scope: (-scope.free_slots, scope.first)))

    def domains(self, scope: Scope, tier: int | None = None) -> slice:
        """The domains of a tier (the one of the job's groups) that a scope consists of.

        Empty where the scope is only a part of one.
        """
        tier = tier or self.view.shape.tier
        of, firsts = self.view.layout.of[tier], self.view.layout.firsts[tier]
        first, last, *_ = scope
        if first == last or firsts[of[first]] < first or firsts[of[last - 1] + 1] > last:
            return slice(0, 0)
        return slice(of[first], of[last - 1] + 1)

    def free_slots(self, scope: Scope) -> Counts:
        """Free slots of the domains of a scope that may hold a group of the job."""
        return self.view.rooms[self.domains(scope)]


def refused_jobs(capacity: Capacity, request: Request) -> list[RefusedJob]:
    """The job on each GPU type that it may have, in the order in which they were tried."""
    asked = request.eligible.gpu_type
    types = capacity.gpu_types() if asked is None else (asked,)
    return [RefusedJob(request, view_of(capacity, request, gpu_type)) for gpu_type in types]


def _ranges(layout: Layout, request: Request) -> Iterator[tuple[int, int, GroupPath]]:
    if request.within is None:
        yield 0, len(layout.cells), ROOT
        return
    for tier in range(1, layout.tiers + 1):
        for domain, (first, last) in enumerate(pairwise(layout.firsts[tier])):
            ref = layout.ref(tier, domain)
            if ref.kind == request.within and tier in layout.cells[first].tiers:
                yield first, last, ref.path
