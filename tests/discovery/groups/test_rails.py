"""Rails: random fabrics with random wrong cables, and fabrics that have no rails at all.

A world says of each host which adapters it has, beside which GPUs, and on which leaf each is. It is
told by LLDP or by a dump of InfiniBand; which cables are wrong is known from how it was made.
"""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import discovery, facts
from tests.discovery.fabrics import fours, read
from tests.discovery.rails import GPUS, World, by_infiniband, by_lldp, matrix, wired
from topo.discovery.groups.fabric.near_gpus import near_adapters, near_gpus
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.machine import Gpu, LinkMatrix, NetworkPort
from topo.model.observation import Event, FabricLoaded, WorkerReported

SHARED = Path(__file__).resolve().parents[3].parent / "shared/data/fabrics/ib"
TOLD: Sequence[Callable[[World], Sequence[Event]]] = (by_lldp, by_infiniband)


def told(events: Iterable[Event]) -> Discovery:
    """A state that was told of a world."""
    state = discovery(Mode.FABRIC)
    state.advance(0.0, *events)
    state.validate()
    return state


def off_rail(state: Discovery) -> dict[str, str]:
    """The finding about each host."""
    return {
        each.subjects[0]: each.text
        for each in state.snapshot.forest.conflicts
        if each.code == "off-rail"
    }


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Rail-optimised units; in fewer than half of the hosts of each two cables are exchanged."""
    rails, planes, shared = draw(
        st.sampled_from(((4, 1, 1), (4, 2, 1), (8, 1, 1), (4, 1, 2), (8, 1, 2)))
    )
    sizes = draw(st.lists(st.integers(4, 7), min_size=1, max_size=3))
    units = {f"u{n}": [f"u{n}-h{at}" for at in range(size)] for n, size in enumerate(sizes)}
    world = wired(units, rails, planes, draw(st.integers(1, GPUS * shared // rails)), shared)
    for hosts in units.values():
        for host in draw(st.permutations(hosts))[: draw(st.integers(0, (len(hosts) - 1) // 2))]:
            one, other = draw(
                st.lists(st.integers(0, rails - 1), min_size=2, max_size=2, unique=True)
            )
            plane = draw(st.integers(0, planes - 1))
            world.exchange(
                host, one * planes + plane, other * planes + draw(st.integers(0, planes - 1))
            )
        for host in hosts:  # which port of a card leads to which plane does not matter
            for rail in range(rails):
                if not world.wrong.get(host) and draw(st.booleans()):
                    at = rail * planes
                    world.leaves[host][at : at + planes] = world.leaves[host][at : at + planes][
                        ::-1
                    ]
    return world


@pytest.mark.parametrize("tell", TOLD)
@given(data=st.data())
def test_exactly_the_exchanged_cables_of_random_rails_are_found(
    tell: Callable[[World], Sequence[Event]], data: st.DataObject
) -> None:
    world = data.draw(worlds())
    state = told(data.draw(st.permutations(tell(world))))
    found = off_rail(state)
    assert found.keys() == world.wrong.keys()
    for host, adapters in world.wrong.items():
        named = {n for n in range(len(world.beside)) if f"mlx5_{n} beside" in found[host]}
        assert named == adapters
        assert "are exchanged: they end at" in found[host]


def test_cards_beside_the_same_gpus_are_told_apart_by_their_address() -> None:
    """Two islands of four GPUs with two cards each, as in a C500; one card of one host is gone."""
    world = wired({"u": [f"gpu-{n}" for n in range(6)]}, rails=4, planes=1, each=4, shared=2)
    world.exchange("gpu-1", 0, 1)
    events = by_lldp(world)
    said = events[0].facts
    events[0] = WorkerReported(
        replace(said, nics=said.nics[1:], nic_neighbours=said.nic_neighbours[1:])
    )
    assert off_rail(told(events)).keys() == {"gpu-1"}


@pytest.mark.parametrize("tell", TOLD)
def test_pairs_of_nodes_are_judged_by_all_pairs(tell: Callable[[World], Sequence[Event]]) -> None:
    """The vendor's shape: two nodes a group, of which neither alone says who is right."""
    pairs = {f"u{n}": [f"gpu-{n}a", f"gpu-{n}b"] for n in range(4)}
    world = wired(pairs, 4, 1, 2)
    world.exchange("gpu-2b", 1, 3)
    state = told(tell(world))
    assert off_rail(state).keys() == {"gpu-2b"}
    text = off_rail(state)["gpu-2b"]
    assert "mlx5_1 beside GPUs 2 and 3 and mlx5_3 beside GPUs 6 and 7 are exchanged" in text
    assert "they end at u2-leaf-03-0 port" in text
    assert "(rail 3) and u2-leaf-01-0 port" in text


