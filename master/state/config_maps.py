"""A store of the state in ConfigMaps of the pod's namespace: it outlives the pod and its node.

Two parts are kept: the judgement (`memory`), the bulk, which is written only when it differs, and
everything else (`about`: whose it is, when it was judged, the holds), which is small. Each save of
a part is a *set* of new ConfigMaps under a number of its own; when the set is complete, earlier
ones are deleted. So a set is complete or absent, and an aborted save removes nothing.

A leader that ends has at most one write in flight, and the API server may apply it after the next
leader has read the state. That leader then finds the name taken: it reads again, continues behind
what it found, and removes that with its next complete set. It does so once after a `load`: a master
that writes a second time is alive.

Writes cost etcd, which keeps each version until it compacts (5 minutes): `save` returns this cost,
by which the saver rests. 10,000 nodes are 1.5 MB in three ConfigMaps.
"""

import asyncio
import base64
import errno
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

import orjson
import structlog

from master.kube.client import Call, Caller
from master.kube.errors import KubeError
from master.kube.objects import CONFIG_MAPS, ConfigMapObject, collection_path, object_path
from master.kube.reading import read_all
from master.kube.writing.writes import TIMEOUT_S
from master.state.document import SavedDiscovery, State, Unusable, decode, with_memory
from master.state.pieces import index_of, join, split
from topo.discovery.modes import Mode
from topo.kit.threads import timed_in_thread
from topo.model.errors import BadInputError, Refusal
from topo.model.ids import Generation
from topo.placement.booking.holds import HoldsMemory

PREFIX = "topo-master-state-"
PIECE_BYTES = 512 * 1024
"""Half of what a ConfigMap may hold: as base64 in a request it stays below etcd's 1.5 MiB."""
BYTES_PER_S = 2_000_000.0
"""One second of cost: of the judgement at most 100 kB/s are written, of the rest 500 kB/s."""
PAGE = 16
LOAD_S = 30.0
"""The start fails after the API server could not be reached for this long."""
RETRY_S = 0.5
_KEY = "piece"
_NAME_TAKEN = "AlreadyExists"
"""Kubernetes' reason for a name that is taken; apimachinery's `StatusReasonAlreadyExists`."""
_MEMORY, _ABOUT, _UNUSABLE = "memory", "about", "unusable"
_PARTS = (_MEMORY, _ABOUT)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Set:
    """The ConfigMaps of one save of a part, and their joint content."""

    part: str
    number: int
    names: tuple[str, ...]
    content: bytes | Refusal
    generation: Generation
    """That of its judgement, or of the one it was kept beside; 0 where no piece has it."""


