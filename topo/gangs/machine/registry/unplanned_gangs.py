"""Gangs for which nothing is planned: their job is gone, or an error set them aside.

What is left to do for them is the same whatever was planned: remove the remains of a gang that is
gone (`cleanup_writes`), give back the holds of one that is set aside and open its gates after the
gate timeout (`set_aside_writes`). No gang is in both.

Cost: O(members) for a gang in each call.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from topo.gangs.machine.dispatch import (
    cleanup_writes,
    issue_writes,
    refused_writes,
    unexpired_writes,
    unfinished_writes,
)
from topo.gangs.machine.events import Vanished, WriteRefused
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.machine.instructions import Instruction, ReportStatus
from topo.gangs.machine.record import DeletedGang, Writes
from topo.gangs.machine.registry.unreadable import Failures, SetAside, set_aside_writes
from topo.gangs.machine.settings import GangSettings
from topo.gangs.status import GangStatus
from topo.model.isolation import ObjectError


class UnplannedGangs:
    """Mutable; the machine owns it."""

    def __init__(self, settings: GangSettings) -> None:
        self._settings = settings
        self._gone: dict[GangId, DeletedGang] = {}
        self._set_aside: dict[GangId, SetAside] = {}
        self._failures: dict[GangId, Failures] = {}
        """Of gangs that were set aside since they came, also of those that were read again."""

    # Queries

    def __contains__(self, gang_id: object) -> bool:
        return gang_id in self._gone or gang_id in self._set_aside

    def __iter__(self) -> Iterator[GangId]:
        yield from (*self._gone, *self._set_aside)

    @property
    def gone(self) -> tuple[DeletedGang, ...]:
        """The gangs whose remains are being removed."""
        return tuple(self._gone.values())

    @property
    def set_aside(self) -> tuple[SetAside, ...]:
        """The gangs that an error set aside."""
        return tuple(self._set_aside.values())

    def find(self, gang_id: GangId) -> SetAside | None:
        """Return a gang that is set aside; None for any other; O(1)."""
        return self._set_aside.get(gang_id)

    def status(self, gang_id: GangId) -> GangStatus | None:
        """Return the status of a gang that is set aside; None for any other."""
        aside = self._set_aside.get(gang_id)
        return aside.status if aside is not None else None

    # Changes

    def observe(self, gang: Gang) -> bool:
        """Take a gang as it is now, which is not gone; return whether it is set aside."""
        self._gone.pop(gang.id, None)
        aside = self._set_aside.get(gang.id)
        if aside is not None:
            self._set_aside[gang.id] = replace(aside, gang=gang)
        return aside is not None

    def vanish(self, event: Vanished) -> None:
        """Take the remains of a gang whose job is gone."""
        self._set_aside.pop(event.id, None)
        self._failures.pop(event.id, None)
        gone = self._gone.get(event.id)
        self._gone[event.id] = DeletedGang(event, gone.given if gone is not None else {})

    def put_aside(self, gang: Gang, error: ObjectError, now_s: float, given: Writes | None) -> None:
        """Set a gang aside for an error; `given` are its pending writes, None for those that it has
        here. That one of them failed is not known: as it is, it is late after a while.
        """
        self._gone.pop(gang.id, None)
        before, failures = self._set_aside.get(gang.id), self._failures.get(gang.id)
        if given is None:
            given = before.given if before is not None else {}
        failures = failures.next(now_s, self._settings) if failures else Failures.first(gang, now_s)
        self._failures[gang.id] = failures
        is_reported = before is not None and before.is_reported and before.error == error
        self._set_aside[gang.id] = SetAside(
            gang, gang, error, failures, given, is_reported=is_reported
        )

    def due_again(self, gang_id: GangId, now_s: float) -> Gang | None:
        """Return a gang that was set aside, is another one now and may be tried; else None."""
        aside = self._set_aside.get(gang_id)
        is_due = (
            aside is not None
            and aside.gang != aside.failed
            and now_s >= aside.failures.retry_s(self._settings)
        )
        return aside.gang if aside is not None and is_due else None

    def readmit(self, gang_id: GangId, now_s: float) -> Writes:
        """Drop a gang that could be read again; return its pending writes."""
        aside = self._set_aside.pop(gang_id)
        self._failures[gang_id] = replace(aside.failures, read_s=now_s)
        return unfinished_writes(aside.given, aside.gang)

    def refuse(self, event: WriteRefused, now_s: float) -> bool:
        """Take the refusal of a write; return whether it was for one of these gangs."""
        known: DeletedGang | SetAside | None = self._gone.get(event.id)
        known = known or self._set_aside.get(event.id)
        if known is None:
            return False
        given = refused_writes(known.given, event, now_s, self._settings)
        if isinstance(known, DeletedGang):
            self._gone[event.id] = replace(known, given=given)
        else:
            self._set_aside[event.id] = replace(known, given=given)
        return True

    def settle(self, gang_id: GangId, now_s: float) -> tuple[list[Instruction], float]:
        """Return what is to be written and reported for a gang now, and when it is due again.

        That time is infinite where only an event can change something.
        """
        if (gone := self._gone.get(gang_id)) is not None:
            return self._settle_gone(gone, now_s)
        aside = self._set_aside.get(gang_id)
        return self._settle_aside(aside, now_s) if aside is not None else ([], inf)

    def _settle_gone(self, gone: DeletedGang, now_s: float) -> tuple[list[Instruction], float]:
        left = gone.left
        want = cleanup_writes(left)
        if not want:
            del self._gone[left.id]
            return [], inf
        under_way = {key: each for key, each in gone.given.items() if key in want}
        pending, late_s = unexpired_writes(under_way, now_s), now_s + self._settings.given_s
        writes, kept = issue_writes(under_way, want, pending=pending, late_s=late_s)
        self._gone[left.id] = DeletedGang(left, kept)
        return writes, min(each.until_s for each in kept.values())

    def _settle_aside(self, aside: SetAside, now_s: float) -> tuple[list[Instruction], float]:
        gang_id = aside.gang.id
        given = unfinished_writes(aside.given, aside.gang)
        pending, late_s = unexpired_writes(given, now_s), now_s + self._settings.given_s
        opens_s = aside.failures.since_s + (self._settings.gate_s or inf)
        want = set_aside_writes(aside, opens=now_s >= opens_s)
        writes, kept = issue_writes(given, want, pending=pending, late_s=late_s)
        if not aside.is_reported:
            writes.append(ReportStatus(gang_id, aside.status.state, aside.status.text))
        self._set_aside[gang_id] = replace(aside, given=kept, is_reported=True)
        retry_s = aside.failures.retry_s(self._settings) if aside.gang != aside.failed else inf
        times = (opens_s, retry_s, *(each.until_s for each in kept.values()))
        return writes, min((each for each in times if each > now_s), default=inf)
