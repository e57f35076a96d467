"""A log of bookings replays to the same bytes elsewhere, and what differs is named by its line."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.placement.booking.holding import reserved
from tests.placement.booking.test_holds_pods import NODES, bound, nominated, pod, threes
from topo.model.cluster import ClusterNode, Taint
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.events import Event, HoldAsked, HoldCommitted, HoldReleased, PodGone
from topo.placement.booking.holds import Hold, HoldId, HoldRequest, Limits
from topo.placement.booking.log import (
    Advanced,
    HostsChanged,
    LogHeader,
    Replay,
    line_of,
    replay,
    state_json,
)
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import joined
from topo.placement.engine import place
from topo.placement.job.plan import Plan
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, Request

EXCLUDED = Eligibility(exclude=frozenset({NODES[0], NODES[5], NodeName("other")}))


class Recorder:
    """A machine that has a hold already, whose further life is recorded."""

    def __init__(self) -> None:
        self.capacity = threes()
        self.bookings = Bookings(self.capacity, Limits(holds=5))
        early = reserved(self.bookings, self.capacity, asked(1), name="early")
        assert isinstance(early, Hold)
        self.lines = [line_of(header(self.capacity, self.bookings))]

    def advance(self, now_s: float, *events: Event) -> None:
        changes = self.bookings.advance(now_s, *events)
        self.lines.append(line_of(Advanced.of(now_s, events, changes)))

    def ask(self, now_s: float, name: str, wish: HoldRequest) -> None:
        plan = place(self.capacity, wish.request)
        assert isinstance(plan, Plan)
        self.advance(now_s, HoldAsked.of(wish, plan, HoldId(name), 3))

    def cordon(self, node: NodeName) -> None:
        before = self.capacity.host(node)
        stated = ClusterNode(name=node, unschedulable=True, taints=(Taint("t"),))
        host = joined(before, stated, Policy())
        assert host is not None
        self.capacity.upsert(host)
        self.lines.append(line_of(HostsChanged((host,))))


def asked(pods: int, hold_s: float = 60, eligible: Eligibility = Eligibility()) -> HoldRequest:  # noqa: B008
    request = Request(pods=pods, gpus_per_pod=8, eligible=eligible)
    return HoldRequest(request, hold_s, f"key {pods}")


def header(capacity: Capacity, bookings: Bookings) -> LogHeader:
    hosts = tuple(capacity.hosts())
    return LogHeader(
        policy=capacity.policy, limits=Limits(holds=5), hosts=hosts, bookings=bookings.state()
    )


def lived() -> Recorder:
    """Something of everything."""
    it = Recorder()
    it.ask(1.5, "h1", asked(2))
    it.ask(2.0, "h2", asked(2))
    it.cordon(NODES[5])
    it.advance(3.0, HoldCommitted(HoldId("h1")), HoldReleased(HoldId("unknown")))
    it.advance(4.0, *nominated(pod("p", "n1")), *bound(pod("q", "n4", "early")))
    again_p, elsewhere = pod("p", "n0", "h1"), pod("r", "n3", "h1")
    plan = place(it.capacity, asked(1).request)
    assert isinstance(plan, Plan)
    late = HoldAsked.of(asked(1), plan, HoldId("late"), 3)
    it.advance(5.0, PodGone("p"), *nominated(again_p), *bound(elsewhere), late, PodGone("p"))
    it.lines.append(line_of(HostsChanged((), (NODES[4],))))
    it.capacity.remove(NODES[4])
    it.ask(70.0, "h3", asked(1, 9, EXCLUDED))
    return it


def again(lines: list[bytes]) -> Replay:
    found = replay(iter(lines))
    assert isinstance(found, Replay)
    return found


def test_a_log_replays_to_the_same_bytes():
    it = lived()
    found = again(it.lines)
    assert found.difference == ""
    assert found.steps == len(it.lines) - 1
    assert state_json(found.bookings.state()) == state_json(it.bookings.state())
    assert list(found.capacity.hosts()) == list(it.capacity.hosts())
    assert found.other_choices == ["late: today from n1 to n1"], "pods had moved in that step"
    onward = header(it.capacity, it.bookings)
    assert state_json(again([line_of(onward)]).bookings.state()) == state_json(it.bookings.state())


def test_a_log_keeps_whose_a_hold_is_and_one_of_an_earlier_release_replays_to_the_same():
    it = Recorder()
    it.ask(1.0, "h1", replace(asked(2), namespace="team-a"))
    assert b'"namespace":"team-a"' in it.lines[-1]
    found = again(it.lines)
    assert state_json(found.bookings.state()) == state_json(it.bookings.state())
    earlier = lived()
    before = [line.replace(b',"namespace":""', b"") for line in earlier.lines]
    assert before != earlier.lines
    found = again(before)
    assert found.difference == ""
    assert state_json(found.bookings.state()) == state_json(earlier.bookings.state())


def test_the_first_step_of_which_something_else_comes_is_named():
    lines = lived().lines
    at = next(n for n, line in enumerate(lines) if b"committed h1" in line)
    lines[at] = lines[at].replace(b"committed h1", b"committed h9")
    found = again(lines)
    assert found.difference.startswith(f"line {at + 1}: it was committed h9")
    assert "replayed it is committed h1" in found.difference
    assert found.steps == at


def test_a_step_that_is_missing_is_found_by_what_follows():
    lines = lived().lines
    del lines[1]
    assert again(lines).difference.startswith("line 2: it was repeated h1, replayed")


def test_a_step_that_no_bookings_could_take_is_a_difference():
    lines = lived().lines
    again_early = lines[2].replace(b'"id":"h2"', b'"id":"early"')
    found = again([lines[0], lines[1], again_early])
    assert found.difference == "line 3: bookings: early is not a new name for a hold"


def test_other_groups_than_the_engine_would_choose_are_told_and_no_difference():
    it = Recorder()
    plan = place(it.capacity, asked(2).request)
    assert isinstance(plan, Plan)
    (group,) = plan.groups
    other = replace(plan, groups=(replace(group, pods=((NODES[3], 1), (NODES[5], 1))),))
    it.advance(1.0, HoldAsked.of(asked(2), other, HoldId("h1"), 3))
    found = again(it.lines)
    assert found.difference == ""
    assert found.other_choices == ["h1: today from n1 to n2"]


def test_what_was_chosen_beside_nodes_kept_for_another_is_what_the_engine_would_choose():
    it = Recorder()
    kept = it.capacity.free_on(NODES[1:3])
    plan = place(it.capacity.with_changes(taken={"kept": kept}), asked(2).request)
    assert isinstance(plan, Plan)
    chosen = HoldAsked.of(asked(2), plan, HoldId("h1"), 3)
    it.advance(1.0, chosen)
    it.advance(2.0, HoldReleased(chosen.id))
    it.advance(3.0, replace(chosen, id=HoldId("h2"), without=NODES[1:3]))
    found = again(it.lines)
    assert found.difference == ""
    assert found.other_choices == ["h1: today from n1 to n2"]
    assert found.capacity.used(NODES[1]) == 0, "nothing stays kept"


def test_a_line_that_was_not_written_to_its_end_is_left_out():
    lines = lived().lines
    assert again([*lines[:-1], lines[-1][:-9]]).steps == len(lines) - 2


def _broken() -> Iterator[tuple[list[bytes], str]]:
    lines = lived().lines
    yield [b"hello\n"], "line 1"
    yield lines[1:], "a log begins with its header"
    yield [lines[0], lines[0]], "a second header"
    yield [lines[0].replace(b'"format":2', b'"format":3')], "format"
    yield [], "no whole line"
    yield [lines[0], lines[1].replace(b"hold-asked", b"hold-stolen")], "line 2"
    yield [lines[0].replace(b'"kinds":["leaf"]', b'"kinds":[]', 1)], "node 'n0' has a path"
    yield [lines[0].replace(b'"places":[]', b'"places":["a","b"]', 1)], "node 'n0' has a path"
    yield [lines[0], lines[1].replace(b'"pods":2', b'"pods":0')], "pods is 0"
    for time_s in (b"NaN", b"Infinity", b"1e999"):
        yield [lines[0], lines[1].replace(b'"now_s":1.5', b'"now_s":' + time_s)], "finite"


@pytest.mark.parametrize(("lines", "part"), [*_broken()])
def test_what_is_no_log_is_refused_with_its_line(lines: list[bytes], part: str):
    found = replay(iter(lines))
    assert isinstance(found, Refusal)
    assert part in str(found)
