"""The queue of writes: per object one write at a time, and always the latest requested one.

Result: `begin` returns the next write; managers take turns. Nothing here waits or does I/O.

How: a write is identified by its object and its manager. It is waiting, in flight, or *settled*: it
was done or refused, and the watch has not shown its effect yet. A newer write replaces a waiting
one. A write equal to the one in flight or done is not queued again, because its caller read the
object in its state before that write.

Why that is right: the watch shows an object some time after the write, so a controller that
compares in between would write twice. `observe` records what the watch showed. A settled write is
forgotten when the watch shows the version that the write made or a later one, when the object is
deleted, or when `ECHO_S` has passed: after that, a request for the same write is a new need.
Versions are compared as numbers (KEP-5504); if they are not numbers, any event counts.

Every write that is requested ends, so that whoever waits for that waits for no end. One that was
refused and is requested again begins once the watch has shown a change, or after one second, then
two, four, … up to `ECHO_S` for each repeated refusal.

Another client that reverts each write does not cause endless writes: a write that was done
`FREE_REPEATS` times in a row waits for a second, then two, four, … up to `REPEAT_CEILING_S`.

Cost: O(1) amortised for each call; `is_busy` and the lists are O(writes not seen yet).

Example: {a: x} is done in version 7. The store still has version 5, so the controller requests {a:
x} again: dropped. The watch shows 7, another client makes it {a: y} in 8, the controller requests
{a: x}: queued.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Any

from master.kube.objects import Key, Resource
from master.kube.writing.writes import Delete, Write, WriteTarget

ECHO_S = 60.0
"""A watch that shows nothing for this long is broken; its reflector lists again in the meantime."""
REFUSED_S = 1.0
"""How long the same write is not sent again after its first refusal. Most refusals pass within
moments: a conflict, a webhook that restarts, a right that is being granted."""
FREE_REPEATS = 3
REPEAT_CEILING_S = 60.0
REPEAT_MEMORY_S = 3 * REPEAT_CEILING_S
MAX_WAITING = 100_000
"""Writes of one manager; more are refused, and requested again by the next comparison."""
GONE = inf
"""The version of a deleted object: later than all others."""
_ANY = -1.0


@dataclass(slots=True)
class _Entry:
    """The writes of one object and manager."""

    waiting: Write | None = None
    active: Write | None = None
    settled: Write | None = None
    version: float = _ANY
    """The version in which the effect of `settled` shows; `_ANY` where it had none."""
    settled_until_s: float = 0.0
    seen: float | None = None
    """The latest version that the watch showed while `active` was in flight."""
    shown: float = _ANY
    """The latest version that the watch showed since the first request. A write whose answer was
    lost may have taken effect before the retry, which then changes nothing that could be shown."""
    tries: int = 0
    is_withdrawn: bool = False
    is_listed: bool = False
    """Whether it is in the order of its manager, or waits for its time there."""
    ticket: int = 0
    """The number of its place among those that wait for their time; 0 for none."""
    is_repeat: bool = False
    """Whether it waits because the same write was done so often, or was refused."""
    is_refused: bool = False
    """Whether it waits because the same write was refused."""

    def hasten(self) -> None:
        """Have it wait for no time; it is to be scheduled again."""
        self.ticket, self.is_listed, self.is_repeat, self.is_refused = 0, False, False, False


@dataclass(frozen=True, slots=True)
class _Repeat:
    """The last write of an object with one outcome, how often in a row, and when."""

    write: Write
    times: int
    at_s: float

    @property
    def again_at_s(self) -> float:
        """When the same write may be sent again after it was done."""
        doubled = min(self.times - FREE_REPEATS, 10)
        return self.at_s + min(REPEAT_CEILING_S, 2.0**doubled) if doubled >= 0 else -inf

    @property
    def refused_until_s(self) -> float:
        """Until when the same write is not sent again after it was refused."""
        return self.at_s + min(ECHO_S, REFUSED_S * 2.0 ** min(self.times - 1, 10))


_Repeats = OrderedDict[tuple[str, WriteTarget], _Repeat]


def _count_outcome(repeats: _Repeats, write: Write, now_s: float) -> _Repeat:
    """Count one more write with this outcome; return its entry, moved to the end."""
    key = write.manager, write.target
    before = repeats.pop(key, None)
    times = before.times + 1 if before is not None and before.write == write else 1
    repeats[key] = _Repeat(write, times, now_s)
    return repeats[key]


class WriteQueue:
    """All writes that are requested and not yet seen. Mutable; owned by the writer."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[WriteTarget, _Entry]] = {}
        self._order: dict[str, deque[WriteTarget]] = {}
        self._turns: deque[str] = deque()
        self._later: list[tuple[float, int, str, WriteTarget]] = []
        self._number = 0
        self._settled: list[tuple[float, int, str, WriteTarget]] = []
        self._done: _Repeats = OrderedDict()
        self._refused: _Repeats = OrderedDict()

    def put(self, writes: Iterable[Write], now_s: float) -> list[Write]:
        """Request writes; return those that are not queued because too many wait."""
        self._expire(now_s)
        refused = []
        for write in writes:
            entries = self._entries.setdefault(write.manager, {})
            if write.target not in entries and len(entries) >= MAX_WAITING:
                refused.append(write)
                continue
            entry = entries.setdefault(write.target, _Entry())
            entry.is_withdrawn = False
            # The caller compared with the object as it was before this very write took effect.
            if write == (entry.active or (entry.settled if entry.version != _ANY else None)):
                entry.waiting = None
                continue
            # Another content is no repetition: it need not wait for the time of the one before.
            if entry.is_repeat and entry.waiting != write:
                entry.hasten()
            entry.waiting = write
            if entry.active is None:
                self._schedule(write.manager, write.target, entry)
        return refused

    def withdraw(self, target: WriteTarget, manager: str) -> None:
        """Withdraw a write; one that is in flight is not retried."""
        entry = self._entries.get(manager, {}).get(target)
        if entry is not None:
            entry.waiting, entry.is_withdrawn = None, True
            self._drop_if_idle(manager, target, entry)

    def begin(self, now_s: float) -> Write | None:
        """Return the next write; finish it with `done`, `give_up` or `retry_later`."""
        while self._later and self._later[0][0] <= now_s:
            _, ticket, manager, target = heappop(self._later)
            entry = self._entries.get(manager, {}).get(target)
            # A heap cannot delete: an entry that was rescheduled has a newer ticket.
            if entry is not None and entry.ticket == ticket:
                entry.ticket, entry.is_repeat, entry.is_refused = 0, False, False
                self._enqueue(manager, target)
        while self._turns:
            manager = self._turns.popleft()
            order = self._order[manager]
            target = order.popleft()
            # Round robin: a manager with 10,000 writes does not delay one with a single write.
            if order:
                self._turns.append(manager)
            entry = self._entries[manager][target]
            entry.is_listed = False
            if entry.waiting is None:
                self._drop_if_idle(manager, target, entry)
                continue
            entry.active, entry.waiting, entry.seen = entry.waiting, None, None
            return entry.active
        return None

    def done(self, write: Write, version: str, now_s: float) -> bool:
        """Record a success; `version` is that of the object now, empty if it is gone.

        Return whether a newer write of the object waits.
        """
        _count_outcome(self._done, write, now_s)
        self._refused.pop((write.manager, write.target), None)
        is_gone = isinstance(write, Delete) and not version
        effect = GONE if is_gone else version_number(version)
        return self._settle(write, effect, now_s + ECHO_S)

    def give_up(self, write: Write, now_s: float) -> bool:
        """Record a refusal: the same write is accepted again after a change or a while.

        Return whether a newer write of the object waits.
        """
        refused = _count_outcome(self._refused, write, now_s)
        return self._settle(write, _ANY, refused.refused_until_s)

    def retry_later(self, write: Write, at_s: float) -> None:
        """Retry a failed write at `at_s`; a newer write replaces it, but does not start earlier."""
        entry = self._entries[write.manager][write.target]
        entry.active, entry.tries = None, entry.tries + 1
        if entry.waiting is None and not entry.is_withdrawn:
            entry.waiting = write
        # The failed write keeps its place, also for a newer one: the server asked for the pause.
        entry.is_listed = True
        self._postpone(write.manager, write.target, at_s)

    def tries(self, write: Write) -> int:
        """Return how often a write of this object has failed in a row."""
        return self._entries[write.manager][write.target].tries

    def observe(self, target: WriteTarget, version: float) -> None:
        """Record that the watch showed the object in this version; `GONE` if it was deleted."""
        for manager, entries in self._entries.items():
            entry = entries.get(target)
            if entry is None:
                continue
            entry.shown = version
            if entry.active is not None:
                entry.seen = max(version, entry.seen or _ANY)
            if entry.is_refused:  # it may be taken now
                entry.hasten()
                self._schedule(manager, target, entry)
            if entry.settled is not None and version >= entry.version:
                entry.settled = None
                self._drop_if_idle(manager, target, entry)

    def observe_list(self, resource: Resource[Any], versions: Mapping[Key, float]) -> None:
        """Record a complete list of a resource's objects by key; all other objects are deleted."""
        for entries in self._entries.values():
            for target in [each for each in entries if each.resource == resource]:
                self.observe(target, versions.get((target.namespace, target.name), GONE))

    def is_busy(self, manager: str, now_s: float) -> bool:
        """Return whether the manager has a write that is waiting, in flight or not seen yet.

        One that waits because it was refused keeps no others back.
        """
        self._expire(now_s)
        return any(
            (entry.waiting and not entry.is_refused)
            or entry.active
            or (entry.settled and entry.version != _ANY)
            for entry in self._entries.get(manager, {}).values()
        )

    def waiting(self, manager: str) -> Iterator[WriteTarget]:
        """Yield the objects with a write that has not begun."""
        for target, entry in self._entries.get(manager, {}).items():
            if entry.waiting is not None:
                yield target

    def unfinished(self, manager: str) -> Iterator[WriteTarget]:
        """Yield the objects with a write that waits or is in flight."""
        for target, entry in self._entries.get(manager, {}).items():
            if entry.waiting is not None or entry.active is not None:
                yield target

    @property
    def next_at_s(self) -> float | None:
        """The time at which `begin` may return a write: -inf for now, None if nothing waits."""
        if self._turns:
            return -inf
        return self._later[0][0] if self._later else None  # of one that was taken back, too

    def _settle(self, write: Write, version: float, until_s: float) -> bool:
        entry = self._entries[write.manager][write.target]
        entry.active, entry.tries = None, 0
        # What was shown as gone before is none of what was made since.
        is_after = entry.shown >= version if entry.shown < GONE else version == GONE
        is_shown = version != _ANY and is_after
        if not is_shown and (entry.seen is None or entry.seen < version):
            entry.settled, entry.version, entry.settled_until_s = write, version, until_s
            self._number += 1
            heappush(self._settled, (until_s, self._number, write.manager, write.target))
            if entry.waiting == write:
                entry.waiting = None
        if entry.waiting is not None:
            self._schedule(write.manager, write.target, entry)
            return True
        if entry.settled is None:
            self._drop_if_idle(write.manager, write.target, entry)
        return False

    def _schedule(self, manager: str, target: WriteTarget, entry: _Entry) -> None:
        was_refused = entry.settled is not None and entry.settled == entry.waiting
        entry.settled = None
        if entry.is_listed:
            return
        entry.is_listed = True
        refused, done = self._refused.get((manager, target)), self._done.get((manager, target))
        if was_refused and refused is not None:
            entry.is_repeat = entry.is_refused = True
            self._postpone(manager, target, refused.refused_until_s)
        elif done is not None and done.write == entry.waiting and done.again_at_s > -inf:
            entry.is_repeat = True
            self._postpone(manager, target, done.again_at_s)
        else:
            self._enqueue(manager, target)

    def _postpone(self, manager: str, target: WriteTarget, at_s: float) -> None:
        self._number += 1
        self._entries[manager][target].ticket = self._number
        heappush(self._later, (at_s, self._number, manager, target))

    def _enqueue(self, manager: str, target: WriteTarget) -> None:
        order = self._order.setdefault(manager, deque())
        if not order:
            self._turns.append(manager)
        order.append(target)

    def _expire(self, now_s: float) -> None:
        while self._settled and self._settled[0][0] <= now_s:
            until_s, _, manager, target = heappop(self._settled)
            entry = self._entries.get(manager, {}).get(target)
            if entry is not None and entry.settled_until_s == until_s:
                entry.settled = None
                self._drop_if_idle(manager, target, entry)
        for ended in (self._done, self._refused):
            while ended and next(iter(ended.values())).at_s <= now_s - REPEAT_MEMORY_S:
                ended.popitem(last=False)

    def _drop_if_idle(self, manager: str, target: WriteTarget, entry: _Entry) -> None:
        """Forget an entry without a write that waits, is in flight or is not seen yet."""
        if not (entry.waiting or entry.active or entry.settled or entry.is_listed):
            del self._entries[manager][target]


def version_number(version: str) -> float:
    """Return a resource version as a number; -1 if it is not a number."""
    return float(version) if version.isascii() and version.isdigit() else _ANY
