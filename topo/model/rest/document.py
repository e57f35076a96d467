"""The types behind the documents of the API: dictionaries, request bodies, notes on fields.

A document is defined once. The service writes it as a plain dictionary that mypy checks, a client
checks what it received with `validator`, and `/openapi.json` and the page's types are generated
from it. What the service itself passes around as a value (a warning, a report) is a frozen
dataclass. orjson writes both kinds as they are.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class Body(BaseModel):
    """A JSON object that callers send: unknown keys and numbers in quotes are refused."""

    # A validator is built at its first use: a command line needs few of them and starts sooner.
    model_config = ConfigDict(frozen=True, defer_build=True, extra="forbid", strict=True)


def build_body_validators(kind: type[Body] = Body) -> None:
    """Build the validators of all bodies that are imported, so that no caller waits for it."""
    for below in kind.__subclasses__():
        below.model_rebuild()
        build_body_validators(below)


validator: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Returns the validator of a document type, which is built at the first call."""


def default(value: Any) -> Any:
    """Return the note of what a reader assumes where an earlier release does not send the key."""
    return Field(default=value)


def one_of(*words: str) -> Any:
    """Return the note that publishes the words of a text; readers accept later releases' words."""
    return Field(json_schema_extra={"enum": list(words)})
