"""How a patch changes an object: merge, strategic merge, JSON patch; all pure.

Sources: RFC 7386 (merge patch), RFC 6902 (JSON patch), kubernetes.io, "Update API Objects in Place
Using kubectl patch" (strategic merge) and the patch keys of the types of Kubernetes v1.36.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
MERGE_KEYS: Mapping[str, str] = {
    "schedulingGates": "name",
    "conditions": "type",
    "webhooks": "name",
    "containers": "name",
    "ownerReferences": "uid",
}
"""Lists that strategic merge and apply change element by element, and the key of an element."""


def merge(document: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """Change a document in place as RFC 7386 says: null removes, a list replaces a list."""
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif isinstance(value, dict):
            merge(_object(document, key), value)
        else:
            document[key] = copy.deepcopy(value)


def merge_strategically(document: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """Change a document in place: null removes, elements of keyed lists are merged by their keys.

    `{"$patch": "delete", <key>: …}` removes an element.
    """
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif isinstance(value, dict):
            merge_strategically(_object(document, key), value)
        elif key in MERGE_KEYS:
            document[key] = merged_list(document.get(key), value, MERGE_KEYS[key])
        else:
            document[key] = copy.deepcopy(value)


def merged_list(
    present: Iterable[dict[str, Any]] | None, changes: Iterable[dict[str, Any]], by: str
) -> list[dict[str, Any]]:
    """Return the elements of a keyed list after these changes; new ones come last."""
    found = {each[by]: copy.deepcopy(each) for each in present or ()}
    for each in changes:
        if each.get("$patch") == "delete":
            found.pop(each[by], None)
        else:
            merge_strategically(found.setdefault(each[by], {}), each)
    return list(found.values())


def _object(document: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the object at a key, a new one where there is none."""
    if not isinstance(document.get(key), dict):
        document[key] = {}
    found: dict[str, Any] = document[key]
    return found


def apply_operations(document: dict[str, Any], operations: Iterable[Mapping[str, Any]]) -> None:
    """Change a document in place by `add`, `remove`, `replace` and `test` of RFC 6902.

    Raises `ValueError` for an operation that does not apply, `LookupError` for an absent path.
    """
    for each in operations:
        *above, last = _pointer(each["path"])
        at: Any = document
        for part in above:
            at = at[int(part)] if isinstance(at, list) else at[part]
        _apply_one(at, last, each)


def _apply_one(at: Any, last: str, operation: Mapping[str, Any]) -> None:
    name, value = operation["op"], copy.deepcopy(operation.get("value"))
    place: Any = (len(at) if last == "-" else int(last)) if isinstance(at, list) else last
    match name:
        case "add" if isinstance(at, list):
            at.insert(place, value)
        case "add":
            at[place] = value
        case "replace":
            if isinstance(at, dict) and place not in at:
                raise KeyError(place)
            at[place] = value
        case "remove":
            del at[place]
        case "test":
            if at[place] != value:
                raise ValueError(f"{operation['path']} has another value")
        case _:
            raise ValueError(f"{name!r} is not an operation")


def _pointer(path: str) -> list[str]:
    """Return the parts of an RFC 6901 pointer."""
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not a path of a field")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
