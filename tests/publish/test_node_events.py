"""What is told as an Event: once when it comes, once when it goes, and nothing twice."""

from collections import Counter
from dataclasses import replace

from tests.builders import declared, discovery, facts, not_ready, report, ring, server
from topo.discovery.modes import Mode
from topo.model.forest import Snapshot, SourceState
from topo.model.ids import Generation, SourceName
from topo.model.machine import Peer, ServerPeers
from topo.model.observation import ConfigLoaded, Ticked, WorkerReported
from topo.publish.node_events import NodeEventTracker, Occurrence

PAIRS = (("node-1", "node-2"), ("node-3", "node-4"))


class World:
    """Two dragonflies of two nodes, and what a listener was told of them."""

    def __init__(self) -> None:
        self.state = discovery()
        self.now_s = 0.0
        self.tracker = NodeEventTracker()
        for pair in PAIRS:
            self.state.advance(self.now_s, *ring(list(pair)))
        assert self.tracker.advance(self.state.snapshot) == ()

    def readings(self, *events: object, times: int = 3) -> tuple[Occurrence, ...]:
        """The same reports so many times, as hysteresis wants them; what was told then."""
        for _ in range(times):
            self.now_s += 1.0
            self.state.advance(self.now_s, *events)  # type: ignore[arg-type]
        return self.tracker.advance(self.state.snapshot)


def reasons(told: tuple[Occurrence, ...]) -> Counter[tuple[str | None, str]]:
    return Counter((each.node, each.reason) for each in told)


def healed() -> tuple[WorkerReported, ...]:
    """Both ends of the first dragonfly say that their cable carries a link."""
    found = []
    for name, other in (PAIRS[0], PAIRS[0][::-1]):
        plugged = Peer(1, server(other), connected=True)
        found.append(replace(facts(name), peers=ServerPeers(server(name), (plugged,))))
    return tuple(map(WorkerReported, found))


def cut(world: World) -> tuple[Occurrence, ...]:
    """The cable between node-1 and node-2 is pulled out; both ends see it."""
    return world.readings(
        report("node-1", ["node-2"], unplugged=["node-2"]),
        report("node-2", ["node-1"], unplugged=["node-1"]),
    )


def test_a_cut_cable_is_told_on_both_nodes_and_on_no_other():
    world = World()
    told = cut(world)
    assert reasons(told) == {("node-1", "LinkDown"): 1, ("node-2", "LinkDown"): 1}
    assert {each.content.type for each in told} == {"Warning"}
    assert told[0].note == "the link in slot 1 to node-2 is down"


def test_what_stays_as_it_is_is_told_once():
    world = World()
    cut(world)
    assert cut(world) == ()


def test_a_healed_link_is_told():
    world = World()
    cut(world)
    told = world.readings(*healed())
    assert reasons(told) == {("node-1", "LinkUp"): 1, ("node-2", "LinkUp"): 1}
    assert {each.content.type for each in told} == {"Normal"}
    assert told[0].note == "the link in slot 1 to node-2 is up again"


def test_a_cable_that_was_out_and_is_in_between_two_looks_is_not_told():
    world = World()
    for _ in range(3):
        world.now_s += 1.0
        out = report("node-1", ["node-2"], unplugged=["node-2"])
        world.state.advance(world.now_s, out)
    assert not_ready(world.state)
    assert world.readings(*healed()) == ()


def test_a_restart_repeats_nothing_and_still_tells_what_heals():
    """The next process takes the forest as it finds it for known."""
    world = World()
    cut(world)
    world.tracker = NodeEventTracker()
    assert world.tracker.advance(world.state.snapshot) == ()
    assert cut(world) == ()
    told = world.readings(*healed())
    assert reasons(told) == {("node-1", "LinkUp"): 1, ("node-2", "LinkUp"): 1}


def test_nodes_that_find_their_first_group_are_no_news():
    """Else every start of a cluster would be an Event for each of its nodes."""
    state, tracker = discovery(), NodeEventTracker()
    tracker.advance(state.snapshot)
    state.advance(0.0, report("node-1", ["node-2"]))
    assert tracker.advance(state.snapshot) == ()
    state.advance(1.0, report("node-2", ["node-1"]))
    assert tracker.advance(state.snapshot) == ()


