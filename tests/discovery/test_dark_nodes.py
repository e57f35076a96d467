"""A node that no port joins to the fabric any more is NotReady; nothing else makes one so."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.builders import discovery, facts, groups, not_ready, why
from tests.discovery.fabrics import dumped, fours
from tests.discovery.hosts import codes, told
from tests.support.fabric import Built, rails
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.forest import Status
from topo.model.ids import BootId
from topo.model.machine import NetworkPort, NodeFacts
from topo.model.observation import FABRIC

LEAVES = [[f"n{pair}-{side}" for pair in range(4)] for side in (0, 1)]
"""The vendor's: each dragonfly of two has a node on either leaf."""
PAIRS = list(zip(*LEAVES, strict=True))
PEER = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
DARK = "uplinks-down"

WORDS = {
    "up": ("ACTIVE", "LinkUp"),
    "down": ("DOWN", "Polling"),
    "waits": ("INIT", "LinkUp"),
    "off": ("DOWN", "Disabled"),
}
"""What sysfs says of a port."""


def port(name: str, word: str = "up", guid: str = "", layer: str = "InfiniBand") -> NetworkPort:
    state, physical = WORDS[word]
    own = fours(guid) if guid else None
    up = word == "up"
    return NetworkPort(name, 1, up, state, physical, link_layer=layer, node_guid=own)


def master(mode: Mode = Mode.DRAGONFLY, **more: object) -> Discovery:
    """A master without facts; its tree has the pairs, and leaves as far as they part no pair."""
    return discovery(mode, precedence=(FABRIC,), beat_s=1e6, **more)


def host(built: Built, name: str, *words: str, more: Sequence[NetworkPort] = ()) -> NodeFacts:
    """A node of a pair, with these words of its adapters; all are up without any."""
    guids = built.adapters[name]
    nics = [
        port(f"mlx5_{at}", word, guid)
        for at, (guid, word) in enumerate(zip(guids, words or ["up"] * len(guids), strict=True))
    ]
    return replace(facts(name, [PEER[name]]), nics=(*nics, *more))


def vendor(adapters: int = 1, more: Sequence[NetworkPort] = ()) -> tuple[Discovery, Built]:
    """The pairs, all well, and the fabric of their leaves."""
    built = rails(LEAVES, adapters)
    state = master()
    state.advance(0.0, dumped(built.text()))
    told(state, 0.0, *(host(built, name, more=more) for name in PEER))
    assert not_ready(state) == set()
    return state, built


def without(built: Built, *leaves: str) -> str:
    """What a dump says while these leaves are dead."""
    dead = {guid for name in leaves for guid in (built.leaves[name],)}
    dead |= {f"{int(guid, 16) + 16:016x}" for guid in dead}
    whole = dict(built.fabric.ends)
    built.fabric.ends = {
        end: far for end, far in whole.items() if dead.isdisjoint((end[0], far[0]))
    }
    try:
        return built.text(next(h for h, own in built.adapters.items() if _is_cabled(built, own)))
    finally:
        built.fabric.ends = whole


def _is_cabled(built: Built, adapters: Sequence[str]) -> bool:
    return any((each, 1) in built.fabric.ends for each in adapters)


def again(state: Discovery, at_s: float) -> Discovery:
    """Another master that takes up what this one kept."""
    other = master()
    other.restore(state.persistent_state(), 1.0, at_s)
    other.validate()
    return other


