"""The groups of one kind that are of another fabric than the tree, and what they have free.

A host says which groups of other fabrics it is in (`Host.elsewhere`); a column of numbers follows
every change of that. From it hosts are sorted once for each kind that jobs name: by group, and in a
group by tier-1 domain. A *run* is the hosts of a group in one domain of a tier. So what a group has
free, in all and in each domain of any tier, is a sum over neighbours, and the order holds until a
host comes, goes or moves.

Cost: a sort of the hosts after such a change, O(hosts) in numpy for the sums of a question.

Example: dragonflies d0 (hosts 0 and 1) and d1 (2 and 3); 0 and 2 hang on leaf-a, 1 and 3 on leaf-b.
    ids 0 2 1 3   domains 0 1 0 1   leaf-a has the hosts and the runs 0 and 1, leaf-b 2 and 3
"""

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from topo.model.ids import FabricName, GroupPath, Kind, natural_key
from topo.placement.capacity.columns import HostColumns
from topo.placement.capacity.host import Host
from topo.placement.capacity.layout import Counts, DomainIndices, Layout
from topo.placement.capacity.slots import Slots
from topo.placement.job.request import OtherGroup


class Runs(NamedTuple):
    """The runs of one tier: where each starts, among hosts in tier 1 and among the runs of tier 1
    above; its domain; and the first run of each group.
    """

    starts: DomainIndices
    domains: DomainIndices
    firsts: DomainIndices


class GroupsElsewhere(NamedTuple):
    """The groups in natural order. `ids` are the hosts of all, `at` their tier-1 domains, `of`
    their groups; `firsts` is where the hosts of each group begin, and then their number.

    `by_tier` keeps the runs that were asked for.
    """

    groups: tuple[OtherGroup, ...]
    ids: DomainIndices
    at: DomainIndices
    of: DomainIndices
    firsts: DomainIndices
    by_tier: dict[int, Runs]

    def runs(self, tier: int, layout: Layout) -> Runs:
        """Return the runs of a tier; O(hosts) in numpy the first time."""
        found = self.by_tier.get(tier)
        if found is None:
            groups, domains = self.of, self.at
            if tier > 1:
                inner = self.runs(1, layout)
                groups = groups[inner.starts]
                domains = np.searchsorted(layout.starts[tier], inner.domains, side="right") - 1
            begins = np.ones(len(groups), np.bool_)
            begins[1:] = (np.diff(groups) != 0) | (np.diff(domains) != 0)
            starts = np.flatnonzero(begins)
            firsts = np.searchsorted(groups[starts], np.arange(len(self.groups)))
            found = self.by_tier[tier] = Runs(starts, domains[starts], firsts)
        return found


def groups_elsewhere(
    columns: HostColumns, domain_at: DomainIndices, kind: Kind
) -> GroupsElsewhere | None:
    """Return the groups of a kind that have hosts; None where there are none."""
    groups, of_host = columns.of_kind_elsewhere(kind)
    ids = np.flatnonzero(of_host >= 0)
    if not ids.size:
        return None
    there = np.unique(of_host[ids]).tolist()
    there.sort(key=lambda number: [natural_key(name) for name in groups[number].path])
    rank = np.zeros(len(groups), np.intp)
    rank[there] = np.arange(len(there))
    order = np.lexsort((domain_at[ids], rank[of_host[ids]]))
    ids = ids[order]
    of = rank[of_host[ids]]
    firsts = np.searchsorted(of, np.arange(len(there) + 1))
    named = tuple(groups[each] for each in there)
    return GroupsElsewhere(named, ids, domain_at[ids], of, firsts, {})


def group_of(host: Host, kind: Kind, kinds: Container[str]) -> GroupPath | OtherGroup | None:
    """Return the group of a kind that a host is in, the outermost of several; None for none.

    `kinds` are those of the tree: a kind that is one of them is looked for in the tree alone.
    """
    if kind in kinds:
        path = host.path[: host.kinds.index(kind) + 1] if kind in host.kinds else ()
        return GroupPath(path) or None
    return next((each for each in host.elsewhere if each.kind == kind), None)


def shared_group(
    hosts: Iterable[Host], kind: Kind | None, kinds: Container[str]
) -> OtherGroup | None:
    """Return the group of a kind that all of these hosts are in; None where they share none.

    A group of the tree comes with an empty name of a fabric. `kinds` as above. O(hosts).
    """
    if kind is None:
        return None
    shared = {group_of(each, kind, kinds) for each in hosts}
    found = shared.pop() if len(shared) == 1 else None
    if found is None or isinstance(found, OtherGroup):
        return found
    return OtherGroup(FabricName(""), kind, found)


def in_words(group: OtherGroup) -> str:
    """Return such a group in a few words: `leaf spine-1/leaf-a of scale-out`."""
    of = f" of {group.fabric}" if group.fabric else ""
    return f"{group.kind} {'/'.join(group.path)}{of}"


class RoomElsewhere:
    """What the groups have free for one class of requests; `pods` are the slots of each host."""

    def __init__(
        self, known: GroupsElsewhere, slots: Slots, pods: Counts, columns: HostColumns
    ) -> None:
        self._known, self._slots, self._pods, self._columns = known, slots, pods, columns

    @property
    def groups(self) -> tuple[OtherGroup, ...]:
        """The groups, in natural order; their numbers are their places here."""
        return self._known.groups

    def by_run(self, layout: Layout, free: Counts) -> Counts:
        """Return the slots of each run of tier 1, no more than `free` of its domain."""
        runs = self._known.runs(1, layout)
        found: Counts = np.add.reduceat(self._pods, runs.starts)
        return found if free is self._slots.free else np.minimum(found, free[runs.domains])

    def domains(self, tier: int, layout: Layout) -> DomainIndices:
        """Return the domain of each run of a tier."""
        return self._known.runs(tier, layout).domains

    def firsts(self, tier: int, layout: Layout) -> DomainIndices:
        """Return the first run of a tier of each group."""
        return self._known.runs(tier, layout).firsts

    def starts(self, tier: int, layout: Layout) -> DomainIndices:
        """Return the first run of tier 1 of each run of a tier."""
        starts = self._known.runs(tier, layout).starts
        return starts if tier > 1 else np.arange(len(starts))

    def rolled(self, by_run: Counts, tier: int, layout: Layout) -> Counts:
        """Return the sum over each run of a tier."""
        if tier == 1:
            return by_run
        found: Counts = np.add.reduceat(by_run, self._known.runs(tier, layout).starts)
        return found

    def by_group(self, values: Counts, tier: int, layout: Layout, how: np.ufunc = np.add) -> Counts:
        """Return the sum, maximum or minimum over the runs of a tier of each group."""
        found: Counts = how.reduceat(values, self._known.runs(tier, layout).firsts)
        return found

    def part(self, group: OtherGroup) -> Slots:
        """Return the class with only the hosts of a group, none where it has none."""
        if group in self.groups:
            return self.narrowed(self.groups.index(group))
        return self._slots.among(replace(self._slots.eligibility, inside=group), ())

    def narrowed(self, number: int) -> Slots:
        """Return the class with only the hosts of a group; O(tier-1 domains + those hosts)."""
        eligible = replace(self._slots.eligibility, inside=self.groups[number])
        known = self._known
        own = slice(known.firsts[number], known.firsts[number + 1])
        hosts = self._columns.of_ids(known.ids[own], known.at[own])
        return self._slots.part(eligible, hosts, self._pods[own])
