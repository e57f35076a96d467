"""Metrics of the nomination controller."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import prometheus_client as prom

from topo.gangs.machine.gang import Gang
from topo.kit.metrics import counter, gauge, histogram, read_each
from topo.model.conditions.gang_states import GangState


class NominationMetrics:
    """The metrics of the nomination controller.

    `standing`: number of gangs by state. `longest_s`: for each state, how long the gang that has
    been in it longest is there. `slipped`: pods that bypassed the webhook. `native`: gangs whose
    nodes Volcano chooses.
    """

    def __init__(
        self,
        registry: prom.CollectorRegistry,
        standing: Callable[[], Mapping[GangState, int]],
        longest_s: Callable[[], Mapping[GangState, float]],
        *,
        slipped: Callable[[], int],
        native: Callable[[], int],
    ) -> None:
        self._decision_s = histogram(registry, "topo_master_gang_decision_seconds")
        self._decision_cpu_s = counter(registry, "topo_master_gang_decision_cpu_seconds")
        self.gate_s = histogram(registry, "topo_master_gang_gate_seconds")
        results = ("planned", "refused", "again-planned", "again-refused")
        self.plans = counter(registry, "topo_master_gang_plans", results)
        self.opened = counter(registry, "topo_master_gang_gates_opened", ("planned", "unplanned"))
        self.bound = counter(registry, "topo_master_gang_pods_bound", ("as-planned", "elsewhere"))
        self.lost = counter(registry, "topo_master_gang_writes_lost", ("pod", "node"))
        self.pods_slipped = counter(registry, "topo_master_gang_pods_slipped")
        numbers = gauge(registry, "topo_master_gangs")
        longest = gauge(registry, "topo_master_gang_longest_seconds")
        read_each(numbers, GangState, lambda: {**standing(), GangState.NATIVE: native()})
        read_each(longest, GangState, longest_s)
        gauge(registry, "topo_master_gang_pods_without_gate", slipped)

    @contextmanager
    def decision(self) -> Iterator[None]:
        """Measure wall time and CPU time of a decision on a gang inside the block."""
        began_s, used_s = time.perf_counter(), time.thread_time()
        yield
        self._decision_s.observe(time.perf_counter() - began_s)
        self._decision_cpu_s.inc(time.thread_time() - used_s)

    def count_bound(self, before: Gang, now: Gang) -> None:
        """Count the newly bound pods, by whether they were bound as planned."""
        waited = {member.uid: member for member in before.members if member.node is None}
        for member in now.members:
            if member.uid in waited and member.node is not None:
                note = member.note or waited[member.uid].note
                where = "elsewhere" if note is None or note.node != member.node else "as-planned"
                self.bound.labels(where).inc()
