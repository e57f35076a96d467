"""Who speaks for a node: the rules, without a socket."""

import copy
from dataclasses import replace

import pytest

from master.sources.workers.sessions import (
    ReportRefused,
    ReportTaken,
    Sessions,
    interned,
    same_machine,
)
from tests.master.world import facts
from topo.model.ids import NodeName
from topo.model.machine import Link, LinkKind, LinkMatrix, LinkPort, NodeFacts, PortState
from topo.model.observation import Event, WorkerBeat, WorkerRefused, WorkerReported
from topo.model.wire import FactsChange, Report


class _World:
    def __init__(self, room: int = 1000, max_nodes: int = 100, rate: float = 1000.0) -> None:
        self.events: list[Event] = []
        self.room = room
        self.nodes = 0
        self.resumed = 0
        self.now_s = 0.0
        self.forgotten: set[str] = set()
        self.sessions = Sessions(
            submit=self._submit,
            rate=rate,
            beat_s=10.0,
            stale_s=30.0,
            forget_s=1000.0,
            max_nodes=max_nodes,
            known=lambda node: node not in self.forgotten,
            on_node=lambda _: self._count(),
            on_resumed=self._resume,
        )

    def _submit(self, event: Event) -> bool:
        if len(self.events) >= self.room:
            return False
        self.events.append(event)
        return True

    def _count(self) -> None:
        self.nodes += 1

    def _resume(self) -> None:
        self.resumed += 1

    def full(self, said: NodeFacts, instance: str, seq: int) -> ReportTaken | ReportRefused:
        report = Report(
            node=said.identity.name, instance=instance, seq=seq, kind="full", facts=said
        )
        return self.sessions.receive(report, self.now_s)

    def beat(self, node: str, instance: str, seq: int) -> ReportTaken | ReportRefused:
        report = Report(node=NodeName(node), instance=instance, seq=seq, kind="beat")
        return self.sessions.receive(report, self.now_s)

    def change(
        self, node: str, instance: str, seq: int, change: FactsChange
    ) -> ReportTaken | ReportRefused:
        report = Report(
            node=NodeName(node), instance=instance, seq=seq, kind="change", change=change
        )
        return self.sessions.receive(report, self.now_s)


ONE, TWO, THREE = "instance-one", "instance-two", "instance-three"
CHANGE, FULL = ReportTaken("change"), ReportTaken("full")


@pytest.fixture
def world() -> _World:
    return _World()


def _refused(answer: ReportTaken | ReportRefused, status: int) -> ReportRefused:
    assert isinstance(answer, ReportRefused)
    assert answer.status == status
    assert answer.fix
    return answer


def test_a_full_report_then_beats_and_changes_become_readings(world: _World) -> None:
    said = facts("n1", "n2")
    assert world.full(said, ONE, 0) == CHANGE
    assert world.beat("n1", ONE, 1) == CHANGE
    assert world.change("n1", ONE, 2, FactsChange(peers=None)) == CHANGE
    assert world.events[:2] == [WorkerReported(said), WorkerBeat(NodeName("n1"))]
    merged = world.events[2]
    assert isinstance(merged, WorkerReported)
    assert merged.facts.peers is None, "None is a value"
    assert merged.facts.gpus == said.gpus, "sections that are not set stay"
    assert (world.nodes, world.resumed) == (1, 0)


def test_changes_build_on_the_change_before(world: _World) -> None:
    world.full(facts("n1"), ONE, 0)
    world.change("n1", ONE, 1, FactsChange(gpus=()))
    world.change("n1", ONE, 2, FactsChange(peers=None))
    last = world.events[-1]
    assert isinstance(last, WorkerReported)
    assert (last.facts.gpus, last.facts.peers) == ((), None)


@pytest.mark.parametrize("seq", [3, 9])
def test_a_missed_report_asks_for_everything_and_counts_as_no_reading(
    world: _World, seq: int
) -> None:
    world.full(facts("n1"), ONE, 1)
    assert world.beat("n1", ONE, seq) == FULL
    assert world.change("n1", ONE, seq, FactsChange(gpus=())) == FULL
    assert len(world.events) == 1
    assert world.full(facts("n1"), ONE, seq + 1) == CHANGE
    assert world.beat("n1", ONE, seq + 2) == CHANGE


