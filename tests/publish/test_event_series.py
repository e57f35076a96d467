"""Events of Kubernetes: what repeats is counted, what flaps floods nobody, what is last is told."""

import re
import unicodedata
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.model.ids import NodeName
from topo.publish.event_series import (
    BURST,
    MOST_SERIES,
    REFILL_S,
    SERIES_S,
    EventRecord,
    EventSeries,
    Regarding,
    Reporter,
)
from topo.publish.node_events import EventContent, Occurrence

NODE = Regarding("v1", "Node", "node-1", "uid-1")
OTHER = Regarding("v1", "Node", "node-2", "uid-2")
MASTER = Regarding("apps/v1", "Deployment", "topo-master", "uid-3", "metax")
T0 = 1_800_000_000.25


def occurrence(reason: str = "LinkDown", note: str = "the link is down") -> EventContent:
    return Occurrence(NodeName("node-1"), reason, note).content


def series() -> EventSeries:
    return EventSeries(Reporter("topo-master", "topo-master-0"))


def due(events: EventSeries, now_s: float = T0, most: int = 1000) -> list[EventRecord]:
    return list(events.due(now_s, most))


def test_one_occurrence_is_one_event_with_what_the_server_demands():
    """Fields and limits of `events.k8s.io/v1`; a single one has no series."""
    events = series()
    events.add(NODE, occurrence(), T0)
    (told,) = due(events)
    assert told.namespace == "default"
    assert told.fields == {
        "eventTime": "2027-01-15T08:00:00.250000Z",
        "reportingController": "topo-master",
        "reportingInstance": "topo-master-0",
        "action": "DiscoverTopology",
        "reason": "LinkDown",
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "uid-1"},
        "note": "the link is down",
        "type": "Warning",
    }
    assert due(events) == []


def test_an_event_stands_in_the_namespace_of_what_it_is_about():
    events = series()
    events.add(MASTER, occurrence(), T0)
    (told,) = due(events)
    assert told.namespace == "metax"
    assert told.fields["regarding"]["namespace"] == "metax"


def test_what_repeats_is_the_same_event_with_a_count():
    """The server takes a change of the series only; all else is as it was written first."""
    events = series()
    events.add(NODE, occurrence(), T0)
    (first,) = due(events)
    for after_s in (1.0, 2.0):
        events.add(NODE, occurrence(), T0 + after_s)
    (second,) = due(events, T0 + 2.0)
    assert second.name == first.name
    last = "2027-01-15T08:00:02.250000Z"
    assert second.fields == {**first.fields, "series": {"count": 3, "lastObservedTime": last}}


def test_after_a_pause_it_is_another_event():
    """Six minutes, as client-go has it: a day later it is news again."""
    events = series()
    events.add(NODE, occurrence(), T0)
    events.add(NODE, occurrence(), T0 + SERIES_S)
    (first,) = due(events, T0 + SERIES_S)
    assert first.fields["series"]["count"] == 2
    events.add(NODE, occurrence(), T0 + 2 * SERIES_S + 1)
    (second,) = due(events, T0 + 2 * SERIES_S + 1)
    assert second.name != first.name
    assert "series" not in second.fields


def test_a_flapping_cable_writes_a_burst_and_then_one_in_five_minutes():
    """An hour of it, twice a second, and the other node is told of as ever."""
    events = series()
    written = 0
    for tick in range(3600):
        now_s = T0 + tick
        events.add(NODE, occurrence("LinkDown"), now_s)
        events.add(NODE, occurrence("LinkUp"), now_s)
        written += len(due(events, now_s))
    assert written <= BURST + 3600 / REFILL_S
    assert written >= BURST
    events.add(OTHER, occurrence(), T0 + 3600)
    (told,) = due(events, T0 + 3600)
    assert told.fields["regarding"]["name"] == "node-2"


