"""What the master knows of this worker, and so what the next report must contain."""

from dataclasses import fields, replace
from typing import Any

from topo.model.ids import NodeName
from topo.model.machine import LinkCount, NodeFacts
from topo.model.wire import FactsChange, Report, ReportAnswer

_SECTIONS = tuple(FactsChange.model_fields)
MIN_BEAT_S, MAX_BEAT_S = 0.2, 300.0
"""A master may set the pace, within what neither floods it nor makes us look dead."""


class Session:
    """One worker process towards one master; `instance` is fresh random text per process."""

    def __init__(self, node: NodeName, instance: str) -> None:
        self._node = node
        self._instance = instance
        self._seq = -1
        self._known: NodeFacts | None = None
        self._known_counts: tuple[LinkCount, ...] | None = None
        self._sent_counts: tuple[LinkCount, ...] | None = None
        self.beat_s = 10.0

    def report(self, facts: NodeFacts, counts: tuple[LinkCount, ...] | None = None) -> Report:
        """The next message: full while the master may know nothing, else the difference, or a beat.

        Every message has a number of its own, also one that repeats a message that was lost. It has
        the counters where the master does not know them as they are.
        """
        self._seq += 1
        head: dict[str, Any] = {
            "v": 1,
            "node": self._node,
            "instance": self._instance,
            "seq": self._seq,
        }
        self._sent_counts = self._known_counts if counts is None else counts
        if self._sent_counts != self._known_counts:
            head["counts"] = counts
        if self._known is None or self._known.identity != facts.identity:
            return Report(**head, kind="full", facts=facts)
        changed = _difference(self._known, facts)
        if changed is None:
            return Report(**head, kind="beat")
        return Report(**head, kind="change", change=changed)

    def accepted(self, facts: NodeFacts, answer: ReportAnswer) -> None:
        """The master has taken the message that these facts made."""
        self._known_counts = self._sent_counts
        if answer.want == "full":
            self.lost()
        else:
            self._known = facts
        self.beat_s = min(max(answer.beat_s, MIN_BEAT_S), MAX_BEAT_S)

    def lost(self) -> None:
        """A message may or may not have arrived: the next one is full."""
        self._known, self._known_counts = None, None

    @property
    def in_step(self) -> bool:
        """Whether the master knows our facts as of the last message."""
        return self._known is not None


def _difference(before: NodeFacts, after: NodeFacts) -> FactsChange | None:
    changed = {
        section: getattr(after, section)
        for section in _SECTIONS
        if getattr(before, section) != getattr(after, section)
    }
    return FactsChange(**changed) if changed else None


def differ_in_substance(before: NodeFacts, after: NodeFacts) -> bool:
    """Return whether anything but the health of probes differs."""
    return before != after and replace(before, probes=()) != replace(after, probes=())


if {field.name for field in fields(NodeFacts)} != {*_SECTIONS, "identity"}:
    raise AssertionError("FactsChange and NodeFacts have drifted apart")