def test_a_report_sent_twice_is_one_reading(world: _World) -> None:
    world.full(facts("n1"), ONE, 5)
    assert world.full(facts("n1"), ONE, 5) == CHANGE
    assert world.beat("n1", ONE, 6) == CHANGE
    assert world.beat("n1", ONE, 6) == CHANGE
    assert len(world.events) == 2


def test_a_report_from_the_past_is_not_believed(world: _World) -> None:
    world.full(facts("n1"), ONE, 5)
    assert world.full(facts("n1", "n9"), ONE, 3) == FULL
    assert len(world.events) == 1


def test_a_worker_from_before_our_start_is_asked_for_everything(world: _World) -> None:
    assert world.beat("n1", ONE, 77) == FULL
    assert world.resumed == 1
    assert world.events == []
    assert world.full(facts("n1"), ONE, 78) == CHANGE
    assert world.beat("n1", ONE, 79) == CHANGE


def test_a_worker_that_spoke_to_nobody_at_first_shows_that_others_did_too(world: _World) -> None:
    assert world.full(facts("n1"), ONE, 3) == CHANGE
    assert (world.resumed, world.nodes) == (1, 1)
    assert world.full(facts("n2"), TWO, 0) == CHANGE
    assert world.resumed == 1


def test_a_node_that_discovery_forgot_comes_back_with_the_next_beat(world: _World) -> None:
    said = facts("n1", "n2")
    world.full(said, ONE, 0)
    world.change("n1", ONE, 1, FactsChange(gpus=()))
    world.forgotten.add("n1")
    assert world.beat("n1", ONE, 2) == CHANGE
    again = world.events[-1]
    assert isinstance(again, WorkerReported)
    assert (again.facts.gpus, again.facts.peers) == ((), said.peers), "as it was said last"
    world.forgotten.clear()
    assert world.beat("n1", ONE, 3) == CHANGE
    assert world.events[-1] == WorkerBeat(NodeName("n1"))


def test_a_forgotten_node_waits_while_the_queue_is_full(world: _World) -> None:
    world.full(facts("n1"), ONE, 0)
    world.forgotten.add("n1")
    world.room = 1
    _refused(world.beat("n1", ONE, 1), 503)
    world.room = 2
    assert world.beat("n1", ONE, 1) == CHANGE


def test_a_restarted_worker_takes_over_at_once(world: _World) -> None:
    world.full(facts("n1"), ONE, 0)
    assert world.beat("n1", TWO, 1) == FULL, "it has not said who it is"
    assert world.full(facts("n1"), TWO, 2) == CHANGE
    assert world.nodes == 1
    assert world.resumed == 0


def test_a_rebooted_machine_takes_over_at_once(world: _World) -> None:
    world.full(facts("n1", boot="monday"), ONE, 5)
    assert world.full(facts("n1", boot="tuesday"), TWO, 0) == CHANGE


def test_another_machine_with_the_same_name_is_refused_and_listed(world: _World) -> None:
    world.full(facts("n1", system="a"), ONE, 5)
    answer = _refused(world.full(facts("n1", system="b"), TWO, 0), 409)
    assert answer.retry_after_s == 10
    refused = world.events[-1]
    assert isinstance(refused, WorkerRefused)
    assert (refused.node, refused.code) == ("n1", "duplicate-worker")
    assert world.beat("n1", ONE, 6) == CHANGE, "the incumbent is not disturbed"


def test_a_refusal_is_told_once_in_a_while_not_each_time(world: _World) -> None:
    world.full(facts("n1", system="a"), ONE, 5)
    for at_s in (0.0, 5.0, 14.0, 16.0):
        world.now_s = at_s
        world.beat("n1", ONE, 6 + int(at_s))
        _refused(world.full(facts("n1", system="b"), TWO, int(at_s)), 409)
    assert sum(isinstance(e, WorkerRefused) for e in world.events) == 2


