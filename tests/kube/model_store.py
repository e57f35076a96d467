"""What a reflector would know of the model of the API server, at once or late."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import orjson
from pydantic import TypeAdapter

from master.kube.objects import Key, KubeObject, Resource, collection_path
from master.kube.reflector import Changed, Listed, Listener, Removed, StoreEvent
from tests.kube.api_model import ApiModel, namespace_of

T = TypeVar("T", bound=KubeObject)


class ModelStore(Generic[T]):
    """Follows one resource of a model; `delay_s` is how late it shows what changed.

    Add it before the objects. One that is not `synced` is of a kind that the server lacks. A
    document that is not `chosen`, as by selectors, is not there.
    """

    def __init__(
        self,
        api: ApiModel,
        resource: Resource[T],
        *,
        delay_s: float = 0.0,
        synced: bool = True,
        chosen: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        self.resource, self._chosen = resource, chosen
        self.synced = synced
        self._delay_s = delay_s
        self._objects: dict[Key, T] = {}
        self._listeners: list[Listener[T]] = []
        self._news: deque[tuple[str, str, dict[str, Any] | None]] = deque()
        self._read = TypeAdapter(resource.model)
        for (at, name), stored in api.objects.items():
            self._show(at, name, stored.document)
        api.watches.append(self._changed)

    @property
    def objects(self) -> Mapping[Key, T]:
        return self._objects

    def subscribe(self, listener: Listener[T]) -> None:
        self._listeners.append(listener)
        if self.synced:
            listener(Listed(self.objects))

    def list_anew(self) -> None:
        """What a reflector tells after the watch was lost, or when the kind came."""
        self.synced = True
        self._tell(Listed(self.objects))

    def _changed(self, at: str, name: str, document: dict[str, Any] | None) -> None:
        if self._delay_s:  # timers of one time may end in any order, and news may not
            self._news.append((at, name, document))
            loop = asyncio.get_running_loop()
            loop.call_later(self._delay_s, lambda: self._show(*self._news.popleft()))
        else:
            self._show(at, name, document)

    def _show(self, at: str, name: str, document: dict[str, Any] | None) -> None:
        namespace = namespace_of(at)
        if at != collection_path(self.resource, namespace):
            return
        key = (namespace, name)
        if document is None:
            if (gone := self._objects.pop(key, None)) is not None:
                self._tell(Removed(key, gone))
            return
        found: T = self._read.validate_json(orjson.dumps(document))
        if not self._chosen(document):
            if self._objects.pop(key, None) is not None:
                self._tell(Removed(key, found))
            return
        known, self._objects[key] = self._objects.get(key), found
        if known != found:
            self._tell(Changed(key, found))

    def _tell(self, event: StoreEvent[T]) -> None:
        if self.synced:
            for listener in self._listeners:
                listener(event)
