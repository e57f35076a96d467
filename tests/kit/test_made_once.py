"""`MadeOnce`: one value for all threads that ask of the same subject."""

import threading

import pytest

from topo.kit.threads import MadeOnce


def test_threads_that_ask_at_once_get_one_value_and_another_subject_another() -> None:
    made: list[object] = []
    asked, go = threading.Barrier(4), threading.Event()

    def make(subject: object) -> object:
        go.wait(10)
        made.append(subject)
        return object()

    once, first, second = MadeOnce(make), object(), object()
    found: list[object] = []

    def ask() -> None:
        asked.wait(10)
        found.append(once.of(first))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for each in threads:
        each.start()
    asked.wait(10)
    go.set()
    for each in threads:
        each.join(10)
    assert made == [first]
    assert len(found) == 3
    assert len(set(map(id, found))) == 1
    assert once.of(second) is once.of(second)
    assert made == [first, second]


def test_what_could_not_be_made_is_made_when_asked_again() -> None:
    answers = iter((ValueError("not yet"), "made"))

    def make(_: object) -> object:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    once, subject = MadeOnce(make), object()
    with pytest.raises(ValueError, match="not yet"):
        once.of(subject)
    assert once.of(subject) == "made"
