"""What a reflector asks next and after which wait: decided from outcomes alone.

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
"""A watch that stood for so long, or brought anything, was no failure: the wait begins anew."""
REFUSALS_BEFORE_LIST = 3
_DOUBTFUL = frozenset({400, 500, 504})
"""Refused with these so often in a row, the version itself may be at fault: after a restored backup
of etcd it is in the server's future, which the server tells as a timeout (504)."""

_UNREADABLE = frozenset({Failure.MALFORMED, Failure.TOO_LARGE})


@dataclass(frozen=True, slots=True)
class ListPage:
    """The page of the list after that token; the first one without."""

    token: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """What changed since that version."""

    version: str


class ListWatchState:
    """One reflector's place between listing and watching. `draw` is uniform over its two bounds."""

    def __init__(self, draw: Callable[[float, float], float]) -> None:
        self._draw = draw
        self._tries = 0
        self._refusals = 0
        self.question: ListPage | Watch = ListPage()
        """What to ask now."""

    def listed(self, version: str, token: str) -> None:
        """A page came; with a token there are more, else the list is whole as of the version."""
        self.question = ListPage(token) if token else Watch(version)

    def moved(self, version: str) -> None:
        """The watch brought something: it goes on from here after a break."""
        if version and self.question != Watch(version):
            self.question = Watch(version)
            self._well()

    def ended(self, stood_s: float) -> float:
        """The wait before the next question, after a watch that the server ended in order."""
        if stood_s >= HEALTHY_S:
            self._well()
        return self._wait_s()

    def failed(self, error: KubeError, stood_s: float = 0.0) -> float:
        """The wait before the next question, after a failure; `stood_s` is how long a watch stood.

        A page is asked for again where the list can still be continued.
        """
        if stood_s >= HEALTHY_S:
            self._well()
        self._refusals += error.status in _DOUBTFUL
        if self._is_lost(error):
            self.question = ListPage()
            self._refusals = 0
        return max(self._wait_s(), requested_wait_s(error))

    def _is_lost(self, error: KubeError) -> bool:
        """Whether the version or token is of no use any more."""
        is_refused = self._refusals >= REFUSALS_BEFORE_LIST
        return error.is_gone or error.failure in _UNREADABLE or is_refused

    def _well(self) -> None:
        self._tries = self._refusals = 0

    def _wait_s(self) -> float:
        """Full jitter (AWS Architecture Blog, 2015)."""
        ceiling_s = min(BACKOFF_CEILING_S, BACKOFF_BASE_S * 2.0**self._tries)
        if ceiling_s < BACKOFF_CEILING_S:
            self._tries += 1
        return self._draw(0.0, ceiling_s)
