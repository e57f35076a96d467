"""The events of steps of the forest: rendered once, however many clients listen.

A change wakes all listeners at once, and each slow one keeps the text that it was given: rendered
for each listener, time and memory would grow with the number of streams.
"""

import asyncio
from collections.abc import Iterator, Sequence
from weakref import WeakValueDictionary

from master.api.events.booking_events import event
from master.tree.history import Step
from topo.model.forest import Change
from topo.model.rest.changes import ChangeDocument, StepDocument

SLICE_CHANGES = 250
"""Changes that are rendered on the event loop in one go: about a millisecond."""


class StepEvents:
    """The events of some consecutive steps, rendered at the first use. Listeners keep it alive."""

    def __init__(self, steps: Sequence[Step], run: str) -> None:
        self._steps = steps
        self._run = run
        self._made = b""
        self._turn = asyncio.Lock()

    async def made(self) -> bytes:
        """Return the text, rendered at the first call; more than `SLICE_CHANGES` in a thread."""
        async with self._turn:
            if not self._made:
                if sum(len(step.changes) for step in self._steps) > SLICE_CHANGES:
                    self._made = await asyncio.to_thread(_step_events, self._steps, self._run)
                else:
                    self._made = _step_events(self._steps, self._run)
            return self._made


class StepEventCache:
    """The step events that listeners hold now; nothing is kept beyond that."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[str, int, int], StepEvents] = WeakValueDictionary()

    def of(self, steps: Sequence[Step], run: str) -> Iterator[StepEvents]:
        """Return the events of consecutive steps, in slices; at least one step."""
        return (self._of(part, run) for part in _slices(steps))

    def _of(self, steps: Sequence[Step], run: str) -> StepEvents:
        key = (run, int(steps[0].generation), int(steps[-1].generation))
        text = self._known.get(key)
        if text is None:
            self._known[key] = text = StepEvents(steps, run)
        return text


def change_document(change: Change) -> ChangeDocument:
    """Return a change as a document."""
    generation, what, subject, before, after, why, status, fabric = change
    document: ChangeDocument = {
        "generation": generation,
        "what": what,
        "subject": subject,
        "before": before,
        "after": after,
        "why": why,
        "status": status,
    }
    if fabric:
        document["fabric"] = fabric
    return document


def _slices(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Split the steps into parts of at most `SLICE_CHANGES` changes; a larger step is alone."""
    part: list[Step] = []
    size = 0
    for step in steps:
        if part and size + len(step.changes) > SLICE_CHANGES:
            yield part
            part, size = [], 0
        part.append(step)
        size += len(step.changes) + 1
    yield part


def _step_events(steps: Sequence[Step], run: str) -> bytes:
    events = []
    for step in steps:
        changes = [change_document(change) for change in step.changes]
        data = StepDocument(generation=step.generation, changes=changes)
        events.append(event("change", data, f"{step.generation}.{run}"))
    return b"".join(events)