def test_a_silent_incumbent_loses_the_name(world: _World) -> None:
    world.full(facts("n1", system="a"), ONE, 5)
    world.now_s = 31.0
    assert world.full(facts("n1", system="b"), TWO, 0) == CHANGE
    _refused(world.full(facts("n1", system="a"), ONE, 6), 409)


def test_two_machines_with_cloned_identities_do_not_take_turns(world: _World) -> None:
    """A clone looks like a reboot once; when the first speaks again, both are alive."""
    world.full(facts("n1", boot="a"), ONE, 0)
    assert world.full(facts("n1", boot="b"), TWO, 0) == CHANGE
    _refused(world.beat("n1", ONE, 1), 409)
    _refused(world.full(facts("n1", boot="a"), ONE, 2), 409)
    assert world.beat("n1", TWO, 1) == CHANGE
    assert isinstance(world.events[1], WorkerReported)


def test_a_full_queue_changes_nothing_and_asks_to_come_back() -> None:
    world = _World(room=1)
    assert world.full(facts("n1"), ONE, 0) == CHANGE
    assert _refused(world.beat("n1", ONE, 1), 503).retry_after_s == 1
    _refused(world.change("n1", ONE, 1, FactsChange(gpus=())), 503)
    _refused(world.full(facts("n2"), TWO, 0), 503)
    world.room = 10
    assert world.beat("n1", ONE, 1) == CHANGE
    assert world.full(facts("n2"), TWO, 0) == CHANGE
    assert world.nodes == 2


def test_one_worker_cannot_drown_the_others() -> None:
    world = _World(rate=10.0)
    world.full(facts("n1"), ONE, 0)
    answers = [world.beat("n1", ONE, seq) for seq in range(1, 41)]
    refused = [a for a in answers if isinstance(a, ReportRefused)]
    assert {a.status for a in refused} == {429}
    assert len(answers) - len(refused) == 20, "a burst of twice the rate"
    assert world.full(facts("n2"), TWO, 0) == CHANGE
    world.now_s = 1.0
    assert world.beat("n1", ONE, 21) == CHANGE


def test_restarting_does_not_refill_the_allowance() -> None:
    world = _World(rate=1.0)
    answers = [world.full(facts("n1"), f"instance-{i}", 0) for i in range(6)]
    assert [isinstance(a, ReportRefused) for a in answers] == [
        False,
        False,
        False,
        True,
        True,
        True,
    ]
    beats = [world.beat("n1", "instance-2", seq) for seq in range(1, 6)]
    assert sum(isinstance(a, ReportRefused) for a in beats) == 3
    world.now_s = 1.0
    assert world.full(facts("n1"), THREE, 0) == CHANGE
    assert isinstance(world.beat("n1", THREE, 1), ReportTaken)
    assert isinstance(world.beat("n1", THREE, 2), ReportRefused), "the process before spent it"


def test_a_duplicate_that_floods_does_not_silence_the_rightful_worker() -> None:
    """Forty a second of the duplicate, one a second of the worker that was there first."""
    world = _World(rate=20.0)
    world.full(facts("n1", system="a"), ONE, 0)
    statuses = set()
    for second in range(1, 41):
        world.now_s = float(second)
        assert world.beat("n1", ONE, second) == CHANGE
        for number in range(40):
            answer = world.full(facts("n1", system="b"), TWO, 40 * second + number)
            assert isinstance(answer, ReportRefused)
            statuses.add(answer.status)
    assert statuses == {409, 429}


def test_a_duplicate_that_restarts_is_listed_once(world: _World) -> None:
    world.full(facts("n1", system="a"), ONE, 0)
    for number in range(20):
        world.now_s += 1.0
        world.beat("n1", ONE, 1 + number)
        _refused(world.full(facts("n1", system="b"), f"restarted-{number}", 0), 409)
    told = [e for e in world.events if isinstance(e, WorkerRefused)]
    assert len(told) == 2, "at once, and again before the list forgets it"
    assert len(set(told)) == 1, "the same row"


