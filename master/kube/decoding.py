"""Decodes answers of the API server to slim objects: one object, a page of a list, a watch event.

An object of a list or watch that cannot be read is reported by its key; the others are decoded. So
is one whose reading raises an error of this program.
"""

from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

import orjson
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from master.kube.errors import Failure, KubeError, StatusObject
from master.kube.objects import Key, KubeObject, Resource
from topo.model.isolation import ObjectError, caught

T = TypeVar("T", bound=KubeObject)
T_item = TypeVar("T_item")
M = TypeVar("M")

Happening = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that exists but does not have the shape of its resource.

    `error` is there if reading it raised one that says nothing of its shape.
    """

    key: Key
    version: str
    why: str
    error: ObjectError | None = None


@dataclass(frozen=True, slots=True)
class DecodedPage(Generic[T]):
    """A page of a list. `token` asks for the next page; it is empty on the last."""

    version: str
    token: str
    objects: tuple[T, ...]
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True)
class Happened(Generic[T]):
    """A watch event: an object was added, modified or deleted."""

    what: Happening
    object: T | Unreadable


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The version up to which a watch has no more events."""

    version: str


class _Versioned(BaseModel):
    """The metadata of an object or a list; everything may be missing."""

    name: str = ""
    namespace: str = ""
    version: str = Field("", alias="resourceVersion")
    token: str = Field("", alias="continue")


class _Any(BaseModel):
    metadata: _Versioned = Field(default_factory=_Versioned)


class _ListOf(BaseModel, Generic[T_item]):
    kind: str
    metadata: _Versioned
    items: list[T_item] | None


class _Told(BaseModel, Generic[T_item]):
    type: Happening
    object: T_item


class _Marked(BaseModel):
    type: Literal["BOOKMARK"]
    object: _Any


class _Failed(BaseModel):
    type: Literal["ERROR"]
    object: StatusObject


class Decoder(Generic[T]):
    """Decodes the lists and watches of one resource; raises `KubeError` for other answers.

    Those include a text in which a single object is nested too deep (`reading.shallow`).
    """

    def __init__(self, resource: Resource[T]) -> None:
        model: Any = resource.model
        self._kind = f"{resource.kind}List"
        self._object: TypeAdapter[T] = TypeAdapter(model)
        self._list: TypeAdapter[_ListOf[T]] = TypeAdapter(_ListOf[model])
        self._raw_list = TypeAdapter(_ListOf[Any])
        told = Annotated[_Told[model] | _Marked | _Failed, Field(discriminator="type")]
        self._event: TypeAdapter[_Told[T] | _Marked | _Failed] = TypeAdapter(told)
        self._raw_event = TypeAdapter(_Told[Any])

    def page(self, body: bytes) -> DecodedPage[T]:
        """Return a page of a list. O(bytes); 250 nodes of 15 kB take about 20 ms."""
        try:
            found = self._list.validate_json(body)
        except ValidationError as error:
            return self._page_by_one(body, _why(error))
        except Exception as error:  # noqa: BLE001 - an error of one object
            return self._page_by_one(body, caught(error).reason)
        self._check(found)
        return DecodedPage(found.metadata.version, found.metadata.token, tuple(found.items or ()))

    def _page_by_one(self, body: bytes, why: str) -> DecodedPage[T]:
        """Decode the page object by object, because at least one object cannot be read."""
        try:
            found = self._raw_list.validate_json(body)
        except ValidationError:
            raise malformed(f"the list cannot be read: {why}") from None
        self._check(found)
        read = [self._one(item) for item in found.items or ()]
        return DecodedPage(
            found.metadata.version,
            found.metadata.token,
            tuple(each for each in read if not isinstance(each, Unreadable)),
            tuple(each for each in read if isinstance(each, Unreadable)),
        )

    def _check(self, found: _ListOf[Any]) -> None:
        if found.kind != self._kind or not found.metadata.version:
            what = f"the answer is of kind {found.kind[:80]!r}, and a {self._kind} was asked for"
            raise malformed(what)

    def event(self, line: bytes) -> Happened[T] | Bookmark:
        """Return the event of a line of a watch. Raises the `KubeError` of an `ERROR` event."""
        try:
            event = self._event.validate_json(line)
        except ValidationError as error:
            return self._odd_event(line, _why(error))
        except Exception as error:  # noqa: BLE001 - an error of this object
            return self._odd_event(line, caught(error).reason)
        if isinstance(event, _Failed):
            raise event.object.error()
        if isinstance(event, _Marked):
            return Bookmark(event.object.metadata.version)
        return Happened(event.type, event.object)

    def _odd_event(self, line: bytes, why: str) -> Happened[T]:
        try:
            event = self._raw_event.validate_python(orjson.loads(line))
        except ValueError:
            raise malformed(f"a line of the watch cannot be read: {why}") from None
        one = self._one(event.object)
        if isinstance(one, Unreadable) and not one.version:
            raise malformed(f"a line of the watch cannot be read: {one.why}")
        return Happened(event.type, one)

    def _one(self, item: object) -> T | Unreadable:
        try:
            return self._object.validate_python(item)
        except ValidationError as error:
            return unreadable(item, _why(error))
        except Exception as error:  # noqa: BLE001 - an error of this object
            found = caught(error)
            return unreadable(item, f"reading it raised an error at {found.place}", found)


def unreadable(item: object, why: str, error: ObjectError | None = None) -> Unreadable:
    """Return an object of a list or watch as one that cannot be read."""
    try:
        known = _Any.model_validate(item).metadata
    except ValidationError:
        known = _Versioned()
    return Unreadable((known.namespace, known.name), known.version, why, error)


def decode(model: type[M], body: bytes) -> M:
    """Return one object. Raises `KubeError` (`MALFORMED`) naming the first field that is wrong."""
    adapter: TypeAdapter[M] = _adapter(cast("Any", model))
    try:
        decoded: M = adapter.validate_json(body)
    except ValidationError as error:
        raise malformed(f"the answer is not understood at {_why(error)}") from None
    return decoded


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def malformed(what: str) -> KubeError:
    """Return the error for an answer that cannot be read; retrying does not help."""
    return KubeError(what, status=HTTPStatus.OK, failure=Failure.MALFORMED)


def _why(error: ValidationError) -> str:
    """Return the path and type of the first error, without any content of the answer."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the whole"
    return f"{place[:200]}: {first['type']}"
