"""Judges generations: in `GET /v1/topology`, and as a stream of events counts them."""

import json
from collections.abc import Iterator
from typing import Any

from tests.chaos.model.verdicts import Kind, Violation

_CONTENT = ("name", "kind", "status", "reasons", "child")
_LISTS = ("unplaced", "conflicts", "unjoined")


class GenerationJudge:
    """Judges the documents of one reader in the order in which they came."""

    def __init__(self) -> None:
        self.run = ""
        self.generation = 0
        self._content = ""

    def judge(self, document: Any) -> Iterator[Violation]:
        """Within a run the generation never falls, and moves exactly when the content does."""
        try:
            run, generation, content = document["run"], document["generation"], _content(document)
        except (KeyError, TypeError) as error:
            yield Violation(Kind.SHAPE, f"/v1/topology: {error!r}")
            return
        step, same = generation - self.generation, content == self._content
        if run == self.run:
            if step < 0:
                yield Violation(Kind.GENERATION, f"{generation} after {self.generation}")
            elif step == 0 and not same:
                yield Violation(Kind.GENERATION, f"{generation} has two contents")
            elif step == 1 and same:
                yield Violation(Kind.GENERATION, f"{generation} has the content of the one before")
        self.run, self.generation, self._content = run, generation, content


def _content(document: Any) -> str:
    shown = {"groups": [_vertex(group) for group in document["groups"]]}
    shown |= {name: [_named(row) for row in document[name]] for name in _LISTS}
    return json.dumps(_without_ages(shown), sort_keys=True)


def _without_ages(value: Any) -> Any:
    """The same without how long anything has been so: that moves while nothing changes."""
    if isinstance(value, dict):
        return {key: _without_ages(each) for key, each in value.items() if key != "since_s"}
    return [_without_ages(each) for each in value] if isinstance(value, list) else value


def _vertex(vertex: Any) -> dict[str, Any]:
    found = {key: vertex[key] for key in _CONTENT if key in vertex}
    if "child" in found:
        found["child"] = [_vertex(child) for child in found["child"]]
    return found


def _named(row: Any) -> Any:
    return _vertex(row) if isinstance(row, dict) and "kind" in row else row


class EventJudge:
    """Judges one listener's events over its reconnections: none may be missing without a reset."""

    def __init__(self) -> None:
        self.last_id = ""
        self.last: tuple[str, int] | None = None
        self._was_reset = False

    def judge(self, kind: str, event_id: str, data: Any) -> Iterator[Violation]:
        """Judges one event; `event_id` is GENERATION.RUN, or "" where the event has none."""
        if kind not in {"change", "reset"}:
            return
        number, _, run = event_id.partition(".")
        stated = data.get("generation") if isinstance(data, dict) else None
        if not number.isdecimal() or stated != int(number):
            yield Violation(Kind.EVENTS, f"{kind} {event_id!r} tells of generation {stated}")
            return
        generation = int(number)
        if kind == "change":
            yield from self._gap(run, generation)
        self.last_id, self.last, self._was_reset = event_id, (run, generation), kind == "reset"

    def _gap(self, run: str, generation: int) -> Iterator[Violation]:
        """Of a change; one that was under way when the reset was said may follow it."""
        if self.last is None or (run, generation - 1) == self.last:
            return
        if not (self._was_reset and run == self.last[0] and generation <= self.last[1]):
            heard = f"{self.last[1]}.{self.last[0]}"
            yield Violation(Kind.EVENTS, f"{generation}.{run} after {heard}")

    def behind(self, run: str, generation: int) -> Iterator[Violation]:
        """Judges a listener that has had all the time to hear of a generation."""
        if self.last is not None and self.last != (run, generation):
            heard = f"{self.last[1]}.{self.last[0]}"
            yield Violation(
                Kind.EVENTS, f"{generation}.{run} is served, {heard} was the last event"
            )
