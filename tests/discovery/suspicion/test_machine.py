"""Which links are suspected, when, for how long, and on what evidence."""

from dataclasses import replace
from math import log2
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import facts
from tests.discovery.suspicion.nodes import (
    DAY_S,
    HOUR_S,
    PORT,
    PORTS,
    counted,
    decided,
    fall,
    flap,
    gpu_host,
    host,
    links,
    restored,
    score,
    settled,
)
from topo.discovery.suspicion import machine
from topo.discovery.suspicion.evidence import HALF_LIFE_S, HIGHEST, KINDS, LIFTED
from topo.discovery.suspicion.machine import QUIET_S, Suspicions
from topo.discovery.suspicion.node_links import DOWN_S
from topo.model.ids import NodeName
from topo.model.machine import NetworkPort
from topo.model.observation import NodeRemoved, OperatorAct, WorkerBeat, WorkerReported


def test_one_fall_names_nobody_and_one_a_day_is_named_at_the_third():
    state = settled(host("a"))
    named = []
    for day in range(4):
        fall(state, "a", day * DAY_S)
        named.append(links(state, "a"))
    assert named[:2] == [{}, {}]
    assert named[2] == {PORT: "3 flaps"}


def test_a_suspicion_is_lifted_to_the_second_and_forgotten_after_a_week():
    state = settled(host("a"))
    fall(state, "a", 0.0)
    fall(state, "a", 0.0)
    until_s = HALF_LIFE_S * log2(1.2 / LIFTED)
    assert state.advance(until_s - 1) == frozenset()
    assert links(state, "a")
    assert state.advance(until_s) == {"a"}
    assert not links(state, "a")
    assert state.links(NodeName("a"))[PORT].times == 1
    state.advance(7 * DAY_S)
    assert not state.links(NodeName("a"))
    state.validate()


def test_a_repeat_offender_is_called_one():
    state = settled(host("a"))
    for day in (0, 3):
        fall(state, "a", day * DAY_S)
        fall(state, "a", day * DAY_S)
    assert links(state, "a") == {PORT: "4 flaps, suspected 2 times"}


_Event = tuple[float, str, int]
COUNTED = ("recovery", "recovery-failed", "link-integrity", "uncorrected")


@given(
    st.lists(
        st.tuples(st.floats(0, 5 * DAY_S), st.sampled_from(COUNTED), st.integers(1, 3)),
        max_size=30,
    ),
    st.floats(0, 2 * DAY_S),
)
def test_a_score_is_the_sum_of_its_weights_each_halved_once_a_day(events: list[_Event], later_s):
    """However they are cut into readings. The model adds up; it keeps no state."""
    state = settled(host("a"))
    state.advance(0.0, counted("a", {}))
    counts = dict.fromkeys(COUNTED, 0)
    events = sorted(events, key=itemgetter(0))
    for at_s, kind, number in events:
        counts[kind] += number
        state.advance(at_s, counted("a", {(PORT, k): n for k, n in counts.items() if n}))
    end_s = 5 * DAY_S + later_s
    expected = sum(
        KINDS[kind].weight * number * 0.5 ** ((end_s - at_s) / HALF_LIFE_S)
        for at_s, kind, number in events
    )
    state.validate()
    if expected < HIGHEST / 32 and PORT in state.links(NodeName("a")):
        assert score(state, "a", PORT, end_s) == pytest.approx(expected, abs=1e-9)
    state.advance(end_s)
    state.validate()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_the_same_errors_in_one_reading_or_in_many_weigh_the_same(parts: list[int]):
    """At one time; the rate that is normal is taken off the whole."""
    at_once, in_parts = settled(host("a")), settled(host("a"))
    for state in (at_once, in_parts):
        state.advance(0.0, counted("a", {}))
    at_once.advance(HOUR_S, counted("a", {(PORT, "recovery"): sum(parts)}))
    for last in range(1, len(parts) + 1):
        in_parts.advance(HOUR_S, counted("a", {(PORT, "recovery"): sum(parts[:last])}))
    assert score(at_once, "a", PORT, HOUR_S) == pytest.approx(score(in_parts, "a", PORT, HOUR_S))
    assert links(at_once, "a") == links(in_parts, "a") or len(parts) > 1


def test_symbol_errors_at_the_rate_of_a_good_link_weigh_nothing_and_a_burst_does():
    state = settled(host("a"))
    state.advance(0.0, counted("a", {}))
    for hour in range(1, 100):
        state.advance(hour * HOUR_S, counted("a", {(PORT, "symbol"): 100 * hour}))
    assert score(state, "a", PORT, 99 * HOUR_S) == 0
    state.advance(99 * HOUR_S + 60, counted("a", {(PORT, "symbol"): 9_900 + 600}))
    assert links(state, "a") == {PORT: "600 symbol errors"}


