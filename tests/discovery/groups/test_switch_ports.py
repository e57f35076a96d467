"""Groups of the leaves that nodes see by LLDP: silence and doubt take nothing away."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import discovery, facts, shape
from tests.discovery.fabrics import dumped
from tests.support.fabric import pairs
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.machine import NetworkPort, NicNeighbour
from topo.model.observation import FABRIC, NodeRemoved, WorkerReported

SHARED = Path(__file__).resolve().parents[3].parent / "shared/data/fabrics/lldp"
PAIRS = {"gpu-1": ["leaf-1"], "gpu-2": ["leaf-1"], "gpu-3": ["leaf-2"], "gpu-4": ["leaf-2"]}
"""The vendor's shape: two nodes a group."""


def end(number: int, switch: str, port: str = "") -> NicNeighbour:
    """The far end of an interface; a switch is known by its chassis, not by its name."""
    return NicNeighbour(f"eth{number}", f"mac {switch}", switch.upper(), port or f"swp{number}")


def seen(host: str, *ends: NicNeighbour, interfaces: Sequence[str] = ()) -> WorkerReported:
    """The event of a worker that sees these; `interfaces` are those of its RDMA adapter."""
    nics = (NetworkPort("mlx5_0", 1, up=True, interfaces=tuple(interfaces)),) if interfaces else ()
    return WorkerReported(replace(facts(host), nics=nics, nic_neighbours=ends))


def wired(switches: Mapping[str, Sequence[str]]) -> list[WorkerReported]:
    """The event of each host, whose interface i is at the i-th of these switches."""
    return [seen(host, *map(end, range(99), at)) for host, at in switches.items()]


def told(*events: WorkerReported) -> Discovery:
    """A state that was told this."""
    state = discovery(Mode.FABRIC)
    state.advance(0.0, *events)
    state.validate()
    return state


def conflicts(state: Discovery) -> dict[str, str]:
    """The text of each conflict by its code."""
    return {str(each.code): each.text for each in state.snapshot.forest.conflicts}


def test_nodes_at_one_leaf_are_a_group_that_has_the_name_of_the_leaf() -> None:
    state = told(*wired(PAIRS))
    assert shape(state) == {"LEAF-1": ["gpu-1", "gpu-2"], "LEAF-2": ["gpu-3", "gpu-4"]}
    assert not conflicts(state)


def test_the_source_answers_as_soon_as_a_node_sees_a_switch() -> None:
    """No dump was read, and none will be."""
    state = discovery(Mode.FABRIC)
    state.advance(0.0)
    (fabric,) = [each for each in state.snapshot.sources if each.source == FABRIC]
    assert fabric.last_good_at_s is None
    state.advance(1.0, *wired(PAIRS))
    state.advance(2.0)
    (fabric,) = [each for each in state.snapshot.sources if each.source == FABRIC]
    assert fabric.last_good_at_s is not None
    assert fabric.detail == "0 dumps: 2 switches, 4 adapters, 4 of them in known nodes"


