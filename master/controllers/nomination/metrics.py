"""What becomes of gangs, counted and timed; docs/metrics.md lists it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import prometheus_client as prom

from master.metrics import PREFIX
from topo.gangs.machine.gang import Gang
from topo.gangs.machine.instructions import GangReason

_DECISION_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_GATE_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)


class NominationMetrics:
    """The series of this controller.

    `standing`: gangs by where they stand; `longest_s`: for how long, of each of these the one that
    has stood there longest; `slipped`: pods; `native`: gangs whose nodes Volcano chooses.
    """

    def __init__(
        self,
        registry: prom.CollectorRegistry,
        standing: Callable[[], Mapping[GangReason, int]],
        longest_s: Callable[[], Mapping[GangReason, float]],
        *,
        slipped: Callable[[], int],
        native: Callable[[], int],
    ) -> None:
        def histogram(name: str, text: str, buckets: Iterable[float]) -> prom.Histogram:
            return prom.Histogram(PREFIX + name, text, buckets=tuple(buckets), registry=registry)

        def counter(name: str, text: str, *labels: str) -> prom.Counter:
            return prom.Counter(PREFIX + name, text, labels, registry=registry)

        def gauge(name: str, text: str, told: Callable[[], Mapping[GangReason, float]]) -> None:
            family = prom.Gauge(PREFIX + name, text, ["reason"], registry=registry)
            for reason in GangReason:
                family.labels(reason.value).set_function(
                    lambda reason=reason: told().get(reason, 0)  # type: ignore[misc] # no type for its default
                )

        self._decision_s = histogram(
            "gang_decision_seconds", "Time that a decision on a gang took", _DECISION_S
        )
        self._decision_cpu_s = counter(
            "gang_decision_cpu_seconds", "Processor time that decisions on gangs took"
        )
        self.gate_s = histogram(
            "gang_gate_seconds", "Time from a pod's creation until its gate was opened", _GATE_S
        )
        self.plans = counter("gang_plans", "Placements asked for gangs by result", "result")
        self.opened = counter("gang_gates_opened", "Gates opened, by whether a plan stood", "how")
        self.bound = counter(
            "gang_pods_bound", "Pods of gangs that were bound, by where to", "where"
        )
        self.lost = counter("gang_writes_lost", "Writes for gangs that were refused", "what")
        self.pods_slipped = counter(
            "gang_pods_slipped", "Pods that name a group size and were made without a gate"
        )
        for counted, label, words in (
            (self.plans, "result", ("planned", "refused", "again-planned", "again-refused")),
            (self.opened, "how", ("planned", "unplanned")),
            (self.bound, "where", ("as-planned", "elsewhere")),
            (self.lost, "what", ("pod", "node")),
        ):
            for word in words:
                counted.labels(**{label: word})
        gauge(
            "gangs",
            "Gangs by where they stand",
            lambda: {**standing(), GangReason.NATIVE: native()},
        )
        gauge(
            "gang_longest_seconds",
            "Time since the gang that stands there longest came to stand there, 0 without one",
            longest_s,
        )
        prom.Gauge(
            PREFIX + "gang_pods_without_gate",
            "Pods there are that name a group size and were made without a gate",
            registry=registry,
        ).set_function(slipped)

    @contextmanager
    def decision(self) -> Iterator[None]:
        """Inside the block is a decision on a gang; the two times differ by what it waited."""
        began_s, used_s = time.perf_counter(), time.thread_time()
        yield
        self._decision_s.observe(time.perf_counter() - began_s)
        self._decision_cpu_s.inc(time.thread_time() - used_s)

    def count_bound(self, before: Gang, now: Gang) -> None:
        """Counts the pods that were bound meanwhile, by whether it is where they were planned."""
        waited = {member.uid: member for member in before.members if member.node is None}
        for member in now.members:
            if member.uid in waited and member.node is not None:
                note = member.note or waited[member.uid].note
                where = "elsewhere" if note is None or note.node != member.node else "as-planned"
                self.bound.labels(where).inc()
