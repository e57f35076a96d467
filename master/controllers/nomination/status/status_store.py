"""The last reported status of every gang, and its last transitions. One owner.

A report that changes the state is a transition; a report that changes only the text is not. Each
report is written to Events and conditions. For a gang without room that happens after the search
for the smallest change that would admit it.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import structlog

from master.object_errors import ObjectErrors, ObjectKind
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.status import MOST_TRANSITIONS, GangStatus, Transition
from topo.model.conditions.gang_states import GangState
from topo.model.isolation import ObjectError, attempt_async

Advise = Callable[[Gang, str], Awaitable[str]]
"""Returns the smallest change that lets a gang in, given why it waits; see `advice`."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Entry:
    name: str
    status: GangStatus | None = None
    is_announced: bool = False
    published: GangStatus | None = None
    """The status that was written last; None if the present one is not announced."""
    history: deque[Transition] = field(default_factory=lambda: deque(maxlen=MOST_TRANSITIONS))


@dataclass(kw_only=True)
class StatusStore:
    """The statuses by gang.

    `write` publishes a status; `compare` writes again what pods do not say of it. `recall`
    reads the last transition that an earlier leader wrote. `clock` is the master's, `now` is Unix
    time. `errors`: a gang whose search for a change raised an error is reported without one.
    """

    advise: Advise
    write: Callable[[GangId, GangStatus], None]
    compare: Callable[[GangId, GangStatus], None]
    recall: Callable[[GangId], Transition | None]
    clock: Callable[[], float]
    now: Callable[[], float]
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    _entries: dict[GangId, _Entry] = field(default_factory=dict, init=False)
    _searches: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    def get(self, gang_id: GangId) -> GangStatus | None:
        """Return the last reported status; None if there is none."""
        entry = self._entries.get(gang_id)
        return entry.status if entry is not None else None

    def history(self, gang_id: GangId) -> tuple[Transition, ...]:
        """Return the last transitions of a gang, the oldest first."""
        entry = self._entries.get(gang_id)
        return tuple(entry.history) if entry is not None else ()

    def announced(self) -> Iterator[tuple[GangId, str, GangStatus]]:
        """Yield the id, the namespace with the name, and the status of each announced gang."""
        for gang_id, entry in self._entries.items():
            if entry.is_announced and entry.status is not None:
                yield gang_id, entry.name, entry.status

    def by_state(self) -> Mapping[GangState, int]:
        """Return the number of announced gangs in each state."""
        return Counter(status.state for _, _, status in self.announced())

    def longest_s(self) -> Mapping[GangState, float]:
        """Return for each state how long the gang that has been in it longest is there."""
        now_s, found = self.clock(), dict[GangState, float]()
        for _, _, status in self.announced():
            found[status.state] = max(now_s - status.since_s, found.get(status.state, 0.0))
        return found

    def gangs(self) -> tuple[GangId, ...]:
        """Return the gangs that have a status."""
        return tuple(self._entries)

    def forget(self, gang_id: GangId) -> None:
        """Drop a deleted gang and its history."""
        if (entry := self._entries.pop(gang_id, None)) is not None:
            self.errors.clear(ObjectKind.ADVICE, entry.name)

    def report(self, gang: Gang, state: GangState, text: str, *, announce: bool = True) -> None:
        """Store the status of a gang; publish it if it is to be announced and has changed.

        A status that is not announced is stored for the history only.
        """
        entry = self._entries.get(gang.id)
        if entry is None:
            entry = self._entries[gang.id] = _Entry(f"{gang.namespace}/{gang.name}")
            if (known := self.recall(gang.id)) is not None:
                entry.history.append(known)
        before, now_s = entry.status, self.now()
        if before is not None and (before.state, before.text) == (state, text):
            return
        if not entry.history or entry.history[-1].state is not state:
            entry.history.append(Transition(now_s, state, text))
        if before is not None and before.state is state:
            since_s = before.since_s
        else:
            since_s = self.clock() - max(0.0, now_s - entry.history[-1].at_s)
        entry.status = GangStatus(state=state, text=text, since_s=since_s)
        entry.is_announced = announce
        if announce:
            _log.info("gang", gang=gang.id, name=gang.name, stands=state.value, why=text)
            self._announce(gang, entry.status)
        else:
            entry.published = None

    def _announce(self, gang: Gang, status: GangStatus) -> None:
        if status.state.row.is_advised:
            self._searches.add(asyncio.ensure_future(self._write_with_advice(gang, status)))
        else:
            self.errors.clear(ObjectKind.ADVICE, f"{gang.namespace}/{gang.name}")
            self._publish(gang.id, status)

    def _publish(self, gang_id: GangId, status: GangStatus) -> None:
        self._entries[gang_id].published = status
        self.write(gang_id, status)

    def compare_pods(self, gang_id: GangId) -> None:
        """Write what the pods of a gang do not say of its status, although it was published."""
        entry = self._entries.get(gang_id)
        if entry is not None and entry.published is not None:
            self.compare(gang_id, entry.published)

    async def refresh_advice(self, gang: Gang) -> None:
        """Search again for the smallest change, because an earlier answer may be outdated by now.

        Nothing is published.
        """
        status = self.get(gang.id)
        if status is not None and status.state.row.is_advised:
            await self._search(gang, status)

    def end_searches(self) -> None:
        """Remove the searches that ended. Raises an error of one that is not of its gang."""
        for task in [each for each in self._searches if each.done()]:
            self._searches.discard(task)
            task.result()

    async def cancel(self) -> None:
        """Cancel all searches; return when they have ended."""
        for task in self._searches:
            task.cancel()
        await asyncio.gather(*self._searches, return_exceptions=True)

    async def _write_with_advice(self, gang: Gang, status: GangStatus) -> None:
        name = f"{gang.namespace}/{gang.name}"
        found = await attempt_async(self._search(gang, status))
        if isinstance(found, ObjectError):
            if self.get(gang.id) is not status:
                return  # it was reported again, or is gone
            self.errors.note(ObjectKind.ADVICE, name, found)
            found = status
        elif found is not None:
            self.errors.clear(ObjectKind.ADVICE, name)
        if found is not None:
            self._publish(gang.id, found)

    async def _search(self, gang: Gang, status: GangStatus) -> GangStatus | None:
        """Return the status with the smallest change; None if the status has changed meanwhile."""
        would_fit = await self.advise(gang, status.text)
        entry = self._entries.get(gang.id)
        # Since the search began, the gang may have been reported again, or be gone.
        if entry is None or entry.status is None or entry.status is not status:
            return None
        entry.status = replace(status, would_fit=would_fit)
        return entry.status
