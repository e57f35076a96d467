"""The order of writes, and which of them are needed."""

from itertools import pairwise
from math import inf

from master.kube.objects import NODES
from master.kube.schedulers.hypernodes import HYPERNODES
from master.kube.writing import write_queue
from master.kube.writing.write_queue import ECHO_S, GONE, REFUSED_S, WriteQueue
from master.kube.writing.writes import Apply, Create, Delete, Write, WriteTarget

LABELS, OTHERS = "topo-master/labels", "topo-master/annotations"


def apply(name: str, value: str, manager: str = LABELS) -> Apply:
    fields = {"metadata": {"labels": {"example.com/a": value}}}
    return Apply(target=WriteTarget(NODES, name), manager=manager, uid=f"uid-{name}", fields=fields)


def delete(name: str) -> Delete:
    return Delete(target=WriteTarget(HYPERNODES, name), manager=LABELS, uid=f"uid-{name}")


def queue(*writes: Write) -> WriteQueue:
    made = WriteQueue()
    made.put(writes, 0.0)
    return made


def begun(of: WriteQueue, now_s: float = 0.0) -> list[Write]:
    """All writes that can begin now."""
    found = []
    while (write := of.begin(now_s)) is not None:
        found.append(write)
    return found


def test_of_the_writes_of_one_object_the_latest_is_begun_and_no_other():
    assert begun(queue(apply("a", "1"), apply("b", "1"), apply("a", "2"))) == [
        apply("a", "2"),
        apply("b", "1"),
    ]


def test_one_write_of_an_object_is_under_way_at_a_time():
    of = queue(apply("a", "1"))
    (first,) = begun(of)
    of.put([apply("a", "2")], 0.0)
    assert begun(of) == []
    of.done(first, "7", 0.0)
    assert begun(of) == [apply("a", "2")]


def test_two_managers_write_the_same_object_each_for_itself_and_take_turns():
    of = queue(*(apply(name, "1") for name in "abc"), apply("a", "1", OTHERS))
    assert [(write.target.name, write.manager) for write in begun(of)] == [
        ("a", LABELS),
        ("a", OTHERS),
        ("b", LABELS),
        ("c", LABELS),
    ]


def test_what_is_under_way_is_not_asked_for_again():
    of = queue(apply("a", "1"))
    begun(of)
    of.put([apply("a", "2")], 0.0)
    of.put([apply("a", "1")], 0.0)
    of.done(apply("a", "1"), "7", 0.0)
    assert begun(of) == []


def test_a_write_whose_answer_was_lost_is_not_waited_for_once_the_watch_has_shown_it():
    """It is tried again, changes nothing, and the watch has nothing more to show."""
    for write, made, version in ((apply("a", "1"), "7", 7.0), (delete("a"), "", GONE)):
        of = queue(write)
        begun(of)
        of.retry_later(write, 1.0)
        of.observe(write.target, version)
        assert begun(of, 1.0) == [write]
        of.done(write, made, 1.0)
        assert not of.is_busy(LABELS, 1.0)


def test_what_is_made_after_the_watch_showed_that_it_was_gone_is_waited_for():
    target = WriteTarget(HYPERNODES, "a")
    create = Create(target=target, manager=LABELS, fields={})
    of = queue(create)
    of.observe(target, GONE)
    begun(of)
    of.done(create, "7", 0.0)
    assert of.is_busy(LABELS, 0.0)
    of.observe(target, 7)
    assert not of.is_busy(LABELS, 0.0)


def test_what_is_done_is_not_done_again_before_the_watch_shows_it():
    of = queue(apply("a", "1"))
    begun(of)
    of.done(apply("a", "1"), "7", 0.0)
    of.observe(WriteTarget(NODES, "a"), 6)
    of.put([apply("a", "1")], 1.0)
    assert begun(of, 1.0) == []
    assert of.is_busy(LABELS, 1.0)
    of.observe(WriteTarget(NODES, "a"), 7)
    assert not of.is_busy(LABELS, 0.0)
    of.put([apply("a", "1")], 2.0)  # somebody changed it after that
    assert begun(of, 2.0) == [apply("a", "1")]


def test_a_watch_that_shows_it_before_the_answer_comes_counts():
    of = queue(apply("a", "1"))
    begun(of)
    of.observe(WriteTarget(NODES, "a"), 7)
    of.done(apply("a", "1"), "7", 0.0)
    assert not of.is_busy(LABELS, 0.0)
    of.put([apply("a", "1")], 0.0)
    assert begun(of) == [apply("a", "1")]


