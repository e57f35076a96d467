"""What the API server knows of one resource, kept here and followed: list, watch, and again.

The I/O around `ListWatchState` (what to ask next) and `Decoder` (what an answer says).
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

import structlog

from master.kube.advice import next_step
from master.kube.client import Call, KubeClient
from master.kube.decoding import Bookmark, DecodedPage, Decoder, Happened, Happening, Unreadable
from master.kube.errors import KubeError
from master.kube.list_watch_state import ListPage, ListWatchState, Watch
from master.kube.metrics import ENDED, KubeMetrics
from master.kube.objects import Key, KubeObject, Resource, collection_path, key_of
from master.kube.reading import LIST_S, page_call

T = TypeVar("T", bound=KubeObject)
T_co = TypeVar("T_co", bound=KubeObject, covariant=True)

IDLE_S = 70.0
"""A watch is asked for bookmarks, which come about once a minute: one that is silent for longer is
dead. Source: kube-apiserver's `bookmarkFrequency`, one minute."""
WATCH_S = (240, 360)
"""The server ends a watch after so long; drawn, so that not all clients come back at once."""
MOST_SHOWN_CHARS = 253
"""The longest name that Kubernetes allows."""
TURN = 64
"""Lines that are taken before everybody else has a turn."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Listed(Generic[T_co]):
    """The whole of what there is, to be read at once: what is not in it is gone."""

    objects: Mapping[Key, T_co]


@dataclass(frozen=True, slots=True)
class Changed(Generic[T_co]):
    """An object that came, or differs from before."""

    object: T_co


@dataclass(frozen=True, slots=True)
class Removed(Generic[T_co]):
    """An object that is gone, as it was last known."""

    object: T_co


Listener = Callable[[Listed[T] | Changed[T] | Removed[T]], None]


@dataclass(frozen=True, kw_only=True)  # slots would forbid Scope[NodeObject](…), see CPython 105936
class Scope(Generic[T]):
    """Which objects of a resource are followed: of a namespace, by selectors, and worth keeping.

    `query` holds `labelSelector` or `fieldSelector`. `keep` is asked of every object; one that is
    not kept is not known here, and costs nothing but its reading.
    """

    namespace: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    keep: Callable[[T], bool] = lambda _: True


@dataclass(slots=True)
class _Gathered(Generic[T]):
    """The pages of a list so far, and whether anything in them differs from what is known."""

    objects: dict[Key, T] = field(default_factory=dict)
    unreadable: dict[Key, str] = field(default_factory=dict)
    differs: bool = False


class Reflector(Generic[T]):
    """The objects of a resource as they are now. One loop owns it; so listeners must be quick."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        *,
        metrics: KubeMetrics,
        scope: Scope[T] | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self.resource = resource
        self._scope: Scope[T] = scope or Scope()
        self._path = collection_path(resource, self._scope.namespace)
        self._metrics = metrics
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - it spreads load and keeps no secret
        self._state = ListWatchState(self._rng.uniform)
        self._decoder = Decoder(resource)
        self._objects: dict[Key, T] = {}
        self._gathered: _Gathered[T] = _Gathered()
        self._unreadable: dict[Key, str] = {}
        self._listeners: list[Listener[T]] = []
        self.synced = False
        """Whether all objects were listed once."""
        self.last_heard_s: float | None = None
        """When the API server last told anything, by the clock."""
        self.trouble: KubeError | None = None
        """Why nothing is heard now; None while all is well."""
        metrics.watch(
            resource.plural,
            self.silent_s,
            objects=lambda: len(self._objects),
            unreadable=lambda: len(self._unreadable),
        )

    @property
    def objects(self) -> Mapping[Key, T]:
        """What is known now; it changes while others run."""
        return MappingProxyType(self._objects)

    @property
    def name(self) -> str:
        """The resource, as the API calls it."""
        return self.resource.plural

    def silent_s(self) -> float:
        """Seconds since anything was heard; NaN before the first time."""
        return math.nan if self.last_heard_s is None else self._clock() - self.last_heard_s

    def subscribe(self, listener: Listener[T]) -> None:
        """Tells the listener of all that changes; what is listed already, at once."""
        self._listeners.append(listener)
        if self.synced:
            listener(Listed(self.objects))

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        while True:
            question = self._state.question
            if isinstance(question, Watch):
                await asyncio.sleep(await self._watched(question))
            else:
                await asyncio.sleep(await self._listed(question))

    async def _listed(self, question: ListPage) -> float:
        """Asks for a page; the wait before the next question."""
        if not question.token:
            self._metrics.relisted(self.name)
            self._gathered = _Gathered()
        call = page_call(self._path, self._scope.query, question.token)
        try:
            page = self._decoder.page(await self._client.call(call))
        except KubeError as error:
            return self._failed(error, "list", 0.0)
        self._heard()
        self._gather(page)
        self._state.listed(page.version, page.token)
        if not page.token:
            self._replace()
        return 0.0

    async def _watched(self, question: Watch) -> float:
        """Follows what changes until the watch ends; the wait before the next question."""
        query = {
            **self._scope.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": question.version,
            "timeoutSeconds": str(self._rng.randint(*WATCH_S)),
        }
        call = Call(method="GET", path=self._path, query=query, timeout_s=LIST_S)
        began_s: float | None = None
        taken = 0
        try:
            async with self._client.lines(call, idle_s=IDLE_S) as lines:
                began_s = self._clock()
                self._heard()
                async for line in lines:
                    self._take(line)
                    taken += 1
                    if taken % TURN == 0:
                        await asyncio.sleep(0)
        except KubeError as error:
            return self._failed(error, "watch", self._stood_s(began_s))
        self._metrics.reconnected(self.name, ENDED)
        return self._state.ended(self._stood_s(began_s))

    def _stood_s(self, began_s: float | None) -> float:
        return 0.0 if began_s is None else self._clock() - began_s

    def _failed(self, error: KubeError, verb: str, stood_s: float) -> float:
        wait_s = self._state.failed(error, stood_s)
        self._metrics.reconnected(self.name, error.failure)
        if self.trouble is None or self.trouble.failure is not error.failure:
            self._tell_failure(error, verb, wait_s)
        self.trouble = error
        return wait_s

    def _tell_failure(self, error: KubeError, verb: str, wait_s: float) -> None:
        if error.is_gone:
            _log.info("Kubernetes has forgotten the version; listing anew", resource=self.name)
            return
        _log.warning(
            "Kubernetes does not answer as asked",
            resource=self.name,
            verb=verb,
            failure=error.failure.value,
            status=error.status,
            why=error.message,
            fix=next_step(error),
            again_in_s=round(wait_s, 1),
        )

    def _heard(self) -> None:
        self.last_heard_s = self._clock()
        if self.trouble is not None and not self.trouble.is_gone:
            _log.info("Kubernetes answers again", resource=self.name)
        self.trouble = None

    def _gather(self, page: DecodedPage[T]) -> None:
        """Compares page by page with what is known: all at the end would hold everybody up."""
        for each in page.objects:
            key = key_of(each.metadata)
            if self._scope.keep(each):
                self._gathered.objects[key] = each
                self._gathered.differs |= self._objects.get(key) != each
        for unreadable in page.unreadable:
            self._tell_unreadable(unreadable)
            self._gathered.unreadable[unreadable.key] = unreadable.why
            if (known := self._objects.get(unreadable.key)) is not None:
                self._gathered.objects[unreadable.key] = known

    def _replace(self) -> None:
        """The list is whole: it takes the place of what was known."""
        gathered, self._gathered = self._gathered, _Gathered()
        is_news = gathered.differs or len(gathered.objects) != len(self._objects) or not self.synced
        self._objects, self._unreadable = gathered.objects, gathered.unreadable
        self.synced = True
        if is_news:
            self._tell(Listed(self.objects))

    def _take(self, line: bytes) -> None:
        """One line of a watch."""
        event = self._decoder.event(line)
        self._heard()
        if isinstance(event, Bookmark):
            self._state.moved(event.version)
        else:
            self._apply(event)

    def _apply(self, event: Happened[T]) -> None:
        found = event.object
        if isinstance(found, Unreadable):
            self._state.moved(found.version)
            self._apply_unreadable(event.what, found)
        else:
            key = key_of(found.metadata)
            self._state.moved(found.metadata.resource_version)
            self._unreadable.pop(key, None)
            if event.what == "DELETED" or not self._scope.keep(found):
                self._forget(key)
            else:
                is_news = self._objects.get(key) != found
                self._objects[key] = found
                if is_news:
                    self._tell(Changed(found))

    def _apply_unreadable(self, what: Happening, found: Unreadable) -> None:
        """It is gone if the server says so; else what was known of it stays."""
        if what == "DELETED":
            self._unreadable.pop(found.key, None)
            self._forget(found.key)
        else:
            self._tell_unreadable(found)
            self._unreadable[found.key] = found.why

    def _forget(self, key: Key) -> None:
        known = self._objects.pop(key, None)
        if known is not None:
            self._tell(Removed(known))

    def _tell(self, what: Listed[T] | Changed[T] | Removed[T]) -> None:
        for listener in self._listeners:
            listener(what)

    def _tell_unreadable(self, found: Unreadable) -> None:
        """Logs it once for as long as it is so; what was known of the object stays known."""
        if self._unreadable.get(found.key) != found.why:
            namespace, name = found.key
            _log.warning(
                "an object of Kubernetes cannot be read; what was known of it stays",
                resource=self.name,
                namespace=namespace[:MOST_SHOWN_CHARS],
                object=name[:MOST_SHOWN_CHARS],
                why=found.why,
            )
