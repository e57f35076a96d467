"""What vanishes is not what is well: GPUs, ports, NICs, peers, and the silence of a bad part."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import (
    discovery,
    fabric_facts,
    nodes,
    not_ready,
    shape,
    why,
)
from tests.builders import facts as metax_facts
from tests.discovery.hosts import PAIR, codes, host, islands, pair, restarted, told, unplugged
from topo.discovery.modes import MISSED
from topo.model.ids import NodeName
from topo.model.machine import (
    NetworkPort,
    NodeFacts,
    PortState,
    ProbeHealth,
    ProbeState,
)
from topo.model.observation import Ticked, WorkerBeat

DAY_S = 86_400.0


GONE = {
    "a GPU": (host("a", gpus=7), "gpus-missing", "7 of 8 GPUs reported"),
    "no GPU is listed": (replace(host("a"), gpus=()), "gpus-missing", "0 of 8 GPUs reported"),
    "ports are not listed": (
        unplugged(host("a"), 2, 5, None),
        "ports-missing",
        "GPU 2: 5 of 7 link ports reported",
    ),
    "ports turn unused": (
        unplugged(host("a"), 2, 0, PortState.UNUSED),
        "ports-missing",
        "GPU 2: 0 of 7 link ports reported",
    ),
    "all ports, and why": (
        replace(
            host("a"), ports=(), probes=(ProbeHealth("mxsml", ProbeState.FAILED, "no driver"),)
        ),
        "ports-missing",
        "GPU 7: 0 of 7 link ports reported (probe mxsml: no driver)",
    ),
    "fast links inside": (
        replace(host("a"), matrix=islands(4, 4, cut=[2])),
        "links-missing",
        "GPU2 has fast links to 0 of 3 GPUs of its node",
    ),
    "a NIC": (
        replace(host("a"), nics=host("a").nics[:3]),
        "nics-missing",
        "3 of 4 network ports reported",
    ),
}


@pytest.mark.parametrize(("gone", "code", "text"), GONE.values(), ids=GONE)
def test_what_vanishes_makes_its_node_not_ready_until_it_is_back(gone, code, text):
    """After two readings; over a restart of the master; and three good readings heal it."""
    state = told(pair(), 1.0, gone)
    assert not_ready(state) == set(), "one bad reading is none"
    state = told(state, 2.0, gone)
    assert not_ready(state) == {"a"}
    assert code in codes(state, "a") <= {code, "gpu-cut-off"}
    assert text in why(state, "a")
    state = told(restarted(state, 3.0), 4.0, *map(host, PAIR), gone, times=4)
    assert code in codes(state, "a"), "what was there is known to the next master"
    told(state, 5.0, host("a"), times=3)
    assert not_ready(state) == set()
    state.validate()


@pytest.mark.parametrize(("gone", "code", "_text"), GONE.values(), ids=GONE)
def test_a_reboot_brings_nothing_back_by_itself(gone, code, _text):
    """A GPU that fell off the bus is still gone after it; the new boot is not a smaller machine."""
    again = replace(gone, identity=host("a", boot="boot-2").identity)
    state = told(pair(), 1.0, again, times=4)
    assert code in codes(state, "a")
    told(state, 2.0, host("a", boot="boot-2"), times=3)
    assert not_ready(state) == set()


def test_a_reboot_after_a_master_that_saw_no_gpu_brings_nothing_back_either():
    """A driver that was dead while the master restarted says nothing of the GPUs' type."""
    state = restarted(told(pair(), 1.0, GONE["no GPU is listed"][0], times=2), 2.0)
    told(state, 3.0, host("b"), host("a", gpus=7, boot="boot-2"), times=4)
    assert codes(state, "a") == {"gpus-missing"}


