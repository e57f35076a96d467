"""What is kept ahead is shown to people, Prometheus and `topo doctor`, in bounded numbers."""

from dataclasses import dataclass, field, replace

import prometheus_client as prom

from master.api.gang_documents import ahead_document
from master.booking.ahead import IDLE_S, READ_S, AheadBudget, Keeper, Waiting
from master.booking.ahead_metrics import AheadCollector
from master.booking.metrics import PlacementMetrics
from master.booking.state import BookingState
from master.metrics import MAX_KINDS
from tests.controllers.nomination.masters import NODE_NAMES
from tests.publish.forests import VENDOR
from topo.model.cluster import ClusterNode
from topo.model.forest import Snapshot
from topo.model.ids import Generation, NodeName
from topo.placement.booking.ahead import AheadRequest
from topo.placement.booking.events import HoldAsked, HoldReleased, Pod, PodPhase, PodSeen
from topo.placement.booking.holds import Hold, HoldId, HoldRequest, Limits
from topo.placement.job.plan import PlannedGroup
from topo.placement.job.policy import Policy
from topo.placement.job.request import PlacementMode, Request

GPU = "metax-tech.com/gpu"


@dataclass
class Readers:
    """Reads the namespace and the name from the key of a hold; a test sets the pods that wait."""

    pods: dict[str, int] = field(default_factory=dict)

    def keeper(self, hold: Hold) -> Keeper | None:
        _, namespace, name = (hold.wish.key or "").split("/")
        return Keeper(id=f"{namespace}/{name}", kind="gang", namespace=namespace, name=name)

    def waiting(self, keeper: Keeper) -> Waiting:
        return Waiting([1] * self.pods.get(keeper.id, 0))


@dataclass
class Booked:
    """Bookings of a master on four dragonflies of the vendor, at a time that the test sets."""

    now_s: float = 0.0

    def __post_init__(self) -> None:
        metrics = PlacementMetrics(prom.CollectorRegistry())
        self.state = BookingState(Policy(), Limits(), metrics, lambda: self.now_s)
        self.state.follow(Snapshot(Generation(1), VENDOR))
        self.state.follow_cluster(
            [ClusterNode(name=NodeName(each), allocatable=((GPU, 8),)) for each in NODE_NAMES]
        )
        self.readers = Readers()
        self.budget = AheadBudget(self.state, 0.25, readers={"gang/": self.readers})

    def hold(self, namespace: str, name: str, node: str, gpus: int, way: str = "gang/") -> HoldId:
        """So many GPUs of a node, a pod for each."""
        request, hold = Request(pods=gpus, gpus_per_pod=1), HoldId(f"hold-{namespace}-{name}-{way}")
        group = PlannedGroup(0, tail=False, pods=((NodeName(node), gpus),), domains=())
        self.state.advance(
            HoldAsked(
                id=hold,
                wish=HoldRequest(request, 80_000.0, f"{way}{namespace}/{name}"),
                generation=1,
                mode=PlacementMode.REQUIRED,
                gpu_type="",
                groups=(group,),
            )
        )
        return hold

    def later(self, seconds: float) -> None:
        self.now_s += seconds

    def metric(self, collector: AheadCollector) -> dict[str, float]:
        self.later(READ_S)
        (family,) = collector.collect()
        return {sample.labels["namespace"]: sample.value for sample in family.samples}


def test_a_pod_that_exists_takes_from_what_is_kept_whether_it_waits_or_is_bound() -> None:
    booked = Booked()
    hold = booked.hold("jobs", "late", "node-1", 8)
    assert [each.gpus for each in booked.budget.list_kept()] == [8]
    booked.readers.pods["jobs/late"] = 2
    assert [each.gpus for each in booked.budget.list_kept()] == [6]
    pod = Pod(uid="1", namespace="jobs", name="late-0", node=NodeName("node-1"), gpus=1, hold=hold)
    booked.readers.pods["jobs/late"] = 1
    booked.state.advance(PodSeen(pod, PodPhase.BOUND))
    assert [each.gpus for each in booked.budget.list_kept()] == [6]
    booked.state.advance(HoldReleased(hold))
    assert booked.budget.list_kept() == []


def test_what_a_gang_keeps_in_two_ways_counts_twice() -> None:
    """A gang may have pods behind gates, and pods of which the extender decides; its id is one."""
    booked = Booked()
    booked.budget.readers["extender/"] = booked.readers
    booked.hold("jobs", "late", "node-1", 8)
    booked.hold("jobs", "late", "node-3", 8, way="extender/")
    assert [(each.id, each.gpus) for each in booked.budget.list_kept()] == [
        ("gang/jobs/late", 8),
        ("extender/jobs/late", 8),
    ]
    asked = AheadRequest(id="gang/jobs/late", namespace="jobs", gpus=9, gpu_type="", pods=9)
    assert "keeps 8 of 64 GPUs" in booked.budget.excess(asked)
    assert not booked.budget.excess(replace(asked, gpus=8))


def test_what_is_kept_is_shown_by_namespace_with_the_limit_who_keeps_it_and_since_when() -> None:
    booked = Booked()
    booked.hold("small", "a", "node-1", 2)
    booked.later(50)
    booked.hold("large", "b", "node-3", 4)
    booked.hold("large", "c", "node-4", 8)
    booked.later(30)
    rows = booked.budget.shown()
    assert [(row.namespace, row.gpus, row.limit.gpus, row.for_s) for row in rows] == [
        ("large", 12, 16, 30.0),
        ("small", 2, 16, 80.0),
    ]
    document = ahead_document(rows[0])
    assert document["source"] == "--ahead-share 0.25 of 64 GPUs"
    assert document["keepers"] == [
        {"kind": "gang", "name": "c", "gpus": 8},
        {"kind": "gang", "name": "b", "gpus": 4},
    ]
    # What is kept for longer than a controller takes to make pods is a note of the doctor.
    (warning,) = booked.budget.warnings()
    assert warning.code == "kept-ahead"
    assert warning.text == (
        "GPUs are kept ahead of pods that are not made yet: small 2 GPUs of at most 16"
        " (--ahead-share 0.25 of 64 GPUs)"
    )
    booked.later(IDLE_S)
    assert "large 12 GPUs" in booked.budget.warnings()[0].text


def test_the_metric_has_a_series_for_few_namespaces_and_none_vanishes() -> None:
    booked = Booked()
    collector = AheadCollector(booked.budget)
    assert booked.metric(collector) == {}
    holds = [booked.hold(f"n{at}", "a", NODE_NAMES[at % 8], 1) for at in range(40)]
    large = booked.hold("large", "a", "node-1", 3)
    found = booked.metric(collector)
    assert len(found) == MAX_KINDS + 1
    assert found["large"] == 3.0
    assert found["other"] == 40 - (MAX_KINDS - 1)
    for hold in (large, *holds):
        booked.state.advance(HoldReleased(hold))
    assert booked.metric(collector) == dict.fromkeys(found, 0.0)


def test_without_a_share_nothing_is_a_limit_and_that_is_said() -> None:
    booked = Booked()
    booked.budget.share = 1.0
    booked.hold("large", "a", "node-1", 8)
    (row,) = booked.budget.shown()
    assert ahead_document(row)["limit"] is None
    assert row.limit.source == "--ahead-share 1"