@dataclass(eq=False)
class ConfigMapStore:
    """A `StateStore` in the namespace of this pod. `may_write` is called before each write.

    `on_late` is called for each save of an earlier leader that arrived after `load`. `clock` is
    monotonic.
    """

    is_shared = True

    client: Caller
    namespace: str
    domain: str
    _: KW_ONLY
    may_write: Callable[[], bool] = lambda: True
    on_late: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    _is_new: bool = False
    _unusable_holds: Mapping[str, str] = field(default_factory=dict)
    _saved_at_s: float | None = None
    _number: int = 0
    _replaced: dict[str, list[str]] = field(default_factory=lambda: {part: [] for part in _PARTS})
    """By part, the names that the next complete set replaces."""
    _unusable: set[str] = field(default_factory=set)
    """Names that are then labelled `unusable` instead of deleted."""
    _memory_digest: bytes = b""
    _has_met_late: bool = False

    def __post_init__(self) -> None:
        self.name = f"ConfigMaps {PREFIX}* in {self.namespace}"
        self._managed = {f"{self.domain}/managed-by": "topo-master"}
        self._part_label, self._number_label = f"{self.domain}/state", f"{self.domain}/save"

    @property
    def is_new(self) -> bool:
        """See `StateStore`."""
        return self._is_new

    @property
    def unusable_holds(self) -> Mapping[str, str]:
        """See `StateStore`."""
        return self._unusable_holds

    async def load(self, mode: Mode, now_s: float) -> State | HoldsMemory | None:
        """Implement `StateStore`; unusable ConfigMaps get the label `unusable` at the next save."""
        sets = await self._sets()
        self._is_new, self._has_met_late = not sets, False
        self._number = max((each.number for each in sets), default=0)
        self._replaced = {part: [] for part in _PARTS}
        for each in sets:
            self._replaced[each.part] += each.names
        read = await asyncio.to_thread(_read, sets, mode)
        if isinstance(read, Unusable):
            self._unusable = {name for each in sets for name in each.names}
            names = sorted(self._unusable)
            _log.warning("the state is not used, and kept", reason=read.reason, kept=names)
        found = read.rest if isinstance(read, Unusable) else read
        self._unusable_holds = dict(read.holds) if isinstance(read, Unusable) else {}
        if isinstance(found, State):
            if found.saved_at_s > now_s:
                _log.warning("the state is from the future; is the clock right?", store=self.name)
            self._saved_at_s = found.saved_at_s
        return found

    async def save(self, discovery: SavedDiscovery, mode: Mode, holds: HoldsMemory) -> float:
        """See `StateStore`."""
        packed = partial(self._packed, discovery, mode, holds)
        parts, cost_s = await timed_in_thread(packed)
        for part, pieces in parts.items():
            await self._replace(part, pieces, discovery.generation)
            cost_s += sum(map(len, pieces)) / BYTES_PER_S
        self._memory_digest = _digest(discovery)
        self._saved_at_s = discovery.saved_at_s
        return cost_s

    def age_s(self, now_s: float) -> float | None:
        """See `StateStore`."""
        return None if self._saved_at_s is None else max(0.0, now_s - self._saved_at_s)

    def close(self) -> None:
        """Implement `StateStore`: the lease decides which master uses the store."""

    def _packed(
        self, discovery: SavedDiscovery, mode: Mode, holds: HoldsMemory
    ) -> dict[str, list[bytes]]:
        """Return the pieces of each part that differs from what is kept."""
        contents = {_ABOUT: discovery.about(mode, holds)}
        if _digest(discovery) != self._memory_digest:
            contents = {_MEMORY: discovery.text, **contents}
        generation = discovery.generation
        return {part: split(text, generation, PIECE_BYTES) for part, text in contents.items()}

    async def _replace(self, part: str, pieces: Sequence[bytes], generation: Generation) -> None:
        """Write a new set of a part, then delete earlier ones. Raises `OSError`."""
        try:
            await self._put(part, pieces)
        except FileExistsError as taken:
            if self._has_met_late:
                what = f"another master keeps its state there ({taken.strerror})"
                raise OSError(errno.ESTALE, f"{what}; run both with --leader-elect") from taken
            await self._adopt_late_sets(generation)
            await self._put(part, pieces)

    async def _put(self, part: str, pieces: Sequence[bytes]) -> None:
        """Write a set. Raises `FileExistsError` where another master used the number."""
        self._number += 1
        before, names = self._replaced[part], list[str]()
        try:
            for number, piece in enumerate(pieces):
                names.append(f"{PREFIX}{part}-{self._number}-{number}")
                await self._write(self._creation(names[-1], part, piece))
        except OSError as error:
            if error.errno in {errno.ESTALE, errno.EEXIST}:
                names.pop()  # it is not ours
                self._number -= 1  # else the next save would be beside that of the other
            self._replaced[part] = before + names
            raise
        self._replaced[part] = await self._delete_sets(before) + names

    async def _adopt_late_sets(self, generation: Generation) -> None:
        """Have the next complete sets replace late ones, too. Raises `OSError`.

        No hold in them was promised: their leader has not seen the answer. A judgement that is
        later than ours is kept as unusable.
        """
        try:
            found = await self._read_all()
            sets = await asyncio.to_thread(self._grouped, found)
        except KubeError as error:
            raise _os_error(error) from error
        known = {name for names in self._replaced.values() for name in names}
        for each in sets:
            late = [name for name in each.names if name not in known]
            self._replaced[each.part] += late
            is_later = each.generation > generation and isinstance(each.content, bytes)
            if is_later:
                self._unusable.update(late)
            if late:
                what = "a save of an earlier leader came late and is written over"
                seen = {"generation": each.generation, "ours": generation}
                _log.warning(what, names=late, put_aside=is_later, **seen)
        self._number = max(self._number + 1, *(each.number for each in sets), 0)
        self._has_met_late = True
        self.on_late()

    async def _delete_sets(self, names: Sequence[str]) -> list[str]:
        """Delete ConfigMaps of earlier saves; return those that are left for the next save."""
        for at, name in enumerate(names):
            try:
                await self._delete(name)
            except OSError as error:
                _log.warning("an earlier save is not deleted yet", name=name, why=str(error))
                return list(names[at:])
        return []

    def _creation(self, name: str, part: str, piece: bytes) -> Call:
        labels = {self._part_label: part, self._number_label: str(self._number)}
        body = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": {"name": name, "labels": {**self._managed, **labels}},
            "immutable": True,
            "binaryData": {_KEY: base64.b64encode(piece).decode()},
        }
        path = collection_path(CONFIG_MAPS, self.namespace)
        return Call(method="POST", path=path, body=orjson.dumps(body), timeout_s=TIMEOUT_S)

    async def _delete(self, name: str) -> None:
        """Delete a ConfigMap of an earlier save, or label it where it was unusable."""
        path = object_path(CONFIG_MAPS, name, self.namespace)
        if name in self._unusable:
            labels = {self._part_label: _UNUSABLE}
            body = orjson.dumps({"metadata": {"labels": labels}})
            kind = "application/merge-patch+json"
            call = Call(
                method="PATCH", path=path, body=body, content_type=kind, timeout_s=TIMEOUT_S
            )
        else:
            call = Call(method="DELETE", path=path, timeout_s=TIMEOUT_S)
        await self._write(call)

    async def _write(self, call: Call) -> None:
        if not self.may_write():
            raise OSError(errno.ESTALE, "this master leads no longer")
        try:
            await self.client.call(call)
        except KubeError as error:
            if error.is_missing and call.method != "POST":
                return  # somebody deleted it
            raise _os_error(error) from error

    async def _sets(self) -> list[_Set]:
        """Return what is kept, complete or not; retry while the API server fails."""
        gives_up_s = self.clock() + LOAD_S
        while True:
            try:
                found = await self._read_all()
                return await asyncio.to_thread(self._grouped, found)
            except KubeError as error:
                if not error.is_passing or self.clock() >= gives_up_s:
                    what = f"the state, in which holds may be, cannot be read: {error}"
                    fix = "allow list, create, patch and delete of configmaps in this namespace"
                    raise BadInputError(Refusal(what, self.name, fix)) from error
                _log.warning("the state cannot be read yet", store=self.name, why=str(error))
            await asyncio.sleep(RETRY_S)

    async def _read_all(self) -> Sequence[ConfigMapObject]:
        selector = ",".join(f"{key}={value}" for key, value in self._managed.items())
        query = {"labelSelector": f"{selector},{self._part_label} in ({','.join(_PARTS)})"}
        return await read_all(self.client, CONFIG_MAPS, self.namespace, query=query, page_size=PAGE)

    def _grouped(self, found: Iterable[ConfigMapObject]) -> list[_Set]:
        groups: dict[tuple[str, int], list[ConfigMapObject]] = {}
        for each in found:
            labels = each.metadata.labels
            part, number = labels.get(self._part_label, ""), labels.get(self._number_label, "")
            if part in _PARTS and number.isascii() and number.isdigit() and len(number) < 16:
                groups.setdefault((part, int(number)), []).append(each)
        return [_set(part, number, maps) for (part, number), maps in groups.items()]