def test_a_node_that_moves_leaves_and_comes_back_is_told_each_time():
    """By the config file: from one dragonfly to the other, out of all, and back."""
    state, tracker = discovery(Mode.CONFIG), NodeEventTracker()

    def load(*dragonflies: list[str]) -> tuple[Occurrence, ...]:
        flies = {f"fly-{n}": nodes for n, nodes in enumerate(dragonflies, start=1)}
        state.advance(0.0, ConfigLoaded(declared({"box-1": flies})), report("node-2"))
        return tracker.advance(state.snapshot)

    assert load(["node-1", "node-2"], ["node-3", "node-4"]) == ()
    (moved,) = load(["node-1"], ["node-2", "node-3", "node-4"])
    assert (moved.node, moved.reason, moved.content.type) == (
        "node-2",
        "MovedGroup",
        "Normal",
    )
    assert moved.note == "the node moved from box-1/fly-1 to box-1/fly-2"
    (left,) = load(["node-1"], ["node-3", "node-4"])
    assert (left.node, left.reason, left.content.type) == ("node-2", "LeftGroup", "Warning")
    assert left.note.startswith("the node is no longer in box-1/fly-2: ")
    (back,) = load(["node-1", "node-2"], ["node-3", "node-4"])
    assert (back.node, back.reason, back.content.type) == (
        "node-2",
        "RejoinedGroup",
        "Normal",
    )
    assert back.note == "the node is in a group again: box-1/fly-1"


def test_a_third_node_in_a_dragonfly_of_two_is_told_on_all_three_until_it_is_gone():
    world = World()
    third = report("node-2", ["node-1", "node-5"]), report("node-5", ["node-2"])
    told = world.readings(report("node-1", ["node-2"]), *third)
    oversize = [each for each in told if each.reason == "OversizeGroup"]
    assert sorted(str(each.node) for each in oversize) == ["node-1", "node-2", "node-5"]
    assert "--node-number" in oversize[0].note
    parted = report("node-2", ["node-1", "node-5"], unplugged=["node-5"])
    told = world.readings(parted, report("node-5", ["node-2"], unplugged=["node-2"]))
    assert not [each for each in told if each.reason.startswith("Oversize")]  # kept, with its fault


def sources(*failing: str, good: bool = True) -> Snapshot:
    names = ("workers", "cluster-manager")
    states = tuple(
        SourceState(
            SourceName(name),
            0.0 if good else None,
            failing_since_s=1.0 if name in failing else None,
            trouble="connection refused" if name in failing else "",
            fix="look at its service" if name in failing else "",
        )
        for name in names
    )
    return Snapshot(Generation(1), discovery().snapshot.forest, states)


def test_a_source_that_is_lost_and_recovers_is_told_of_the_service_itself():
    tracker = NodeEventTracker()
    assert tracker.advance(sources()) == ()
    (lost,) = tracker.advance(sources("cluster-manager"))
    assert (lost.node, lost.reason, lost.content.type) == (None, "SourceLost", "Warning")
    assert lost.note == (
        "the source cluster-manager fails, what it said stays: connection refused; "
        "look at its service"
    )
    assert tracker.advance(sources("cluster-manager")) == ()
    (well,) = tracker.advance(sources())
    assert (well.node, well.reason, well.content.type) == (
        None,
        "SourceRecovered",
        "Normal",
    )


def test_a_source_that_never_answered_is_not_lost_and_its_recovery_is_told():
    """The master is not ready then, and says so by itself."""
    tracker = NodeEventTracker()
    assert tracker.advance(sources(good=False)) == ()
    assert tracker.advance(sources("cluster-manager", good=False)) == ()
    (well,) = tracker.advance(sources())
    assert well.reason == "SourceRecovered"


def test_a_node_that_is_forgotten_takes_its_cut_links_with_it():
    """When it comes back with the cable in, nothing has healed that anybody was told of."""
    world = World()
    cut(world)
    world.state.advance(world.now_s + 10_000_000.0, Ticked())
    world.now_s += 10_000_000.0
    world.tracker.advance(world.state.snapshot)
    assert world.readings(*ring(["node-1", "node-2"])) == ()


def test_a_dead_link_that_gives_way_to_another_cable_is_told_as_replaced():
    """The old link is never up again, and its warning must not stand for ever."""
    world = World()
    cut(world)
    fresh = Peer(1, server("node-5"), connected=True)
    moved = replace(facts("node-1"), peers=ServerPeers(server("node-1"), (fresh,)))
    told = world.readings(WorkerReported(moved), report("node-5", ["node-1"]), times=4)
    assert ("node-1", "LinkReplaced") in reasons(told)
