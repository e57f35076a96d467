"""Gang objects: the state of every gang for `kubectl get gangs`, and for whoever watches objects.

The leader compares the gangs that it knows with the objects that there are, once a second, and
writes what differs: a state or a number at once, a text whose numbers change after `TEXT_S`. An
object belongs to its job, so Kubernetes deletes it with the job. It bears the name of the job, with
a part of the gang's id where another job of that name has an object; the id alone where no object
can have that name. One whose gang is gone or has another object is deleted; one that somebody
changed is written again.

Cost: O(gangs and objects) a second for the comparison of identities, O(pods of a gang) for one that
changed, at most `AT_ONCE` writes and the deletions.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from master.controllers.hypernodes import PRODUCT, managed_by
from master.controllers.nomination.status.gang_view import GangView
from master.kube.gang_object import GANGS, GangObject, GangObjectStatus
from master.kube.objects import Key, OwnerReference
from master.kube.schema.timestamps import timestamp
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, Delete, WriteTarget
from master.object_errors import ObjectErrors, ObjectKind
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.status import GangStatus
from topo.model.forest import Snapshot
from topo.publish.names import is_dns_name

MANAGER = f"{MANAGER_PREFIX}gang-objects"
LOOK_S = 1.0
TEXT_S = 10.0
"""How soon the text of an unchanged state is written again."""
AT_ONCE = 50
MESSAGE_CHARS = 1000


@dataclass(slots=True)
class _Compared:
    """The object of a gang: what was compared last, and what was asked for at `at_s`."""

    key: Key
    owner: OwnerReference
    gang: Gang | None = None
    status: GangStatus | None = None
    present: GangObject | None = None
    wanted: GangObjectStatus = field(default_factory=GangObjectStatus)
    at_s: float = -TEXT_S


@dataclass(kw_only=True)
class GangObjects:
    """Keeps one object for each gang that has a job.

    `owner` returns the job of a gang; `is_placing`: the gangs are all known.
    """

    store: Store[GangObject]
    writer: Writer
    view: GangView
    owner: Callable[[GangId], OwnerReference | None]
    is_placing: Callable[[], bool]
    domain: str
    clock: Callable[[], float] = time.monotonic
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects whose comparison raised an error."""
    _entries: dict[GangId, _Compared] = field(default_factory=dict, init=False)
    _keys: dict[Key, GangId] = field(default_factory=dict, init=False)
    """The gang of each object."""
    _start: int = field(default=0, init=False)
    """Where the next look begins, so that gangs that change all the time leave room for others."""

    def __post_init__(self) -> None:
        self.writer.follow(self.store)
        self._errors = self.errors.scope(ObjectKind.WRITE, "Gang of")

    def on_forest(self, _snapshot: Snapshot) -> None:
        """Do nothing: what a forest means for gangs changes their status."""

    async def run(self) -> None:
        """Compare and write until cancelled."""
        self._entries.clear()
        self._keys.clear()
        while True:
            await asyncio.sleep(LOOK_S)
            if self.store.synced and self.is_placing():
                self.look()

    def look(self) -> None:
        """Request the writes of what differs."""
        gangs = self.view.store.gangs()
        for gone in self._entries.keys() - set(gangs):
            del self._keys[self._entries.pop(gone).key]
        start = self._start % max(1, len(gangs))
        left = AT_ONCE
        for number, gang_id in enumerate((*gangs[start:], *gangs[:start]), start):
            if not left:
                self._start = number
                break
            write = self._errors.run(gang_id, partial(self._write, gang_id))
            if isinstance(write, Apply):
                self.writer.put(write)
                left -= 1
        self._errors.retain(set(gangs))
        self.writer.put(*self._superfluous())

    def _write(self, gang_id: GangId) -> Apply | None:
        """Return the write for a gang; None if its object is as wanted or its text has to wait."""
        status, gang = self.view.store.get(gang_id), self.view.gang(gang_id)
        entry = self._entries.get(gang_id) or self._entry(gang_id, gang)
        if gang is None or status is None or entry is None:
            return None
        present = self.store.objects.get(entry.key)
        if entry.gang is gang and entry.status is status and entry.present is present:
            return None
        wanted, now_s = self._wanted(gang, status), self.clock()
        is_text = replace(wanted, why=entry.wanted.why) == entry.wanted and wanted != entry.wanted
        if is_text and now_s - entry.at_s < TEXT_S:
            return None
        if present is not None and present.status == wanted and _owns(entry.owner, present):
            entry.gang, entry.status, entry.present = gang, status, present
            return None
        # Asked for again until it is seen, since a refused write is dropped; the queue has it once.
        entry.wanted, entry.at_s = wanted, now_s
        entry.owner = self.owner(gang_id) or entry.owner  # pods of a PodGroup may have several
        return self._apply(entry)

    def _entry(self, gang_id: GangId, gang: Gang | None) -> _Compared | None:
        """Return a new entry; None without a job. Two jobs of one name have two objects."""
        owner = self.owner(gang_id)
        if gang is None or owner is None:
            return None
        key = self._key(gang)
        self._keys[key] = gang_id
        self._entries[gang_id] = _Compared(key, owner)
        return self._entries[gang_id]

    def _key(self, gang: Gang) -> Key:
        """Return the key of a gang's object: that of the object that it has, else a free one.

        So the order in which a leader meets two jobs of one name decides nothing. Pods may call
        their gang by a name that no object can have.
        """
        names = filter(is_dns_name, (gang.name, f"{gang.name}-{gang.id[:8]}"))
        keys = [(gang.namespace, name) for name in names]
        free = [key for key in keys if key not in self._keys]
        present = {key: found.status.id for key in free if (found := self.store.objects.get(key))}
        own = (key for key in free if present.get(key) == gang.id)
        # An object of another gang is that one's, also before this leader has compared it.
        vacant = (
            key
            for key in free
            if key not in present or self.view.gang(GangId(present[key])) is None
        )
        return next(own, None) or next(vacant, (gang.namespace, str(gang.id)))

    def _wanted(self, gang: Gang, status: GangStatus) -> GangObjectStatus:
        live = [member for member in gang.members if member.live]
        bound = sum(member.node is not None for member in live)
        history = self.view.history(gang.id)
        since = timestamp(history[-1].at_s) if history else ""
        return GangObjectStatus(
            id=gang.id,
            job=f"{gang.kind} {gang.name}",
            state=status.state.value,
            bound=f"{bound}/{gang.request.pods}",
            since=since,
            why=status.message[:MESSAGE_CHARS],
        )

    def _apply(self, entry: _Compared) -> Apply:
        labels = {managed_by(self.domain): PRODUCT}
        fields = {
            "metadata": {"labels": labels, "ownerReferences": [entry.owner.document]},
            "status": asdict(entry.wanted),
        }
        target = WriteTarget(GANGS, entry.key[1], entry.key[0])
        return Apply(target=target, manager=MANAGER, uid="", fields=fields, force=True)

    def _superfluous(self) -> Iterator[Delete]:
        """Yield the deletion of each object whose gang is not known, or has another object."""
        for (namespace, name), found in self.store.objects.items():
            is_leaving = found.metadata.deletion_timestamp is not None
            if (namespace, name) in self._keys or is_leaving:
                continue
            gang_id = GangId(found.status.id)
            if gang_id in self._entries or self.view.gang(gang_id) is None:
                target = WriteTarget(GANGS, name, namespace)
                yield Delete(target=target, manager=MANAGER, uid=found.metadata.uid)


def _owns(owner: OwnerReference, found: GangObject) -> bool:
    return owner.uid in {each.uid for each in found.metadata.owner_references}
