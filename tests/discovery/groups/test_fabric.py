"""Groups of a switched fabric: what its dumps say of nodes, and what they do not.

The real dumps are not part of the repository; without them their tests are skipped.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import discovery, groups, nodes, shape, together
from tests.discovery.fabrics import dumped, in_fabric, listed, reports, spoken
from tests.discovery.hosts import restarted
from tests.discovery.labels import RACKS
from tests.discovery.labels import listed as labelled_nodes
from tests.support.fabric import Built, Fabric, pairs, rails
from topo.discovery.groups.fabric.adapter_join import host_of
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.forest import Status
from topo.model.ids import NodeName
from topo.model.observation import (
    CLUSTER_NODES,
    FABRIC,
    ClusterNodesListed,
    FabricLoaded,
    ListedNode,
    NodeRemoved,
    Ticked,
)

SHARED = Path(__file__).resolve().parents[3].parent / "shared/data/fabrics/ib"
UNITS = [["a", "b", "c", "d"], ["e", "f", "g", "h"]]
DAY_S = 86_400.0


def conflicts(state: Discovery) -> dict[str, str]:
    """The text of each conflict by its code and first node."""
    return {
        f"{each.code} {each.subjects[0]}": each.text for each in state.snapshot.forest.conflicts
    }


def why(state: Discovery) -> dict[str, str]:
    """By unplaced node the code of the reason."""
    return {each.node.name: each.reason.code for each in state.snapshot.forest.unplaced}


def doubts(state: Discovery) -> list[str]:
    """What the source is doubted for."""
    (source,) = [each for each in state.snapshot.sources if each.source == FABRIC]
    return [reason.text for reason in source.warnings]


def test_two_hosts_on_a_leaf_are_a_group_and_the_spine_holds_all_leaves() -> None:
    """The vendor's shape, from the dump and the cluster's nodes alone, without any worker."""
    state = in_fabric(pairs(3))
    assert shape(state) == {
        "ib-spine-01/ib-su1-leaf-01": ["gpu-01", "gpu-02"],
        "ib-spine-01/ib-su2-leaf-01": ["gpu-03", "gpu-04"],
        "ib-spine-01/ib-su3-leaf-01": ["gpu-05", "gpu-06"],
    }
    kinds = {path: (g.kind, g.tier, g.source) for path, g in groups(state).items()}
    assert kinds["ib-spine-01"] == ("spine", 2, FABRIC)
    assert kinds["ib-spine-01/ib-su1-leaf-01"] == ("leaf", 1, FABRIC)
    assert {node.status for node in nodes(state).values()} == {Status.READY}


def test_hosts_with_a_leaf_for_each_adapter_are_grouped_by_the_leaves_that_they_share() -> None:
    state = in_fabric(rails(UNITS, 8, 4))
    assert shape(state) == {
        "ib-spine-01/ib-su1-leaf-01": UNITS[0],
        "ib-spine-01/ib-su2-leaf-01": UNITS[1],
    }


def test_one_unit_alone_has_no_group_around_it() -> None:
    assert set(shape(in_fabric(rails(UNITS[:1], 4, 2)))) == {"ib-su1-leaf-01"}


def three_tiers() -> Built:
    """Two pods of two leaves of two hosts; a core above the spines of both."""
    fabric, adapters = Fabric(), {}
    core = fabric.switch("core-1")
    for pod in (1, 2):
        spine = fabric.switch(f"spine-{pod}")
        fabric.trunk(spine, core)
        for leaf in (1, 2):
            switch = fabric.switch(f"leaf-{pod}-{leaf}")
            fabric.trunk(switch, spine)
            for host in (1, 2):
                name = f"gpu-{pod}{leaf}{host}"
                adapters[name] = [fabric.adapter(f"{name} mlx5_0")]
                fabric.plug(adapters[name][0], switch)
    return Built(fabric, adapters, {})


def test_pods_of_leaves_are_groups_between_the_leaf_and_the_core() -> None:
    state = in_fabric(three_tiers())
    assert shape(state)["core-1/spine-2/leaf-2-1"] == ["gpu-211", "gpu-212"]
    kinds = {path: (group.kind, group.tier) for path, group in groups(state).items()}
    assert kinds["core-1"] == ("core", 3)
    assert kinds["core-1/spine-2"] == ("spine", 2)


def test_planes_without_a_cable_between_them_are_joined_by_their_hosts() -> None:
    """Each rail is a subnet of its own, with a dump of its own; no spine connects them."""
    built = rails([["a", "b", "c"]], 2, 0)
    texts = [built.fabric.dump(built.adapters["a"][rail]) for rail in (0, 1)]
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(built.adapters), dumped(*texts))
    assert together(state) == {frozenset("abc")}
    (source,) = [each for each in state.snapshot.sources if each.source == FABRIC]
    assert source.detail == "2 dumps: 2 switches, 6 adapters, 6 of them in known nodes"


def test_a_cable_in_a_leaf_of_another_group_moves_nobody_and_is_named_with_its_port() -> None:
    built = rails(UNITS, 4)
    astray = built.adapters["b"][2]
    built.fabric.cut(astray)
    built.fabric.plug(astray, built.leaves["ib-su2-leaf-03"])
    state = in_fabric(built)
    assert together(state) == {frozenset(unit) for unit in UNITS}
    assert conflicts(state) == {
        "fabric-cable-astray b": "b has cables to leaves of 2 groups, most are in ib-su1-leaf-01: "
        "b mlx5_2 to ib-su2-leaf-03 port 6"
    }


def test_a_host_with_half_of_its_cables_elsewhere_is_in_no_group() -> None:
    built = rails(UNITS, 2)
    astray = built.adapters["b"][1]
    built.fabric.cut(astray)
    built.fabric.plug(astray, built.leaves["ib-su2-leaf-02"])
    state = in_fabric(built)
    assert why(state) == {"b": "not-in-fabric"}
    assert "none has most of them" in conflicts(state)["fabric-cable-astray b"]


def test_a_server_on_leaves_of_two_groups_joins_nothing() -> None:
    """Storage, and a manager's server on two leaves of every unit."""
    built = rails(UNITS, 2)
    for number, leaf in enumerate(("ib-su1-leaf-01", "ib-su2-leaf-01")):
        made = built.fabric.adapter(f"storage-01 mlx5_{number}")
        built.fabric.plug(made, built.leaves[leaf])
    assert together(in_fabric(built)) == {frozenset(unit) for unit in UNITS}