@pytest.mark.parametrize("seed", range(40))
def test_random_rails_with_faults_have_the_groups_of_their_units_in_any_order(seed: int) -> None:
    """A leaf for each interface; of each host less than half of the cables are wrong or silent."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    rails = rng.choice((1, 2, 4, 8))
    units = [[f"h{unit}-{n}" for n in range(rng.choice((2, 2, 3, 5)))] for unit in range(4)]
    events = []
    for unit, hosts in enumerate(units):
        for host in hosts:
            ends = [end(rail, f"leaf-{unit}-{rail}") for rail in range(rails)]
            for rail in rng.sample(range(rails), (rails - 1) // 2 if host == hosts[0] else 0):
                ends[rail] = end(rail, f"leaf-{(unit + 1) % 4}-{rail}")
            events.append(seen(host, *ends))
    rng.shuffle(events)
    state = discovery(Mode.FABRIC)
    for event in events:
        state.advance(0.0, event)
    state.validate()
    assert {frozenset(found) for found in shape(state).values()} == set(map(frozenset, units))


def test_silence_takes_no_group_away() -> None:
    state = told(*wired(PAIRS))
    before = shape(state)
    state.advance(1.0, *(seen(host) for host in PAIRS))
    assert shape(state) == before


def test_a_moved_cable_counts_when_the_old_neighbour_has_expired() -> None:
    state = told(*wired(PAIRS))
    state.advance(1.0, seen("gpu-2", end(0, "leaf-1"), end(0, "leaf-2")))
    assert shape(state) == {"LEAF-1": ["gpu-1", "gpu-2"], "LEAF-2": ["gpu-3", "gpu-4"]}
    text = "eth0 sees LEAF-1 port swp0 and LEAF-2 port swp0: a cable that was moved, or a box"
    assert text in conflicts(state)["several-neighbours"]
    state.advance(2.0, seen("gpu-2", end(0, "leaf-2")))
    state.validate()
    assert shape(state) == {"LEAF-1": ["gpu-1"], "LEAF-2": ["gpu-2", "gpu-3", "gpu-4"]}
    assert not conflicts(state)


def test_two_switches_of_one_name_are_two() -> None:
    same = {host: [at[0]] for host, at in PAIRS.items()}
    events = [seen(host, replace(end(0, at), name="leaf")) for host, (at,) in sorted(same.items())]
    state = told(*events)
    assert sorted(shape(state).values()) == [["gpu-1", "gpu-2"], ["gpu-3", "gpu-4"]]


def test_a_host_at_the_end_of_a_cable_is_no_leaf() -> None:
    """gpu-2 and gpu-3 have a cable between them."""
    events = [
        seen("gpu-1", end(0, "leaf-1")),
        seen("gpu-2", end(0, "leaf-1"), end(1, "gpu-3")),
        seen("gpu-3", end(0, "leaf-2"), end(1, "gpu-2")),
        seen("gpu-4", end(0, "leaf-2")),
    ]
    state = told(*events)
    assert shape(state) == {"LEAF-1": ["gpu-1", "gpu-2"], "LEAF-2": ["gpu-3", "gpu-4"]}


def test_an_interface_of_management_counts_only_where_no_adapter_names_its_own() -> None:
    """All nodes have two cables to one switch of management, and two and two one to a leaf."""
    ends = {host: (end(0, "mgmt"), end(2, "mgmt"), end(1, at)) for host, (at,) in PAIRS.items()}
    state = told(*(seen(host, *found) for host, found in ends.items()))
    assert list(shape(state).values()) == [sorted(PAIRS)]
    state.advance(1.0, *(seen(host, *found, interfaces=["eth1"]) for host, found in ends.items()))
    state.validate()
    assert shape(state) == {"LEAF-1": ["gpu-1", "gpu-2"], "LEAF-2": ["gpu-3", "gpu-4"]}


def test_a_cable_in_a_leaf_of_another_group_is_named_with_interface_and_port() -> None:
    rails = {host: [f"{at[0]}{rail}" for rail in "abc"] for host, at in PAIRS.items()}
    rails["gpu-2"][2] = "leaf-2c"
    state = told(*wired(rails))
    assert sorted(shape(state).values()) == [["gpu-1", "gpu-2"], ["gpu-3", "gpu-4"]]
    assert "gpu-2 eth2 to LEAF-2C port swp2" in conflicts(state)["fabric-cable-astray"]


def test_dumps_and_neighbours_are_one_fabric() -> None:
    """A switch of storage that all hosts see, too, parts and joins none of them."""
    built = pairs(2)
    state = told(*(seen(host, end(0, "storage")) for host in built.adapters))
    state.advance(1.0, dumped(built.text()))
    state.advance(2.0)
    state.validate()
    assert sorted(shape(state).values()) == [["gpu-01", "gpu-02"], ["gpu-03", "gpu-04"]]


def test_a_neighbour_that_is_not_seen_for_ten_minutes_is_a_finding_and_still_counts() -> None:
    """Its age is shown at once; the switch is named with the interface that lost it."""
    rails = {host: [f"{at[0]}{rail}" for rail in "ab"] for host, at in PAIRS.items()}
    state = told(*wired(rails))
    before = shape(state)
    state.advance(10.0, seen("gpu-2", end(0, "leaf-1a")))
    detail = state.detail(NodeName("gpu-2"))
    assert detail is not None
    assert [(each.switch, each.unseen_since_s) for each in detail.uplinks] == [
        ("LEAF-1A", None),
        ("LEAF-1B", 10.0),
    ]
    state.advance(609.0)
    assert not conflicts(state)
    state.advance(610.0)
    state.validate()
    found = conflicts(state)["neighbour-lost"]
    assert found == "eth1 of gpu-2 does not show LEAF-1B port swp1 any more"
    assert shape(state) == before
    state.advance(611.0, seen("gpu-2", end(0, "leaf-1a"), end(1, "leaf-1b")))
    state.validate()
    assert not conflicts(state)


def test_a_leaf_that_nobody_sees_any_more_is_one_finding_and_a_silent_host_another() -> None:
    rails = {f"gpu-{n}": ["leaf-a", "leaf-b"] for n in range(5)}
    state = told(*wired(rails))
    state.advance(1.0, *(seen(f"gpu-{n}", end(0, "leaf-a")) for n in range(4)), seen("gpu-4"))
    state.advance(700.0)
    lost = [each for each in state.snapshot.forest.conflicts if each.code == "neighbour-lost"]
    assert {each.subjects: each.text for each in lost} == {
        ("gpu-4",): "gpu-4: none of its 2 interfaces shows a neighbour any more",
        ("gpu-0", "gpu-1", "gpu-2", "gpu-3"): "eth1 of gpu-0 does not show LEAF-B port swp1 any "
        "more, and 3 more interfaces do not",
    }


def test_a_moved_cable_shows_both_ends_until_the_old_one_expires() -> None:
    state = told(*wired(PAIRS))
    state.advance(1.0, seen("gpu-2", end(0, "leaf-1"), end(0, "leaf-2")))
    detail = state.detail(NodeName("gpu-2"))
    assert detail is not None
    assert detail.facts is not None
    assert [each.name for each in detail.facts.nic_neighbours] == ["LEAF-1", "LEAF-2"]
    assert [each.switch for each in detail.uplinks] == ["LEAF-1"]


def test_a_node_that_is_forgotten_has_no_lost_neighbour() -> None:
    state = told(*wired(PAIRS))
    state.advance(1.0, seen("gpu-2"))
    state.advance(2.0, NodeRemoved(NodeName("gpu-2")))
    state.advance(800.0)
    state.validate()
    assert "neighbour-lost" not in conflicts(state)


def test_real_outputs_over_a_recabling_move_the_cable_and_name_the_switch_that_is_gone() -> None:
    """eth-rdma0 goes from LEAF01 to LEAF09, leaf02 falls silent, and eth-rdma3 leads to a host."""
    state = discovery(Mode.FABRIC)
    names = ("gpu-01", "recabled-within-ttl", "recabled-after-ttl")
    shown = []
    for at, name in enumerate(names):
        path = SHARED / f"{name}.json0.json"
        if not path.is_file():
            pytest.skip("the real outputs are not part of the repository")
        read = parse(path.read_text())
        assert not isinstance(read, Refusal)
        ends = [e for part in read.facts if isinstance(part, tuple) for e in part]
        said = [each for each in ends if isinstance(each, NicNeighbour)]
        state.advance(100.0 * at, seen("gpu-01", *said), seen("gpu-02"))
        state.validate()
        detail = state.detail(NodeName("gpu-01"))
        assert detail is not None
        shown.append({each.interface: each.switch for each in detail.uplinks})
    assert [each["eth-rdma0"] for each in shown] == ["LEAF01", "LEAF01", "LEAF09"]
    assert [each["eth-rdma1"] for each in shown] == ["leaf02.dc1.example.com"] * 3
    state.advance(900.0)
    found = conflicts(state)
    assert found["neighbour-lost"].startswith("eth-rdma1 of gpu-01 does not show leaf02.dc1")


def test_a_neighbour_that_is_a_host_is_not_missed() -> None:
    state = told(seen("gpu-1", end(0, "leaf-1"), end(1, "gpu-2")), seen("gpu-2", end(0, "leaf-1")))
    state.advance(1.0, seen("gpu-1", end(0, "leaf-1")))
    state.advance(700.0)
    assert not conflicts(state)


_ENDS = ("leaf-1", "leaf-2", "leaf-3", "gpu-02", "gpu-3.site")
_readings = st.tuples(
    st.sampled_from(["gpu-01", "gpu-02", "gpu-3", "gpu-4"]),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(_ENDS)), max_size=4),
    st.booleans(),
)


@settings(max_examples=40)
@given(st.lists(_readings, max_size=20), st.integers(0, 19))
def test_cables_that_are_counted_node_by_node_are_those_that_are_counted_anew(steps, at) -> None:
    """Hosts come, go and see each other; a dump is read in between."""
    state = discovery(Mode.FABRIC)
    for number, (host, ends, is_gone) in enumerate(steps):
        event = NodeRemoved(NodeName(host)) if is_gone else seen(host, *(end(*e) for e in ends))
        state.advance(float(number), event)
        state.validate()
        if number == at:
            state.advance(float(number), dumped(pairs(2).text()))
            state.validate()


def test_a_neighbour_that_turns_out_to_be_a_host_is_no_switch_any_more() -> None:
    state = told(seen("gpu-1", end(0, "gpu-2")), seen("gpu-3", end(0, "gpu-2")))
    assert shape(state) == {"GPU-2": ["gpu-1", "gpu-3"]}
    state.advance(1.0, seen("gpu-2"))
    (fabric,) = [each for each in state.snapshot.sources if each.source == FABRIC]
    assert fabric.detail == "0 dumps: 0 switches, 0 adapters, 2 of them in known nodes"
    state.validate()


def test_cables_count_again_after_a_dump_that_was_cut_off_meanwhile() -> None:
    """After a restart such a dump does not count, and without it no cable is known."""
    whole = dumped(pairs(2).text())
    ((name, dump),) = whole.dumps
    cut_off = replace(whole, dumps=((name, replace(dump, missing="its end")),))
    state = told(seen("gpu-01"))
    state.advance(1.0, whole)
    later = state.fresh()
    later.restore(state.persistent_state(), 0.0, 2.0)
    for number, event in enumerate((whole, cut_off, whole)):
        later.advance(3.0 + number, event)
        later.validate()
    assert "gpu-01" in shape(later)["ib-su1-leaf-01"]
