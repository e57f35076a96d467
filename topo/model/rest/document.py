"""The base of all documents, and what a field may say about itself beyond its type."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    """A JSON object of the API, immutable once read.

    The service sends every key, and the published schema says so. A default is what a reader
    assumes where a service of an earlier release does not send the key. Keys that are not known
    here come from a later release and are ignored, unless the reader passes `extra="forbid"`.
    """

    # A validator is built at its first use: a command line needs few of them and starts sooner.
    model_config = ConfigDict(
        frozen=True, defer_build=True, json_schema_serialization_defaults_required=True
    )


class Body(Document):
    """A JSON object that callers send: unknown keys and numbers in quotes are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


def build_validators(kind: type[Document] = Document) -> None:
    """Builds the validators of all documents that are imported, so that no caller waits for it."""
    for below in kind.__subclasses__():
        below.model_rebuild()
        build_validators(below)


def optional(default: Any) -> Any:
    """The default of a key that is absent from an answer where it has this value."""
    return Field(default=default, exclude_if=lambda value: value == default)


def one_of(*words: str) -> Any:
    """Publishes the words that a text may be; a reader takes those of a later release, too."""
    return Field(json_schema_extra={"enum": list(words)})