def test_a_server_on_a_spine_makes_it_no_leaf() -> None:
    """A manager of the fabric, which is no node; the tiers stay."""
    built = three_tiers()
    expected = shape(in_fabric(built))
    for name in ("core-1", "spine-2"):
        top = next(g for g, each in built.fabric.devices.items() if f";{name}:" in each.description)
        built.fabric.plug(built.fabric.adapter(f"ufm-{name} mlx5_0"), top)
    assert shape(in_fabric(built, list(built.adapters))) == expected


@pytest.mark.parametrize("sizes", [(4, 4), (6, 3), (8, 2)])
def test_a_leaf_of_storage_that_all_units_share_is_of_none_of_them(sizes: tuple[int, int]) -> None:
    """Each node has two more adapters, on two leaves of a subnet of their own with a spine."""
    hosts = iter(f"h{number:02}" for number in range(99))
    units = [[next(hosts) for _ in range(size)] for size in sizes]
    built = rails(units, 4)
    expected = shape(in_fabric(built))
    spine = built.fabric.switch("st-spine-1")
    for rail in (4, 5):
        leaf = built.fabric.switch(f"st-leaf-{rail}")
        built.fabric.trunk(leaf, spine)
        for host, adapters in built.adapters.items():
            adapters.append(built.fabric.adapter(f"{host} mlx5_{rail}"))
            built.fabric.plug(adapters[-1], leaf)
    state = discovery(Mode.FABRIC)
    storage = built.fabric.dump(built.adapters["h00"][4])
    state.advance(0.0, listed(built.adapters), dumped(built.text(), storage))
    assert shape(state) == expected
    assert not any(key.startswith("fabric-cable-astray") for key in conflicts(state))
    assert not doubts(state)


def test_hosts_that_lack_one_of_two_cables_are_of_the_group_of_the_others() -> None:
    built = rails([["a", "b"], ["c", "d"]], 2)
    built.fabric.cut(built.adapters["a"][0])
    built.fabric.cut(built.adapters["d"][1])
    assert together(in_fabric(built)) == {frozenset("ab"), frozenset("cd")}


