"""JSON patches (RFC 6902) that change only what differs in an object."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

Operation = Mapping[str, Any]
Path = tuple[str | int, ...]


def _operation(name: str, path: Path, **value: object) -> Operation:
    """Return an operation; its path is written as in RFC 6901."""
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return {"op": name, "path": "".join(f"/{part}" for part in parts), **value}


add = partial(_operation, "add")
"""Adds an element or member, its `value`, or replaces an existing member."""
remove = partial(_operation, "remove")
"""Removes an existing member."""


def entries(document: Mapping[str, Any], path: Path, wanted: Mapping[str, str]) -> list[Operation]:
    """Return the operations that set these members of the object at a path.

    Missing objects on the path are created.
    """
    at: Any = document
    for depth, part in enumerate(path):
        at = at[part] if isinstance(part, int) else at.get(part) if isinstance(at, dict) else None
        if at is None:
            missing: object = dict(wanted)
            for name in reversed(path[depth + 1 :]):
                missing = {name: missing}
            return [add(path[: depth + 1], value=missing)]
    present = mapping(at)
    return [
        add((*path, name), value=value)
        for name, value in wanted.items()
        if present.get(name) != value
    ]


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty one; the schema is checked elsewhere."""
    return value if isinstance(value, dict) else {}


def mappings(of: Mapping[str, Any], *names: str) -> list[Mapping[str, Any]]:
    """Return the members of these names that are objects, an empty one for each other."""
    return [found if isinstance(found := of.get(name), dict) else {} for name in names]


def sequence(value: object) -> Sequence[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()
