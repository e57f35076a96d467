"""Server-side apply: which manager owns which field, and what an apply changes.

An apply sets the fields that it names, takes away those that this manager applied before and names
no more, and is refused where it changes a field of another manager without `force`. As much of it
is here as the product uses: labels, annotations, parts of a status and elements of lists with keys
are fields of their own, every other top-level part (`spec`) is one field. Source: kubernetes.io,
"Server-Side Apply".
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topo.sim.kubernetes.apiserver.merging import MERGE_KEYS, merged_list

FieldPath = tuple[str, ...]
_MAPS = ("labels", "annotations")
_IDENTITY = ("apiVersion", "kind")
_KEYED = ("status", "admissionChecks")
"""A list of a status whose elements have names."""


@dataclass(slots=True)
class Stored:
    """One object, and the managers that applied each of its fields."""

    document: dict[str, Any]
    owners: dict[FieldPath, set[str]] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        """A copy of its labels."""
        return dict(self.document["metadata"].get("labels", {}))

    @property
    def managed_fields(self) -> list[dict[str, str]]:
        """Who applied fields, as `metadata.managedFields` names them."""
        names = sorted({manager for owners in self.owners.values() for manager in owners})
        return [{"manager": name, "operation": "Apply"} for name in names]


def fields(document: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the fields of a document that managers own, and their values."""
    for part, value in document.items():
        if part == "metadata":
            for kind in _MAPS:
                yield from ((("metadata", kind, key), v) for key, v in value.get(kind, {}).items())
        elif part in MERGE_KEYS:
            yield from (((part, each[MERGE_KEYS[part]]), each) for each in value)
        elif part == "status":
            yield from _fields_of_status(value)
        elif part not in _IDENTITY:
            yield (part,), value


def _fields_of_status(status: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Any]]:
    for part, value in status.items():
        if ("status", part) == _KEYED:
            yield from (((*_KEYED, each["name"]), each) for each in value)
        else:
            yield ("status", part), value


def own_all(stored: Stored, manager: str) -> None:
    """Record one manager as the owner of all fields."""
    stored.owners = {path: {manager} for path, _ in fields(stored.document)}


def conflicts(stored: Stored, wanted: Mapping[str, Any], manager: str) -> list[FieldPath]:
    """Return the fields that an apply would change and that others applied."""
    now = dict(fields(stored.document))
    return [
        path
        for path, value in fields(wanted)
        if path in now
        and _changed(now[path], value, path) != now[path]
        and stored.owners.get(path, set()) - {manager}
    ]


def apply(stored: Stored, wanted: Mapping[str, Any], manager: str) -> None:
    """Set the fields of an apply and remove those that the manager no longer applies."""
    asked, now = dict(fields(wanted)), dict(fields(stored.document))
    for path, owners in list(stored.owners.items()):
        if manager in owners and path not in asked:
            owners.discard(manager)
            if not owners:
                del stored.owners[path]
                set_field(stored.document, path, None)
    for path, value in asked.items():
        changed = _changed(now.get(path), value, path)
        if now.get(path) != changed:
            stored.owners[path] = set()
            set_field(stored.document, path, changed)
        stored.owners.setdefault(path, set()).add(manager)


def _changed(now: Any, value: Any, path: FieldPath) -> Any:
    """Return the value of a field after an apply: an element of a keyed list keeps what it has."""
    if path[0] in MERGE_KEYS and now is not None:
        return merged_list([now], [value], MERGE_KEYS[path[0]])[0]
    return value


def set_field(document: dict[str, Any], path: FieldPath, value: Any) -> None:
    """Set the field at a path; None removes it."""
    *above, last = path
    if above and above[0] in MERGE_KEYS:
        name = above[0]
        document[name] = _with_element(document.get(name, []), MERGE_KEYS[name], last, value)
        return
    if tuple(above) == _KEYED:
        status = document.setdefault(_KEYED[0], {})
        status[_KEYED[1]] = _with_element(status.get(_KEYED[1], []), "name", last, value)
        return
    for part in above:
        document = document.setdefault(part, {})
    if value is None:
        document.pop(last, None)
    else:
        document[last] = copy.deepcopy(value)


def _with_element(there: Sequence[Any], by: str, key: str, value: Any) -> list[Any]:
    """Return a keyed list in which the element of this key is the value; None removes it."""
    if value is None:
        return [each for each in there if each[by] != key]
    found = [value if each[by] == key else each for each in there]
    return found if any(each[by] == key for each in there) else [*found, value]