def test_ports_of_one_adapter_in_two_subnets_are_both_cables_of_its_node() -> None:
    """The newer dump describes the adapter, and not its other port."""
    built = rails([["a", "b"], ["c", "d"]], 1)
    other = built.fabric.switch("plane-2")
    for adapters in built.adapters.values():
        built.fabric.cable((adapters[0], 2), (other, built.fabric.free_port(other)))
    one = built.fabric.dump(built.adapters["a"][0])
    state = discovery(Mode.FABRIC)
    loaded = dumped(one)
    parts = [
        replace(
            loaded.dumps[0][1],
            cables=tuple(each for each in loaded.dumps[0][1].cables if is_there(each)),
            made_at=at,
        )
        for at, is_there in enumerate(
            (
                lambda each: other in (each.one.device, each.other.device),
                lambda each: other not in (each.one.device, each.other.device),
            )
        )
    ]
    parts[0] = replace(parts[0], switches=tuple(s for s in parts[0].switches if s.guid == other))
    parts[1] = replace(parts[1], switches=tuple(s for s in parts[1].switches if s.guid != other))
    state.advance(0.0, listed(built.adapters), FabricLoaded((("a", parts[0]), ("b", parts[1]))))
    state.validate()
    assert together(state) == {frozenset("ab"), frozenset("cd")}
    assert not conflicts(state)


@pytest.mark.parametrize("device", ["mlx5_0", "HCA-1", "ibp26s0", "rocep1s0f0", "mlx5_ib0", "qib0"])
def test_a_host_is_known_by_each_name_that_drivers_give_its_devices(device: str) -> None:
    assert host_of(f"GPU-01.example.com {device}") == "gpu-01.example.com"
    assert host_of(f"localhost {device}") == ""


def test_nodes_that_are_called_by_their_addresses_join_by_the_whole_of_them() -> None:
    built = rails([[f"10.0.0.{n}" for n in range(1, 21)], [f"10.0.1.{n}" for n in range(1, 21)]], 1)
    state = in_fabric(built)
    assert {len(group) for group in together(state)} == {20}


def test_a_worker_that_is_forgotten_leaves_the_node_where_the_cluster_has_it() -> None:
    built = pairs(2)
    state = in_fabric(built)
    state.advance(1.0, *reports(built))
    before = shape(state)
    state.advance(DAY_S + 60.0, Ticked())
    state.advance(DAY_S + 61.0, dumped(built.text()))
    state.validate()
    assert shape(state) == before


def test_an_adapter_of_three_nodes_is_told_without_one_that_is_gone() -> None:
    built = pairs(2)
    (guid,) = built.adapters["gpu-01"]
    state = in_fabric(built)
    state.advance(1.0, *(spoken(f"gpu-0{n}", [guid]) for n in (1, 2, 3)))
    assert "gpu-01, gpu-02 and gpu-03" in conflicts(state)["adapter-doubled gpu-01"]
    state.advance(2.0, spoken("gpu-03", built.adapters["gpu-03"]))
    assert "by gpu-01 and gpu-02;" in conflicts(state)["adapter-doubled gpu-01"]
    state.advance(3.0, spoken("gpu-02", built.adapters["gpu-02"]))
    assert not conflicts(state)


def test_an_adapter_without_a_name_joins_by_the_guid_that_its_worker_reports() -> None:
    """A description names no host, names localhost, or is the same for two adapters."""
    built = pairs(2)
    for host, words in (
        ("gpu-01", "MT4129 ConnectX7   Mellanox Technologies"),
        ("gpu-02", "localhost mlx5_0"),
        ("gpu-03", "gpu-09 mlx5_0"),
        ("gpu-04", "gpu-09 mlx5_0"),
    ):
        guid = built.adapters[host][0]
        device = built.fabric.devices[guid]
        built.fabric.devices[guid] = type(device)(guid, words)
    state = in_fabric(built, [*built.adapters, "gpu-09"])
    assert set(why(state)) == {*built.adapters, "gpu-09"}
    text = "2 adapters each are described as gpu-09 mlx5_0, which may be gpu-09: they join no node"
    assert conflicts(state) == {"adapter-ambiguous gpu-09": text}
    state.advance(1.0, *reports(built))
    assert not conflicts(state)
    state.validate()
    assert together(state) == {frozenset(("gpu-01", "gpu-02")), frozenset(("gpu-03", "gpu-04"))}
    assert why(state) == {"gpu-09": "not-in-fabric"}


def test_a_short_name_of_two_nodes_joins_neither_and_is_told_until_workers_speak() -> None:
    built = pairs(2)
    state = in_fabric(built, ["gpu-01.a", "gpu-01.b", "gpu-02"])
    text = "adapters of one host are described as gpu-01 mlx5_0, which may be gpu-01.a or gpu-01.b"
    assert conflicts(state) == {"adapter-ambiguous gpu-01.a": f"{text}: they join no node"}
    state.advance(1.0, spoken("gpu-01", built.adapters["gpu-01"], named="gpu-01.b"))
    state.validate()
    assert not conflicts(state)
    assert set(why(state)) == {"gpu-01.a"}