def test_nodes_below_a_dead_leaf_are_not_ready_until_it_is_back_and_those_beside_it_stay() -> None:
    """At once, by their workers; whatever the next dump lacks, and over restarts."""
    state, built = vendor()
    dead, whole = LEAVES[1], built.text()
    told(state, 1.0, *(host(built, name, "down") for name in dead))
    assert not_ready(state) == set(), "one bad reading is none"
    told(state, 1.2, *(host(built, name, "down") for name in dead))
    assert not_ready(state) == set(dead)
    assert why(state, dead[0]) == "no port of the fabric is up: mlx5_0 to ib-su2-leaf-01 is down"
    assert all(
        group.status is Status.NOT_READY
        for group in groups(state).values()
        if len(group.children) == 2
    ), "a pair of which one is dark is not whole"
    state.advance(2.0, dumped(without(built, "ib-su2-leaf-01")))
    for now_s in (3.0, 4.0):
        assert not_ready(state) == set(dead)
        assert "ib-su2-leaf-01" in why(state, dead[0])
        state.validate()
        state = again(state, now_s)
        state.advance(now_s, dumped(without(built, "ib-su2-leaf-01")))
        told(state, now_s, *(host(built, name, "down") for name in dead), times=4)
    told(state, 5.0, *(host(built, name) for name in PEER), times=2)
    assert not_ready(state) == set(dead), "two good readings are not three"
    told(state, 5.4, *(host(built, name) for name in PEER))
    state.advance(6.0, dumped(whole))
    assert not_ready(state) == set()
    state.validate()


@pytest.mark.parametrize(
    "words",
    [("down", "up"), ("down", "waits"), ("waits", "waits")],
    ids=["a rail of two", "its link is there", "no subnet manager"],
)
def test_one_port_that_is_up_or_waits_for_the_subnet_manager_keeps_a_node(words) -> None:
    state, built = vendor(2)
    told(state, 1.0, host(built, "n0-1", *words), times=4)
    assert not_ready(state) == set()


def test_ports_that_wait_for_the_subnet_manager_do_not_heal_a_dark_node_either() -> None:
    state, built = vendor()
    told(state, 1.0, host(built, "n0-1", "down"), times=2)
    told(state, 2.0, host(built, "n0-1", "waits"), times=4)
    assert not_ready(state) == {"n0-1"}


@pytest.mark.parametrize("gone", ["no probe", "no such adapter"])
def test_ports_that_a_worker_does_not_show_are_neither_dead_nor_back(gone) -> None:
    state, built = vendor(2)
    shown = host(built, "n0-1", "down", "down")
    silent = replace(shown, nics=shown.nics[:1] if gone == "no such adapter" else ())
    told(state, 1.0, silent, times=4)
    assert DARK not in codes(state, "n0-1")
    told(state, 2.0, shown, times=2)
    told(state, 3.0, silent, times=4)
    assert DARK in codes(state, "n0-1")


def test_a_reboot_that_names_adapters_otherwise_heals_nobody() -> None:
    state, built = vendor()
    told(state, 1.0, *(host(built, name, "down") for name in LEAVES[1]), times=2)
    state.advance(2.0, dumped(without(built, "ib-su2-leaf-01")))
    known = host(built, "n0-1")
    booted = replace(known.identity, boot_id=BootId("boot-2"))
    for word, times, dark in (("down", 4, {"n0-1"}), ("up", 3, set[str]())):
        nics = (port("ibp26s0", word, built.adapters["n0-1"][0]),)
        told(state, 3.0, replace(known, identity=booted, nics=nics), times=times)
        assert not_ready(state) & {"n0-1"} == dark
    state.validate()


def test_adapters_of_a_lab_that_never_had_a_cable_make_nobody_not_ready() -> None:
    """Without any dump, and with one that has none of them."""
    built = rails(LEAVES, 2)
    state = master()
    told(state, 0.0, *(host(built, name, "down", "down") for name in PEER), times=4)
    assert not_ready(state) == set()
    for guid in built.adapters["n0-1"]:
        built.fabric.cut(guid)
    state.advance(1.0, dumped(built.text()))
    assert not_ready(state) == PEER.keys() - {"n0-1"}, "the dump has cables of all the others"


def test_without_any_dump_a_node_is_dark_when_all_that_was_up_is_down() -> None:
    built = rails(LEAVES, 2)
    state = discovery(Mode.DRAGONFLY, beat_s=1e6)
    told(state, 0.0, *(host(built, name, "up", "down") for name in PEER), times=2)
    told(state, 1.0, host(built, "n0-1", "down", "down"), times=2)
    assert not_ready(state) == {"n0-1"}
    state = again(state, 2.0)
    told(state, 2.0, *(host(built, name, "down", "down") for name in ("n0-1", "n1-1")), times=2)
    assert not_ready(state) == {"n0-1", "n1-1"}, "also who fell while no master ran"
    told(state, 3.0, host(built, "n0-1", "down", "up"), times=3)
    assert not_ready(state) == {"n1-1"}, "whichever port is up"