def test_a_cable_on_the_leaf_of_another_rail_is_named_with_the_one_where_it_belongs() -> None:
    world = wired({"u": [f"gpu-{n}" for n in range(5)]}, 8, 1, 1)
    world.leaves["gpu-3"][3] = world.leaves["gpu-3"][5]
    assert off_rail(told(by_lldp(world))) == {
        "gpu-3": "gpu-3: mlx5_3 beside GPU 3 is at u-leaf-05-0 port swp-gpu-3-3 (rail 5), on most "
        "nodes of its group at u-leaf-03-0 (rail 3)"
    }


def test_a_pair_alone_that_differs_is_no_finding() -> None:
    """Nobody says who is right."""
    world = wired({"u": ["gpu-1", "gpu-2"]}, 4, 1, 2)
    world.exchange("gpu-2", 0, 1)
    assert not off_rail(told(by_lldp(world)))


@pytest.mark.parametrize("tell", TOLD)
@pytest.mark.parametrize(
    ("rails", "planes", "each"), [(1, 1, 8), (1, 2, 8), (1, 4, 8), (4, 1, 2), (8, 1, 1), (4, 2, 2)]
)
def test_fabrics_without_a_fault_have_no_finding(
    tell: Callable[[World], Sequence[Event]], rails: int, planes: int, each: int
) -> None:
    units = {f"u{n}": [f"u{n}-h{at}" for at in range(4)] for n in range(3)}
    assert not off_rail(told(tell(wired(units, rails, planes, each))))


