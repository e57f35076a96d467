"""The one owner of free capacity and holds: it follows the forest, places, books, and forgets.

Everything here runs on the event loop and none of it waits, so between looking and booking nobody
else can take what was found.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import structlog

from master.booking.advice import Advice, Adviser, advice_on
from master.booking.executors import Aside, Turns
from master.booking.fragmentation_report import Survey, Surveyor
from master.booking.ledger import Ledger
from master.booking.metrics import PlacementMetrics
from master.tree.engine import Clock
from topo.model.errors import BadInputError, Refusal
from topo.model.forest import Snapshot
from topo.model.ids import NodeName
from topo.placement.advice.explain import explain
from topo.placement.advice.suggestion import Suggestion
from topo.placement.booking.confirm import confirmed
from topo.placement.booking.holds import (
    Declined,
    Ended,
    Grant,
    Hold,
    HoldId,
    Holds,
    HoldsMemory,
    Limits,
    Obstacle,
    Wish,
    lost,
)
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.follow import Follower
from topo.placement.capacity.recount import host_differences, restore_hosts
from topo.placement.capacity.what_if import Assumptions, assumed
from topo.placement.engine import place
from topo.placement.job.plan import NoFit, Plan, Pods
from topo.placement.job.policy import Policy
from topo.placement.job.request import Request
from topo.placement.report.usage import Room, rooms

TICK_S = 0.25
"""How long after its deadline an expired hold may stay in sight of those who only look."""
SURVEY_S = 15.0
"""The gauges of free groups are at most this old, which is how often Prometheus usually asks."""
LARGE_PODS = 1000
"""Placing more, with the words about it, takes the loop for longer than a few milliseconds."""
_LOGGED_DIFFERENCES = 20

R = TypeVar("R")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan or a refusal, in words; `hold` where it was booked.

    `replanned` is None where no groups were given to take.
    """

    result: Plan | NoFit
    generation: int
    explanation: Sequence[str]
    would_fit: Sequence[Suggestion] = ()
    rooms: Sequence[Room] = ()
    hold: Hold | None = None
    replanned: str | None = None


