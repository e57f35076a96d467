"""The first mistake that pydantic found in a body, within limits of time."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails

MAX_MISTAKES = 1000
"""Of more none is shown: pydantic lists all or none, 1 µs each, in a call that stops all threads.
A body of 1 MiB may have a million."""


def listed_mistakes(error: ValidationError) -> list[ErrorDetails]:
    """Return the mistakes, without what stands there; none where there are too many to list."""
    if error.error_count() > MAX_MISTAKES:
        return []
    return error.errors(include_url=False, include_context=False)