@pytest.mark.parametrize(
    ("hosts", "adapters"), [(3, 2), (3, 4), (3, 8), (4, 2), (4, 4), (8, 2), (8, 4), (60, 4)]
)
def test_cables_that_lead_anywhere_are_no_rails(hosts: int, adapters: int) -> None:
    """Each adapter on any leaf of its unit; few hosts agree by accident, and of many some do."""
    rng = random.Random(100 * hosts + adapters)  # noqa: S311 - no secret
    for _ in range(240 // (hosts * adapters)):
        world = World([(at,) for at in range(adapters)])
        leaves = rng.choice((2, 3, 4)) if hosts < 10 else 2
        for unit in range(rng.choice((1, 2))):
            for host in range(hosts):
                at = [f"u{unit}-{rng.randrange(leaves)}" for _ in range(adapters)]
                world.leaves[f"u{unit}-h{host}"] = at
        assert not off_rail(told(by_lldp(world)))


def test_hosts_that_are_each_on_one_switch_of_a_pair_have_no_rails() -> None:
    world = World([(at,) for at in range(GPUS)])
    for host in range(6):
        world.leaves[f"h{host}"] = [f"mlag-{host % 2}"] * GPUS
    assert not off_rail(told(by_lldp(world)))


def test_two_switches_of_one_name_that_are_an_mlag_pair_are_one_rail() -> None:
    """The two ports of a card lead to either of them, whichever way round."""
    world = wired({"u": [f"gpu-{n}" for n in range(6)]}, rails=4, planes=2, each=2)
    for leaves in list(world.leaves.values())[::2]:
        leaves[0:2] = leaves[1::-1]
    events = [
        WorkerReported(
            replace(
                each.facts,
                nic_neighbours=tuple(
                    replace(end, name=end.name.removesuffix("-0").removesuffix("-1"))
                    for end in each.facts.nic_neighbours
                ),
            )
        )
        for each in by_lldp(world)
    ]
    state = told(events)
    assert not off_rail(state)
    for host in world.leaves:
        detail = state.detail(NodeName(host))
        assert detail is not None
        assert [(each.switch, each.rail) for each in detail.uplinks] == [
            (f"u-leaf-{rail:02}", rail) for rail in (0, 0, 1, 1, 2, 2, 3, 3)
        ]


def test_a_pair_whose_leaves_are_named_in_another_order_is_no_finding() -> None:
    """Its two nodes agree with each other."""
    world = wired({f"u{n}": [f"gpu-{n}a", f"gpu-{n}b"] for n in range(4)}, 4, 1, 2)
    for host in ("gpu-3a", "gpu-3b"):
        world.leaves[host] = world.leaves[host][::-1]
    assert not off_rail(told(by_lldp(world)))


def test_the_cables_of_a_node_have_gpus_leaf_port_and_rail() -> None:
    state = told(by_lldp(wired({"u": [f"gpu-{n}" for n in range(5)]}, 4, 1, 2)))
    detail = state.detail(NodeName("gpu-3"))
    assert detail is not None
    assert [
        (each.adapter, each.interface, each.gpus, each.switch, each.port, each.rail)
        for each in detail.uplinks
    ] == [
        (f"mlx5_{n}", f"eth{n}", (2 * n, 2 * n + 1), f"u-leaf-{n:02}-0", f"swp-gpu-3-{n}", n)
        for n in range(4)
    ]


def test_without_groups_of_the_fabric_a_node_shows_the_cables_that_it_sees() -> None:
    """The vendor's dragonflies, whose nodes also have adapters on leaves; management is none."""
    state = discovery(Mode.DRAGONFLY)
    state.advance(0.0, *by_lldp(wired({"u": ["gpu-1", "gpu-2"]}, 4, 1, 2)))
    state.validate()
    detail = state.detail(NodeName("gpu-2"))
    assert detail is not None
    assert [(each.adapter, each.gpus, each.switch, each.rail) for each in detail.uplinks] == [
        (f"mlx5_{n}", (2 * n, 2 * n + 1), f"u-leaf-{n:02}-0", None) for n in range(4)
    ]


def test_an_adapter_that_is_gone_or_unplugged_is_no_wrong_rail() -> None:
    world = wired({"u": [f"gpu-{n}" for n in range(5)]}, 8, 1, 1)
    events = by_lldp(world)
    for at, event in enumerate(events[:3]):
        said = event.facts
        kept = tuple(each for n, each in enumerate(said.nic_neighbours) if n != at)
        nics = tuple(each for n, each in enumerate(said.nics) if n != at)
        events[at] = WorkerReported(replace(said, nics=nics, nic_neighbours=kept))
    assert not off_rail(told(events))


def test_the_rails_of_a_real_superpod_are_those_of_the_names_of_its_leaves() -> None:
    """Leaf IBLEAF-03-08 is of rail 03 in unit 08; leaf 03 of unit 01 is in no dump.

    Workers are made of the descriptions, the GPU of an adapter of its number. By that one host has
    two adapters exchanged, and all others none.
    """
    path = SHARED / "real-dgx-superpod.switch-blocks.ibnetdiscover.out"
    if not path.is_file():
        pytest.skip("the dump is not there")
    dump = read(path.read_text())
    found: dict[str, dict[int, str]] = {}
    for each in dump.adapters:
        if match := re.fullmatch(r"(\S+-dgx-\S+) (?:mlx5_|(HCA-))(\d+)", each.description):
            number = int(match[3]) - bool(match[2])
            found.setdefault(match[1], {})[number] = each.guid
    gpus = {number: at for at, number in enumerate(sorted(set().union(*found.values())))}
    shown = matrix([(at,) for at in range(len(gpus))])
    events = [
        WorkerReported(
            replace(
                facts(host),
                matrix=shown,
                nics=tuple(
                    NetworkPort(f"mlx5_{gpus[number]}", 1, up=True, node_guid=fours(guid))
                    for number, guid in adapters.items()
                ),
            )
        )
        for host, adapters in found.items()
    ]
    state = told([FabricLoaded((("dump", dump),)), *events])
    (text,) = off_rail(state).values()
    assert text == (
        "b08-p1-dgx-08-c01: the cables of mlx5_2 beside GPU 2 and mlx5_3 beside GPU 3 are "
        "exchanged: they end at B09-P1-IBLEAF-04-08 port 1 (rail 3) and B09-P1-IBLEAF-03-08 port 1 "
        "(rail 2)"
    )
    rails = {
        uplink.switch: uplink.rail
        for host in found
        for uplink in (state.detail(NodeName(host)) or pytest.fail(host)).uplinks
    }
    # Unit 01 has no leaf of rail 03, so its leaf of rail 04 is its third.
    named = {leaf: int(leaf.split("-")[-2]) - 1 for leaf in rails}
    assert rails == named | {"A09-P1-IBLEAF-04-01": 2}
    assert len(rails) == 31


def test_a_reading_without_a_matrix_or_adapters_takes_no_rail_away() -> None:
    """A probe that fails for once is no other machine."""
    world = wired({"u": [f"gpu-{n}" for n in range(5)]}, 4, 1, 2)
    world.exchange("gpu-4", 0, 1)
    events = by_lldp(world)
    state = told(events)
    before = state.snapshot.forest.conflicts
    for lost in ({"matrix": None}, {"nics": ()}):
        state.advance(1.0, *(WorkerReported(replace(each.facts, **lost)) for each in events))
        state.validate()
        assert state.snapshot.forest.conflicts == before
        detail = state.detail(NodeName("gpu-1"))
        assert detail is not None
        assert [each.interface for each in detail.uplinks] == [f"eth{n}" for n in range(4)]


def test_adapters_of_real_machines_are_near_their_gpus() -> None:
    """As the vendors' tools print them: ties of two and four, and none across a socket."""
    found = {}
    for name in ("mx-smi-topo-n.c500-8gpu-6nic", "nvidia-smi-topo-m.dgx1-v100-8gpu-4ib"):
        path = SHARED.parents[1] / f"probes/{name}.txt"
        if not path.is_file():
            pytest.skip(f"{name} is not there")
        parsed = parse(path.read_text())
        assert not isinstance(parsed, Refusal)
        (shown,) = [each for each in parsed.facts if isinstance(each, LinkMatrix)]
        found[name] = list(near_gpus(shown).items())
    c500, dgx1 = found.values()
    assert c500 == [
        *((f"mlx5_{n}", (0, 1, 2, 3)) for n in (0, 1)),
        *((f"mlx5_{n}", (4, 5, 6, 7)) for n in (2, 3)),
        *((f"mlx5_{n}", ()) for n in (4, 5)),
    ]
    assert dict(dgx1) == {f"mlx5_{n}": (2 * n, 2 * n + 1) for n in range(4)}


def test_without_a_way_over_pcie_an_adapter_is_near_the_gpus_of_its_numa_node() -> None:
    """A GB200 host prints SYS between every adapter and every GPU."""
    far = [(), ()]
    said = replace(
        facts("gpu-1", gpus=0),
        matrix=matrix(far),
        gpus=tuple(Gpu(at, numa=at // 4) for at in range(GPUS)),
        nics=tuple(
            NetworkPort(f"mlx5_{n}", 1, up=True, numa=n, interfaces=(f"eth{n}",)) for n in (1, 2)
        ),
    )
    near = near_adapters(NodeName("gpu-1"), said)
    assert [(each.name, each.gpus) for each in near] == [("mlx5_1", (4, 5, 6, 7)), ("mlx5_2", ())]
