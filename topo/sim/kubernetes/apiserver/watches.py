"""What a watch tells: the changes of a collection since a version, as lines of JSON.

An object that a selector no longer means is told as deleted, one that it newly means as added, as
kube-apiserver does. A watch from a forgotten version is told `ERROR` with 410 and ends.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from topo.sim.kubernetes.apiserver.resources import ObjectPath
from topo.sim.kubernetes.apiserver.selectors import Selector, selector_of
from topo.sim.kubernetes.apiserver.statuses import expired
from topo.sim.kubernetes.apiserver.store import Happening, ObjectChange, ObjectStore


def lines_since(
    store: ObjectStore, place: ObjectPath, query: Mapping[str, str], version: int
) -> Iterator[bytes]:
    """Yield the lines of a watch that begins after a version. Raises `RefusedError` (400)."""
    changes = store.since(version)
    if changes is None:
        yield line("ERROR", expired(f"too old resource version: {version}").document)
        return
    chosen = selector_of(query)
    for change in changes:
        if change.what == "BOOKMARK":
            if query.get("allowWatchBookmarks") == "true":
                yield line("BOOKMARK", {"kind": place.kind.kind, **change.document})
        elif place.covers(change.collection):
            what = _told(change, chosen)
            if what is not None:
                yield line(what, change.document)


def line(what: str, document: Mapping[str, Any]) -> bytes:
    """Return a line of a watch."""
    return orjson.dumps({"type": what, "object": document}, option=orjson.OPT_APPEND_NEWLINE)


def _told(change: ObjectChange, chosen: Selector) -> Happening | None:
    """Return what a watch with a selector tells of a change; None for nothing."""
    was = change.previous is not None and chosen(change.previous)
    is_now = change.what != "DELETED" and chosen(change.document)
    if is_now:
        return "MODIFIED" if was else "ADDED"
    return "DELETED" if was else None
