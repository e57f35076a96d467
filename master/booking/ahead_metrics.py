"""The metric of what namespaces keep ahead of their pods."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from master.booking.ahead import AheadBudget
from master.metrics import BoundedLabels, SeenLabels
from topo.kit.metrics import gauge_family


class AheadCollector(Collector):
    """A gauge of GPUs by namespace: tenants choose these names, so that they are bounded."""

    def __init__(self, budget: AheadBudget) -> None:
        self._budget, self._labels, self._seen = budget, BoundedLabels(), SeenLabels()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the metric family of one scrape."""
        sums = self._labels.sums(self._budget.by_namespace().items())
        yield gauge_family("topo_master_kept_ahead_gpus", self._seen.filled(sums))
