"""A follower's loop: polls the leader's state and shows it.

When the leader fails, the follower goes on showing what it knows, with its age.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from urllib.parse import unquote

import structlog

from master.replicas import source_states
from master.replicas.credential import Credential
from master.replicas.leader_clock import HEADER as CLOCK
from master.replicas.leader_clock import LeaderClock
from master.replicas.peer import NoAnswerError, PeerAnswer, PeerMaster
from master.role import Role
from master.state.document import State, Unusable, decode
from topo.discovery.memory import Memory
from topo.discovery.modes import Mode
from topo.kit.process.boot import boot_id
from topo.model.errors import BadInputError
from topo.model.forest import SourceState
from topo.placement.booking.holds import ClockReading, HoldsMemory

PATH = "/v1/replica"
ORIGIN = "Topo-Origin"
"""The header with the origin of what a follower shows: an `Origin`."""
AGE = "Topo-Age"
"""The header with the seconds since the leader confirmed its document."""
POLL_S = 1.0
"""Time between two polls; an unchanged state is a 304."""
TIMEOUT_S = 10.0
MAX_TIME_SHARE = 0.25
"""The largest share of time for showing new states: 10,000 nodes take a second or two."""
MAX_BYTES = 256 << 20
"""100,000 nodes are 70 MB of JSON."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Replicated:
    """The leader's state, and when on our clock it was made."""

    state: State
    made_s: float

    @property
    def holds(self) -> HoldsMemory | None:
        """The holds, with times on our clock."""
        return self.on_our_clock(self.state.holds)

    def on_our_clock(self, holds: HoldsMemory | None) -> HoldsMemory | None:
        """Return holds that this leader kept, with times on our monotonic clock.

        Other holds, and those of a machine that does not tell its boots apart, are returned
        unchanged.
        """
        made = self.state.holds.saved if self.state.holds is not None else None
        if holds is None or holds.saved is None or made is None or not made.boot:
            return holds
        if holds.saved.boot != made.boot:
            return holds
        at_s = self.made_s + holds.saved.clock_s - made.clock_s
        return replace(holds, saved=ClockReading(boot_id(), at_s, holds.saved.unix_s))


class Origin(StrEnum):
    """The origin of what a follower shows."""

    LEADER = "leader"
    STORE = "config-maps"
    COPY = "state-copy"


@dataclass(frozen=True, slots=True)
class TakeUp:
    """Shows the state of another master: its judgement with its holds, and its sources.

    Times of sources are on our clock.
    """

    state: Callable[[Memory, HoldsMemory | None], Awaitable[None]]
    sources: Callable[[tuple[SourceState, ...]], None]


