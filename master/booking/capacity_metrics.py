"""Where the GPUs are and how whole the free ones, as metrics; docs/metrics.md lists them."""

import asyncio
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from master.booking.metrics import PlacementMetrics
from master.booking.state import BookingState
from master.metrics import MAX_KINDS, PREFIX, SeenLabels
from topo.model.rest.fragmentation import TypeDocument
from topo.placement.booking.holds import HoldState
from topo.placement.capacity.node_usage import SharedCards, TypeCounts


class GpuTotals:
    """GPUs by type and shared cards, counted in a thread, once per version of the capacity."""

    def __init__(self, state: BookingState) -> None:
        self._state = state
        self.by_type: Mapping[str, TypeCounts] = {}
        self.shared: Mapping[str, SharedCards] = {}
        self._version = -1

    async def renew(self) -> None:
        """Counts anew if the capacity is another than the one that was counted."""
        if self._version != self._state.capacity.version:
            usage = self._state.usage()
            self.by_type = await asyncio.to_thread(usage.by_type)
            self.shared = await asyncio.to_thread(usage.shared_by_resource)
            self._version = usage.version


class CapacityCollector(Collector):
    """What is held, where the GPUs are, and how whole the free ones were at the last report."""

    def __init__(
        self,
        metrics: PlacementMetrics,
        booked: Callable[[], Iterable[tuple[HoldState, int]]],
        totals: GpuTotals,
    ) -> None:
        self._metrics, self._booked, self._totals = metrics, booked, totals
        self._types: dict[str, SeenLabels] = {field: SeenLabels() for field in TypeCounts._fields}
        self._kinds, self._resources = (SeenLabels(), SeenLabels()), SeenLabels()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families, at scrape time."""
        held: Tally[str] = Tally({state.value: 0 for state in HoldState})
        gpus = 0
        for state, waiting in self._booked():
            held[state.value] += 1
            gpus += waiting
        yield _family("holds", "Holds there are now", "state", held)
        yield GaugeMetricFamily(PREFIX + "booked_gpus", "GPUs that holds book", value=gpus)
        types = sorted(self._totals.by_type.items())
        for at, field in enumerate(TypeCounts._fields):
            counted = _bounded((_type_label(gpu_type), row[at]) for gpu_type, row in types)
            name, text = _TYPE_GAUGES[field]
            yield _family(name, text, "gpu_type", self._types[field].filled(counted))
        yield self._shared()
        yield from self._reported()

    def _shared(self) -> GaugeMetricFamily:
        cards = self._totals.shared.values()
        found = {(each.resource, "allocatable"): each.allocatable for each in cards}
        found |= {(each.resource, "used"): each.used for each in cards}
        family = GaugeMetricFamily(
            PREFIX + "shared_cards",
            "Shared cards in the unit of their resource: allocatable, and used by pods",
            labels=("resource", "count"),
        )
        for labels, value in self._resources.filled(found).items():
            family.add_metric(labels, value)
        return family

    def _reported(self) -> Iterator[GaugeMetricFamily]:
        report = self._metrics.report
        types = report.types if report is not None else ()
        whole, untouched = self._kinds
        groups = _bounded((tier.kind, tier.whole_groups) for part in types for tier in part.tiers)
        text = "Free whole groups of the canonical size inside groups of a kind"
        yield _family("free_groups", text, "kind", whole.filled(groups))
        pristine = _bounded((tier.kind, tier.pristine) for part in types for tier in part.tiers)
        text = "Groups of a kind whose open nodes are all free"
        yield _family("pristine_groups", text, "kind", untouched.filled(pristine))
        first = {_type_label(part.gpu_type): part for part in types[:MAX_KINDS]}
        text = "Share of the free GPUs that lies in whole groups"
        integrity = {name: part.integrity for name, part in first.items()}
        yield _family("group_integrity_ratio", text, "gpu_type", integrity)
        text = "Free GPUs that a job of the mix is expected to be unable to use"
        unusable = {name: part.unusable_gpus for name, part in first.items()}
        yield _family("unusable_gpus", text, "gpu_type", unusable)
        yield _largest_jobs(first)


_TYPE_GAUGES = {
    "gpus": ("gpus", "GPUs that pods may ask for, of all nodes"),
    "ready": ("ready_gpus", "GPUs of ready nodes"),
    "free": ("free_gpus", "Free GPUs of open nodes"),
    "used": ("used_gpus", "GPUs that pods have"),
    "held": ("held_gpus", "GPUs that holds keep for pods that are not there yet"),
    "cordoned": ("cordoned_gpus", "GPUs of cordoned nodes that nobody booked"),
}
"""The name and the text of the gauge of each field of `TypeCounts`."""


def _largest_jobs(types: Mapping[str, TypeDocument]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        PREFIX + "largest_job_gpus",
        "GPUs of the largest job that fits now, in groups of so many GPUs",
        labels=("gpu_type", "group_size"),
    )
    for name, part in types.items():
        for largest in part.largest:
            family.add_metric((name, str(largest.group_size)), largest.gpus)
    return family


def _type_label(gpu_type: str) -> str:
    return gpu_type or "unknown"


def _bounded(pairs: Iterable[tuple[str, int]]) -> Tally[str]:
    """Sums by label; labels beyond `MAX_KINDS` are `other`."""
    sums: Tally[str] = Tally()
    for label, number in pairs:
        known = label in sums or len(sums) < MAX_KINDS
        sums[label if known else "other"] += number
    return sums


def _family(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(PREFIX + name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family