def test_a_description_never_joins_against_what_the_nodes_worker_reports() -> None:
    """The adapter moved to another host, which its driver does not know yet."""
    built = pairs(2)
    state = in_fabric(built, ["gpu-01", "gpu-02", "gpu-04"])
    state.advance(1.0, spoken("gpu-03", ["b83fd20300c99999"]))
    assert why(state) == {"gpu-03": "not-in-fabric"}
    state.advance(2.0, spoken("gpu-03", built.adapters["gpu-03"]))
    assert not why(state)


def test_an_adapter_that_two_workers_report_joins_neither_and_moves_nobody() -> None:
    built = pairs(2)
    (guid,) = built.adapters["gpu-01"]
    both = spoken("gpu-01", [guid]), spoken("gpu-04", [guid])
    before = in_fabric(built)
    expected = shape(before)
    before.advance(1.0, *both)
    before.validate()
    assert shape(before) == expected
    text = f"the adapter {guid} is reported by gpu-01 and gpu-04; it joins none of them"
    assert conflicts(before) == {"adapter-doubled gpu-01": text}
    after = discovery(Mode.FABRIC)
    after.advance(0.0, listed(built.adapters), *both, dumped(built.text()))
    assert set(why(after)) == {"gpu-01", "gpu-04"}


def test_short_and_full_names_of_one_host_are_one_and_two_domains_are_two() -> None:
    built = pairs(1)
    state = discovery(Mode.FABRIC)
    full = ListedNode(NodeName("gpu-01.example.com"), "", (("hostname", "gpu-01"),), (), 8)
    other = ListedNode(NodeName("node-7"), "", (("hostname", "GPU-02.example.com"),), (), 8)
    state.advance(0.0, ClusterNodesListed((full, other)), dumped(built.text()))
    assert together(state) == {frozenset(("gpu-01.example.com", "node-7"))}


def test_a_leaf_that_lost_its_uplinks_is_a_group_of_its_own_and_is_told() -> None:
    """It is in the dump of its own hosts alone."""
    built = pairs(3)
    leaf = built.leaves["ib-su3-leaf-01"]
    built.fabric.cut(leaf, 1)
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(built.adapters), dumped(built.text()))
    assert set(why(state)) == {"gpu-05", "gpu-06"}
    state.advance(1.0, dumped(built.text(), built.text("gpu-05")))
    state.validate()
    assert shape(state)["ib-su3-leaf-01"] == ["gpu-05", "gpu-06"]
    assert doubts(state) == [
        "no cable to another switch, while other leaves have some: ib-su3-leaf-01"
    ]


def test_what_the_newest_dump_says_of_a_device_counts() -> None:
    built = pairs(2)
    before = built.text()
    moved = built.adapters["gpu-02"][0]
    built.fabric.cut(moved)
    built.fabric.plug(moved, built.leaves["ib-su2-leaf-01"])
    after = built.text()
    for texts, times in (((before, after), (0.0, 1.0)), ((after, before), (1.0, 0.0))):
        state = discovery(Mode.FABRIC)
        state.advance(0.0, listed(built.adapters), dumped(*texts, made_at=times))
        assert together(state) == {
            frozenset(("gpu-01",)),
            frozenset(("gpu-02", "gpu-03", "gpu-04")),
        }


def test_a_node_that_is_in_no_dump_any_more_keeps_its_place_for_a_day() -> None:
    """Its only link is down, and an adapter without a link is in no dump."""
    built = pairs(2)
    state = in_fabric(built)
    before = shape(state)
    built.fabric.cut(built.adapters["gpu-02"][0])
    state.advance(1.0, dumped(built.text()))
    state.validate()
    assert shape(state) == before
    assert "keeps its place" in conflicts(state)["fabric-node-vanished gpu-02"]
    state.advance(DAY_S + 2.0, Ticked())
    state.validate()
    assert why(state) == {"gpu-02": "not-in-fabric"}
    assert not conflicts(state)


def test_a_node_that_is_gone_for_good_is_in_no_group() -> None:
    built = pairs(2)
    state = in_fabric(built)
    state.advance(1.0, NodeRemoved(NodeName("gpu-02")))
    state.validate()
    assert shape(state)["ib-spine-01/ib-su1-leaf-01"] == ["gpu-01"]