@pytest.mark.parametrize("word", ["up", "down", "off"])
def test_an_ethernet_port_is_no_way_into_an_infiniband_fabric(word) -> None:
    more = [port("roce0", layer="Ethernet")]
    state, built = vendor(more=more)
    told(state, 1.0, host(built, "n0-1", more=[port("roce0", "down", layer="Ethernet")]), times=4)
    assert not_ready(state) == set()
    more = [port("roce0", word, layer="Ethernet")]
    told(state, 2.0, host(built, "n0-1", "down", more=more), times=2)
    assert not_ready(state) == {"n0-1"}


def test_an_infiniband_port_that_no_dump_has_may_lead_to_the_fabric_while_it_is_up() -> None:
    state, built = vendor()
    told(state, 1.0, host(built, "n0-1", "down", more=[port("mlx5_9", guid="f" * 16)]), times=4)
    assert not_ready(state) == set()
    told(state, 2.0, host(built, "n0-1", "down", more=[port("mlx5_9", "down")]), times=2)
    assert not_ready(state) == {"n0-1"}


def test_a_port_at_the_switch_of_storage_joins_no_node() -> None:
    """A switch at which nodes of all units have one adapter is of no group."""
    built = rails(LEAVES, 3)
    storage = built.fabric.switch("storage")
    for name, guids in built.adapters.items():
        guids.append(built.fabric.adapter(f"{name} mlx5_3"))
        built.fabric.plug(guids[-1], storage)
    built.fabric.trunk(storage, next(iter(built.leaves.values())))
    state = master()
    state.advance(0.0, dumped(built.text()))
    told(state, 0.0, *(host(built, name) for name in PEER))
    told(state, 1.0, *(host(built, name, "up", "up", "up", "down") for name in PEER), times=4)
    assert not_ready(state) == set()
    told(state, 2.0, host(built, "n0-1", "down", "down", "down", "up"), times=2)
    assert not_ready(state) == {"n0-1"}


def test_a_network_device_that_pods_give_back_switched_off_takes_no_node_out() -> None:
    state = discovery(Mode.DRAGONFLY, beat_s=1e6)
    for word in ("up", "off"):
        nics = (port("mlx5_0", word, layer="Ethernet"),)
        told(state, 0.0, *(replace(facts(n, [PEER[n]]), nics=nics) for n in PEER), times=4)
    assert not_ready(state) == set()
    nics = (replace(port("mlx5_0", "off", layer="Ethernet"), phys_state="NoCarrier"),)
    told(state, 1.0, replace(facts("n0-1", [PEER["n0-1"]]), nics=nics), times=2)
    assert not_ready(state) == {"n0-1"}, "it is on and has no carrier"


def test_who_misses_no_network_ports_has_jobs_of_one_group_go_on_there() -> None:
    state = master(missed=("gpus", "ports", "links"))
    built = rails(LEAVES, 1)
    state.advance(0.0, dumped(built.text()))
    told(state, 0.0, *(host(built, name) for name in PEER))
    told(state, 1.0, *(host(built, name, "down") for name in PEER), times=4)
    assert not_ready(state) == set()


