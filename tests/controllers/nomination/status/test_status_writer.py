"""Events on a job: one when its state changes, and few of a state whose text changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from master.controllers.nomination.status.pod_events import AFTER_S, PodEvents
from master.controllers.nomination.status.status_writer import SAME_STATE_S, StatusWriter
from master.kube.errors import KubeError
from master.kube.gang_pod import GangPod
from master.kube.writing.writer import Settled
from master.kube.writing.writes import Apply, Patch
from tests.controllers.nomination.objects import GANG, PAIR, WORDS, gated_pod, parse, pod
from topo.gangs.status import GangStatus
from topo.model.conditions.gang_states import GangState
from topo.publish.event_series import Reporter

NOW_S = 1_000.0


@dataclass
class Written:
    """A status writer, and the Events that it puts into the queue of writes."""

    events: list[tuple[str, str]] = field(default_factory=list)
    of_pods: list[tuple[str, str]] = field(default_factory=list)
    conditions: list[tuple[str, str]] = field(default_factory=list)
    pods: list[GangPod] = field(default_factory=lambda: [pod(0), pod(1)])
    _listeners: dict[str, Callable[[Settled], None]] = field(default_factory=dict)
    _last: Patch | None = None

    def __post_init__(self) -> None:
        reporter = Reporter("topo", "topo-0")
        pods = PodEvents(reporter, lambda _: [pod(0), pod(1)])
        self.writer = StatusWriter(
            self,  # type: ignore[arg-type]
            reporter,
            "x/Placed",
            pods,
            pods=lambda _: self.pods,
        )

    def listen(self, manager: str, listener: Callable[[Settled], None]) -> None:
        self._listeners[manager] = listener

    def refuse_last(self) -> None:
        """The API server refuses the condition that was written last."""
        assert self._last is not None
        refused = KubeError("it is invalid", status=422)
        self._listeners[self._last.manager](Settled(self._last, error=refused))

    def put(self, *writes: Any) -> None:
        for each in writes:
            if isinstance(each, Patch):
                self._last = each
                (condition,) = each.fields["status"]["conditions"]
                self.conditions.append((each.target.name, condition["reason"]))
            if isinstance(each, Apply) and each.fields["regarding"]["kind"] == "Pod":
                self.of_pods.append((each.fields["regarding"]["name"], each.fields["note"]))
            elif isinstance(each, Apply):
                self.events.append((each.fields["reason"], each.fields["note"]))

    def report(self, state: GangState, text: str, now_s: float) -> None:
        self.writer.write(pod(0), GangStatus(state=state, text=text), now_s, now_s)
        self.writer.flush(now_s)


def test_a_state_whose_text_changes_all_the_time_is_two_events_in_a_minute() -> None:
    made = Written()
    for second in range(15):
        made.report(GangState.DISPLACED, f"lost: node-{second}", NOW_S + second)
    assert [text for _, text in made.events] == ["lost: node-0"]
    made.writer.flush(NOW_S + SAME_STATE_S - 1)
    assert len(made.events) == 1
    made.writer.flush(NOW_S + SAME_STATE_S)
    assert [text for _, text in made.events] == ["lost: node-0", "lost: node-14"]


def test_a_change_of_state_is_an_event_at_once_and_drops_the_text_that_waits() -> None:
    made = Written()
    made.report(GangState.DISPLACED, "lost: node-1", NOW_S)
    made.report(GangState.DISPLACED, "lost: node-2", NOW_S + 1)
    made.report(GangState.BOUND, "all of its pods run", NOW_S + 2)
    made.writer.flush(NOW_S + 10 * SAME_STATE_S)
    assert [reason for reason, _ in made.events] == ["GangDisplaced", "GangBound"]


def test_a_gang_of_another_namespace_with_the_same_owner_takes_no_event_from_a_gang() -> None:
    made = Written()
    document = gated_pod(0, PAIR)
    document["metadata"] |= {"name": "stranger", "namespace": "evil"}
    lost = GangStatus(state=GangState.DISPLACED, text="lost: node-0")
    made.writer.write(parse(document), lost, NOW_S, NOW_S)  # type: ignore[arg-type]
    made.report(GangState.DISPLACED, "lost: node-1", NOW_S + 1)
    assert [text for _, text in made.events] == ["lost: node-0", "lost: node-1"]


def test_a_gang_that_is_gone_gets_no_event_later() -> None:
    made = Written()
    for second in range(2):
        made.report(GangState.DISPLACED, f"lost: node-{second}", NOW_S + second)
    made.writer.forget(GANG)
    made.writer.flush(NOW_S + 10 * SAME_STATE_S)
    assert len(made.events) == 1


def test_each_gated_pod_of_a_gang_that_waits_for_seconds_has_an_event_of_the_state() -> None:
    made = Written()
    made.report(GangState.NO_ROOM, "4 nodes are free", NOW_S)
    assert not made.of_pods
    made.report(GangState.NO_ROOM, "5 nodes are free", NOW_S + 1)
    made.writer.flush(NOW_S + AFTER_S)
    told = [("train-worker-0", "5 nodes are free"), ("train-worker-1", "5 nodes are free")]
    assert made.of_pods == told
    made.report(GangState.NO_ROOM, "6 nodes are free", NOW_S + 2 * AFTER_S)
    made.writer.flush(NOW_S + 3 * AFTER_S)
    assert made.of_pods == told
    made.report(GangState.BEHIND, "train-2 is first", NOW_S + 4 * AFTER_S)
    made.writer.flush(NOW_S + 5 * AFTER_S)
    assert [text for _, text in made.of_pods[2:]] == ["train-2 is first"] * 2


def test_pods_of_a_gang_that_is_placed_within_seconds_have_no_event() -> None:
    made = Written()
    made.report(GangState.NO_ROOM, "4 nodes are free", NOW_S)
    made.report(GangState.PLACED, "it has its nodes", NOW_S + 1)
    made.writer.flush(NOW_S + 2 * AFTER_S)
    assert not made.of_pods


def test_a_condition_ends_once_and_only_on_pods_that_have_one() -> None:
    """Also where the pod does not say yet what was asked for a moment ago."""
    made = Written()
    made.report(GangState.NO_ROOM, "4 nodes are free", NOW_S)
    made.report(GangState.PLACED, "it has its nodes", NOW_S + 1)
    made.report(GangState.BOUND, "all of its pods run", NOW_S + 2)
    made.report(GangState.BOUND, "all of its pods run", NOW_S + 3)
    assert made.conditions == [
        ("train-worker-0", "GangDoesNotFit"),
        ("train-worker-0", "GangBound"),
    ]


def test_a_condition_that_was_refused_is_written_again() -> None:
    made = Written()
    made.report(GangState.NO_ROOM, "4 nodes are free", NOW_S)
    made.report(GangState.BOUND, "all of its pods run", NOW_S + 1)
    made.refuse_last()
    made.pods = [
        pod(
            0,
            status={
                "conditions": [
                    {
                        "type": WORDS.condition,
                        "reason": "GangDoesNotFit",
                        "lastTransitionTime": "2026-01-02T03:04:05Z",
                    }
                ]
            },
        )
    ]
    made.report(GangState.BOUND, "all of its pods run", NOW_S + 2)
    assert [reason for _, reason in made.conditions] == ["GangDoesNotFit", "GangBound", "GangBound"]
