"""JSON patches (RFC 6902) that change only what differs in an object."""

from collections.abc import Mapping, Sequence
from typing import Any

Operation = Mapping[str, Any]
Path = tuple[str | int, ...]


def pointer(path: Path) -> str:
    """Return a path as RFC 6901 writes it."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def add(path: Path, value: object) -> Operation:
    """Return the operation that adds an element or member, or replaces an existing member."""
    return {"op": "add", "path": pointer(path), "value": value}


def remove(path: Path) -> Operation:
    """Return the operation that removes an existing member."""
    return {"op": "remove", "path": pointer(path)}


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
            return [add(path[: depth + 1], missing)]
    present = mapping(at)
    return [
        add((*path, name), value) for name, value in wanted.items() if present.get(name) != value
    ]


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty one; the schema is checked elsewhere."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> Sequence[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()
