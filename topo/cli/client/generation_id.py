"""Generations as the API writes them: `7`, or with the run of the master that counted it."""

import re
from collections.abc import Mapping
from typing import Any

_PATTERN = re.compile(r"[0-9]{1,18}(?:\.[0-9a-f]{8})?", re.ASCII)


def is_generation_id(text: str) -> bool:
    """Whether the text is a generation such as `7` or `7.5e0c21af`; see docs/api.md."""
    return _PATTERN.fullmatch(text) is not None


def generation_id(generation: int, run: str | None) -> str:
    """The generation with its run; a master of an older release names none."""
    return f"{generation}.{run}" if run else str(generation)


def id_of(document: Mapping[str, Any]) -> str:
    """The generation of a document of `/v1/topology`, which is not yet checked."""
    return generation_id(document["generation"], document.get("run"))


def before(text: str) -> str:
    """One generation earlier in the same run, at least generation 0."""
    number, _, run = text.partition(".")
    return generation_id(max(int(number) - 1, 0), run)


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
