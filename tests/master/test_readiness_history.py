"""When the tree is shown; what is remembered of changes."""

import asyncio
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.tree.history import History, Step
from tests.support.waiting import CEILING_S
from topo.discovery.modes import DiscoverySettings, Mode
from topo.discovery.sources import Readiness, Startup
from topo.model.forest import (
    Change,
    Forest,
    Group,
    Snapshot,
    SourceState,
    Status,
    UnjoinedMachine,
)
from topo.model.ids import Generation, GroupName, GroupPath, Kind
from topo.model.observation import CLUSTER_MANAGER, CONFIG_FILE, FABRIC, WORKERS
from topo.model.wire import RECONNECT_S, RETRY_CEILING_S, TRY_LIMIT_S

pytestmark = pytest.mark.virtual_time

WAITING = SourceState(CONFIG_FILE, None)


BOX = Group(GroupName("box"), Kind("switchbox"), 2, Status.READY, ())


def _snapshot(*sources: SourceState, unjoined: int = 0, roots: tuple[Group, ...] = ()) -> Snapshot:
    machines = tuple(UnjoinedMachine(str(i), (), GroupPath(()), "") for i in range(unjoined))
    return Snapshot(Generation(0), Forest(roots, unjoined=machines), sources)


def _readiness(mode: Mode, beat_s: float = 10.0, *, is_first: bool = False) -> Readiness:
    heard_s = DiscoverySettings(beat_s=beat_s).heard_s
    return Readiness(mode, Startup(began_s=100.0, heard_s=heard_s, is_first=is_first))


def _missing(
    readiness: Readiness, now_s: float, snapshot: Snapshot | None = None
) -> tuple[str, ...]:
    """What is missing to a master that workers could reach without a pause until now."""
    for at_s in (*range(100, int(now_s) + 1), now_s):
        readiness.startup.note_reachable(float(at_s))
    return readiness.missing(snapshot or _snapshot(), now_s)


def test_config_mode_waits_for_the_file_and_nothing_else() -> None:
    readiness = _readiness(Mode.CONFIG)
    (why,) = readiness.missing(_snapshot(WAITING), 999.0)
    assert "config file" in why
    failing = SourceState(CONFIG_FILE, None, 5.0, "the file does not exist")
    assert "does not exist" in readiness.missing(_snapshot(failing), 999.0)[0]
    assert readiness.missing(_snapshot(SourceState(CONFIG_FILE, 101.0)), 101.0) == ()


def test_a_kept_tree_is_shown_at_once_and_published_when_who_is_asked_has_answered_or_failed() -> (
    None
):
    readiness = _readiness(Mode.SWITCHBOX)
    readiness.restored = True
    silent, workers = SourceState(CLUSTER_MANAGER, None), SourceState(WORKERS, None)
    assert readiness.missing(_snapshot(silent, workers), 100.0) == ()
    assert readiness.untried(_snapshot()) == (CLUSTER_MANAGER,)
    assert readiness.untried(_snapshot(silent, workers)) == (CLUSTER_MANAGER,)
    failing = SourceState(CLUSTER_MANAGER, None, 101.0, "no connection")
    for spoken in (failing, SourceState(CLUSTER_MANAGER, 101.0)):
        assert readiness.untried(_snapshot(spoken, workers)) == ()


def test_readiness_never_goes_back() -> None:
    readiness = _readiness(Mode.CONFIG)
    assert readiness.missing(_snapshot(SourceState(CONFIG_FILE, 101.0)), 101.0) == ()
    assert readiness.missing(_snapshot(WAITING), 102.0) == ()


def test_at_the_first_start_workers_have_settled_when_none_came_for_a_second() -> None:
    readiness = _readiness(Mode.DRAGONFLY, is_first=True)
    assert "0 nodes" in _missing(readiness, 105.0)[0]
    readiness.startup.note_first_report(105.0)
    readiness.startup.note_first_report(105.9)
    assert "2 nodes" in _missing(readiness, 106.8)[0]
    assert _missing(readiness, 107.0) == ()


def test_quiet_proves_nothing_where_workers_ran_before_us() -> None:
    readiness = _readiness(Mode.DRAGONFLY, is_first=True)
    readiness.startup.note_first_report(101.0)
    readiness.startup.note_resumed_worker()
    assert _missing(readiness, 109.0) != ()


def test_a_worker_that_starts_with_us_proves_nothing_of_those_that_ran_before() -> None:
    """Without a state nobody knows whether this is the first start."""
    readiness = _readiness(Mode.DRAGONFLY)
    readiness.startup.note_first_report(101.0)
    assert _missing(readiness, 109.0) != ()


def test_it_says_how_many_have_come_and_how_long_another_may_be_silent() -> None:
    readiness = _readiness(Mode.AUTO)
    readiness.startup.note_first_report(101.0)
    (why,) = _missing(readiness, 110.0)
    assert "1 node so far" in why
    assert "another 18 s" in why


def test_nobody_is_waited_for_as_long_as_somebody_could_be_silent() -> None:
    readiness = _readiness(Mode.AUTO)
    assert _missing(readiness, 127.9) != ()
    assert _missing(readiness, 128.0) == ()


