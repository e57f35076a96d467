"""Keeps the objects of the simulated API server in a file, as etcd keeps those of a real one.

Each change is a line of JSON; a killed server that starts again reads them and goes on with the
same objects, uids and versions. A line that was cut by the kill is the last one and is dropped.
The file is the user's alone, for it has Secrets. It is written anew, an object a line, at each
start and when it has grown to `MAX_BYTES` and to twice of what the objects need. Nothing is forced
to the disk: what is kept outlives the process, not the machine.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import orjson

from topo.sim.kubernetes.apiserver.field_owners import Stored
from topo.sim.kubernetes.apiserver.store import Key, ObjectChange, ObjectStore

MAX_BYTES = 64 << 20
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class Journal:
    """The file of a store; `open` before the store has listeners, so that nothing is told twice."""

    def __init__(self, path: Path, store: ObjectStore) -> None:
        self._path, self._store = path, store
        self._file: IO[bytes] | None = None
        self._bytes = self._most_bytes = 0

    def open(self) -> None:
        """Read what an earlier run kept, and keep the changes from now on."""
        for kept in _lines(self._path):
            self._store.restore(kept["at"], kept["name"], _stored(kept), kept["version"])
        self._store.compact()
        self._rewrite()
        self._store.listeners.append(self._observe)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _observe(self, change: ObjectChange) -> None:
        if change.what == "BOOKMARK" or self._file is None:
            return
        key = (change.collection, change.name)
        stored = self._store.objects.get(key) if change.what != "DELETED" else None
        self._write(self._file, key, stored, change.version)
        if self._bytes > self._most_bytes:
            self._rewrite()

    def _write(self, file: IO[bytes], key: Key, stored: Stored | None, version: int) -> None:
        line = {"at": key[0], "name": key[1], "version": version}
        if stored is not None:
            owners = [[list(path), sorted(names)] for path, names in stored.owners.items()]
            line |= {"document": stored.document, "owners": owners}
        text = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        file.write(text)
        file.flush()
        self._bytes += len(text)

    def _rewrite(self) -> None:
        draft = self._path.with_suffix(".tmp")
        self.close()
        self._bytes = 0
        self._file = file = os.fdopen(os.open(draft, _DRAFT, 0o600), "wb")
        for key, stored in self._store.objects.items():
            self._write(file, key, stored, self._store.version)
        draft.replace(self._path)
        self._most_bytes = max(MAX_BYTES, 2 * self._bytes)


def _lines(path: Path) -> Iterator[Any]:
    """Yield the whole lines of the file, none where there is no file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield orjson.loads(line)


def _stored(kept: Any) -> Stored | None:
    """Return the object of a line; None for one that was deleted."""
    if "document" not in kept:
        return None
    owners = {tuple(path): set(names) for path, names in kept["owners"]}
    return Stored(kept["document"], owners)
