"""The sources: what each states, the modes that need it, when its answer is complete, how it fares.

Discovery, readiness and the start of the master ask these rows what a mode needs; nothing else
decides it. A new source is one more `Source`, in one row of `master.sources.table`.

The forest may be shown once every source that the mode needs has settled. Readiness never goes
back: a failing source leaves the last good forest standing.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from topo.discovery.modes import WITHOUT_WORKERS, Mode
from topo.model.forest import Snapshot, SourceState, SourceWarning
from topo.model.ids import SourceName
from topo.model.observation import (
    CLUSTER_MANAGER,
    CLUSTER_NODES,
    CONFIG_FILE,
    FABRIC,
    WORKERS,
    SourceFailed,
    SourceWarned,
)

QUIET_S = 1.0
"""No new node for this long after the first one: those that start together have all reported."""
LONGEST_PAUSE_S = 5.0
"""A worker waits as long for a connection; in a longer pause of ours its tries may have failed."""


@dataclass(slots=True, kw_only=True)
class Startup:
    """What has happened since workers can reach us. Times in monotonic seconds.

    Within `heard_s` every running worker has spoken, however long it waits between its tries.
    Sooner, silence proves nothing, for those that ran before us may all be waiting. `is_first`:
    none did, as far as we know, for no state was ever kept.
    """

    began_s: float
    heard_s: float
    quiet_s: float = QUIET_S
    is_first: bool = False
    nodes: int = 0
    newest_node_s: float | None = None
    _reachable_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._reachable_s = self.began_s

    def note_reachable(self, now_s: float) -> None:
        """Note that workers can reach the master now.

        After a pause the start begins again: workers have tried in vain, and wait.
        """
        if now_s - self._reachable_s > LONGEST_PAUSE_S:
            self.began_s, self.is_first = now_s, False
        self._reachable_s = now_s

    def note_resumed_worker(self) -> None:
        """Note a worker that spoke from the middle of its sequence: others may have, too."""
        self.is_first = False

    def note_first_report(self, now_s: float) -> None:
        """Note that a node that had not spoken before sent its facts."""
        self.nodes += 1
        self.newest_node_s = now_s

    @property
    def hidden_s(self) -> float:
        """For how long a running worker may still be silent; 0 or less once all have spoken."""
        return self.heard_s - (self._reachable_s - self.began_s)

    def is_quiet(self, now_s: float) -> bool:
        """Return whether those that start with us for the first time have all reported."""
        newest_s = self.newest_node_s
        return self.is_first and newest_s is not None and now_s - newest_s >= self.quiet_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """What the rule of a source looks at when it is asked whether its answer is complete.

    `state` is None before the source is listened to. `all_joined`: another needed source lists the
    machines, and none of them is without a node.
    """

    state: SourceState | None
    startup: Startup
    all_joined: bool
    now_s: float


SettledRule = Callable[[SourceView], str]
"""Why the answer of a source is not complete yet, for people; "" once it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One row of the table. `needed_in`: the modes that show no forest before it has settled.

    A mode also needs each source that is named in the operator's precedence. `optional_in`: modes
    that use it without waiting for it. `lists_machines` says that it names
    machines before their workers speak; `is_asked`, that we ask it, and know soon what it says.
    """

    name: SourceName
    states: str
    needed_in: frozenset[Mode]
    optional_in: frozenset[Mode] = frozenset()
    lists_machines: bool = False
    is_asked: bool = True
    unsettled: SettledRule

    def is_needed_in(self, mode: Mode, precedence: tuple[SourceName, ...] = ()) -> bool:
        """Return whether no forest is shown before the source has settled."""
        return mode in self.needed_in or self.name in precedence

    def is_used_in(self, mode: Mode, precedence: tuple[SourceName, ...] = ()) -> bool:
        """Return whether the source is needed, or listened to."""
        return self.is_needed_in(mode, precedence) or mode in self.optional_in


def first_answer_rule(waiting: str) -> SettledRule:
    """Return the rule of a source whose first good answer is complete; `waiting` says what is
    missing.
    """

    def unsettled(view: SourceView) -> str:
        state = view.state
        if state is None or (state.last_good_at_s is None and not state.trouble):
            return waiting
        if state.last_good_at_s is not None:
            return ""
        return "; ".join(filter(None, (f"{waiting}: {state.trouble}", state.fix)))

    return unsettled


def _workers_unsettled(view: SourceView) -> str:
    """Return what is missing until no running worker can be silent any more."""
    startup = view.startup
    if startup.hidden_s <= 0 or startup.is_quiet(view.now_s):
        return ""
    if view.all_joined and startup.nodes:
        return ""
    nodes = "1 node" if startup.nodes == 1 else f"{startup.nodes} nodes"
    return (
        f"workers are still reporting ({nodes} so far): one that ran before this start "
        f"may be silent for another {math.ceil(startup.hidden_s)} s"
    )


CONFIGURED = Source(
    name=CONFIG_FILE,
    states="groups that the operator wrote down, with their nodes",
    needed_in=frozenset({Mode.CONFIG}),
    unsettled=first_answer_rule("the config file was not read yet"),
)
REPORTED = Source(
    name=WORKERS,
    states="each node's identity, GPUs, peers, NVLink domain and health",
    needed_in=frozenset(Mode) - WITHOUT_WORKERS,
    optional_in=WITHOUT_WORKERS,
    is_asked=False,
    unsettled=_workers_unsettled,
)
MANAGED = Source(
    name=CLUSTER_MANAGER,
    states="groups above the dragonflies, and the machines in them",
    needed_in=frozenset({Mode.SWITCHBOX}),
    lists_machines=True,
    unsettled=first_answer_rule("the cluster manager has not answered yet"),
)
LISTED = Source(
    name=CLUSTER_NODES,
    states="the cluster's nodes: which there are, which are Ready, their names and group labels",
    needed_in=frozenset(Mode),
    unsettled=first_answer_rule("the nodes and pods of Kubernetes were not taken up yet"),
)
"""Where there is Kubernetes every mode needs it: a node is Ready only while it says so."""
DUMPED = Source(
    name=FABRIC,
    states="the cables of a switched fabric: its leaves, and what connects them",
    needed_in=frozenset({Mode.FABRIC}),
    unsettled=first_answer_rule("no dump of the fabric was read, and no worker sees a switch yet"),
)
SOURCES = (CONFIGURED, REPORTED, MANAGED, DUMPED)
"""Those that need no Kubernetes."""


class _Warned(NamedTuple):
    """Warnings about a source, and when they end (monotonic seconds)."""

    warnings: tuple[SourceWarning, ...]
    until_s: float


class _Reading(NamedTuple):
    """What a source's answers are read from, and the warnings about them."""

    detail: str
    doubts: tuple[SourceWarning, ...]


