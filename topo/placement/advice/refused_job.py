"""A refused job on the nodes of one GPU type: what a search saw, and where the job may stand."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from topo.model.forest import ROOT
from topo.model.ids import GroupPath
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.layout import Counts
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
        layout, within = self.view.layout, self.request.within
        sums = [0, *self.view.free.cumsum().tolist()]
        if within is None:
            return (Scope(0, len(layout.domains), ROOT, sums[-1]),)
        scopes = []
        for tier, domain in layout.groups_of(within):
            first, last = layout.firsts[tier][domain], layout.firsts[tier][domain + 1]
            path = layout.ref(tier, domain).path
            scopes.append(Scope(first, last, path, sums[last] - sums[first]))
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
        return self.view.free_slots[self.domains(scope)]


def refused_jobs(capacity: Capacity, request: Request) -> list[RefusedJob]:
    """The job on each GPU type that it may have, in the order in which they were tried."""
    asked = request.eligible.gpu_type
    types = capacity.gpu_types() if asked is None else (asked,)
    return [RefusedJob(request, view_of(capacity, request, gpu_type)) for gpu_type in types]
