"""A local copy of all objects of one resource, kept current by list and watch.

`ListWatchState` decides what to request next, `Decoder` decodes the answers; this is the I/O.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

import structlog

from master.kube.advice import next_step
from master.kube.client import Call, KubeClient
from master.kube.decoding import Bookmark, DecodedPage, Decoder, Happened, Happening, Unreadable
from master.kube.errors import Failure, KubeError
from master.kube.list_watch_state import ListPage, ListWatchState, Watch
from master.kube.metrics import ENDED, KubeMetrics
from master.kube.objects import Key, KubeObject, Resource, collection_path, key_of
from master.kube.reading import LIST_S, page_call, shallow
from master.object_errors import ObjectErrors, ObjectKind
from topo.model.isolation import ObjectError, attempt, caught

T = TypeVar("T", bound=KubeObject)
T_co = TypeVar("T_co", bound=KubeObject, covariant=True)
T_answer = TypeVar("T_answer")
T_contra = TypeVar("T_contra", bound=KubeObject, contravariant=True)

IDLE_S = 70.0
"""A watch asks for bookmarks, which come about once a minute; one that is silent for longer is
dead. Source: kube-apiserver's `bookmarkFrequency`, one minute."""
WATCH_S = (240, 360)
"""Bounds of the time after which the server ends a watch; drawn, so that clients do not all
reconnect at once."""
MOST_SHOWN_CHARS = 253
"""The longest name that Kubernetes allows."""
_REFUSALS = frozenset({Failure.DENIED, Failure.MISSING})
"""Failures with which a server says that it lists no such objects to this client."""
TURN = 64
"""Lines that are handled before other tasks of the event loop run."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Listed(Generic[T_co]):
    """All objects of the resource; an object that is not in it is gone."""

    objects: Mapping[Key, T_co]


@dataclass(frozen=True, slots=True)
class Changed(Generic[T_co]):
    """An object that is new or differs from before."""

    key: Key
    object: T_co


@dataclass(frozen=True, slots=True)
class Removed(Generic[T_co]):
    """An object that is gone, or left the scope, in the last version that the server told."""

    key: Key
    object: T_co


StoreEvent = Listed[T] | Changed[T] | Removed[T]
Listener = Callable[[StoreEvent[T]], None]


class DroppedObjects(Protocol[T_contra]):
    """Takes the objects that a reflector decodes and does not keep."""

    def begin(self) -> None:
        """A list begins."""
        ...

    def gather(self, found: T_contra) -> None:
        """An object of the list."""
        ...

    def end(self) -> None:
        """The list is complete: what was not in it is gone."""
        ...

    def change(self, found: T_contra) -> None:
        """An object came or changed."""
        ...

    def remove(self, key: Key) -> None:
        """An object is gone, or is kept from now on; it may never have been here."""
        ...


@dataclass(frozen=True, kw_only=True)  # slots would forbid Scope[NodeObject](…), see CPython 105936
class Scope(Generic[T]):
    """Which objects of a resource to follow: by namespace, by selectors, by `keep`.

    `query` holds `labelSelector` or `fieldSelector`. An object for which `keep` returns False is
    decoded, given to `dropped` and forgotten.
    """

    namespace: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    keep: Callable[[T], bool] = lambda _: True
    dropped: DroppedObjects[T] | None = None


@dataclass(slots=True)
class _Gathered(Generic[T]):
    """The pages of a list so far, and whether any object in them differs from the known one."""

    objects: dict[Key, T] = field(default_factory=dict)
    unreadable: dict[Key, str] = field(default_factory=dict)
    differs: bool = False


@dataclass(eq=False)
class Reflector(Generic[T]):
    """The current objects of a resource. One event loop owns it, so listeners must be quick."""

    client: KubeClient
    resource: Resource[T]
    _: KW_ONLY
    metrics: KubeMetrics
    scope: Scope[T] = field(default_factory=Scope)
    label: str = ""
    """What it is called in metrics and messages, where the plural of the resource is taken."""
    clock: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects that cannot be read, and those for which a listener raised an error."""
    _objects: dict[Key, T] = field(default_factory=dict)
    _gathered: _Gathered[T] = field(default_factory=_Gathered)
    _unreadable: dict[Key, str] = field(default_factory=dict)
    _unhandled: set[Key] = field(default_factory=set)
    """Objects for which a listener raised an error."""
    _listeners: list[Listener[T]] = field(default_factory=list)
    synced: bool = False
    """Whether all objects were listed once."""
    last_heard_s: float | None = None
    """When the API server last answered, by the clock."""
    trouble: KubeError | None = None
    """The current failure; None while calls succeed."""

    def __post_init__(self) -> None:
        self._path = collection_path(self.resource, self.scope.namespace)
        self._state = ListWatchState(self.rng.uniform)
        self._decoder = Decoder(self.resource)
        self._errors = self.errors.scope(ObjectKind.OBJECT, self.name)
        self.metrics.add_reflector(
            self.name,
            self.silent_s,
            objects=lambda: len(self._objects),
            unreadable=lambda: len(self._unreadable),
        )

    @property
    def objects(self) -> Mapping[Key, T]:
        """The objects known now; the view changes while other tasks run."""
        return MappingProxyType(self._objects)

    @property
    def name(self) -> str:
        """The plural name of the resource, or the label."""
        return self.label or self.resource.plural

    def silent_s(self) -> float:
        """Return the seconds since the last answer; NaN before the first."""
        return math.nan if self.last_heard_s is None else self.clock() - self.last_heard_s

    @property
    def is_answered(self) -> bool:
        """Whether all was listed, or the server lacks the kind, or refuses to list it."""
        refused = self.trouble is not None and self.trouble.failure in _REFUSALS
        return self.synced or refused

    def subscribe(self, listener: Listener[T]) -> None:
        """Call the listener with each change from now on, and at once with the listed objects."""
        self._listeners.append(listener)
        if self.synced:
            self._tell_list(listener, {})

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            question = self._state.question
            if isinstance(question, Watch):
                await asyncio.sleep(await self._follow_watch(question))
            else:
                await asyncio.sleep(await self._request_page(question))

    async def _request_page(self, question: ListPage) -> float:
        """Request a page; return the wait before the next request."""
        if not question.token:
            self.metrics.count_list(self.name)
            self._gathered = _Gathered()
            if self.scope.dropped is not None:
                self.scope.dropped.begin()
        call = page_call(self._path, self.scope.query, question.token)
        try:
            page = await self._decoded(self._decoder.page, await self.client.call(call))
        except KubeError as error:
            return self._request_failed(error, "list", 0.0)
        self._record_answer()
        self._collect(page)
        self._state.page_received(page.version, page.token)
        if not page.token:
            self._replace()
        return 0.0

    async def _follow_watch(self, question: Watch) -> float:
        """Follow changes until the watch ends; return the wait before the next request."""
        query = {
            **self.scope.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": question.version,
            "timeoutSeconds": str(self.rng.randint(*WATCH_S)),
        }
        call = Call(method="GET", path=self._path, query=query, timeout_s=LIST_S)
        began_s: float | None = None
        taken = 0
        try:
            async with self.client.lines(call, idle_s=IDLE_S) as lines:
                began_s = self.clock()
                self._record_answer()
                async for line in lines:
                    self._handle_event(await self._decoded(self._decoder.event, line))
                    taken += 1
                    if taken % TURN == 0:
                        await asyncio.sleep(0)
        except KubeError as error:
            return self._request_failed(error, "watch", self._watch_duration_s(began_s))
        self.metrics.count_reconnect(self.name, ENDED)
        return self._state.watch_ended(self._watch_duration_s(began_s))

    def _watch_duration_s(self, began_s: float | None) -> float:
        return 0.0 if began_s is None else self.clock() - began_s

    def _request_failed(self, error: KubeError, verb: str, stood_s: float) -> float:
        wait_s = self._state.request_failed(error, stood_s)
        self.metrics.count_reconnect(self.name, error.failure)
        if self.trouble is None or self.trouble.failure is not error.failure:
            self._log_failure(error, verb, wait_s)
        self.trouble = error
        return wait_s

    def _log_failure(self, error: KubeError, verb: str, wait_s: float) -> None:
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

    def _record_answer(self) -> None:
        self.last_heard_s = self.clock()
        if self.trouble is not None and not self.trouble.is_gone:
            _log.info("Kubernetes answers again", resource=self.name)
        self.trouble = None

    def _collect(self, page: DecodedPage[T]) -> None:
        """Compare a page with the known objects; comparing all at the end would block the loop."""
        unreadable = list(page.unreadable)
        for each in page.objects:
            try:
                self._gather(each)
            except Exception as error:  # noqa: BLE001 - an error of this object
                unreadable.append(_unusable(each, caught(error)))
        for found in unreadable:
            self._set_aside(found)
            self._gathered.unreadable[found.key] = found.why
            if (known := self._objects.get(found.key)) is not None:
                self._gathered.objects[found.key] = known

    def _gather(self, found: T) -> None:
        """Take up an object of a list."""
        key = key_of(found.metadata)
        if self.scope.keep(found):
            self._gathered.differs |= self._objects.get(key) != found
            self._gathered.objects[key] = found
        elif self.scope.dropped is not None:
            self.scope.dropped.gather(found)

    def _replace(self) -> None:
        """Replace the known objects by those of the complete list."""
        # Most repeated lists change nothing: listeners then need not compare everything.
        gathered, self._gathered = self._gathered, _Gathered()
        is_news = gathered.differs or len(gathered.objects) != len(self._objects) or not self.synced
        before, self._objects = self._objects, gathered.objects
        self._unreadable = gathered.unreadable
        self._clear_errors()
        self.synced = True
        if self.scope.dropped is not None:
            self.scope.dropped.end()
        if is_news:
            for listener in self._listeners:
                self._tell_list(listener, before)

    async def _decoded(self, decode: Callable[[bytes], T_answer], text: bytes) -> T_answer:
        try:
            return decode(text)
        except KubeError as error:
            return decode(await shallow(text, error))

    def _handle_event(self, event: Happened[T] | Bookmark) -> None:
        """Handle what one line of a watch tells."""
        self._record_answer()
        if isinstance(event, Bookmark):
            self._state.event_received(event.version)
        else:
            self._apply(event)

    def _apply(self, event: Happened[T]) -> None:
        found = event.object
        if isinstance(found, Unreadable):
            self._state.event_received(found.version)
            self._apply_unreadable(event.what, found)
            return
        self._state.event_received(found.metadata.resource_version)
        try:
            self._apply_readable(event.what, found)
        except Exception as error:  # noqa: BLE001 - an error of this object
            self._apply_unreadable(event.what, _unusable(found, caught(error)))

    def _apply_readable(self, what: Happening, found: T) -> None:
        key = key_of(found.metadata)
        is_kept = what != "DELETED" and self.scope.keep(found)
        if self.scope.dropped is not None:
            if is_kept or what == "DELETED":
                self.scope.dropped.remove(key)
            else:
                self.scope.dropped.change(found)
        was_set_aside = self._unreadable.pop(key, None) is not None or key in self._unhandled
        self._unhandled.discard(key)
        if not is_kept:
            self._forget(key, found)
        else:
            is_news = self._objects.get(key) != found
            self._objects[key] = found
            if is_news:
                self._notify(Changed(key, found))
        if what == "DELETED":
            self._errors.clear(_title(key))
        elif was_set_aside and key not in self._unhandled:
            self._errors.note(_title(key), None)

    def _apply_unreadable(self, what: Happening, found: Unreadable) -> None:
        """Remove the object if the server deleted it; else keep its last readable version."""
        if what == "DELETED":
            self._unreadable.pop(found.key, None)
            self._unhandled.discard(found.key)
            self._errors.clear(_title(found.key))
            self._forget(found.key)
            if self.scope.dropped is not None:
                self.scope.dropped.remove(found.key)
        else:
            self._set_aside(found)
            self._unreadable[found.key] = found.why

    def _forget(self, key: Key, last: T | None = None) -> None:
        known = self._objects.pop(key, None)
        if known is not None:
            self._notify(Removed(key, known if last is None else last))

    def _notify(self, what: Changed[T] | Removed[T]) -> None:
        """Tell the listeners, each of them whatever another one raises."""
        for listener in self._listeners:
            self._tell(listener, what)

    def _tell_list(self, listener: Listener[T], before: Mapping[Key, T]) -> None:
        """Tell a listener of all objects; `before` are those that it knew.

        An error belongs to an object. A list that a listener cannot take as a whole is told to it
        object by object, so that the others reach it.
        """
        if not isinstance(attempt(partial(listener, Listed(self.objects))), ObjectError):
            return
        for key in before.keys() - self._objects.keys():
            self._tell(listener, Removed(key, before[key]))
        for key, each in tuple(self._objects.items()):
            self._tell(listener, Changed(key, each))

    def _tell(self, listener: Listener[T], what: Changed[T] | Removed[T]) -> None:
        found = attempt(partial(listener, what))
        if isinstance(found, ObjectError):
            self._unhandled.add(what.key)
            self._errors.note(_title(what.key), found)

    def _clear_errors(self) -> None:
        """Forget the errors of objects that are gone, or can be read again; O(set aside)."""
        self._unhandled.intersection_update(self._objects)
        self._errors.retain({_title(key) for key in (*self._unreadable, *self._unhandled)})

    def _set_aside(self, found: Unreadable) -> None:
        """Note an unreadable object, once per reason; its last readable version stays."""
        if self._unreadable.get(found.key) != found.why:
            error = found.error or ObjectError(f"it cannot be read: {found.why}")
            self._errors.note(_title(found.key), error)


def _title(key: Key) -> str:
    return "/".join(each[:MOST_SHOWN_CHARS] for each in key if each)


def _unusable(found: KubeObject, error: ObjectError) -> Unreadable:
    """Return an object that was decoded, and for which the scope raised an error."""
    metadata = found.metadata
    why = f"handling it raised an error at {error.place}"
    return Unreadable(key_of(metadata), metadata.resource_version, why, error)