class Placements:
    """Owns the capacity and the holds of one master. Only the event loop may touch it."""

    def __init__(
        self, policy: Policy, limits: Limits, metrics: PlacementMetrics, clock: Clock
    ) -> None:
        self.capacity = Capacity(policy)
        self.holds = Holds(self.capacity, limits)
        self.clock = clock
        self._metrics = metrics
        self._follower = Follower(self.capacity)
        self._generation = 0
        self._absent: set[str] = set()
        self._adviser = Adviser(self.capacity)
        self.surveyor = Surveyor(self.capacity, metrics)
        self.turns, self.aside = Turns(), Aside()
        """For those who ask: `turns` before any work on the loop, `aside` for long work."""
        self._listed = -1, 0.0, b""
        self._listing = asyncio.Lock()
        self.ledger = Ledger()

    def follow(self, snapshot: Snapshot) -> None:
        """Takes over what is published; O(changes)."""
        self._generation = snapshot.generation
        if snapshot.forest is not self._follower.forest:
            self._follower.follow(snapshot.forest)

    def answer(self, request: Request) -> Answer:
        """The best placement now, and why; nothing is booked. A refusal is not `advised` yet."""
        self._expire()
        return self._answer(self.capacity, request)

    async def what_if(
        self, request: Request, assumptions: Assumptions, told: Callable[[Answer], R]
    ) -> R:
        """What `told` makes of the same on a copy under assumptions, all of it in a thread.

        Raises `BadInputError` for unknown nodes, `CrowdedError` when too many wait.
        """

        def begin() -> Callable[[], R]:
            self._expire()
            return partial(find, self.capacity.copy(), self._generation)

        def find(copy: Capacity, generation: int) -> R:
            seen = assumed(copy, assumptions)
            if isinstance(seen, Refusal):
                raise BadInputError(seen)
            answer = replace(self._answer(seen, request), generation=generation)
            if isinstance(answer.result, NoFit):
                answer = _with(advice_on(seen, answer.result), answer)
            return told(answer)

        return await self.aside.do(begin)

    async def advised(self, answer: Answer) -> Answer:
        """The answer with why the job does not fit, if so, and the changes under which it would."""
        if isinstance(answer.result, Plan):
            return answer
        return _with(await self._adviser.advice(answer.result), answer)

    def known(self, wish: Wish) -> Hold | Declined | None:
        """The hold that the wish's key has, if any, or why there can be none, before planning."""
        self._expire()
        found = self.holds.known(wish) or self.holds.flaw(wish)
        if isinstance(found, Declined):
            self._metrics.declined(found.obstacle)
        elif found is not None:
            self._metrics.count("repeated")
        return found

    def hold(self, wish: Wish, given: Sequence[Pods] | None = None) -> Answer | Declined:
        """The best placement now, booked; or the groups `given`, where they still fit.

        Ask `known` before.
        """
        answer = self.answer(wish.request)
        if given is not None:
            answer = self._taken(answer, given)
        if isinstance(answer.result, NoFit):
            return answer
        grant = Grant(HoldId(f"hold-{secrets.token_hex(6)}"), answer.generation)
        hold = self.holds.reserve(wish, answer.result, grant, self.clock())
        if isinstance(hold, Declined):
            self._metrics.declined(hold.obstacle)
            return hold
        self.surveyor.saw(wish.request)
        self._counted("reserved", hold)
        return replace(answer, hold=hold)

    async def promised(self, hold: Hold, *, new: bool) -> Declined | None:
        """None once the hold is on disk, where holds are kept there; else why it is not.

        A new one is then given back: it could be lost.
        """
        why = await self.ledger.kept()
        if not why:
            return None
        if new:
            self.release(hold.id)
        self._metrics.declined(Obstacle.DISK)
        done = "so the hold was given back" if new else "so a restart may forget this"
        what = f"the state file cannot be written ({why}), {done}"
        fix = "make room or mend the rights of the state file's directory, and ask again"
        return Declined(Obstacle.DISK, Refusal(what, "--state-file", fix))

    def commit(self, hold_id: HoldId) -> Hold | Ended | None:
        """The hold without its time limit; how it ended, or None for one that never was."""
        self._expire()
        before = self.holds.version
        hold = self.holds.commit(hold_id, self.clock())
        if isinstance(hold, Hold) and self.holds.version != before:
            self._counted("committed", hold)
        return hold

    def release(self, hold_id: HoldId) -> Hold | Ended | None:
        """The hold that is not any more; how it ended before, or None for one that never was."""
        self._expire()
        hold = self.holds.release(hold_id, self.clock())
        if isinstance(hold, Hold):
            self._counted("released", hold)
        return hold

    def find(self, hold_id: HoldId) -> Hold | Ended | None:
        """A hold, how it ended, or None."""
        self._expire()
        return self.holds.find(hold_id)

    def all(self) -> list[Hold]:
        """All holds, the oldest first."""
        self._expire()
        return list(self.holds)

    async def listed(self, tell: Callable[[Sequence[Hold], float], bytes]) -> bytes:
        """All holds as `tell` has them, at most `TICK_S` old; made once for all who ask."""
        async with self._listing:
            self._expire()
            version, made_s, body = self._listed
            now_s = self.clock()
            if version != self.holds.version or now_s - made_s >= TICK_S:
                version = self.holds.version
                body = await asyncio.to_thread(tell, list(self.holds), now_s)
                self._listed = version, now_s, body
            return body

    def lost(self, hold: Hold) -> dict[NodeName, str]:
        """The nodes of a hold that are not as they were."""
        return dict(lost(self.capacity, hold))

    def memory(self) -> HoldsMemory:
        """What the state file keeps of the holds."""
        self._expire()
        return self.holds.memory(time.time() - self.clock())

    def restore(self, memory: HoldsMemory) -> None:
        """Takes up the holds of an earlier process; those that ended meanwhile are said."""
        now_s = self.clock()
        dropped = self.holds.restore(memory, now_s, time.time() - now_s)
        for hold in dropped:
            self._metrics.count("expired")
            _log.info("hold expired while the master was away", hold=hold.id, pods=_pods(hold))
        if len(self.holds):
            _log.info("holds restored", holds=len(self.holds))
        for _ in self.holds:
            self._metrics.count("restored")
        if dropped:
            self.ledger.note()

    async def survey(self) -> Survey:
        """The report on the capacity now."""
        return await self.surveyor.survey(self._generation)

    async def run(self, recount_s: float) -> None:
        """Ends holds in time, recounts, and renews the gauges, until cancelled."""
        recounted_s = surveyed_s = self.clock()
        while True:
            await asyncio.sleep(TICK_S)
            self._expire()
            now_s = self.clock()
            if now_s - recounted_s >= recount_s:
                recounted_s = now_s
                await self.recount()
            if now_s - surveyed_s >= SURVEY_S:
                surveyed_s = now_s
                await self.survey()

    async def recount(self) -> None:
        """Counts everything anew; what the increments got wrong is said, and corrected.

        The hosts are compared in a thread, on a copy: that is most of the work.
        """
        copy, follower = self.capacity.copy(), self._follower
        moved = await asyncio.to_thread(
            host_differences, copy, follower.forest, follower.cluster.copy()
        )
        if moved:
            nodes = [each.node for each in moved]
            restore_hosts(self.capacity, follower.forest, follower.cluster, nodes)
        found = (*moved, *self.holds.recount(), *self.capacity.recount())
        self._metrics.recounted(len(found))
        for difference in found[:_LOGGED_DIFFERENCES]:
            _log.warning(
                "capacity was counted wrongly",
                node=difference.node,
                kept=difference.kept,
                counted=difference.counted,
                differences=len(found),
            )

        self._check_reserves()

    def _check_reserves(self) -> None:
        """Says once that a reserve names a group that is not there (any more)."""
        layout = self.capacity.layout()
        paths = [path for path, _ in self.capacity.policy.reserves]
        absent = {"/".join(path) for path in paths if layout.range_of(path) is None}
        for path in sorted(absent - self._absent):
            _log.warning("a reserve names no group of the tree", path=path, fix="--reserve-groups")
        self._absent = absent

    def _answer(self, capacity: Capacity, request: Request) -> Answer:
        began_s = time.perf_counter()
        result = place(capacity, request)
        self._metrics.placed(result, time.perf_counter() - began_s)
        if isinstance(result, Plan):
            told = explain(capacity, result)
            return Answer(result, self._generation, told, rooms=rooms(capacity, result))
        return Answer(result, self._generation, (result.text,))

    def _taken(self, answer: Answer, given: Sequence[Pods]) -> Answer:
        """The groups given instead of the best ones; or the best ones, and why not those given."""
        best = answer.result
        request = best.request
        found = confirmed(self.capacity, request, given, best if isinstance(best, Plan) else None)
        if isinstance(found, str):
            return replace(answer, replanned=found)
        if isinstance(best, Plan) and found is best:
            return replace(answer, replanned="")
        told, full = explain(self.capacity, found), rooms(self.capacity, found)
        return Answer(found, answer.generation, told, rooms=full, replanned="")

    def _expire(self) -> None:
        for hold in self.holds.expire(self.clock()):
            self._counted("expired", hold)

    def _counted(self, what: str, hold: Hold) -> None:
        """Something happened to a hold: it is counted, logged and soon on disk."""
        self._metrics.count(what)
        self.ledger.note()
        _log.info(f"hold {what}", hold=hold.id, pods=_pods(hold), gpus=sum(hold.gpus.values()))


def _with(advice: Advice, answer: Answer) -> Answer:
    return replace(answer, explanation=advice.reasons, would_fit=advice.would_fit)


def _pods(hold: Hold) -> int:
    return hold.wish.request.pods