class SourceStates:
    """The state of every source that a mode uses, in the order of the table; then of any other.

    Mutable; owned by the discovery state.
    """

    def __init__(
        self, sources: Iterable[Source], mode: Mode, precedence: tuple[SourceName, ...] = ()
    ) -> None:
        used = [source for source in sources if source.is_used_in(mode, precedence)]
        self._states = {source.name: SourceState(source.name, None) for source in used}
        self._needed = [s.name for s in used if s.is_needed_in(mode, precedence)]
        self._answered: set[SourceName] = set()
        self._warned: dict[SourceName, _Warned] = {}
        self._readings: dict[SourceName, _Reading] = {}

    @property
    def all(self) -> tuple[SourceState, ...]:
        """The states, for readers."""
        return tuple(self._described(state) for state in self._states.values())

    def _described(self, state: SourceState) -> SourceState:
        warned, reading = self._warned.get(state.source), self._readings.get(state.source)
        if warned is None and reading is None:
            return state
        detail, doubts = reading or _Reading("", ())
        warnings = (*(() if warned is None else warned.warnings), *doubts)
        return replace(state, warnings=warnings, detail=detail)

    @property
    def needed_have_answered(self) -> bool:
        """Whether each source that the mode needs has answered in this process."""
        return all(self._states[name].last_good_at_s is not None for name in self._needed)

    def note_answer(self, *sources: SourceName) -> None:
        """Note a good answer of sources; `settle` states its time."""
        self._answered.update(sources)

    def note_failure(self, event: SourceFailed, now_s: float) -> None:
        """Note that a source gave no usable answer; its last good one keeps its time."""
        self._answered.discard(event.source)
        before = self._states.get(event.source, SourceState(event.source, None))
        since_s = now_s if before.failing_since_s is None else before.failing_since_s
        self._states[event.source] = SourceState(
            event.source, before.last_good_at_s, since_s, event.refusal, event.fix
        )

    def set_warnings(self, event: SourceWarned, now_s: float) -> None:
        """Set the warnings about a source, whether or not it answers."""
        until_s = math.inf if event.lasts_s is None else now_s + event.lasts_s
        self._warned[event.source] = _Warned(event.warnings, until_s)

    def set_reading(self, source: SourceName, detail: str, doubts: Iterable[SourceWarning]) -> None:
        """Set what discovery follows of a source, and what it finds odd there beside warnings."""
        self._readings[source] = _Reading(detail, tuple(doubts))

    def settle(self, now_s: float) -> None:
        """Note the time of all good answers since the last call: one state for many beats.

        Warnings whose time is over are dropped.
        """
        for source in [s for s, warned in self._warned.items() if warned.until_s <= now_s]:
            del self._warned[source]
        for source in sorted(self._answered):  # those beyond the table: in one order
            self._states[source] = SourceState(source, now_s)
        self._answered.clear()