def _set(part: str, number: int, maps: Sequence[ConfigMapObject]) -> _Set:
    pieces = [_piece(each) for each in maps]
    generations = [index.generation for each in pieces if (index := index_of(each)) is not None]
    names = tuple(each.metadata.name for each in maps)
    return _Set(part, number, names, join(pieces), max(generations, default=Generation(0)))


def _piece(found: ConfigMapObject) -> bytes:
    try:
        return base64.b64decode(found.binary_data.get(_KEY, ""), validate=True)
    except ValueError:
        return b""


def _os_error(error: KubeError) -> OSError:
    """Return the `OSError` of a failed call.

    A conflict that is not about the name passes: a quota that several requests count at once.
    """
    if error.reason == _NAME_TAKEN:
        return OSError(errno.EEXIST, str(error))
    passes = error.is_passing or error.is_conflict
    return OSError(errno.EAGAIN if passes else errno.EIO, str(error))


def _digest(discovery: SavedDiscovery) -> bytes:
    return hashlib.sha256(discovery.text).digest()


def _read(sets: Sequence[_Set], mode: Mode) -> State | Unusable | None:
    """Return the state in the newest complete sets."""
    if not sets:
        return None
    newest: dict[str, bytes] = {}
    torn = "there is no save"
    for each in sorted(sets, key=lambda each: each.number):
        if isinstance(each.content, bytes):
            newest[each.part] = each.content
        else:
            torn = f"save {each.number} is torn: {each.content}"
            _log.warning("a save of the state is not whole", part=each.part, why=torn)
    if _ABOUT not in newest:
        return Unusable(torn)
    return decode(with_memory(newest[_ABOUT], newest.get(_MEMORY, b"null")), mode)
