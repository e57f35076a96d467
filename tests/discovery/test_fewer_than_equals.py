"""A node beside its equals: fewer GPUs than they have, and who is no equal."""

from dataclasses import replace

import pytest

from tests.builders import (
    declared,
    discovery,
    fabric_facts,
    not_ready,
    why,
)
from tests.discovery.hosts import PAIR, codes, host, islands, pair, restarted, told, tray
from topo.discovery.modes import MISSED, Mode
from topo.model.ids import NodeName
from topo.model.machine import (
    NetworkPort,
    NodeFacts,
    PortState,
)
from topo.model.observation import ConfigLoaded, WorkerBeat, WorkerReported


def test_a_gpu_that_is_gone_for_a_day_is_still_one_fewer_than_its_equals():
    """It is no longer missing of its own, and its group has more."""
    state = told(pair(forget_s=100.0), 1.0, host("a", gpus=7), times=2)
    for at_s in range(10, 130, 20):
        state.advance(float(at_s), *(WorkerBeat(NodeName(node)) for node in PAIR))
    assert codes(state, "a") == {"gpus-fewer"}
    state.validate()


@pytest.mark.parametrize("order", ["short first", "short last"])
def test_a_node_that_never_showed_all_its_gpus_has_fewer_than_its_equals(order):
    """In a dragonfly of two, the one with fewer; as soon as both have shown their GPUs twice."""
    said = [host("a", gpus=7), host("b")]
    said = said if order == "short first" else said[::-1]
    state = told(discovery(), 0.0, *said)
    assert not_ready(state) == set()
    state.advance(0.5, *(WorkerBeat(facts.identity.name) for facts in said))
    assert codes(state, "a") == {"gpus-fewer"}
    assert why(state, "a") == "7 GPUs, where the others of its group have 8"
    assert not_ready(state) == {"a"}
    assert not_ready(told(state, 1.0, host("a"))) == set()
    state.validate()


def test_most_of_a_clique_decide_and_one_that_shows_too_many_blames_nobody():
    """17 trays of 4 and one of 3, or one of 8."""
    names = [f"node-{n}" for n in range(18)]
    for odd, found in ((3, {"node-5"}), (8, set()), (0, {"node-5"})):
        said = [tray(name, odd if name == "node-5" else 4) for name in names]
        if not odd:  # no GPU is listed, and its fabric is: a driver that half works
            said[5] = replace(said[5], fabrics=fabric_facts("node-5", "c1").fabrics)
        state = told(discovery(Mode.NVLINK), 0.0, *said, times=2)
        assert not_ready(state) == found
        state.validate()


def more_than_there_is(node: str, what: str) -> NodeFacts:
    """A reading of a node that shows more of something than it has."""
    seen = host(node, gpus=16) if what == "gpus" else host(node)
    gpus = tuple(replace(gpu, model="MXC550") for gpu in seen.gpus)
    if what == "ports":
        ports = tuple(replace(port, state=PortState.UP) for port in seen.ports)
        return replace(seen, ports=ports)
    if what == "links":
        return replace(seen, matrix=islands(8))
    if what == "nics":
        return replace(seen, nics=(*seen.nics, NetworkPort("mlx5_9", 1, up=True)))
    return replace(seen, gpus=gpus)


@pytest.mark.parametrize("when", ["first", "later", "over a restart", "after a beat"])
@pytest.mark.parametrize("what", MISSED)
def test_one_reading_with_too_much_is_no_fact(what, when):
    """Neither the node nor its partner is held against it, by this master or the next."""
    odd = more_than_there_is("b", what)
    state = told(discovery(), 0.0, host("a"), times=2) if when == "first" else pair()
    if when == "after a beat":
        state.advance(0.5, *(WorkerBeat(NodeName(node)) for node in PAIR))
    told(state, 1.0, odd)
    assert not_ready(state) == set()
    if when == "over a restart":
        state = told(restarted(state, 2.0), 3.0, host("a"))
    for at_s in (4.0, 5.0, 6.0, 7.0):
        told(state, at_s, host("b"))
        assert not_ready(state) == set()
    state.validate()


@pytest.mark.parametrize("what", MISSED)
def test_what_two_readings_in_a_row_show_is_missed_when_it_is_gone(what):
    """Two reports, or a report and a beat."""
    odd = more_than_there_is("b", what)
    for again in (WorkerReported(odd), WorkerBeat(NodeName("b"))):
        state = told(pair(), 1.0, odd)
        state.advance(2.0, again)
        told(state, 3.0, host("b"), times=2)
        assert codes(state, "b") == {f"{what}-missing"}
        state = told(restarted(state, 4.0), 5.0, *map(host, PAIR), times=4)
        assert codes(state, "b") == {f"{what}-missing"}
        state.validate()


def test_nodes_of_another_type_or_of_a_written_group_are_no_equals():
    """A file may list what it likes, and 4 GPUs of one type say nothing of 8 of another."""
    said = [tray("a", 4, "GB200"), tray("b", 8, "H200")]
    assert not_ready(told(discovery(Mode.NVLINK), 0.0, *said)) == set()
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared({"box": {"fly": ["a", "b"]}})))
    assert not_ready(told(state, 1.0, host("a", gpus=4), host("b"), times=3)) == set()


def test_a_node_that_leaves_takes_its_number_with_it():
    """What two nodes of three have is no longer what most have."""
    said = [tray("a", 4), tray("b", 8), tray("c", 8)]
    state = told(discovery(Mode.NVLINK, forget_s=50.0), 0.0, *said, times=2)
    assert not_ready(state) == {"a"}
    for at_s in (25.0, 50.0, 75.0, 100.0):
        state.advance(at_s, WorkerBeat(NodeName("a")))
    assert state.known == ("a",)
    assert not_ready(state) == set()
    state.validate()