@dataclass(slots=True)
class Readiness:
    """Which sources are waited for. `restored`: a state file showed a forest before they spoke."""

    mode: Mode
    startup: Startup
    sources: Sequence[Source] = SOURCES
    precedence: tuple[SourceName, ...] = ()
    restored: bool = False
    _ready: bool = False

    def missing(self, snapshot: Snapshot, now_s: float) -> tuple[str, ...]:
        """Return why the forest is not shown yet; empty once it is, and then for ever."""
        if self._ready or self.restored:
            self._ready = True
            return ()
        # Those that list machines come first: who else is silent may follow from their silence.
        needed = self._needed
        needed.sort(key=lambda source: not source.lists_machines)
        # A list of nobody lists nobody's machines: it ends no wait.
        listed = bool(snapshot.forest.roots) and any(s.lists_machines for s in needed)
        states = {state.source: state for state in snapshot.sources}
        found = (
            source.unsettled(
                SourceView(
                    state=states.get(source.name),
                    startup=self.startup,
                    all_joined=listed and not snapshot.forest.unjoined,
                    now_s=now_s,
                )
            )
            for source in needed
        )
        reasons = tuple(reason for reason in found if reason)
        self._ready = not reasons
        return reasons

    def untried(self, snapshot: Snapshot) -> tuple[SourceName, ...]:
        """Return the needed sources that have neither answered nor failed in this process.

        A kept state may be shown meanwhile, but what was published since it was kept is newer:
        nothing is to be published by it yet. Where a source fails, what was kept of it stands.
        """
        needed = [source.name for source in self._needed if source.is_asked]
        states = {state.source: state for state in snapshot.sources}
        return tuple(name for name in needed if not _has_been_tried(states.get(name)))

    @property
    def _needed(self) -> list[Source]:
        return [s for s in self.sources if s.is_needed_in(self.mode, self.precedence)]


def _has_been_tried(state: SourceState | None) -> bool:
    return state is not None and (state.last_good_at_s is not None or bool(state.trouble))
