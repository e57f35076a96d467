"""The objects that are set aside, because handling them raised an error, and why.

One error of an object is logged once, with its traceback the first time that this line of code
raises it; counted by the kind of object; and shown by `topo doctor` while the object is set aside.
What becomes of an object meanwhile is its handler's business (`ObjectKind.effect`).
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Self, TypeVar

import prometheus_client as prom
import structlog

from topo.kit.metrics import counter, gauge, read_each
from topo.model.conditions.master import MasterCondition
from topo.model.isolation import ObjectError, attempt, attempt_async
from topo.model.rest.topology import WarningDocument
from topo.model.words import listed

T = TypeVar("T")
MOST_TRACES = 256
"""Lines of code whose traceback is logged; of more the reason alone: nobody is to fill a disk."""

_log = structlog.get_logger(__name__)


class ObjectKind(StrEnum):
    """A kind of object that can be set aside: the label of metrics, and what follows for it."""

    effect: str
    """What happens to an object that is set aside."""

    def __new__(cls, label: str, effect: str) -> Self:
        """Make the member of a row."""
        member = str.__new__(cls, label)
        member._value_, member.effect = label, effect
        return member

    GANG = ("gang", "its pods keep their gates until the gate timeout; others go on")
    ADVICE = ("gang-advice", "what would let it in is not told; it is placed as others are")
    REQUEST = ("provisioning-request", "it is decided again when it changes")
    WORKLOAD = ("workload", "it is held, and decided again when it changes")
    EXTENDER_GANG = ("extender-gang", "its pods have no plan, and no node is kept for them")
    OBJECT = ("kubernetes-object", "what was known of it stays, until it changes")
    WRITE = ("write", "what this master writes on it stays as it is, until one of both changes")
    REPORT = ("report", "what was known of the node stays, until its worker reports something else")
    HOLD = ("hold", "its record stays in a file of its own, and its nodes are not kept")


class ObjectErrors:
    """The objects of one master that are set aside. Only the event loop may touch it."""

    def __init__(self, registry: prom.CollectorRegistry | None = None) -> None:
        registry = registry or prom.CollectorRegistry()
        self._set_aside: dict[ObjectKind, dict[str, str]] = {kind: {} for kind in ObjectKind}
        self._places: set[tuple[ObjectKind, str]] = set()
        self._raised = counter(registry, "topo_master_object_errors", ObjectKind)
        read_each(gauge(registry, "topo_master_objects_set_aside"), ObjectKind, self._counts)

    def run(self, kind: ObjectKind, name: str, step: Callable[[], T]) -> T | ObjectError:
        """Return the result of the only step of an object, or its error.

        The object is set aside by an error, and no more once its step succeeds.
        """
        found = attempt(step)
        self.note(kind, name, found if isinstance(found, ObjectError) else None)
        return found

    async def run_async(self, kind: ObjectKind, name: str, work: Awaitable[T]) -> T | ObjectError:
        """Return the result of the only awaited step of an object, or its error, as `run` does."""
        found = await attempt_async(work)
        self.note(kind, name, found if isinstance(found, ObjectError) else None)
        return found

    def note(self, kind: ObjectKind, name: str, error: ObjectError | None) -> None:
        """Note that an object is set aside for an error; for None, that it is not any more."""
        known = self._set_aside[kind]
        if error is None:
            if known.pop(name, None) is not None:
                _log.info("an object that was set aside is handled again", kind=kind, object=name)
            return
        self._raised.labels(kind.value).inc()
        if known.get(name) != error.reason:
            known[name] = error.reason
            self._tell(kind, name, error)

    def clear(self, kind: ObjectKind, name: str) -> None:
        """Note that an object is gone, or is to be tried anew: nothing is held against it."""
        self._set_aside[kind].pop(name, None)

    def retain(self, kind: ObjectKind, names: Collection[str]) -> None:
        """Forget the objects of a kind that are not among these. O(those set aside)."""
        for name in [each for each in self._set_aside[kind] if each not in names]:
            self.clear(kind, name)

    def scope(self, kind: ObjectKind, prefix: str) -> "ErrorScope":
        """Return the errors of one part, which calls its objects by this prefix and their name."""
        return ErrorScope(self, kind, prefix)

    def of(self, kind: ObjectKind) -> Mapping[str, str]:
        """Return the objects of a kind that are set aside, and why."""
        return MappingProxyType(self._set_aside[kind])

    def warnings(self) -> tuple[WarningDocument, ...]:
        """Return a warning for each kind of which objects are set aside."""
        return tuple(
            WarningDocument.of(MasterCondition.OBJECT_SET_ASIDE, _text(kind, known))
            for kind, known in self._set_aside.items()
            if known
        )

    def _counts(self) -> Mapping[ObjectKind, float]:
        return {kind: len(known) for kind, known in self._set_aside.items()}

    def _tell(self, kind: ObjectKind, name: str, error: ObjectError) -> None:
        said = {"kind": kind.value, "object": name, "why": error.reason, "at": error.place}
        place = kind, error.place
        if place not in self._places and len(self._places) < MOST_TRACES:
            self._places.add(place)
            said["traceback"] = error.trace
        _log.error("an object is set aside", **said)


@dataclass(frozen=True, slots=True)
class ErrorScope:
    """The objects that one part sets aside, by the names that it gives them."""

    errors: ObjectErrors
    kind: ObjectKind
    prefix: str

    def run(self, name: str, step: Callable[[], T]) -> T | ObjectError:
        """Return the result of the only step of an object, or its error (`ObjectErrors.run`)."""
        return self.errors.run(self.kind, self._title(name), step)

    def note(self, name: str, error: ObjectError | None) -> None:
        """Note that an object is set aside for an error; for None, that it is not any more."""
        self.errors.note(self.kind, self._title(name), error)

    def clear(self, name: str) -> None:
        """Note that nothing is held against an object any more."""
        self.errors.clear(self.kind, self._title(name))

    def retain(self, names: Collection[str]) -> None:
        """Forget the objects of this part that are not among these. O(all set aside)."""
        if not self.errors.of(self.kind):
            return
        there = {self._title(name) for name in names}
        for title in tuple(self.errors.of(self.kind)):
            if title.startswith(f"{self.prefix} ") and title not in there:
                self.errors.clear(self.kind, title)

    def _title(self, name: str) -> str:
        return f"{self.prefix} {name}"


def _text(kind: ObjectKind, known: Mapping[str, str]) -> str:
    """Return the names, and the reason of the one that was set aside last."""
    *_, (name, why) = known.items()
    return f"{kind.value} ({len(known)}): {listed(sorted(known))}; {name}: {why}; {kind.effect}"
