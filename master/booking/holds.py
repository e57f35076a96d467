"""Holds for callers of the API: created, saved before they are promised, committed, released."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from master.booking.planner import Outcome, Planner, ThreadPlan
from master.booking.state import BookingState
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.placement.booking.events import HoldAsked, HoldChange, HoldCommitted, HoldReleased, What
from topo.placement.booking.holds import (
    Ended,
    Hold,
    HoldId,
    HoldRefused,
    HoldRequest,
    HoldState,
    Obstacle,
    unusable_nodes,
)
from topo.placement.job.plan import NoFit, Pods
from topo.placement.job.request import Request

LIST_AGE_S = 0.25
"""The list of all holds that is given out is at most this old."""


class HoldService:
    """Turns calls about holds into events of the bookings, and their changes into answers."""

    def __init__(
        self, state: BookingState, planner: Planner, reserved: Callable[[Request], None]
    ) -> None:
        self._state, self._planner, self._reserved = state, planner, reserved
        self._list: tuple[object, float, bytes] = None, 0.0, b""
        self._listing = asyncio.Lock()

    def find_existing(self, wish: HoldRequest) -> Hold | HoldRefused | None:
        """Return the hold that the wish's key has, or why the wish is impossible; None: plan it."""
        bookings, metrics, now_s = self._state.bookings, self._state.metrics, self._state.clock()
        found = bookings.find_by_key(wish, now_s) or bookings.refuse_impossible(wish, now_s)
        if isinstance(found, HoldRefused):
            metrics.declined(found.obstacle)
        elif found is not None:
            metrics.count(What.REPEATED)
        return found

    def hold(
        self,
        wish: HoldRequest,
        given: Sequence[Pods] | None = None,
        aside: ThreadPlan | None = None,
    ) -> Outcome | HoldRefused:
        """Book the best placement now, or the groups `given` if they still fit.

        Call `find_existing` before. `aside` is what was planned for the wish in a thread, if
        anything.
        """
        planner, request = self._planner, wish.request
        outcome = planner.confirm_or_replan(request, aside) if aside else planner.plan(request)
        if given is not None:
            outcome = planner.prefer_groups(request, outcome, given)
        if isinstance(outcome.result, NoFit):
            return outcome
        hold_id = HoldId(f"hold-{secrets.token_hex(6)}")
        asked = HoldAsked.of(wish, outcome.result, hold_id, outcome.generation)
        *_, change = self._state.advance(asked)
        if isinstance(change, HoldRefused):
            return change
        assert isinstance(change, HoldChange), "it was reserved"  # noqa: S101 - for the checker
        self._reserved(request)
        return replace(outcome, hold=change.hold)

    async def wait_until_saved(self, hold: Hold, *, new: bool) -> HoldRefused | None:
        """Wait until the hold is on disk, if holds are kept there; return why it is not, or None.

        A new hold that cannot be saved is released, since a restart would forget it.
        """
        refused = await self.wait_until_changes_are_saved(
            "so the hold was given back" if new else "so a restart may forget this"
        )
        if refused is not None and new:
            self.release(hold.id)
        return refused

    async def wait_until_changes_are_saved(
        self, done: str = "so a restart may forget this"
    ) -> HoldRefused | None:
        """Wait until all changes of holds are on disk; return why they are not, or None.

        `done` is what that means for the caller.
        """
        why = await self._state.saved.wait()
        if not why:
            return None
        self._state.metrics.declined(Obstacle.DISK)
        what = f"the state file cannot be written ({why}), {done}"
        fix = "do what it says, make room or mend the rights of its directory, and ask again"
        return HoldRefused(Obstacle.DISK, Refusal(what, "--state-file", fix))

    def commit(self, hold_id: HoldId) -> Hold | Ended | None:
        """Remove the time limit of a hold and return it.

        Returns how it ended if it is gone, None if it never was.
        """
        self._state.advance(HoldCommitted(hold_id))
        return self._state.find_hold(hold_id)

    def release(self, hold_id: HoldId) -> Hold | Ended | None:
        """End a hold and return it.

        Returns how it ended before if it was gone, None if it never was.
        """
        *_, change = self._state.advance(HoldReleased(hold_id))
        return change.hold if isinstance(change, HoldChange) else self._state.find_hold(hold_id)

    def booked_gpus(self) -> list[tuple[HoldState, int]]:
        """Return the state of each hold and the GPUs that it books for pods not there yet."""
        awaited = self._state.bookings.awaited
        return [(hold.state, sum(awaited(hold.id).values())) for hold in self._state.holds()]

    async def render_list(self, render: Callable[[Sequence[Hold], float], bytes]) -> bytes:
        """Return the rendered list of all holds, at most `LIST_AGE_S` old, shared by concurrent
        callers.
        """
        async with self._listing:
            holds, now_s = self._state.holds(), self._state.clock()
            shown_are = self._state.bookings.version, len(holds)
            made_of, made_s, body = self._list
            if made_of != shown_are or now_s - made_s >= LIST_AGE_S:
                body = await asyncio.to_thread(render, holds, now_s)
                self._list = shown_are, now_s, body
            return body

    def unusable_nodes(self, hold: Hold) -> Mapping[NodeName, str]:
        """Return the nodes of a hold that changed since it was made, with the reason."""
        return unusable_nodes(self._state.capacity, hold)