def test_a_reboot_with_other_gpus_is_another_machine():
    """Its hardware was changed: nothing of the old one is missed."""
    other = metax_facts("a", ["b"], gpus=4, boot="boot-2")
    other = replace(other, gpus=tuple(replace(gpu, model="MXC600") for gpu in other.gpus))
    state = told(pair(), 1.0, other, times=4)
    assert not_ready(state) == set()
    assert nodes(state)["a"].gpus == 4
    state.validate()


@pytest.mark.parametrize("what", ["ports are not listed", "a NIC"])
def test_what_is_gone_for_a_day_was_taken_out(what):
    """Then what is there is all there is; for GPUs the equals of the group still speak."""
    gone, _, _ = GONE[what]
    state = told(pair(), 1.0, gone, times=2)
    for at_s in range(10, int(DAY_S) + 60, 25):
        state.advance(float(at_s), *(WorkerBeat(NodeName(node)) for node in PAIR))
        if at_s < DAY_S:
            assert "a" in not_ready(state)
    assert not_ready(state) == set()
    state.validate()


def test_a_cable_that_comes_out_late_is_not_forgotten_with_a_port_that_is_gone_for_long():
    """Each loss has its own day: the group of a link that just died stays together."""
    gone, code, _ = GONE["a NIC"]
    state = told(pair(forget_s=100.0), 1.0, gone, times=2)
    beats = [WorkerBeat(NodeName(node)) for node in PAIR]
    for at_s in range(10, 90, 20):
        state.advance(float(at_s), *beats)
    before = shape(state)
    told(state, 95.0, replace(gone, peers=metax_facts("a").peers), times=2)
    assert codes(state, "a") == {code, "link-down"}
    state.advance(110.0, *beats)
    assert (codes(state, "a"), shape(state)) == ({"link-down"}, before)
    for at_s in range(120, 200, 20):
        state.advance(float(at_s), *beats)
        assert shape(state) == before
        state.validate()
    state.advance(199.0, *beats)
    assert shape(state) != before
    state.validate()


@pytest.mark.parametrize(("gone", "code", "_text"), GONE.values(), ids=GONE)
def test_what_the_operator_does_not_miss_may_vanish(gone, code, _text):
    """`--missed-hardware` names what is missed."""
    missed = tuple(kind for kind in MISSED if not code.startswith(kind))
    assert len(missed) == len(MISSED) - 1
    assert codes(told(pair(missed=missed), 1.0, gone, times=3), "a") <= {"gpu-cut-off"}


def test_virtual_functions_come_and_go_with_the_pods():
    """They are shown, and nobody misses them."""
    more = tuple(NetworkPort(f"mlx5_{n}", 1, up=True, virtual=True) for n in range(4, 12))
    state = told(pair(), 1.0, replace(host("a"), nics=host("a").nics + more))
    assert not_ready(told(state, 2.0, host("a"), times=3)) == set()


def sick(facts: NodeFacts) -> dict[str, NodeFacts]:
    """A bad reading of each kind of part."""
    fabrics = fabric_facts(str(facts.identity.name), "c1", gpus=8).fabrics
    member = replace(facts, fabrics=fabrics)
    return {
        "gpu": replace(facts, gpus=(replace(facts.gpus[0], healthy=False), *facts.gpus[1:])),
        "port": replace(
            facts, ports=(replace(facts.ports[0], state=PortState.DOWN), *facts.ports[1:])
        ),
        "fabric": replace(member, fabrics=(replace(fabrics[0], healthy=False), *fabrics[1:])),
    }


def silent(facts: NodeFacts) -> dict[str, NodeFacts]:
    """A reading of each kind that says nothing of the part."""
    return {
        "gpu": replace(facts, gpus=tuple(replace(gpu, healthy=None) for gpu in facts.gpus)),
        "port": replace(
            facts, ports=(replace(facts.ports[0], state=PortState.UNUSED), *facts.ports[1:])
        ),
        "fabric": replace(facts, fabrics=fabric_facts("a", "c1", gpus=8).fabrics),
    }


