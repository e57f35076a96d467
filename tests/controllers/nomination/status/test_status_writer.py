"""Events on a job: one when its state changes, and few of a state whose text changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from master.controllers.nomination.status.pod_events import AFTER_S, PodEvents
from master.controllers.nomination.status.status_writer import SAME_STATE_S, StatusWriter
from master.kube.gang_pod import GangPod
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

    def listen(self, _manager: str, _listener: Callable[[Any], None]) -> None:
        """Nothing is settled here."""

    def say(self, reason: str, message: str = "", **spec: Any) -> None:
        """The first pod has the condition, as the watch shows it; none where `reason` is empty."""
        found = [condition(reason, message)] if reason else []
        self.pods[0] = pod(0, status={"conditions": found}, **spec)

    def put(self, *writes: Any) -> None:
        for each in writes:
            if isinstance(each, Patch):
                (found,) = each.fields["status"]["conditions"]
                self.conditions.append((each.target.name, found["reason"]))
            if isinstance(each, Apply) and each.fields["regarding"]["kind"] == "Pod":
                self.of_pods.append((each.fields["regarding"]["name"], each.fields["note"]))
            elif isinstance(each, Apply):
                self.events.append((each.fields["reason"], each.fields["note"]))

    def report(self, state: GangState, text: str, now_s: float) -> None:
        self.writer.write(pod(0), GangStatus(state=state, text=text), now_s, now_s)
        self.writer.flush(now_s)


def condition(reason: str, message: str) -> dict[str, str]:
    status = "True" if reason == "GangBound" else "False"
    at = "2026-01-02T03:04:05Z"
    return {
        "type": WORDS.condition,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at,
    }


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
    made = Written()
    made.report(GangState.NO_ROOM, "4 nodes are free", NOW_S)
    made.say("GangDoesNotFit", "4 nodes are free")
    made.report(GangState.PLACED, "it has its nodes", NOW_S + 1)
    made.report(GangState.BOUND, "all of its pods run", NOW_S + 2)
    made.say("GangBound", "all of its pods run")
    made.report(GangState.BOUND, "all of its pods run", NOW_S + 3)
    assert made.conditions == [
        ("train-worker-0", "GangDoesNotFit"),
        ("train-worker-0", "GangBound"),
    ]


def test_a_condition_that_a_pod_does_not_say_is_written_again() -> None:
    """Also one whose text stands still: a refused write leaves the pod as it was."""
    made, wait = Written(), GangStatus(state=GangState.NO_ROOM, text="4 nodes are free")
    for message in ("5 nodes are free", "4 nodes are free"):
        made.say("GangDoesNotFit", message)
        made.writer.compare(GANG, wait, NOW_S)
    assert made.conditions == [("train-worker-0", "GangDoesNotFit")]


def test_an_opened_pod_that_is_not_bound_yet_gets_no_condition() -> None:
    """Its scheduler and its leader write to it meanwhile, each naming its version."""
    made = Written()
    for reason in ("", "GangPlaced"):
        made.say(reason, gates=())
        for state in (GangState.NO_ROOM, GangState.PODS_MISSING, GangState.HALF_BOUND):
            made.report(state, "4 nodes are free", NOW_S)
    assert not made.conditions


def test_a_pod_that_runs_follows_every_state_once() -> None:
    """Also one without an Event, and a condition whose reason only another release knows."""
    for state in GangState:
        for reason in ("GangDoesNotFit", "GangOfALaterRelease"):
            made, differs = Written(), state.row.reason != reason
            made.say(reason, gates=(), nodeName="node-1")
            made.report(state, "why", NOW_S)
            assert made.conditions == [("train-worker-0", state.row.reason)] * differs
            made.say(state.row.reason, "another text", gates=(), nodeName="node-1")
            made.report(state, "why", NOW_S + 1)
            assert len(made.conditions) == differs, "it says so"
