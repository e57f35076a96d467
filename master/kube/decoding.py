"""Answers of the API server → slim objects; what is wrong with one object costs that one alone."""

from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

import orjson
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from master.kube.errors import Failure, KubeError, StatusObject
from master.kube.objects import Key, KubeObject, Resource

T = TypeVar("T", bound=KubeObject)
T_item = TypeVar("T_item")

Happening = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that is there and is not of the shape that it should have."""

    key: Key
    version: str
    why: str


@dataclass(frozen=True, slots=True)
class DecodedPage(Generic[T]):
    """Some of a list. `token` asks for the next page, empty on the last."""

    version: str
    token: str
    objects: tuple[T, ...]
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True)
class Happened(Generic[T]):
    """What a watch tells of one object."""

    what: Happening
    object: T | Unreadable


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing happened up to this version."""

    version: str


class _Versioned(BaseModel):
    """The metadata of anything, as far as it goes."""

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
    """Reads the lists and watches of one resource. Raises `KubeError` for what is none of them."""

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
        """A page of a list. O(bytes); 250 nodes of 15 kB take about 20 ms."""
        try:
            found = self._list.validate_json(body)
        except ValidationError as error:
            return self._page_by_one(body, error)
        self._check(found)
        return DecodedPage(found.metadata.version, found.metadata.token, tuple(found.items or ()))

    def _page_by_one(self, body: bytes, error: ValidationError) -> DecodedPage[T]:
        """The same, where at least one object is not as it should be."""
        try:
            found = self._raw_list.validate_json(body)
        except ValidationError:
            raise _malformed(f"the list cannot be read: {_why(error)}") from None
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
            raise _malformed(what)

    def event(self, line: bytes) -> Happened[T] | Bookmark:
        """What a line of a watch tells. Raises the `KubeError` of an `ERROR` event."""
        try:
            event = self._event.validate_json(line)
        except ValidationError as error:
            return self._odd_event(line, error)
        if isinstance(event, _Failed):
            raise event.object.error()
        if isinstance(event, _Marked):
            return Bookmark(event.object.metadata.version)
        return Happened(event.type, event.object)

    def _odd_event(self, line: bytes, error: ValidationError) -> Happened[T]:
        try:
            event = self._raw_event.validate_python(orjson.loads(line))
        except ValueError:
            raise _malformed(f"a line of the watch cannot be read: {_why(error)}") from None
        one = self._one(event.object)
        if isinstance(one, Unreadable) and not one.version:
            raise _malformed(f"a line of the watch cannot be read: {one.why}")
        return Happened(event.type, one)

    def _one(self, item: object) -> T | Unreadable:
        try:
            return self._object.validate_python(item)
        except ValidationError as error:
            try:
                known = _Any.model_validate(item).metadata
            except ValidationError:
                known = _Versioned()
            return Unreadable((known.namespace, known.name), known.version, _why(error))


def _malformed(what: str) -> KubeError:
    return KubeError(what, failure=Failure.MALFORMED)


def _why(error: ValidationError) -> str:
    """Where the first of the mistakes is and what it is; nothing of what was sent."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the whole"
    return f"{place[:200]}: {first['type']}"