def test_a_counter_that_was_reset_is_no_error_and_goes_on_from_there():
    state = settled(host("a"))
    state.advance(0.0, counted("a", {}))
    state.advance(1.0, counted("a", {(PORT, "recovery"): 5}))
    for count in (2, 2, 0):
        state.advance(2.0, counted("a", {(PORT, "recovery"): count} if count else {}))
    assert score(state, "a", PORT, 2.0) == pytest.approx(0.5, abs=1e-4)
    state.advance(2.0, counted("a", {(PORT, "recovery"): 1}))
    assert score(state, "a", PORT, 2.0) == pytest.approx(0.6, abs=1e-4)


def test_what_a_reboot_does_to_links_and_counters_weighs_nothing():
    """214 of 288 nodes had links down in three weeks of planned reboots, and no bad one."""
    state = settled(host("a"))
    state.advance(0.0, counted("a", {(PORT, "recovery"): 7}))
    for number in range(20):
        at_s, boot = number * HOUR_S, f"boot-{number + 2}"
        state.advance(at_s, WorkerReported(host("a", boot=boot, down=PORTS)))
        state.advance(at_s + 5, counted("a", {(PORT, "link-downed"): 9, (PORT, "symbol"): 90_000}))
        state.advance(at_s + 30, WorkerReported(host("a", boot=boot)))
        state.advance(at_s + QUIET_S - 1, WorkerReported(host("a", boot=boot, down=["mlx5_1"])))
    assert not state.suspected
    assert score(state, "a", PORT, 0.0) < 0.1


def test_a_neighbour_that_is_rebooted_all_day_casts_no_suspicion():
    """A dragonfly of two nodes: each cable of one falls when the other boots."""
    state = settled(facts("a", ["b"]), facts("b", ["a"]))
    for number in range(10):
        at_s = number * HOUR_S
        state.advance(at_s, WorkerReported(facts("a", ["b"], unplugged=["b"])))
        state.advance(at_s + 600, WorkerReported(facts("b", ["a"], boot=f"boot-{number + 2}")))
        state.advance(at_s + 601, WorkerReported(facts("a", ["b"])))
        assert not state.suspected
    flap(state, DAY_S, (facts("a", ["b"], unplugged=["b"]), facts("a", ["b"])))
    flap(state, DAY_S, (facts("a"), facts("a", ["b"])))
    assert links(state, "a") == {"slot 1": "2 flaps"}


def test_a_restart_between_the_fall_of_a_cable_and_the_boot_behind_it_casts_no_suspicion():
    state = settled(facts("a", ["b"]), facts("b", ["a"]))
    state.advance(0.0, WorkerReported(facts("a", ["b"], unplugged=["b"])))
    state = restored(state, 1.0)
    state.advance(2.0, WorkerReported(facts("a", ["b"])))
    state.advance(600.0, WorkerReported(facts("b", ["a"], boot="boot-2")))
    assert not state.links(NodeName("a"))
    state.validate()


def test_a_server_that_boots_after_its_neighbour_was_forgotten_breaks_nothing():
    state = settled(facts("a", ["b"]), facts("b", ["a"]))
    state.forget(NodeName("b"))
    state.advance(1.0)
    assert not state.advance(2.0, WorkerReported(facts("a", ["b"], boot="boot-2")))
    state.validate()


def test_a_flap_that_is_taken_back_lets_the_rest_of_the_suspicion_end_as_it_would_alone():
    state = settled(facts("a", ["b"]), facts("b", ["a"]))
    for at_s in (0.0, 0.0, 0.0, DAY_S):
        flap(state, at_s, (facts("a", ["b"], unplugged=["b"]), facts("a", ["b"])))
    state.advance(DAY_S + 600, WorkerReported(facts("b", ["a"], boot="boot-2")))
    state.validate()


def test_a_port_that_is_down_stays_told_through_a_reading_without_adapters():
    state = settled(host("a"))
    out = host("a", down=["mlx5_3"])
    state.advance(0.0, WorkerReported(out))
    state.advance(10.0, WorkerReported(replace(out, nics=())))
    state.advance(20.0, WorkerReported(out))
    assert links(state, "a") == {PORT: "is down"}
    state.advance(30.0, WorkerReported(replace(out, nics=out.nics[:3])))
    state.advance(40.0, decided("a", OperatorAct.CLEAR))
    assert links(state, "a") == {}
    state.advance(50.0, WorkerReported(out))
    assert links(state, "a") == {}
    state.validate()


def test_a_port_that_another_boot_does_not_have_is_down_no_more():
    state = settled(host("a"))
    state.advance(0.0, WorkerReported(host("a", down=["mlx5_3"])))
    state.advance(10.0, WorkerReported(replace(host("a", boot="boot-2"), nics=())))
    assert links(state, "a") == {}