def test_a_cable_that_is_slower_than_most_of_its_switch_is_named() -> None:
    built = rails(UNITS, 2)
    adapter = built.adapters["c"][1]
    built.fabric.cut(adapter)
    built.fabric.plug(adapter, built.leaves["ib-su1-leaf-02"], "4xHDR")
    assert conflicts(in_fabric(built)) == {
        "fabric-cable-slow c": "c: ib-su1-leaf-02 port 4 runs at 4xHDR, most others there at 4xNDR"
    }


def test_cables_of_a_split_switch_are_not_slow() -> None:
    built = rails(UNITS, 2)
    for adapters in built.adapters.values():
        for guid in adapters:
            far, port, _ = built.fabric.ends[guid, 1]
            built.fabric.cable((guid, 1), (far, port), "2xNDR")
    assert not conflicts(in_fabric(built))


def test_a_group_keeps_its_name_while_most_of_its_nodes_are_in_it() -> None:
    """Its first leaf is exchanged for a switch of another name."""
    built = rails([["a", "b", "c"], ["d", "e", "f"]], 2)
    state = in_fabric(built)
    names = set(shape(state))
    old = built.leaves["ib-su1-leaf-01"]
    new = built.fabric.switch("new-leaf")
    for host in "abc":
        built.fabric.cut(built.adapters[host][0])
        built.fabric.plug(built.adapters[host][0], new)
    built.fabric.trunk(new, built.fabric.ends[old, 1][0])
    state.advance(1.0, dumped(built.text(), made_at=(86_400.0,)))
    state.validate()
    assert set(shape(state)) == names
    fresh = in_fabric(built)
    assert set(shape(fresh)) != names
    twice = restarted(restarted(state, 2.0, mode=Mode.FABRIC), 3.0, mode=Mode.FABRIC)
    twice.advance(4.0, dumped(built.text()))
    assert set(shape(twice)) == names, "a state that was kept before a dump was read has them, too"


def test_a_restarted_master_shows_the_groups_before_it_has_read_a_dump() -> None:
    built = rails(UNITS, 2)
    state = in_fabric(built)
    again = restarted(state, 1.0, mode=Mode.FABRIC)
    assert shape(again) == shape(state)
    again.advance(2.0, listed(built.adapters))
    assert shape(again) == shape(state)
    again.advance(3.0, dumped(built.text()))
    again.validate()
    assert shape(again) == shape(state)


def test_a_dump_that_is_cut_off_takes_no_group_of_an_earlier_process() -> None:
    built = pairs(2)
    text = built.text()
    state = in_fabric(built)
    again = restarted(state, 1.0, mode=Mode.FABRIC)
    again.advance(2.0, listed(built.adapters), dumped(text[: text.rindex("\nvendid")]))
    again.validate()
    assert shape(again) == shape(state)
    lacks = "subnet-0 is cut off: 1 adapter named without a block"
    assert doubts(again) == [f"{lacks}; the groups from before the start stay"]
    again.advance(3.0, dumped(text))
    assert shape(again) == shape(state)
    assert doubts(again) == []


def test_a_dump_that_is_cut_off_is_a_doubt_of_the_source() -> None:
    built = pairs(2)
    text = built.text()
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(built.adapters), dumped(text[: text.rindex("\nvendid")]))
    assert doubts(state) == ["subnet-0 is cut off: 1 adapter named without a block"]
    assert not why(state)


def test_the_fabric_and_the_labels_of_nodes_are_compared() -> None:
    built = pairs(2)
    places = {"gpu-01": "r/1", "gpu-02": "r/2", "gpu-03": "r/1", "gpu-04": "r/2"}
    state = discovery(Mode.FABRIC, labels=RACKS)
    state.advance(0.0, labelled_nodes(places), dumped(built.text()))
    state.validate()
    assert together(state) == {frozenset(("gpu-01", "gpu-02")), frozenset(("gpu-03", "gpu-04"))}
    assert "the fabric puts gpu-01 and gpu-02 into" in conflicts(state)["sources-differ gpu-01"]
    other = discovery(Mode.FABRIC, labels=RACKS, precedence=(CLUSTER_NODES, FABRIC))
    other.advance(0.0, labelled_nodes(places), dumped(built.text()))
    assert together(other) == {frozenset(("gpu-01", "gpu-03")), frozenset(("gpu-02", "gpu-04"))}