def test_the_last_state_is_told_even_after_a_flood():
    """Nothing is dropped: what has no token waits for one, with the right count."""
    events = series()
    for tick in range(100):
        events.add(NODE, occurrence("LinkDown"), T0 + tick)
        due(events, T0 + tick)
    events.add(NODE, occurrence("LinkUp"), T0 + 100)
    assert due(events, T0 + 100) == []
    assert events.waiting == 2
    told = [*due(events, T0 + 100 + REFILL_S), *due(events, T0 + 100 + 2 * REFILL_S)]
    assert [each.fields["reason"] for each in told] == ["LinkDown", "LinkUp"]
    assert told[0].fields["series"]["count"] == 100


def test_no_more_than_asked_for_are_due_at_once_and_the_longest_wait_comes_first():
    events = series()
    for number in range(5):
        about = Regarding("v1", "Node", f"node-{number}", f"uid-{number}")
        events.add(about, occurrence(), T0 + number)
    events.add(Regarding("v1", "Node", "node-0", "uid-0"), occurrence(), T0 + 9)
    names = [each.fields["regarding"]["name"] for each in due(events, T0 + 10, most=2)]
    assert names == ["node-0", "node-1"]
    assert events.waiting == 3


def test_a_flood_of_one_namespace_delays_no_event_of_another():
    events = series()
    for number in range(1000):
        pod = Regarding("v1", "Pod", f"pod-{number}", f"uid-{number}", "evil")
        events.add(pod, occurrence(), T0)
    for name in ("first", "second"):
        events.add(Regarding("v1", "Pod", name, name, "team-a"), occurrence(note=name), T0)
    told = due(events, most=4)
    assert [each.namespace for each in told] == ["evil", "team-a", "evil", "team-a"]
    assert [each.fields["regarding"]["name"] for each in told[1::2]] == ["first", "second"]
    assert len(due(events)) == 998


def test_a_clock_that_goes_back_refills_nothing_and_breaks_nothing():
    events = series()
    for number in range(BURST):
        events.add(NODE, occurrence(note=f"{number}"), T0)
    assert len(due(events)) == BURST
    events.add(NODE, occurrence(), T0 - 86_400)
    assert due(events, T0 - 86_400) == []


@pytest.mark.parametrize("name", ["n" * 253, "a-" * 126 + "z", "node-1"])
def test_names_of_events_are_dns_names(name):
    events = series()
    events.add(Regarding("v1", "Node", name, "uid"), occurrence(), T0)
    (told,) = due(events)
    assert len(told.name) <= 253
    assert re.fullmatch(
        r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", told.name
    )


@pytest.mark.parametrize("note", ["x" * 2000, "链" * 2000, "\ud800" * 2000])
def test_a_long_note_is_cut_to_what_the_server_takes(note):
    events = series()
    events.add(NODE, occurrence(note=note), T0)
    (told,) = due(events)
    assert len(told.fields["note"].encode()) <= 1024
    assert told.fields["note"].endswith("…")


@given(st.text(max_size=40), st.integers(1, 60))
def test_a_note_is_shown_by_a_terminal_and_taken_by_the_server_whatever_a_peer_wrote(text, times):
    """Words of drivers and of users are in it: nothing turns or hides what stands beside it."""
    events = series()
    events.add(NODE, occurrence(note=f"GPU 3 \x1b[2J\u202egnp.exe\n{text * times}"), T0)
    (told,) = due(events)
    note = told.fields["note"]
    assert len(note.encode()) <= 1024
    assert {unicodedata.category(char) for char in note}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})
    assert note.startswith("GPU 3 \ufffd[2J\ufffdgnp.exe\ufffd")


def test_memory_is_bounded_and_what_went_untold_is_counted():
    events = series()
    for number in range(MOST_SERIES + 3):
        events.add(NODE, occurrence(note=f"{number}"), T0)
    assert events.waiting == MOST_SERIES
    assert events.dropped == 3


def test_times_are_utc_with_six_digits():
    events = series()
    events.add(NODE, occurrence(), T0)
    (told,) = due(events)
    assert datetime.fromisoformat(told.fields["eventTime"]).timestamp() == T0
