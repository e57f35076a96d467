"""When the tree is shown; what is remembered of changes."""

import asyncio

import pytest

from master.tree.history import History, Step
from master.tree.readiness import Readiness
from tests.support.waiting import CEILING_S
from topo.discovery.modes import Mode
from topo.discovery.sources import Startup
from topo.model.forest import Change, Forest, Snapshot, SourceState, UnjoinedMachine
from topo.model.ids import Generation, GroupPath
from topo.model.observation import CLUSTER_MANAGER, CONFIG_FILE
from topo.model.wire import RETRY_CEILING_S

pytestmark = pytest.mark.virtual_time

WAITING = SourceState(CONFIG_FILE, None)


def _snapshot(*sources: SourceState, unjoined: int = 0) -> Snapshot:
    machines = tuple(UnjoinedMachine(str(i), (), GroupPath(()), "") for i in range(unjoined))
    return Snapshot(Generation(0), Forest(unjoined=machines), sources)


def _readiness(mode: Mode) -> Readiness:
    return Readiness(mode, Startup(beat_s=10.0, started_s=100.0))


def test_config_mode_waits_for_the_file_and_nothing_else() -> None:
    readiness = _readiness(Mode.CONFIG)
    (why,) = readiness.missing(_snapshot(WAITING), 999.0)
    assert "config file" in why
    failing = SourceState(CONFIG_FILE, None, 5.0, "the file does not exist")
    assert "does not exist" in readiness.missing(_snapshot(failing), 999.0)[0]
    assert readiness.missing(_snapshot(SourceState(CONFIG_FILE, 101.0)), 101.0) == ()


def test_readiness_never_goes_back() -> None:
    readiness = _readiness(Mode.CONFIG)
    assert readiness.missing(_snapshot(SourceState(CONFIG_FILE, 101.0)), 101.0) == ()
    assert readiness.missing(_snapshot(WAITING), 102.0) == ()


def test_workers_have_settled_when_none_came_for_a_second() -> None:
    readiness = _readiness(Mode.DRAGONFLY)
    assert "0 nodes" in readiness.missing(_snapshot(), 105.0)[0]
    readiness.startup.node_reported(105.0)
    readiness.startup.node_reported(105.9)
    assert "2 nodes" in readiness.missing(_snapshot(), 106.8)[0]
    assert readiness.missing(_snapshot(), 107.0) == ()


def test_workers_that_ran_before_us_have_their_longest_wait_however_short_the_beat() -> None:
    startup = Startup(beat_s=1.0, started_s=100.0)
    readiness = Readiness(Mode.DRAGONFLY, startup)
    startup.node_reported(100.5)
    startup.resumed = True
    assert readiness.missing(_snapshot(), 100.0 + RETRY_CEILING_S - 0.1) != ()
    assert readiness.missing(_snapshot(), 100.0 + RETRY_CEILING_S) == ()


def test_quiet_proves_nothing_in_a_cluster_that_ran_before_us() -> None:
    readiness = _readiness(Mode.DRAGONFLY)
    readiness.startup.node_reported(101.0)
    readiness.startup.resumed = True
    assert readiness.missing(_snapshot(), 109.0) != ()
    assert readiness.missing(_snapshot(), 110.0) == ()


def test_one_beat_is_waited_for_at_most_also_for_nobody() -> None:
    assert _readiness(Mode.AUTO).missing(_snapshot(), 110.0) == ()


def test_switchbox_mode_needs_the_manager_and_then_its_machines() -> None:
    readiness = _readiness(Mode.SWITCHBOX)
    waiting = SourceState(CLUSTER_MANAGER, None)
    readiness.startup.node_reported(101.0)
    assert "cluster manager" in readiness.missing(_snapshot(waiting), 150.0)[0]
    good = SourceState(CLUSTER_MANAGER, 101.0)
    readiness.startup.resumed = True
    assert readiness.missing(_snapshot(good, unjoined=1), 101.1) != ()
    assert readiness.missing(_snapshot(good), 101.2) == (), "every machine has a worker"


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
    sources = (SourceState(CONFIG_FILE, 1.0), SourceState(CLUSTER_MANAGER, 1.0))
    assert _readiness(mode).missing(_snapshot(*sources), 110.0) == ()