def test_another_value_is_begun_although_the_one_before_has_not_been_seen():
    of = queue(apply("a", "1"))
    begun(of)
    of.done(apply("a", "1"), "7", 0.0)
    of.put([apply("a", "2")], 0.0)
    assert begun(of) == [apply("a", "2")]


def test_a_watch_that_shows_nothing_is_not_waited_for_for_ever():
    of = queue(apply("a", "1"))
    begun(of)
    of.done(apply("a", "1"), "7", 0.0)
    of.put([apply("a", "1")], ECHO_S - 1)
    assert begun(of, ECHO_S - 1) == []
    of.put([apply("a", "1")], ECHO_S)
    assert begun(of, ECHO_S) == [apply("a", "1")]


def test_a_version_that_is_no_number_is_taken_as_seen_with_any_news():
    of = queue(apply("a", "1"))
    begun(of)
    of.done(apply("a", "1"), "opaque", 0.0)
    assert not of.is_busy(LABELS, 0.0)
    of.observe(WriteTarget(NODES, "a"), 3)
    of.put([apply("a", "1")], 0.0)
    assert begun(of) == [apply("a", "1")]


def test_a_deletion_is_seen_when_the_object_is_gone():
    of = queue(delete("a"))
    begun(of)
    of.done(delete("a"), "", 0.0)
    of.observe(WriteTarget(HYPERNODES, "a"), 9)
    of.put([delete("a")], 0.0)
    assert begun(of) == []
    of.observe(WriteTarget(HYPERNODES, "a"), GONE)
    assert not of.is_busy(LABELS, 0.0)


def test_a_deletion_that_waits_for_a_finalizer_is_seen_when_the_object_is_marked():
    of = queue(delete("a"))
    begun(of)
    of.done(delete("a"), "9", 0.0)
    assert of.is_busy(LABELS, 0.0)
    of.observe(WriteTarget(HYPERNODES, "a"), 9)
    assert not of.is_busy(LABELS, 0.0)


def test_what_was_made_and_deleted_by_somebody_can_be_made_again():
    made = Create(target=WriteTarget(HYPERNODES, "a"), manager=LABELS)
    of = queue(made)
    begun(of)
    of.done(made, "7", 0.0)
    of.observe(WriteTarget(HYPERNODES, "a"), GONE)
    of.put([made], 0.0)
    assert begun(of) == [made]


def test_what_was_refused_is_asked_again_only_after_news_or_a_while():
    for news, later_s in ((True, 0.0), (False, REFUSED_S)):
        of = queue(apply("a", "1"))
        begun(of)
        of.give_up(apply("a", "1"), 0.0)
        assert not of.is_busy(LABELS, 0.0)
        of.put([apply("a", "1")], 0.0)
        assert begun(of) == []
        if news:
            of.observe(WriteTarget(NODES, "a"), 8)
        of.put([apply("a", "1")], later_s)
        assert begun(of, later_s) == [apply("a", "1")]


def test_what_is_refused_each_time_is_asked_again_ever_more_seldom():
    of, now_s, waits = WriteQueue(), 0.0, list[float]()
    of.put([apply("a", "1")], now_s)
    for _ in range(9):
        assert begun(of, now_s) == [apply("a", "1")]
        of.give_up(apply("a", "1"), now_s)
        waits.append(-now_s)
        while of.next_at_s is None or of.next_at_s > now_s:
            now_s += 1.0
            of.put([apply("a", "1")], now_s)
        waits[-1] += now_s
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    of.put([apply("a", "2")], now_s)
    assert begun(of, now_s) == [apply("a", "2")], "another value is another write"


def test_what_was_refused_and_is_asked_again_begins_without_being_asked_once_more():
    """Whoever asked waits for its end; also where nothing of the object is ever shown."""
    of, waits = queue(apply("a", "1")), list[float]()
    now_s = 0.0
    for _ in range(4):
        assert begun(of, now_s) == [apply("a", "1")]
        of.give_up(apply("a", "1"), now_s)
        of.put([apply("a", "1")], now_s)
        of.put([apply("a", "1")], now_s)
        assert begun(of, now_s) == []
        assert not of.is_busy(LABELS, now_s), "others need not wait for it"
        assert [*of.waiting(LABELS)] == [WriteTarget(NODES, "a")]
        assert of.next_at_s is not None
        waits.append(of.next_at_s - now_s)
        now_s = of.next_at_s
    assert waits == [1, 2, 4, 8]