def test_a_port_that_does_not_come_up_after_a_boot_is_told_when_links_have_trained():
    """As one that fell in the first minutes in which the node was seen; one that came up is not."""
    state = settled(host("a"), host("b"), at_s=-1.0)
    state.advance(0.0, WorkerReported(host("b", down=["mlx5_3"])))
    state.advance(10.0, WorkerReported(host("a", boot="boot-2", down=PORTS)))
    state.advance(60.0, WorkerReported(host("a", boot="boot-2", down=["mlx5_3"])))
    told = [QUIET_S + DOWN_S - 1.0, QUIET_S + DOWN_S + 10.0]
    state.advance(told[0] - 1.0)
    assert not state.suspected
    state = restored(state, told[0] - 1.0)
    for at_s, name in zip(told, "ba", strict=True):
        assert links(state, name) == {}
        assert state.advance(at_s) == {name}
        assert links(state, name) == {PORT: "is down"}
    state.advance(told[1] + 1, WorkerReported(host("a", boot="boot-2")))
    assert links(state, "a") == {}
    state.validate()


def test_a_port_of_another_adapter_that_has_its_name_after_a_boot_is_not_down():
    def seen(boot: str, **guids: str) -> WorkerReported:
        ports = [NetworkPort(n, 1, up=g != "dark", node_guid=g) for n, g in guids.items()]
        return WorkerReported(replace(host("a", boot=boot), nics=tuple(ports)))

    state = Suspicions()
    state.advance(0.0, seen("boot-1", mlx5_0="lit", mlx5_1="dark"))
    state.advance(10.0, seen("boot-2", mlx5_0="dark", mlx5_1="lit"))
    assert not state.advance(10.0 + QUIET_S + DOWN_S)


def test_a_restart_remembers_at_what_rate_a_port_fell():
    state = settled(host("a"))
    state.advance(0.0, WorkerReported(host("a", down=["mlx5_3"])))
    state = restored(state, 1.0)
    state.advance(2.0, WorkerReported(host("a", slow=["mlx5_3"])))
    assert links(state, "a") == {PORT: "1 flap and 1 slowdown"}


def test_a_fall_that_is_seen_and_counted_is_one():
    state = settled(host("a"))
    state.advance(0.0, counted("a", {}))
    fall(state, "a", 1.0)
    state.advance(2.0, counted("a", {(PORT, "link-downed"): 1}))
    assert score(state, "a", PORT, 2.0) == pytest.approx(0.6, abs=1e-4)
    state.advance(3.0, counted("a", {(PORT, "link-downed"): 2}))
    assert links(state, "a") == {PORT: "2 flaps"}


def test_links_that_fail_at_once_are_the_node():
    state = settled(host("a"))
    for at_s in (0.0, 1.0):
        fall(state, "a", at_s, *PORTS[:4])
    assert links(state, "a") == {"": "2 flaps"}


def test_a_gpu_that_is_reset_between_jobs_casts_no_suspicion_and_half_of_its_links_do():
    state = settled(gpu_host("a"))
    for number in range(20):
        flap(state, float(number), (gpu_host("a", down=range(18)), gpu_host("a")))
    assert not state.links(NodeName("a"))
    for at_s in (20.0, 21.0):
        flap(state, at_s, (gpu_host("a", down=range(9)), gpu_host("a")))
    assert links(state, "a") == {"": "2 flaps"}


def test_a_link_that_runs_slower_again_and_again_is_suspected():
    state = settled(gpu_host("a"), host("b"))
    for at_s in (0.0, 1.0, 2.0):
        flap(
            state,
            at_s,
            (gpu_host("a", slow=[7]), gpu_host("a")),
            (host("b", slow=PORTS), host("b")),
        )
    assert links(state, "a") == {"GPU 0 link 7": "3 slowdowns"}
    assert links(state, "b") == {"": "3 slowdowns"}


def test_a_port_that_comes_back_slower_than_it_fell_is_suspected_at_once():
    state = settled(host("a"))
    state.advance(0.0, WorkerReported(host("a", down=["mlx5_3"])))
    state.advance(HOUR_S, WorkerReported(host("a", slow=["mlx5_3"])))
    assert links(state, "a") == {PORT: "1 flap and 1 slowdown"}


def test_the_words_change_when_a_number_has_doubled_and_not_with_each_event():
    state = settled(host("a"))
    state.advance(0.0, counted("a", {}))
    told = [
        links(state, "a")[PORT]
        for count in range(10, 100)
        if state.advance(count * 60.0, counted("a", {(PORT, "recovery"): count}))
    ]
    assert told == ["10 recoveries", "20 recoveries", "40 recoveries", "80 recoveries"]


