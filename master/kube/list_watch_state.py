"""The next request of a reflector and the wait before it, decided from outcomes alone.

The shape is that of client-go's reflector (`tools/cache/reflector.go`, v0.36): list in pages, watch
from the version of the list, and list again only where the server no longer has that version.
"""

from collections.abc import Callable
from dataclasses import dataclass

from master.kube.errors import Failure, KubeError
from topo.kit.backoff import requested_wait_s

BACKOFF_BASE_S = 0.1
BACKOFF_CEILING_S = 30.0
HEALTHY_S = 1.0
"""A watch that lasted this long, or brought an event, was no failure: the backoff restarts."""
REFUSALS_BEFORE_LIST = 3
_DOUBTFUL = frozenset({400, 500, 504})
"""Statuses that, several times in a row, may mean that the version itself is at fault: after a
restored backup of etcd it lies in the server's future, which the server reports as a timeout
(504)."""

_UNREADABLE = frozenset({Failure.MALFORMED, Failure.TOO_LARGE})


@dataclass(frozen=True, slots=True)
class ListPage:
    """A request for the page that `token` names; the first one without a token."""

    token: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """A request for all changes since a version."""

    version: str


class ListWatchState:
    """The state of one reflector between list and watch. `draw` is uniform over its bounds."""

    def __init__(self, draw: Callable[[float, float], float]) -> None:
        self._draw = draw
        self._tries = 0
        self._refusals = 0
        self.question: ListPage | Watch = ListPage()
        """The next request."""

    def page_received(self, version: str, token: str) -> None:
        """Record a page. With a token more pages follow, else the list of `version` is complete."""
        self.question = ListPage(token) if token else Watch(version)

    def event_received(self, version: str) -> None:
        """Record an event of the watch: a new watch continues from `version`."""
        if version and self.question != Watch(version):
            self.question = Watch(version)
            self._reset_backoff()

    def watch_ended(self, stood_s: float) -> float:
        """Return the wait before the next request, after the server ended a watch in order."""
        if stood_s >= HEALTHY_S:
            self._reset_backoff()
        return self._wait_s()

    def request_failed(self, error: KubeError, stood_s: float = 0.0) -> float:
        """Return the wait before the next request, after a failure.

        `stood_s` is how long a watch lasted. A page is requested again where the list can be
        continued.
        """
        if stood_s >= HEALTHY_S:
            self._reset_backoff()
        # One such answer is the server's trouble; several in a row may be the version's.
        self._refusals += error.status in _DOUBTFUL
        if self._is_lost(error):
            self.question = ListPage()
            self._refusals = 0
        return max(self._wait_s(), requested_wait_s(error))

    def _is_lost(self, error: KubeError) -> bool:
        """Whether the version or token has become useless."""
        is_refused = self._refusals >= REFUSALS_BEFORE_LIST
        return error.is_gone or error.failure in _UNREADABLE or is_refused

    def _reset_backoff(self) -> None:
        self._tries = self._refusals = 0

    def _wait_s(self) -> float:
        """Return a wait with full jitter (AWS Architecture Blog, 2015)."""
        ceiling_s = min(BACKOFF_CEILING_S, BACKOFF_BASE_S * 2.0**self._tries)
        if ceiling_s < BACKOFF_CEILING_S:
            self._tries += 1
        return self._draw(0.0, ceiling_s)