def test_what_was_refused_and_is_asked_again_begins_with_the_next_news_or_another_value():
    for news in (True, False):
        of = queue(apply("a", "1"))
        begun(of)
        of.give_up(apply("a", "1"), 0.0)
        of.put([apply("a", "1")], 0.0)
        if news:
            of.observe(WriteTarget(NODES, "a"), 8)
            assert begun(of) == [apply("a", "1")]
        else:
            of.put([apply("a", "2")], 0.0)
            assert begun(of) == [apply("a", "2")]
        assert begun(of, 100.0) == []


def test_what_was_refused_and_is_withdrawn_does_not_begin():
    of = queue(apply("a", "1"))
    begun(of)
    of.give_up(apply("a", "1"), 0.0)
    of.put([apply("a", "1")], 0.0)
    of.withdraw(WriteTarget(NODES, "a"), LABELS)
    assert begun(of, 100.0) == []
    of.put([apply("a", "1")], 100.0)
    assert begun(of, 100.0) == [apply("a", "1")]


def test_what_failed_is_tried_again_at_its_time_and_the_newest_of_it():
    of = queue(apply("a", "1"))
    (first,) = begun(of)
    of.retry_later(first, 5.0)
    of.put([apply("a", "2")], 1.0)
    assert (begun(of, 4.9), of.next_at_s, of.tries(first)) == ([], 5.0, 1)
    (second,) = begun(of, 5.0)
    assert second == apply("a", "2")
    of.retry_later(second, 9.0)
    assert (of.tries(second), begun(of, 9.0)) == (2, [second])
    of.done(second, "7", 9.0)
    of.put([apply("a", "3")], 9.0)
    assert of.tries(second) == 0


def test_what_is_taken_back_is_not_begun_and_not_tried_again():
    of = queue(apply("a", "1"), apply("b", "1"))
    of.withdraw(WriteTarget(NODES, "a"), LABELS)
    (under_way,) = begun(of)
    assert under_way == apply("b", "1")
    of.withdraw(WriteTarget(NODES, "b"), LABELS)
    of.retry_later(under_way, 1.0)
    assert begun(of, 2.0) == []
    assert of.next_at_s is None
    of.put([apply("a", "3")], 2.0)
    assert begun(of, 2.0) == [apply("a", "3")]


def test_it_says_when_something_may_begin():
    of = WriteQueue()
    assert of.next_at_s is None
    of.put([apply("a", "1")], 0.0)
    assert of.next_at_s == -inf


def test_more_writes_than_it_holds_are_refused_and_those_of_other_managers_are_not(monkeypatch):
    monkeypatch.setattr(write_queue, "MAX_WAITING", 2)
    of = queue(apply("a", "1"), apply("b", "1"))
    assert of.put([apply("c", "1")], 0.0)
    assert not of.put([apply("a", "2")], 0.0)
    assert not of.put([apply("c", "1", OTHERS)], 0.0)


def test_a_list_shows_what_is_there_and_that_all_else_is_gone():
    of = queue(apply("a", "1"), delete("b"), delete("c"))
    for write in begun(of):
        of.done(write, "7" if isinstance(write, Apply) else "", 0.0)
    of.observe_list(HYPERNODES, {("", "c"): 9.0})
    of.put([delete("b")], 0.0)
    of.put([delete("c")], 0.0)
    of.put([apply("a", "1")], 0.0)
    assert begun(of) == [delete("b")]


def changed_back(of: WriteQueue, write: Apply, now_s: float) -> list[float]:
    """When a write is begun that somebody changes back at once, each time, from a time on."""
    times = list[float]()
    while len(times) < 12:
        of.put([write], now_s)
        if (at_s := of.next_at_s) is not None and at_s > now_s:
            now_s = at_s
        assert begun(of, now_s) == [write]
        times.append(now_s)
        of.done(write, str(len(times)), now_s)
        of.observe(write.target, len(times))
    return times


def test_who_changes_it_back_each_time_is_answered_ever_more_seldom():
    times = changed_back(WriteQueue(), apply("a", "1"), 0.0)
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_after_a_while_of_peace_it_is_answered_at_once_again():
    of = WriteQueue()
    last_s = changed_back(of, apply("a", "1"), 0.0)[-1]
    peace_s = last_s + 1000
    of.put([apply("a", "1")], peace_s)
    assert begun(of, peace_s) == [apply("a", "1")]


def test_another_value_does_not_wait_for_the_one_that_is_changed_back():
    of = WriteQueue()
    last_s = changed_back(of, apply("a", "1"), 0.0)[-1]
    of.put([apply("a", "1")], last_s)
    assert begun(of, last_s) == []
    of.put([apply("a", "2")], last_s)
    assert begun(of, last_s) == [apply("a", "2")]
    assert begun(of, last_s + 1000) == []
