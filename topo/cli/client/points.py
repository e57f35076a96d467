"""Points in a master's history as the API writes them: `7`, or with the run that counted it."""

import re
from collections.abc import Mapping
from typing import Any

_POINT = re.compile(r"[0-9]{1,18}(?:\.[0-9a-f]{8})?", re.ASCII)


def is_point(text: str) -> bool:
    """Whether the text is a generation such as `7` or `7.5e0c21af`; see docs/api.md."""
    return _POINT.fullmatch(text) is not None


def point(generation: int, run: str | None) -> str:
    """The generation with its run; a master of an older release names none."""
    return f"{generation}.{run}" if run else str(generation)


def point_of(document: Mapping[str, Any]) -> str:
    """The point that a document of `/v1/topology` shows."""
    return point(document["generation"], document.get("run"))


def before(text: str) -> str:
    """The point one generation earlier in the same run, at least generation 0."""
    number, _, run = text.partition(".")
    return point(max(int(number) - 1, 0), run)


def resumed(last: str | None, now: str) -> str:
    """Where to go on: after what was seen last if the master still counts on from there.

    `now` is the master's present. Another run counts other changes under the same numbers, and a
    lower number without a run is another run too.
    """
    if last is None:
        return now
    seen, _, seen_run = last.partition(".")
    there, _, run = now.partition(".")
    return last if seen_run == run and int(seen) <= int(there) else now