@dataclass
class Cables:
    """What is so: leaves are dead or alive, and a port is up that has a cable to a live one."""

    built: Built
    words: dict[str, str] = field(default_factory=dict)
    """What adapters say that have a cable to no leaf, or whose link waits."""
    dead: set[str] = field(default_factory=set)

    def leaf_of(self, guid: str) -> str | None:
        far = self.built.fabric.ends.get((guid, 1), ("",))[0]
        return next((name for name, at in self.built.leaves.items() if at == far), None)

    def word(self, guid: str) -> str:
        leaf = self.leaf_of(guid)
        if leaf is None or leaf in self.dead:
            return "down"
        return self.words.get(guid, "up")

    def host(self, name: str, ethernet: str) -> NodeFacts:
        more = [port("roce0", ethernet, layer="Ethernet")]
        return host(self.built, name, *map(self.word, self.built.adapters[name]), more=more)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Mode, Cables]:
    """Leaves across the vendor's pairs, leaves as groups, rails, one node each; some uncabled."""
    units, adapters = draw(
        st.sampled_from(
            [
                (LEAVES, 1),
                (LEAVES, 2),
                ([*map(list, PAIRS)], 1),
                ([*map(list, PAIRS)], 4),
                ([[name] for name in PEER], 1),
            ]
        )
    )
    built = rails(units, adapters, draw(st.integers(1, 2)))
    everyone = sorted(chain(*built.adapters.values()))
    for guid in draw(st.sets(st.sampled_from(everyone), max_size=4)):
        built.fabric.cut(guid)
    words = dict.fromkeys(draw(st.sets(st.sampled_from(everyone), max_size=2)), "waits")
    is_tree = units is not LEAVES and draw(st.booleans())
    return Mode.FABRIC if is_tree else Mode.DRAGONFLY, Cables(built, words)


STEPS = ("read", "read", "dump", "kill", "revive", "mute", "restart")


@given(worlds(), st.data())
@settings(max_examples=30)
def test_a_node_is_dark_if_and_only_if_its_last_reading_leads_to_no_live_leaf(world, data) -> None:
    """Leaves die and come back, dumps come when they like, workers fall silent, masters restart.

    Never one that a live leaf joins; always one below dead leaves alone, once it was known there.
    """
    mode, cables = world
    built, state = cables.built, master(mode)
    says: dict[str, tuple[set[str], set[str]]] = {}
    """What the last reading of each node says of its InfiniBand ports, and of all."""
    dark = set[str]()
    known, dumped_now, was_dumped, ever_up = set[str](), set[str](), set[str](), set[str]()

    def reach(name: str) -> set[str]:
        return {leaf for g in built.adapters[name] if (leaf := cables.leaf_of(g)) is not None}

    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=4, max_size=10)):
        if step in {"kill", "revive"}:
            leaf = data.draw(st.sampled_from(sorted(built.leaves)))
            (cables.dead.add if step == "kill" else cables.dead.discard)(leaf)
        elif step == "restart":
            memory, state = state.persistent_state(), master(mode)
            state.restore(memory, 1.0, 0.0)
            dumped_now = set()
        elif step == "dump" and (alive := [n for n in PEER if reach(n) - cables.dead]):
            state.advance(0.0, dumped(without(built, *cables.dead)))
            dumped_now = set(alive)
        else:
            silent = data.draw(st.sets(st.sampled_from(sorted(PEER)))) if step == "mute" else set()
            ethernet = data.draw(st.sampled_from(sorted(WORDS)))
            seen = [cables.host(name, ethernet) for name in sorted(PEER.keys() - silent)]
            if step == "mute":
                seen = [replace(each, nics=()) for each in seen]
            told(state, 0.0, *seen, times=3)
            for each in seen if step != "mute" else ():
                name, words = each.identity.name, [nic.state for nic in each.nics]
                says[name] = {*words[:-1]}, {*words}
                ever_up |= {name} if "ACTIVE" in words else set()
        # A dump names every cable of a host whose leaves all live.
        known |= {n for n in dumped_now & says.keys() if not reach(n) & cables.dead}
        was_dumped |= dumped_now & says.keys()
        for name, (wired, ports) in says.items():
            of = wired if name in was_dumped else ports
            is_dark = DARK in codes(state, name)
            assert not (is_dark and "ACTIVE" in of), f"{name} is joined"
            assert not (is_dark and of != {"DOWN"} and name not in dark), f"{name} may be joined"
            assert not (is_dark and name not in ever_up | was_dumped), f"{name} was never cabled"
            assert is_dark or not (name in known and wired == {"DOWN"}), f"{name} is cut off"
            event("dark" if is_dark else "joined")
            (dark.add if is_dark else dark.discard)(name)
    state.validate()