@pytest.mark.parametrize("part", ["gpu", "port", "fabric"])
def test_a_part_that_was_bad_and_is_told_no_more_is_not_well(part):
    """A stand-in that states no health heals nothing; a reading that states it does."""
    codes_of = {"gpu": "gpu-unhealthy", "port": "port-down", "fabric": "fabric-unhealthy"}
    state = told(pair(missed=()), 1.0, sick(host("a"))[part], times=2)
    assert codes(state, "a") == {codes_of[part]}
    told(state, 2.0, silent(host("a"))[part], times=4)
    assert codes(state, "a") == {codes_of[part]}
    well = silent(host("a"))["fabric"]
    healed = replace(well, fabrics=tuple(replace(f, healthy=True) for f in well.fabrics))
    told(state, 3.0, healed if part == "fabric" else host("a"), times=3)
    assert not_ready(state) == set()


def test_a_peer_that_was_not_connected_and_of_which_nothing_is_said_is_not_connected():
    """A stand-in names it without its state; out and in again, it is another story."""
    state = told(discovery(), 0.0, metax_facts("a", ["b"]), metax_facts("b", ["a"]))
    told(state, 1.0, metax_facts("a", ["b"], unplugged=["b"]), times=2)
    told(state, 2.0, metax_facts("a", ["b"]), times=4)
    assert codes(state, "a") == {"link-down"}
    told(state, 3.0, metax_facts("a"))
    told(state, 4.0, metax_facts("a", ["b"]), times=3)
    assert not_ready(state) == set()


def test_a_peer_that_is_told_to_be_not_connected_is_down_in_a_new_boot_too():
    """A boot ends what was said before it, not what its own first reading says."""
    state = told(discovery(), 0.0, metax_facts("a", ["b"]), metax_facts("b", ["a"]))
    told(state, 1.0, metax_facts("a", ["b"], unplugged=["b"], boot="boot-2"))
    state.advance(2.0, WorkerBeat(NodeName("a")))
    assert codes(state, "a") == {"link-down"}
    state.advance(3.0, *[WorkerBeat(NodeName("a"))] * 3)
    assert codes(state, "a") == {"link-down"}
    state.validate()


def test_a_boot_ends_what_was_said_of_a_part_before_it():
    """The driver starts anew, and so does what is known of its cards."""
    state = told(pair(), 1.0, sick(host("a"))["gpu"], times=2)
    booted = silent(host("a", boot="boot-2"))["gpu"]
    assert not_ready(told(state, 2.0, booted, times=3)) == set()


parts = st.fixed_dictionaries(
    {
        "gpus": st.sets(st.integers(0, 7), max_size=8),
        "ports": st.sets(st.integers(0, 63), max_size=64),
        "nics": st.sets(st.integers(0, 3), max_size=4),
    }
)


@settings(max_examples=60)
@given(parts, st.sampled_from(["same boot", "another boot", "master restarts"]))
def test_no_set_of_facts_that_vanishes_leaves_a_node_ready(left, when):
    """Whatever is no longer listed, whenever it goes: Ready is who shows all that it showed."""
    whole = host("a", boot="boot-2" if when == "another boot" else "boot-1")
    cut = replace(
        whole,
        gpus=tuple(gpu for gpu in whole.gpus if gpu.index in left["gpus"]),
        ports=tuple(port for at, port in enumerate(whole.ports) if at in left["ports"]),
        nics=tuple(nic for at, nic in enumerate(whole.nics) if at in left["nics"]),
    )
    state = pair()
    if when == "master restarts":
        state = restarted(state, 1.0)
        told(state, 1.5, host("b"))
    told(state, 2.0, cut, times=2)
    wired = {port for port in whole.ports if port.state is PortState.UP}
    is_whole = cut.gpus == whole.gpus and cut.nics == whole.nics and wired <= set(cut.ports)
    assert ("a" in not_ready(state)) == (not is_whole)
    state.advance(3.0, Ticked())
    state.validate()
