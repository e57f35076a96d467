"""What a reflector asks next, decided from outcomes alone."""

import pytest

from master.kube.errors import Failure, KubeError
from master.kube.list_watch_state import BACKOFF_CEILING_S, ListPage, ListWatchState, Watch


def course() -> ListWatchState:
    """One that always waits the longest of what it may."""
    return ListWatchState(lambda _, most: most)


def watching(version: str = "7") -> ListWatchState:
    found = course()
    found.page_received(version, "")
    return found


def error(
    status: int | None = None, failure: Failure | None = None, retry_after_s: float | None = None
) -> KubeError:
    return KubeError("m", status=status, failure=failure, retry_after_s=retry_after_s)


def asked(of: ListWatchState) -> ListPage | Watch:
    """What it asks now."""
    return of.question


def test_pages_are_asked_for_one_by_one_and_then_what_changed_since() -> None:
    found = course()
    assert asked(found) == ListPage("")
    found.page_received("7", "token")
    assert asked(found) == ListPage("token")
    found.page_received("7", "")
    assert asked(found) == Watch("7")
    found.event_received("9")
    assert asked(found) == Watch("9")


def test_waits_double_up_to_half_a_minute() -> None:
    found = watching()
    waits = [found.request_failed(error(503)) for _ in range(12)]
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert waits[-1] == BACKOFF_CEILING_S
    assert asked(found) == Watch("7")


@pytest.mark.parametrize("stood_s", [1.0, 300.0])
def test_a_watch_that_stood_for_a_while_was_no_failure(stood_s: float) -> None:
    found = watching()
    for _ in range(9):
        found.request_failed(error())
    assert found.request_failed(error(), stood_s) == 0.1
    for _ in range(9):
        found.request_failed(error())
    assert found.watch_ended(stood_s) == 0.1


def test_a_watch_that_brought_something_was_no_failure() -> None:
    found = watching()
    for _ in range(9):
        found.request_failed(error())
    found.event_received("8")
    assert found.request_failed(error()) == 0.1


def test_what_brings_the_same_version_again_brings_nothing() -> None:
    found = watching()
    for _ in range(12):
        found.event_received("7")
        found.event_received("")
        found.watch_ended(0.0)
    assert found.watch_ended(0.0) == BACKOFF_CEILING_S


def test_a_list_that_succeeds_ends_no_backoff_since_it_is_what_costs() -> None:
    """A server that takes the list and refuses every watch as too old is not listed at full speed.

    That would be ten thousand nodes, again and again.
    """
    found = course()
    waits = []
    for _ in range(12):
        found.page_received("7", "")
        waits.append(found.request_failed(error(410)))
        assert asked(found) == ListPage()
    assert waits[-1] == BACKOFF_CEILING_S


@pytest.mark.parametrize(
    "lost",
    [error(410), error(failure=Failure.MALFORMED), error(failure=Failure.TOO_LARGE)],
    ids=lambda each: each.failure.value,
)
def test_what_cannot_be_gone_on_from_is_listed_anew(lost: KubeError) -> None:
    found = watching()
    found.request_failed(lost)
    assert asked(found) == ListPage()
    found.page_received("7", "token")
    found.request_failed(lost)
    assert asked(found) == ListPage()


@pytest.mark.parametrize("status", [None, 401, 403, 429, 503])
def test_a_list_and_a_watch_go_on_where_they_were(status: int | None) -> None:
    found = watching()
    for _ in range(20):
        found.request_failed(error(status))
    assert asked(found) == Watch("7")
    found = course()
    found.page_received("7", "token")
    found.request_failed(error(status))
    assert asked(found) == ListPage("token")


def test_a_version_that_is_refused_again_and_again_is_doubted() -> None:
    found = watching()
    found.request_failed(error(504))
    found.request_failed(error(504))
    assert asked(found) == Watch("7")
    found.request_failed(error(504))
    assert asked(found) == ListPage()


def test_the_servers_wish_is_the_least_wait_up_to_a_limit() -> None:
    assert watching().request_failed(error(429, retry_after_s=42.0)) == 42
    assert watching().request_failed(error(429, retry_after_s=1e9)) == 300