def test_operators_confirm_clear_and_quarantine():
    state = settled(host("a"))
    state.advance(0.0, decided("a", OperatorAct.CONFIRM, PORT, "CRC in the log"))
    assert links(state, "a") == {PORT: "named by an operator; confirmed: CRC in the log"}
    state.advance(100 * DAY_S, decided("a", OperatorAct.QUARANTINE, reason="cable ordered"))
    held = state.of(NodeName("a"))
    assert held is not None
    assert held.quarantine == "cable ordered"
    assert len(held.links) == 1
    state.validate()
    state.advance(101 * DAY_S, decided("a", OperatorAct.CLEAR, PORT))
    held = state.of(NodeName("a"))
    assert held is not None
    assert held.quarantine == "cable ordered"
    assert not held.links
    assert state.advance(102 * DAY_S, decided("a", OperatorAct.CLEAR)) == {"a"}
    assert state.of(NodeName("a")) is None
    state.validate()


def test_a_node_that_is_gone_is_remembered_while_something_is_held_against_it():
    state = settled(host("a"), host("b"))
    fall(state, "a", 0.0)
    fall(state, "a", 0.0)
    for name in ("a", "b"):
        state.forget(NodeName(name))
    state.advance(1.0, NodeRemoved(NodeName("b")), WorkerBeat(NodeName("b")))
    assert links(state, "a")
    assert not state.links(NodeName("b"))
    state.advance(3 * DAY_S)
    assert not state.suspected
    assert not state.links(NodeName("a"))
    state.validate()


def test_links_are_followed_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(machine, "MAX_LINKS", 5)
    monkeypatch.setattr(machine, "MAX_LINKS_OF_NODE", 3)
    state = settled(host("a"), host("b"))
    for name in ("a", "b"):
        counts = {(f"{hca} port 1", "recovery"): 600 for hca in PORTS[:3]}
        state.advance(0.0, counted(name, counts | {("mlx5_7 port 1", "recovery"): 1}))
        state.validate()
    assert [len(state.links(NodeName(name))) for name in ("a", "b")] == [3, 2]


def test_ports_that_fall_under_ever_new_names_are_followed_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(machine, "MAX_LINKS_OF_NODE", 8)
    state = settled(host("a"))
    for number in range(12):
        ports = [NetworkPort(f"x{number}", 1, up=up, rate_gbps=400.0) for up in (True, False)]
        readings = (replace(host("a"), nics=(port,)) for port in ports)
        state.advance(60.0 * number, *map(WorkerReported, readings))
    state.advance(1000.0)
    state.validate()
    assert links(state, "a") == {"": "8 ports are down"}


_steps = st.one_of(
    st.tuples(st.just("count"), st.sampled_from(COUNTED), st.integers(0, 12)),
    st.tuples(st.just("fall"), st.sampled_from(PORTS[:2]), st.just(0)),
    st.tuples(st.just("decide"), st.sampled_from(OperatorAct), st.just(0)),
)


def happen(state: Suspicions, now_s: float, step: tuple[str, Any], counts: dict[str, int]) -> None:
    what, which = step
    if what == "count":
        state.advance(now_s, counted("a", {(PORT, k): n for k, n in counts.items() if n}))
    elif what == "fall":
        fall(state, "a", now_s, which)
    else:
        state.advance(now_s, decided("a", which, reason="why"))


def reborn(state: Suspicions, now_s: float) -> Suspicions:
    later = restored(state, now_s)
    later.advance(now_s, WorkerReported(host("a")))
    later.validate()
    return later


@given(st.lists(st.tuples(st.floats(0, DAY_S), _steps), max_size=20), st.sets(st.integers(0, 19)))
def test_restarts_between_readings_change_no_suspicion(steps, restarts: set[int]) -> None:
    """Through the bytes of the state file; only a fall while nobody looks is missed."""
    lasting, restarted = settled(host("a")), settled(host("a"))
    for state in (lasting, restarted):
        state.advance(0.0, counted("a", {}))
    now_s, counts = 0.0, dict.fromkeys(COUNTED, 0)
    for at, (pause_s, (what, which, number)) in enumerate(steps):
        now_s += pause_s
        restarted = reborn(restarted, now_s) if at in restarts else restarted
        if what == "count":
            counts[which] += number
        for state in (lasting, restarted):
            happen(state, now_s, (what, which), counts)
    for state in (lasting, restarted):
        state.advance(now_s)
        state.validate()
    assert {*links(restarted, "a")} == {*links(lasting, "a")}
    for link, record in lasting.links(NodeName("a")).items():
        here, there = (score(each, "a", link, now_s) for each in (lasting, restarted))
        assert not record.evidence or here == pytest.approx(there, abs=1e-6)
