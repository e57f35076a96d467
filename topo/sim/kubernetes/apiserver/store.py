"""The objects of a simulated API server: their versions, and what changed since a version.

Every change of any object raises one version, as in etcd. The last `MAX_CHANGES` are remembered for
watches; a watch from an older version gets 410, as after a compaction. Writes whose result equals
what is stored change nothing and raise no version.

Pure: the clock and the source of uids are given. A change costs O(size of the object).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from topo.sim.kubernetes.apiserver import field_owners
from topo.sim.kubernetes.apiserver.field_owners import Stored
from topo.sim.kubernetes.apiserver.statuses import already_exists, conflict, not_found

MAX_CHANGES = 20_000
Happening = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
Key = tuple[str, str]
"""The path of the collection, and the name."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """What happened at a version: the object after it, and before it where it existed."""

    version: int
    what: Happening
    collection: str
    name: str
    document: Mapping[str, Any]
    previous: Mapping[str, Any] | None = None


@dataclass(slots=True)
class ObjectStore:
    """Holds all objects; `now` returns the time as RFC 3339, `new_uid` a uid that is new."""

    now: Callable[[], str]
    new_uid: Callable[[], str]
    version: int = 100
    oldest: int = 100
    """The changes up to this version are forgotten."""
    objects: dict[Key, Stored] = field(default_factory=dict)
    listeners: list[Callable[[ObjectChange], None]] = field(default_factory=list)
    """Called with each change at once."""
    _changes: list[ObjectChange] = field(default_factory=list)
    """From version `oldest + 1` on, without a gap."""
    _snapshots: dict[Key, Mapping[str, Any]] = field(default_factory=dict)

    def find(self, collection: str, name: str) -> Stored:
        """Return an object. Raises `RefusedError` (404)."""
        stored = self.objects.get((collection, name))
        if stored is None:
            raise not_found(f'{collection.rpartition("/")[2]} "{name}"')
        return stored

    def create(self, collection: str, document: dict[str, Any], manager: str) -> Stored:
        """Add an object with a uid and a time of creation. Raises `RefusedError` (409)."""
        metadata = document["metadata"]
        name = metadata["name"]
        if (collection, name) in self.objects:
            raise already_exists(f'{collection.rpartition("/")[2]} "{name}"')
        metadata |= {"uid": self.new_uid(), "creationTimestamp": self.now()}
        stored = Stored(document)
        field_owners.own_all(stored, manager)
        self.objects[collection, name] = stored
        self.record(collection, name)
        return stored

    def require(self, stored: Stored, uid: str | None, version: str | None) -> None:
        """Raise `RefusedError` (409) where the object is not of this uid and version."""
        metadata = stored.document["metadata"]
        if uid and uid != metadata["uid"]:
            message = f"Precondition failed: UID in precondition: {uid}, "
            raise conflict(f"{message}UID in object meta: {metadata['uid']}")
        if version and version != metadata["resourceVersion"]:
            message = "the object has been modified; please apply your changes to the latest "
            raise conflict(f"Operation cannot be fulfilled: {message}version and try again")

    def delete(self, collection: str, name: str) -> Stored:
        """Remove an object; one with finalizers is marked and stays until they are gone."""
        stored = self.find(collection, name)
        metadata = stored.document["metadata"]
        if not metadata.get("finalizers"):
            self.forget(collection, name)
        elif "deletionTimestamp" not in metadata:
            metadata["deletionTimestamp"] = self.now()
            self.record(collection, name)
        return stored

    def forget(self, collection: str, name: str) -> None:
        """Remove an object whatever it waits for."""
        key = (collection, name)
        stored, previous = self.objects.pop(key), self._snapshots.pop(key, None)
        self._append("DELETED", key, self._stamped(stored), previous)

    def record(self, collection: str, name: str) -> bool:
        """Give an object that was written a version, and tell who listens.

        Return False, and give none, where nothing differs from the version before. One that was
        marked for deletion and has no finalizers left is removed.
        """
        key = (collection, name)
        stored, previous = self.objects[key], self._snapshots.get(key)
        metadata = stored.document["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            self.forget(collection, name)
            return True
        if previous is not None and stored.document == previous:
            return False
        snapshot = self._stamped(stored)
        self._snapshots[key] = snapshot
        self._append("MODIFIED" if previous is not None else "ADDED", key, snapshot, previous)
        return True

    def restore(self, collection: str, name: str, stored: Stored | None, version: int) -> None:
        """Put an object back as it was kept, None for one that was deleted; nobody is told."""
        key = (collection, name)
        self.version = self.oldest = max(self.version, version)
        self._changes.clear()
        if stored is None:
            self.objects.pop(key, None)
            self._snapshots.pop(key, None)
        else:
            self.objects[key] = stored
            self._snapshots[key] = orjson.loads(orjson.dumps(stored.document))

    def bookmark(self) -> None:
        """Raise the version without a change: watches learn how far they are."""
        self.version += 1
        metadata = {"resourceVersion": str(self.version), "creationTimestamp": None}
        self._append("BOOKMARK", ("", ""), {"metadata": metadata}, None)

    def since(self, version: int) -> Iterator[ObjectChange] | None:
        """Return an iterator over the changes after a version; None if they are not known."""
        if not self.oldest <= version <= self.version:
            return None
        return iter(self._changes[version - self.oldest :])

    def compact(self) -> None:
        """Forget all changes; the objects stay."""
        self.oldest = self.version
        self._changes.clear()

    def _stamped(self, stored: Stored) -> Mapping[str, Any]:
        """Return a copy of a document with the next version in it."""
        self.version += 1
        stored.document["metadata"]["resourceVersion"] = str(self.version)
        copied: Mapping[str, Any] = orjson.loads(orjson.dumps(stored.document))
        return copied

    def _append(
        self, what: Happening, key: Key, document: Mapping[str, Any], previous: Any
    ) -> None:
        change = ObjectChange(self.version, what, *key, document, previous)
        self._changes.append(change)
        if len(self._changes) > 2 * MAX_CHANGES:
            self._changes = self._changes[-MAX_CHANGES:]
            self.oldest = self._changes[0].version - 1
        for listener in self.listeners:
            listener(change)