def test_more_nodes_than_agreed_are_refused() -> None:
    world = _World(max_nodes=2)
    world.full(facts("n1"), ONE, 0)
    world.full(facts("n2"), TWO, 0)
    assert "a token of its own" in _refused(world.full(facts("n3"), THREE, 0), 503).fix
    assert len(world.sessions) == 2
    world.now_s = 900.0
    world.beat("n2", TWO, 1)
    world.now_s = 1001.0
    assert world.full(facts("n3"), THREE, 0) == CHANGE, "n1 is long gone, n2 is not"
    assert world.beat("n2", TWO, 2) == CHANGE


def _foreign(world: _World, node: str, holder: str) -> ReportRefused:
    report = Report(node=NodeName(node), instance=ONE, seq=0, kind="beat")
    return world.sessions.foreign(report, NodeName(holder), world.now_s)


def test_a_report_for_another_node_is_refused_and_listed(world: _World) -> None:
    answer = _refused(_foreign(world, "n2", "n1"), 403)
    assert "n1" in answer.text
    refused = world.events[-1]
    assert isinstance(refused, WorkerRefused)
    assert (refused.node, refused.code) == ("n1", "foreign-report"), "the one who lies is named"
    assert "n2" in refused.text


def test_one_token_lists_one_row_however_many_names_it_tries() -> None:
    world = _World(rate=20.0)
    statuses = []
    for number in range(1500):
        world.now_s = number / 100
        statuses.append(_foreign(world, f"n{number}", "liar").status)
    assert {403, 429} == set(statuses)
    assert statuses.count(403) < 400, "twenty a second and the burst"
    rows = [(e.node, e.code) for e in world.events if isinstance(e, WorkerRefused)]
    assert rows == [("liar", "foreign-report")]
    assert len(world.events) == 1
    world.now_s = 20.0
    _refused(_foreign(world, "n9999", "liar"), 403)
    last = world.events[-1]
    assert isinstance(last, WorkerRefused)
    assert "n9999" in last.text
    assert len(last.text) < 100


def test_a_holder_that_floods_does_not_hide_another() -> None:
    world = _World(rate=1.0)
    for _ in range(10):
        _foreign(world, "n2", "liar")
    _refused(_foreign(world, "n2", "other"), 403)
    told = [e.node for e in world.events if isinstance(e, WorkerRefused)]
    assert told == ["liar", "other"]


def test_of_many_refused_holders_as_many_as_nodes_are_remembered() -> None:
    world = _World(max_nodes=5)
    for number in range(50):
        _foreign(world, "n1", f"holder-{number}")
    before = len(world.events)
    for number in range(45, 50):
        _foreign(world, "n1", f"holder-{number}")
    assert len(world.events) == before, "the newest are remembered: told a moment ago"
    _foreign(world, "n2", "holder-44")
    told = world.events[-1]
    assert isinstance(told, WorkerRefused)
    assert told.text == "the worker of holder-44 sent reports for n2", "n1 is forgotten"


def test_hardware_decides_whether_two_reports_come_from_one_machine() -> None:
    one = facts("n1", system="S", boot="a")
    assert same_machine(one, facts("n1", system="s", boot="b")), "case does not matter"
    assert not same_machine(one, facts("n1", system="T", boot="a")), "one difference is enough"
    bare = NodeFacts(one.identity)
    assert same_machine(one, bare), "a lost server UUID is no difference"
    nameless = facts("n1", system=" ").identity
    assert same_machine(NodeFacts(nameless), NodeFacts(nameless)), "else the boot id decides"


def test_machines_that_state_nothing_are_not_the_same() -> None:
    identity = facts("n1").identity
    nothing = NodeFacts(type(identity)(identity.name, type(identity.boot_id)("")))
    assert not same_machine(nothing, nothing)


def test_equal_hosts_share_what_is_bulky() -> None:
    """Two hosts of one make: one matrix, one list of ports, in memory."""
    matrix = LinkMatrix(("GPU0",), (), ((Link(LinkKind.SELF, "X"),),))
    ports = (LinkPort(0, 1, PortState.UP),)
    one, other = (
        interned(replace(facts(name), matrix=copy.deepcopy(matrix), ports=copy.deepcopy(ports)))
        for name in ("n1", "n2")
    )
    assert one.matrix is other.matrix
    assert one.ports is other.ports
    assert one.identity != other.identity