def test_after_a_pause_of_the_master_its_workers_have_all_the_time_again() -> None:
    """While it stood still they tried in vain, and wait."""
    readiness = _readiness(Mode.AUTO, is_first=True)
    readiness.startup.note_first_report(101.0)
    assert _missing(readiness, 101.5) != ()
    for at_s in (*range(160, 188), 187.9):
        readiness.startup.note_reachable(float(at_s))
        assert "so far" in readiness.missing(_snapshot(), float(at_s))[0]
    readiness.startup.note_reachable(188.0)
    assert readiness.missing(_snapshot(), 188.0) == ()


def test_switchbox_mode_needs_the_manager_and_then_its_machines() -> None:
    readiness = _readiness(Mode.SWITCHBOX)
    waiting = SourceState(CLUSTER_MANAGER, None)
    readiness.startup.note_first_report(101.0)
    assert "cluster manager" in readiness.missing(_snapshot(waiting), 150.0)[0]
    good = SourceState(CLUSTER_MANAGER, 101.0)
    assert readiness.missing(_snapshot(good, unjoined=1), 101.1) != ()
    assert readiness.missing(_snapshot(good, roots=(BOX,)), 101.2) == (), "every machine has one"


def test_a_manager_that_lists_no_machine_does_not_say_that_all_have_come() -> None:
    readiness = _readiness(Mode.SWITCHBOX)
    readiness.startup.note_first_report(101.0)
    assert readiness.missing(_snapshot(SourceState(CLUSTER_MANAGER, 101.0)), 101.2) != ()


@st.composite
def _silences(draw: st.DrawFn, beat_s: float) -> list[float]:
    """After how many seconds each worker is heard that ran when the master came back.

    Each is between two beats, between two tries, or in a try that the old master never answered.
    """
    hung_s = st.floats(0, TRY_LIMIT_S)
    back_off_s = st.floats(0, RETRY_CEILING_S)
    silence_s = st.one_of(
        st.floats(0, beat_s), back_off_s, st.builds(operator.add, hung_s, back_off_s)
    )
    return sorted(draw(st.lists(silence_s, min_size=1, max_size=12)))


@given(st.data(), st.floats(0.05, 60), st.lists(st.floats(0, 30), max_size=3), st.floats(0, 90))
def test_after_a_restart_what_is_served_as_whole_is_whole(
    data: st.DataObject, beat_s: float, restarted: list[float], asked_s: float
) -> None:
    """For any beat, any waits, any number of nodes, and workers that start anew meanwhile."""
    silences = data.draw(_silences(beat_s))
    readiness = _readiness(Mode.AUTO, beat_s)
    heard = 0
    for at_s, resumes in sorted([(s, True) for s in silences] + [(s, False) for s in restarted]):
        if at_s > asked_s:
            break
        assert heard == len(silences) or _missing(readiness, 100.0 + at_s)
        if resumes:
            readiness.startup.note_resumed_worker()
        readiness.startup.note_first_report(100.0 + at_s)
        heard += resumes
    assert heard == len(silences) or _missing(readiness, 100.0 + asked_s)
    assert not _missing(readiness, 100.0 + RECONNECT_S + beat_s + 1e-6)


def test_a_restored_state_is_shown_at_once() -> None:
    readiness = _readiness(Mode.SWITCHBOX)
    readiness.restored = True
    assert readiness.missing(_snapshot(), 100.0) == ()


def _step(generation: int, changes: int = 1) -> Step:
    change = Change(Generation(generation), "node-added", f"n{generation}")
    return Step(Generation(generation), (change,) * changes)


def test_the_history_answers_from_any_generation_it_remembers() -> None:
    history = History(100, Generation(7))
    for generation in (8, 9, 10):
        history.add(_step(generation))
    assert [s.generation for s in history.since(7) or ()] == [8, 9, 10]
    assert [s.generation for s in history.since(9) or ()] == [10]
    assert history.since(10) == ()
    assert history.since(6) is None, "before our start"
    assert history.since(11) is None, "from another process"


def test_the_history_is_bounded_by_the_number_of_changes() -> None:
    history = History(10, Generation(0))
    for generation in range(1, 21):
        history.add(_step(generation))
    assert history.since(14) is None
    assert len(history.since(15) or ()) == 5
    history.add(_step(21, changes=100))
    assert history.since(20) is None, "one step beyond all bounds is not remembered"
    assert history.since(21) == ()


async def test_listeners_wake_on_a_step_on_the_end_and_in_time() -> None:
    history = History(10, Generation(0))
    async with asyncio.timeout(CEILING_S):
        waiter = asyncio.create_task(history.wait_beyond(0, 5.0))
        await asyncio.sleep(0)
        assert not waiter.done()
        history.add(_step(1))
        await waiter
        await history.wait_beyond(0, 5.0)
        await history.wait_beyond(1, 0.01)
        waiter = asyncio.create_task(history.wait_beyond(1, 5.0))
        await asyncio.sleep(0)
        assert not waiter.done()
        history.close()
        await waiter
        await history.wait_beyond(1, 5.0)


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_becomes_ready_when_its_sources_speak(mode: Mode) -> None:
    spoken = (CONFIG_FILE, CLUSTER_MANAGER, FABRIC)
    sources = (SourceState(source, 1.0) for source in spoken)
    assert _missing(_readiness(mode), 128.0, _snapshot(*sources)) == ()
