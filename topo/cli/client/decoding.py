"""Answers of a master decoded as documents of its API; a refusal names the wrong field."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from topo.cli import value_count
from topo.cli.exit_codes import CliError, Exit
from topo.model.errors import Refusal
from topo.model.rest.document import validator
from topo.model.rest.service import Problem

_D = TypeVar("_D")


def parse_json(text: bytes | str) -> Any:
    """Parse a JSON text. Raises `orjson.JSONDecodeError`; `CliError` for too many values."""
    content = text.encode() if isinstance(text, str) else text
    if value_count.has_too_many_values(content):
        what = f"the answer has more than {value_count.MAX_VALUES:,} values"
        fix = "is this the address of a topo-master? give it with --master or TOPO_MASTER"
        raise CliError(Exit.UNREACHABLE, Refusal(what, "the answer", fix))
    with _collector_paused():
        return orjson.loads(content)


def decode(kind: type[_D], value: Any) -> _D:
    """Return the value as a document of that kind; raise `CliError` where it is not one."""
    document = decode_or_refuse(kind, value)
    if isinstance(document, Refusal):
        what = f"the answer is not the document expected: {document.what}"
        raise CliError(Exit.UNREACHABLE, Refusal(what, document.where, document.fix))
    return document


def decode_or_refuse(kind: type[_D], value: Any) -> _D | Refusal:
    """Return the value as a document of that kind, or the refusal with its wrong field. O(size).

    Keys that are not known here are ignored, so that a `topo` and a master of neighbouring
    releases understand each other.
    """
    try:
        with _collector_paused():
            document: _D = validator(kind).validate_python(value, extra="ignore")
            return document
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        return Refusal(first["msg"], where, "use a topo and a topo-master of the same release")


def problem_of(body: bytes) -> Problem:
    """Return the problem that the body of an error is; an empty one where it is something else."""
    try:
        found = decode_or_refuse(Problem, parse_json(body))
    except orjson.JSONDecodeError:
        found = decode_or_refuse(Problem, {})
    return decode(Problem, {}) if isinstance(found, Refusal) else found


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector: a document is new objects without cycles.

    While a large one is made the collector would visit them all several times, which takes as
    long as making them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
