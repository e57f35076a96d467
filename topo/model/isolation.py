"""Isolation: an error that the handling of one object raises stays that object's.

An object is a gang, a request, a report, a hold, a pod: one of many, which somebody else writes.
`attempt` turns an error of its step into a value, so that the caller goes on with the others. Two
kinds of error pass, since they are of no single object: `SharedStateError`, after which the state
that all objects share may be wrong, and `MemoryError`.

A step that changes shared state must either not raise after its first change, or have its owner
raise `SharedStateError`.
"""

import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from topo.model.errors import SharedStateError
from topo.model.plain_text import plain

T = TypeVar("T")
MOST_REASON_CHARS = 300
MOST_TRACE_CHARS = 8_000
_ENDS_PROCESS = (SharedStateError, MemoryError)


@dataclass(frozen=True, slots=True)
class ObjectError:
    """An error of one object.

    `reason`: its type and message in one line, as plain text. `place`: the innermost line of code,
    as `file.py:12 in name`. `trace`: the end of its traceback, for a log.
    """

    reason: str
    place: str = field(default="", compare=False)
    trace: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        """Return the reason."""
        return self.reason

    @classmethod
    def of(cls, error: Exception) -> "ObjectError":
        """Describe an error. O(its traceback)."""
        frames = traceback.extract_tb(error.__traceback__)
        place = ""
        if frames:
            last = frames[-1]
            place = f"{last.filename.rpartition('/')[2]}:{last.lineno} in {last.name}"
        trace = "".join(traceback.format_exception(error, chain=True))
        return cls(
            plain(_title(error)[:MOST_REASON_CHARS]),
            place,
            trace[-MOST_TRACE_CHARS:],
        )


def attempt(step: Callable[[], T]) -> T | ObjectError:
    """Return the result of a step that is of one object, or the error that it raised."""
    try:
        return step()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is of this object
        return caught(error)


async def attempt_async(work: Awaitable[T]) -> T | ObjectError:
    """Return the result of awaited work that is of one object, or the error that it raised."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - whatever it is, it is of this object
        return caught(error)


def caught(error: Exception) -> ObjectError:
    """Return an error of one object as a value. Raises again what is of no single object."""
    is_shared = isinstance(error, _ENDS_PROCESS) or (
        isinstance(error, ExceptionGroup) and error.subgroup(_ENDS_PROCESS) is not None
    )
    if is_shared:
        raise error
    return ObjectError.of(error)


@contextmanager
def owned_state(name: str) -> Iterator[None]:
    """Raise `SharedStateError` for what a change of the state of this name raises."""
    try:
        yield
    except _ENDS_PROCESS:
        raise
    except Exception as error:
        raise SharedStateError(f"{name}: {_title(error)}") from error


def _title(error: Exception) -> str:
    try:
        message = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an error that cannot even be shown
        message = "its message cannot be shown"
    return f"{type(error).__name__}: {message}".removesuffix(": ")
