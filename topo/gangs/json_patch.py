"""JSON patches (RFC 6902) that change only what differs in an object."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
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
        at = _member(at, part)
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


def fits(document: object, operations: Iterable[Operation]) -> bool:
    """Return whether the operations apply to the document one after the other, as RFC 6902 says.

    An object whose fields have other types than its schema gives them may come before the API
    server checks it. O(operations x depth, and the values that they add).
    """
    added: dict[Path, object] = {}
    removed: set[Path] = set()
    for each in operations:
        *above, last = _parts(each)
        at: object = document
        for depth, part in enumerate(above, 1):
            path = tuple(above[:depth])
            at = None if path in removed else added.get(path, _member(at, part))
        path = (*above, last)
        is_there = path in added or (path not in removed and isinstance(at, dict) and last in at)
        if each["op"] == "remove":
            if not is_there:
                return False
            added.pop(path, None)
            removed.add(path)
        elif isinstance(at, dict) or (isinstance(at, list) and last == "-"):
            added[path] = each["value"]
            removed.discard(path)
        else:
            return False
    return True


def _parts(operation: Operation) -> list[str]:
    path: str = operation["path"]
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _member(of: object, part: str | int) -> Any:
    """Return the member or element of that name or number; None if there is none."""
    if isinstance(of, dict):
        return of.get(part)
    if isinstance(of, list) and str(part).isdecimal() and int(part) < len(of):
        return of[int(part)]
    return None


def member_at(document: object, path: Path) -> Any:
    """Return what is at a path; None if there is nothing. O(its length)."""
    return reduce(_member, path, document)


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty one; the schema is checked elsewhere."""
    return value if isinstance(value, dict) else {}


def mappings(of: Mapping[str, Any], *names: str) -> list[Mapping[str, Any]]:
    """Return the members of these names that are objects, an empty one for each other."""
    return [found if isinstance(found := of.get(name), dict) else {} for name in names]


def sequence(value: object) -> Sequence[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def text(value: object) -> str:
    """Return the value if it is a text, else an empty one.

    What an object says of a name, a uid or a kind may be of any type before its schema is checked.
    A text can be a key; a list cannot, and one that is nested deep cannot even be shown.
    """
    return value if isinstance(value, str) else ""


def scalar_text(value: object) -> str:
    """Return a text as it is and a number as a text; of anything else an empty one.

    For what a custom resource may state either way, such as an amount.
    """
    return str(value) if isinstance(value, str | int | float) else ""


def texts(value: Mapping[str, object]) -> dict[str, str]:
    """Return the members that are texts, such as labels; O(members)."""
    return {name: each for name, each in value.items() if isinstance(each, str)}


def type_of(found: Mapping[str, Any]) -> tuple[str, str]:
    """Return the `apiVersion` and the `kind` of an object, empty where they are no texts."""
    return text(found.get("apiVersion")), text(found.get("kind"))
