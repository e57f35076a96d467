"""Events of Kubernetes (`events.k8s.io/v1`) from occurrences: repeated ones are counted, many about
one object are spread over time, so that a flapping cable is no flood.

Series: an occurrence that is equal to an earlier one (object, reason, note) within `SERIES_S` is no
new Event, but one more in its series. Every write is the whole Event with the count of that moment,
so a write that was never made is contained in the next one.

Turns: namespaces take turns, since one tenant's pods can cause many Events.

Rate: an object has a token bucket of `BURST` writes, refilled by one every `REFILL_S`. Without a
token the write waits, and what happens meanwhile is counted into it: nothing is dropped, the last
state is written at the latest when a token comes.

Sources: client-go `tools/record/events_cache.go` (`defaultSpamBurst` 25, `defaultSpamQPS` 1/300 per
object; there what is too much is dropped) and `tools/events/event_broadcaster.go` (`finishTime` 6
minutes, after which an equal occurrence is a new Event). Limits of the fields: Kubernetes
`pkg/apis/core/validation/events.go` (note 1024 bytes; all but `series` immutable; a series counts
at least 2). Events of Nodes stand in the namespace `default`.

Cost: O(1) for each occurrence, O(waiting) for `due`. Holds `MOST_SERIES` series, the least lately
used go; one that goes unwritten is counted.

Example: a link is cut, healed, cut again and healed again within a second: two Events, LinkDown and
LinkUp, each with a series of 2, by at most four of the node's 25 writes.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import zip_longest
from typing import Any, NamedTuple

from topo.model.plain_text import plain
from topo.publish.node_events import EventContent

BURST = 25
REFILL_S = 300.0
SERIES_S = 360.0
MOST_SERIES = 32_768
"""Two a node of the largest cluster, and those of what flaps."""
NOTE_BYTES = 1024
_NAME = 236
"""Room for the object's name within the 253 characters of an Event's."""


class Regarding(NamedTuple):
    """The object that an Event is about, and the namespace that the Event stands in."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str = ""

    @property
    def event_namespace(self) -> str:
        """Events of what has no namespace stand in `default`."""
        return self.namespace or "default"


class Reporter(NamedTuple):
    """The program that reports, and its pod."""

    controller: str
    instance: str


class EventRecord(NamedTuple):
    """One Event to write: all of it, for server-side apply."""

    namespace: str
    name: str
    fields: Mapping[str, Any]


@dataclass(slots=True)
class _Series:
    about: Regarding
    what: EventContent
    first_s: float
    last_s: float
    count: int = 1


@dataclass(slots=True)
class _Bucket:
    tokens: float = BURST
    at_s: float = 0.0

    def take(self, now_s: float) -> bool:
        """Take a token, where there is one; a clock that goes back refills nothing."""
        self.tokens = min(BURST, self.tokens + max(0.0, now_s - self.at_s) / REFILL_S)
        self.at_s = now_s
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True)
class EventSeries:
    """Events written lately, and those that wait. Mutable; times are Unix seconds.

    `dropped` counts the series that were forgotten before they were written.
    """

    reporter: Reporter
    dropped: int = 0
    _series: OrderedDict[tuple[Regarding, str, str], _Series] = field(default_factory=OrderedDict)
    _waiting: dict[tuple[Regarding, str, str], None] = field(default_factory=dict)
    _buckets: OrderedDict[Regarding, _Bucket] = field(default_factory=OrderedDict)

    @property
    def waiting(self) -> int:
        """Events that wait to be written."""
        return len(self._waiting)

    def add(self, about: Regarding, what: EventContent, now_s: float) -> None:
        """Count one occurrence."""
        key = about, what.reason, what.note
        series = self._series.get(key)
        if series is None or now_s - series.last_s > SERIES_S:
            self._series[key] = _Series(about, what, now_s, now_s)
        else:
            series.count += 1
            series.last_s = now_s
        self._series.move_to_end(key)
        self._waiting[key] = None
        # The least recently used goes; one that was never written counts as dropped.
        while len(self._series) > MOST_SERIES:
            oldest, _ = self._series.popitem(last=False)
            self.dropped += oldest in self._waiting
            self._waiting.pop(oldest, None)

    def due(self, now_s: float, most: int) -> Iterator[EventRecord]:
        """Return the Events to write now, `most` at once.

        Namespaces take turns, so that a flood of one delays no Event of another; of each the one
        that has waited longest is first.
        """
        empty: set[Regarding] = set()
        for key in self._in_turn():
            if most <= 0:
                return
            series = self._series[key]
            # One look at the bucket for each object: its other Events wait for the same token.
            if series.about in empty:
                continue
            if not self._bucket(series.about).take(now_s):
                empty.add(series.about)
                continue
            del self._waiting[key]
            most -= 1
            yield _event_record(series, self.reporter)

    def _in_turn(self) -> Iterator[tuple[Regarding, str, str]]:
        of_namespaces: dict[str, list[tuple[Regarding, str, str]]] = {}
        for key in self._waiting:
            of_namespaces.setdefault(key[0].event_namespace, []).append(key)
        for turn in zip_longest(*of_namespaces.values()):
            yield from (key for key in turn if key is not None)

    def _bucket(self, about: Regarding) -> _Bucket:
        bucket = self._buckets.setdefault(about, _Bucket())
        self._buckets.move_to_end(about)
        while len(self._buckets) > MOST_SERIES:
            self._buckets.popitem(last=False)
        return bucket


def _event_record(series: _Series, reporter: Reporter) -> EventRecord:
    about, what = series.about, series.what
    name = _name(series)
    fields: dict[str, Any] = {
        "eventTime": _micro_time(series.first_s),
        "reportingController": reporter.controller,
        "reportingInstance": reporter.instance[:128],
        "action": what.action,
        "reason": what.reason,
        "regarding": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "uid": about.uid,
            **({"namespace": about.namespace} if about.namespace else {}),
        },
        "note": _cut(plain(what.note), NOTE_BYTES),
        "type": what.type,
    }
    if series.count > 1:
        last = _micro_time(series.last_s)
        fields["series"] = {"count": series.count, "lastObservedTime": last}
    return EventRecord(about.event_namespace, name, fields)


def _name(series: _Series) -> str:
    """Return the same for all writes of a series, another for the next one, and a DNS name."""
    about, what = series.about, series.what
    text = repr((about, what.reason, what.note, series.first_s))
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"{about.name[:_NAME].rstrip('-.')}.{digest}"


def _micro_time(at_s: float) -> str:
    """Return a time as Kubernetes writes a MicroTime: RFC 3339 with microseconds, UTC."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _cut(text: str, limit: int) -> str:
    """Return the text in so many bytes of UTF-8, and a sign that it was cut."""
    whole = text.encode("utf-8", "replace")
    if len(whole) <= limit:
        return whole.decode()
    return whole[: limit - 3].decode(errors="ignore") + "…"
