"""The last status of each gang, its transitions, and what is written of them."""

import asyncio
from dataclasses import dataclass, field

import pytest

from master.object_errors import ObjectErrors, ObjectKind
from tests.controllers.nomination.objects import status_store
from tests.master.api.test_gang_documents import gang
from topo.gangs.machine.gang import Gang, GangId
from topo.gangs.status import MOST_TRANSITIONS, GangStatus, Transition
from topo.model.conditions.gang_states import GangState

A = GangId("a")


@dataclass
class Written:
    """A store, the clocks that it reads, and what it wrote."""

    now_s: float = 1000.0
    recalled: Transition | None = None
    statuses: list[GangStatus] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = status_store(
            write=lambda _, status: self.statuses.append(status),
            recall=lambda _: self.recalled,
            clock=lambda: self.now_s - 1000.0,
            now=lambda: self.now_s,
        )

    def report(self, state: GangState, text: str = "why", *, announce: bool = True) -> None:
        self.store.report(gang(name="a"), state, text, announce=announce)

    def states(self) -> list[tuple[float, GangState]]:
        return [(each.at_s, each.state) for each in self.store.history(A)]


def test_a_change_of_state_is_a_transition_and_one_of_the_text_alone_is_none() -> None:
    made = Written()
    made.report(GangState.QUEUE, "8 GPUs are left")
    made.now_s += 5.0
    made.report(GangState.QUEUE, "0 GPUs are left")
    assert [each.text for each in made.statuses] == ["8 GPUs are left", "0 GPUs are left"]
    assert [each.since_s for each in made.statuses] == [0.0, 0.0]
    made.report(GangState.PLACED)
    assert made.states() == [(1000.0, GangState.QUEUE), (1005.0, GangState.PLACED)]
    assert made.statuses[-1].since_s == 5.0


def test_the_same_report_again_is_written_once() -> None:
    made = Written()
    for _ in range(3):
        made.report(GangState.BEHIND)
    assert len(made.statuses) == len(made.states()) == 1


def test_the_last_twenty_transitions_are_kept_and_go_with_the_gang() -> None:
    made = Written()
    for number in range(50):
        made.now_s = 1000.0 + number
        made.report(GangState.PLACED if number % 2 else GangState.DISPLACED)
    assert [at_s for at_s, _ in made.states()] == [1030.0 + at for at in range(MOST_TRANSITIONS)]
    made.store.forget(A)
    assert (made.states(), made.store.get(A), made.store.gangs()) == ([], None, ())


@pytest.mark.parametrize(
    ("state", "since_s", "transitions"), [(GangState.QUEUE, -40.0, 1), (GangState.PLACED, 0.0, 2)]
)
def test_a_new_leader_goes_on_from_what_an_earlier_one_wrote(
    state: GangState, since_s: float, transitions: int
) -> None:
    made = Written(recalled=Transition(960.0, GangState.QUEUE, "why", is_read=True))
    made.report(state)
    assert made.statuses[0].since_s == since_s
    assert len(made.states()) == transitions
    assert made.store.history(A)[0].is_read


def test_what_is_not_announced_is_kept_and_neither_written_nor_counted() -> None:
    made = Written()
    made.report(GangState.NATIVE, announce=False)
    assert (made.statuses, list(made.store.announced())) == ([], [])
    made.report(GangState.SPLIT)
    assert made.store.by_state() == {GangState.SPLIT: 1}
    made.report(GangState.BOUND, announce=False)
    assert made.store.by_state() == {}
    assert [state for _, state in made.states()] == ["native", "split", "bound"]


def test_how_long_a_state_lasts_is_that_of_the_gang_that_came_into_it_first() -> None:
    made = Written()
    made.report(GangState.OPENED)
    made.now_s += 10.0
    made.store.report(gang(name="b"), GangState.OPENED, "why")
    made.now_s += 5.0
    assert made.store.longest_s() == {GangState.OPENED: 15.0}


class Search:
    """A search that raises an error once it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.errors = ObjectErrors()
        self.written: list[GangStatus] = []
        self.store = status_store(
            advise=self.advise,
            errors=self.errors,
            write=lambda _, status: self.written.append(status),
        )

    async def advise(self, _gang: Gang, _text: str) -> str:
        await self.go.wait()
        raise KeyError("rack")

    def report(self, state: GangState) -> None:
        self.store.report(gang(name="a"), state, "nothing")

    async def end(self) -> None:
        self.go.set()
        await asyncio.gather(*self.store._searches)

    @property
    def set_aside(self) -> int:
        return len(self.errors.of(ObjectKind.ADVICE))


@pytest.mark.parametrize("is_gone", [False, True], ids=["its-state-changes", "it-is-gone"])
async def test_the_error_of_a_search_is_shown_until(is_gone: object) -> None:
    made = Search()
    made.report(GangState.NO_ROOM)
    await made.end()
    assert [each.state for each in made.written] == [GangState.NO_ROOM]
    assert made.set_aside == 1
    if is_gone:
        made.store.forget(A)
    else:
        made.report(GangState.PLACED)
    assert made.set_aside == 0


@pytest.mark.parametrize("is_gone", [False, True], ids=["changed", "gone"])
async def test_a_search_that_fails_late_writes_no_state_that_was_before(is_gone: object) -> None:
    made = Search()
    made.report(GangState.NO_ROOM)
    await asyncio.sleep(0)
    if is_gone:
        made.store.forget(A)
    else:
        made.report(GangState.PLACED)
    await made.end()
    assert [each.state for each in made.written] == ([] if is_gone else [GangState.PLACED])
    assert made.set_aside == 0


async def test_a_gang_without_room_is_written_once_it_is_known_what_lets_it_in() -> None:
    async def advise(_gang: Gang, text: str) -> str:
        return f"more than {text}"

    written: list[GangStatus] = []
    store = status_store(write=lambda _, status: written.append(status), advise=advise)
    store.report(gang(name="a"), GangState.NO_ROOM, "nothing")
    assert written == []
    await asyncio.gather(*store._searches)
    (status,) = written
    assert status.message == "nothing. more than nothing"
    assert store.get(A) == status
