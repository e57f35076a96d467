"""Metrics of the capacity: where GPUs are, and how fragmented the free ones are."""

import asyncio
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from master.booking.metrics import PlacementMetrics
from master.booking.state import BookingState
from master.metrics import BoundedLabels, SeenLabels
from topo.kit.metrics import gauge_family
from topo.placement.booking.holds import HoldState
from topo.placement.capacity.node_usage import SharedCards, TypeCounts
from topo.shared_cards.cards import Amount
from topo.shared_cards.summary import FamilySummary, summaries


class GpuTotals:
    """GPUs by type and shared cards, counted in a thread, once per version of the capacity."""

    def __init__(self, state: BookingState) -> None:
        self._state = state
        self.by_type: Mapping[str, TypeCounts] = {}
        self.shared: Mapping[str, SharedCards] = {}
        self.overbooked = 0
        self.cards: tuple[FamilySummary, ...] = ()
        self._version = self._cards_version = -1

    async def refresh(self) -> None:
        """Count again if the capacity has changed since the last count."""
        if self._cards_version != self._state.cards.version:
            cards = self._state.cards.snapshot()
            self.cards = await asyncio.to_thread(summaries, cards.nodes.values())
            self._cards_version = cards.version
        if self._version != self._state.version:
            usage = self._state.usage()
            self.by_type = await asyncio.to_thread(usage.by_type)
            self.shared = await asyncio.to_thread(usage.shared_by_resource)
            self.overbooked = await asyncio.to_thread(usage.overbooked)
            self._version = usage.version


class CapacityCollector(Collector):
    """Gauges of holds, of GPUs by type, and of the last fragmentation report."""

    def __init__(
        self,
        metrics: PlacementMetrics,
        booked_gpus: Callable[[], Iterable[tuple[HoldState, int]]],
        totals: GpuTotals,
    ) -> None:
        self._metrics, self._booked, self._totals = metrics, booked_gpus, totals
        self._types: dict[str, SeenLabels] = {field: SeenLabels() for field in TypeCounts._fields}
        self._kinds, self._resources = (SeenLabels(), SeenLabels()), SeenLabels()
        self._type_labels, self._kind_labels = BoundedLabels(), BoundedLabels()
        self._resource_labels = BoundedLabels()
        self._families: dict[str, None] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the metric families of one scrape."""
        held: Tally[str] = Tally({state.value: 0 for state in HoldState})
        gpus = 0
        for state, waiting in self._booked():
            held[state.value] += 1
            gpus += waiting
        yield gauge_family("topo_master_holds", held)
        yield gauge_family("topo_master_booked_gpus", gpus)
        types = self._totals.by_type.items()
        for at, field in enumerate(TypeCounts._fields):
            counted = self._type_labels.sums((_named(name), row[at]) for name, row in types)
            yield gauge_family(_TYPE_GAUGES[field], self._types[field].filled(counted))
        yield gauge_family("topo_master_overbooked_gpus", self._totals.overbooked)
        yield self._shared()
        yield gauge_family("topo_master_shared_card_amounts", self._amounts())
        yield from self._reported()

    def _shared(self) -> GaugeMetricFamily:
        cards = self._totals.shared.values()
        label = self._resource_labels
        there = label.sums((each.resource, each.allocatable) for each in cards)
        used = label.sums((each.resource, each.used) for each in cards)
        found = {(name, "allocatable"): number for name, number in there.items()}
        found |= {(name, "used"): number for name, number in used.items()}
        return gauge_family("topo_master_shared_cards", self._resources.filled(found))

    def _amounts(self) -> dict[tuple[str, str, str], float]:
        """Return shares, cores and memory of each family that was ever there, by state."""
        self._families.update(dict.fromkeys(each.family for each in self._totals.cards))
        names = product(self._families, Amount._fields, ("total", "used", "free"))
        found = dict.fromkeys(names, 0.0)
        for each in self._totals.cards:
            for state in ("total", "used", "free"):
                amount: Amount = getattr(each, state)
                for name, number in amount._asdict().items():
                    found[each.family, name, state] = number
        return found

    def _reported(self) -> Iterator[GaugeMetricFamily]:
        report = self._metrics.report
        types = report.types if report is not None else ()
        whole, untouched = self._kinds
        sums = self._kind_labels.sums
        groups = sums((tier.kind, tier.whole_groups) for part in types for tier in part.tiers)
        yield gauge_family("topo_master_free_groups", whole.filled(groups))
        pristine = sums((tier.kind, tier.pristine) for part in types for tier in part.tiers)
        yield gauge_family("topo_master_pristine_groups", untouched.filled(pristine))
        # Ratios have no sum: types that are counted as `other` have none.
        label, named = self._type_labels.label, {_named(part.gpu_type): part for part in types}
        first = {name: part for name, part in named.items() if label(name) == name}
        integrity = {name: part.integrity for name, part in first.items()}
        yield gauge_family("topo_master_group_integrity_ratio", integrity)
        unusable = {name: part.unusable_gpus for name, part in first.items()}
        yield gauge_family("topo_master_unusable_gpus", unusable)
        largest = {
            (name, str(job.group_size)): job.gpus
            for name, part in first.items()
            for job in part.largest
        }
        yield gauge_family("topo_master_largest_job_gpus", largest)


_TYPE_GAUGES = {
    "gpus": "topo_master_gpus",
    "ready": "topo_master_ready_gpus",
    "free": "topo_master_free_gpus",
    "used": "topo_master_used_gpus",
    "held": "topo_master_held_gpus",
    "cordoned": "topo_master_cordoned_gpus",
    "closed": "topo_master_closed_gpus",
    "opened": "topo_master_opened_gpus",
}
"""The gauge of each field of `TypeCounts`."""


def _named(gpu_type: str) -> str:
    return gpu_type or "unknown"
