"""A refused job as a search saw it, and a change under which the job would fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from topo.model.forest import ROOT
from topo.model.ids import GroupPath
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.layout import Counts
from topo.placement.capacity.what_if import Assumptions
from topo.placement.job.request import Request
from topo.placement.search.other_groups import requests_inside
from topo.placement.view import FreeView, view_of

GROUPS_SHOWN = 3
"""Groups of another fabric that are looked into: those with most free slots."""


class SuggestionKind(StrEnum):
    """What would be changed, in the order of an answer: first what keeps the whole job, then what
    makes it smaller, then what others have to do for it.
    """

    ANYWHERE = "anywhere"
    GPU_TYPE = "gpu_type"
    GROUP_SIZE = "group_size"
    PREFERRED = "preferred"
    ANY_NODE = "any_node"
    TOLERATE = "tolerate"
    FEWER_PODS = "fewer_pods"
    SEVERAL_CHANGES = "several_changes"
    OPEN_NODES = "open_nodes"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A change that was tried: a `request` to send instead, or, with the request as it is, nodes
    to `assume` free or `owners` to release. `numbers` are those of the text, by name.
    """

    kind: SuggestionKind
    text: str
    numbers: Mapping[str, int]
    request: Request | None = None
    assume: Assumptions | None = None
    owners: tuple[str, ...] = ()


class Region(NamedTuple):
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
    def regions(self) -> tuple[Region, ...]:
        """All nodes, or each group of the kind that the job must stay in; most free slots first.

        Empty where no such group exists. O(domains).
        """
        layout, within = self.view.layout, self.request.within
        sums = [0, *self.view.free.cumsum().tolist()]
        if within is None:
            return (Region(0, len(layout.domains), ROOT, sums[-1]),)
        regions = []
        for tier, domain in layout.groups_of(within):
            first, last = layout.firsts[tier][domain], layout.firsts[tier][domain + 1]
            path = layout.ref(tier, domain).path
            regions.append(Region(first, last, path, sums[last] - sums[first]))
        return tuple(sorted(regions, key=lambda region: (-region.free_slots, region.first)))

    def domains(self, region: Region, tier: int | None = None) -> slice:
        """Return the domains of a tier (the one of the job's groups) that a region consists of.

        Empty where the region is only a part of one.
        """
        tier = tier or self.view.shape.tier
        of, firsts = self.view.layout.of[tier], self.view.layout.firsts[tier]
        first, last, *_ = region
        if first == last or firsts[of[first]] < first or firsts[of[last - 1] + 1] > last:
            return slice(0, 0)
        return slice(of[first], of[last - 1] + 1)

    def free_slots(self, region: Region) -> Counts:
        """Return free slots of the domains of a region that may hold a group of the job."""
        return self.view.free_slots[self.domains(region)]


def jobs_inside(capacity: CapacityView, request: Request) -> list[RefusedJob]:
    """Return the job on each GPU type, and in the fullest groups of another fabric, if it must be
    within one of them.
    """
    types = capacity.types_for(request.eligible)
    return [
        RefusedJob(each, view_of(capacity, each, gpu_type))
        for gpu_type in types
        for each in requests_inside(capacity, request, gpu_type)[:GROUPS_SHOWN]
    ]


def refused_jobs(capacity: CapacityView, request: Request) -> list[RefusedJob]:
    """Return the job on each GPU type that it may have, in the order in which they are tried."""
    types = capacity.types_for(request.eligible)
    return [RefusedJob(request, view_of(capacity, request, gpu_type)) for gpu_type in types]
