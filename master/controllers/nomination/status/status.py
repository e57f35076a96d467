"""What is said of each gang, since when, and the smallest change that would let it in."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import structlog

from master.booking.planner import Outcome, Planner
from master.controllers.nomination.status.status_writer import Told
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.machine.instructions import Say
from topo.gangs.machine.placement_requests import request_of
from topo.model.conditions.gang_states import GangState
from topo.placement.advice.suggestion import SuggestionKind

_log = structlog.get_logger(__name__)


class Said:
    """What was said last of each gang; `tell` writes it where people look."""

    def __init__(
        self,
        planner: Planner,
        clock: Callable[[], float],
        tell: Callable[[GangId, Told], None],
    ) -> None:
        self._planner, self._clock, self._tell = planner, clock, tell
        self._told: dict[GangId, Told] = {}
        self._would_fit: dict[GangId, str] = {}
        self._advice: set[asyncio.Task[None]] = set()

    def of(self, gang_id: GangId) -> Told | None:
        """What was said last of this gang."""
        return self._told.get(gang_id)

    def all(self) -> Iterable[tuple[GangId, Told]]:
        """What was said last of each gang."""
        return self._told.items()

    def would_fit(self, gang_id: GangId) -> str:
        """The smallest change found that would let the gang in; empty where none is known."""
        return self._would_fit.get(gang_id, "")

    def forget(self, gang_id: GangId) -> None:
        """The gang is gone."""
        self._told.pop(gang_id, None)
        self._would_fit.pop(gang_id, None)

    def say(self, said: Say, gang: Gang | None) -> None:
        """Keeps it, and tells it at once, or with advice where that helps."""
        before = self._told.get(said.id)
        stood = before is not None and before.reason is said.reason
        since_s = before.since_s if before is not None and stood else self._clock()
        told = self._told[said.id] = Told(said.reason, said.note, since_s)
        self._would_fit.pop(said.id, None)
        if gang is None:
            return
        _log.info("gang", gang=said.id, name=gang.name, stands=said.reason.value, why=said.note)
        if said.reason.row.is_advised:
            self._advice.add(asyncio.ensure_future(self._advise(gang, told)))
        else:
            self._tell(said.id, told)

    def end_advice(self) -> None:
        """Takes up what ended; advice that failed is raised, as all that is not foreseen."""
        for task in [each for each in self._advice if each.done()]:
            self._advice.discard(task)
            task.result()

    async def cancel(self) -> None:
        """Returns when no advice is being looked for any more."""
        for task in self._advice:
            task.cancel()
        await asyncio.gather(*self._advice, return_exceptions=True)

    def by_reason(self) -> Mapping[GangState, int]:
        """How many gangs stand so."""
        return Counter(each.reason for each in self._told.values())

    def longest_s(self) -> Mapping[GangState, float]:
        """How long the one that stands so for longest does."""
        since_s: dict[GangState, float] = {}
        for each in self._told.values():
            since_s[each.reason] = min(each.since_s, since_s.get(each.reason, each.since_s))
        now_s = self._clock()
        return {reason: now_s - began_s for reason, began_s in since_s.items()}

    async def look_anew(self, gang: Gang) -> None:
        """Finds what would let the gang in now: what would have when it was told may not any more.

        Nothing is told of it.
        """
        told = self._told.get(gang.id)
        if told is not None and told.reason.row.is_advised:
            await self._look(gang, told)

    async def _advise(self, gang: Gang, told: Told) -> None:
        """Tells it with the smallest change that would let the gang in, once that is found."""
        await self._look(gang, told)
        if self._told.get(gang.id) is told:
            self._tell(gang.id, replace(told, would_fit=self.would_fit(gang.id)))

    async def _look(self, gang: Gang, told: Told) -> None:
        """Keeps what would let the gang in, unless it has come to stand elsewhere meanwhile."""
        request = request_of(gang, self._clock())
        outcome = await self._planner.in_words(self._planner.plan(request), None)
        if self._told.get(gang.id) is told:
            self._would_fit[gang.id] = _change(outcome, told.note)


def _change(outcome: Outcome, note: str) -> str:
    """What would let a gang in, `note` having been said of why it waits.

    Its pods are there: to take some away is the last thing to suggest.
    """
    if outcome.ever:
        why, *smaller = outcome.ever
        because = "" if why == note else f": {why}"
        return " ".join((f"With all nodes open and empty it would not fit{because}.", *smaller))
    changes = [each for each in outcome.would_fit if each.kind is not SuggestionKind.FEWER_PODS]
    return next((each.text for each in (*changes, *outcome.would_fit)), "")
