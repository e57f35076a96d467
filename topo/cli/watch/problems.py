"""Filter and order of a topology document that show problems first.

Both are of the raw document, so that a picture and `-o json` show the same. It must be one that
reads as a `TopologyDocument`.
"""

from collections.abc import Mapping
from typing import Any

_READY = "Ready"


def only_problems(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document without Ready groups and nodes; counts stay as they are. O(vertices)."""
    return {**document, "groups": _not_ready(document.get("groups", ()))}


def worst_first(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with what is not Ready before its Ready siblings. O(vertices)."""
    return {**document, "groups": _sorted_worst_first(document.get("groups", ()))}


def _not_ready(children: Any) -> list[Any]:
    """Return the children that are not Ready or contain one that is not."""
    kept = []
    for child in children:
        below = _not_ready(child.get("child", ()))
        if below or child.get("status") != _READY or child.get("reasons"):
            kept.append({**child, "child": below} if "child" in child else child)
    return kept


def _sorted_worst_first(children: Any) -> list[Any]:
    shown = [
        {**child, "child": _sorted_worst_first(child["child"])} if "child" in child else child
        for child in children
    ]
    return sorted(shown, key=lambda child: child.get("status") == _READY)