@dataclass(slots=True, eq=False)
class Follower:
    """The leader's state as this master knows it. `clock` is monotonic."""

    peer: PeerMaster
    mode: Mode
    _: KW_ONLY
    credential: Credential
    role: Callable[[], Role]
    take_up: TakeUp
    clock: Callable[[], float]
    _sources: tuple[SourceState, ...] = ()
    _tag: str = ""
    _worked_s: float = 0.0
    _failure: str = ""
    _leader_clock: LeaderClock = field(default_factory=LeaderClock)
    newest: Replicated | None = None
    """The last state of a leader."""
    kept: Replicated | None = None
    """The last state of a store or a copy."""
    origin: Origin | None = None
    """The origin of what is shown; None where nothing is."""
    heard_s: float | None = None
    """When what is shown was last known to hold; None before the first."""
    cables: str = ""
    """What the leader warns of about the plan of its cables; empty for nothing."""
    useless: str = ""
    """Why the leader's state cannot be used here, such as another mode; empty where it can."""

    @property
    def age_s(self) -> float | None:
        """The largest possible age of what is shown, in seconds."""
        return None if self.heard_s is None else max(0.0, self.clock() - self.heard_s)

    async def show_kept(self, kept: State, age_s: float, origin: Origin) -> None:
        """Show what a store or a copy keeps, until the leader answers."""
        await self.take_up.state(kept.memory, kept.holds)
        self.heard_s = self.clock() - age_s
        self.kept, self.origin = Replicated(kept, self.heard_s), origin

    async def run(self) -> None:
        """Follow until this master acts; then wait to be cancelled."""
        while not self.role().acts:
            if url := self.role().leader_url:
                await self._ask(url)
            await asyncio.sleep(max(POLL_S, self._worked_s / MAX_TIME_SHARE))
        await asyncio.Event().wait()

    async def _ask(self, url: str) -> None:
        """Poll the state, and the sources where there is something to show them with."""
        self._worked_s = 0.0
        failure = await self._poll_failure(self._poll_state(url, self.clock()))
        if self.origin is not None:
            failure = await self._poll_failure(self._poll_sources(url)) or failure
        if failure and not self._failure:
            _log.warning("the leader's state is not known", leader=url, why=failure[:300])
        if self._failure and not failure:
            _log.info("the leader's state is known again", leader=url)
        self._failure = failure

    async def _poll_failure(self, hearing: Awaitable[None]) -> str:
        """Return why a poll failed; empty if it did not."""
        try:
            await hearing
        except (NoAnswerError, BadInputError, ValueError) as error:
            return str(error) or "no reason is known"
        return ""

    async def _poll_state(self, url: str, asked_s: float) -> None:
        """Poll the state. Raises `NoAnswerError`, `BadInputError`; `ValueError` for
        another answer.
        """
        known = {"If-None-Match": self._tag} if self._tag else {}
        answer = await self._answer(url + PATH, MAX_BYTES, known)
        if answer.status not in {200, 304}:
            raise NoAnswerError(f"the leader answers {answer.status}")
        if CLOCK in answer.headers:
            self._leader_clock.note(answer.headers[CLOCK], asked_s)
        heard_s = asked_s - min(max(0.0, float(answer.headers.get(AGE, "0"))), 3600.0)
        if answer.status == 200:
            began_s = self.clock()
            found = await asyncio.to_thread(decode, answer.body, self.mode)
            self.useless = found.reason if isinstance(found, Unusable) else ""
            if isinstance(found, Unusable):
                raise NoAnswerError(f"its state is of no use here: {found.reason}")
            if self.role().acts:
                return  # it was on its way when we came to lead
            newest = Replicated(found, self._made_s(found, heard_s))
            await self.take_up.state(found.memory, newest.holds)
            self.newest, self._tag = newest, answer.headers.get("ETag", "")
            self.origin, self.kept = Origin.LEADER, None
            self._worked_s = self.clock() - began_s
        self.heard_s = heard_s

    def _made_s(self, found: State, least_s: float) -> float:
        """Return when on our clock a state was made, at `least_s` or later."""
        made = found.holds.saved if found.holds is not None else None
        made_s = self._leader_clock.time_of(made) if made is not None else None
        return least_s if made_s is None else made_s

    async def _poll_sources(self, url: str) -> None:
        """Poll the sources. Raises `NoAnswerError`; `ValueError` for another answer."""
        asked_s = self.clock()
        answer = await self._answer(url + source_states.PATH, source_states.MAX_BYTES, {})
        if answer.status == 404:
            return  # a leader of an earlier version, while masters are updated
        if answer.status != 200:
            raise NoAnswerError(f"the leader answers {answer.status} to what its sources say")
        self._sources = source_states.decode(answer.body, asked_s, self._sources)
        told = answer.headers.get(source_states.CABLES, "")
        self.cables = unquote(told)[: source_states.MAX_CABLES]
        self.take_up.sources(self._sources)

    async def _answer(self, url: str, limit_bytes: int, known: Mapping[str, str]) -> PeerAnswer:
        token = await self.credential.own()
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip", **known}
        return await self.peer.ask(
            "GET", url, headers=headers, limit_bytes=limit_bytes, timeout_s=TIMEOUT_S
        )
