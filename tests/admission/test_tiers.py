"""The tiers that native jobs are judged by are those of the HyperNodes, with what groups hold."""

from collections.abc import Mapping

from master.admission.tiers import OLD_S, KnownTiers, tiers
from tests.publish.forests import box, forest
from topo.gangs.native import Tier, holding, of_kind
from topo.model.forest import Forest
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, NodeName
from topo.placement.capacity.host import Host
from topo.publish.hypernodes import hypernodes

TREE = forest(box("s1", {"d1": ["a", "b"], "d2": ["c"]}), box("s2", {}, alone=["e"]))
PLACES = {"a": ("s1", "d1"), "b": ("s1", "d1"), "c": ("s1", "d2"), "e": ("s2",), "f": ()}


def hosts(gpus: Mapping[str, int]) -> list[Host]:
    return [
        Host(name=NodeName(name), path=GroupPath(tuple(map(GroupName, PLACES[name]))), gpus=each)
        for name, each in gpus.items()
    ]


def test_each_tier_has_its_number_as_hypernodes_have_it_its_kind_and_the_shapes_of_its_groups():
    pairs, boxes = tiers(TREE, hosts({"a": 8, "b": 8, "c": 4, "e": 16, "f": 64}))
    assert pairs == Tier(1, frozenset({DRAGONFLY}), frozenset({((8, 2),), ((4, 1),)}))
    assert boxes == Tier(2, frozenset({SWITCHBOX}), frozenset({((4, 1), (8, 2)), ((16, 1),)}))
    numbers = {each.tier for each in hypernodes(TREE).values()}
    assert numbers == {pairs.number, boxes.number}


def test_pods_do_not_share_what_is_left_on_two_nodes():
    found = tiers(TREE, hosts({"a": 8, "b": 8}))
    pairs, _ = found
    assert (pairs.pods(8), pairs.pods(5), pairs.pods(16)) == (2, 2, 0)
    assert holding(found, 4, 5) is None
    assert of_kind(found, SWITCHBOX) == found[1]


def test_a_group_without_hosts_is_in_no_tier_and_without_groups_there_is_none():
    assert [each.number for each in tiers(TREE, hosts({"e": 8}))] == [2]
    assert tiers(TREE, ()) == ()
    assert tiers(forest(), hosts({"f": 8})) == ()


def test_what_is_known_is_counted_anew_with_the_forest_and_after_a_while_with_its_nodes():
    now_s, version, known, there = 0.0, 1, [TREE], {"a": 8}

    def tree() -> Forest | None:
        return known[0] if known else None

    live = KnownTiers(
        forest=tree, hosts=lambda: hosts(there), version=lambda: version, clock=lambda: now_s
    )
    assert live()[0].pods(8) == 1
    there, version = {"a": 8, "b": 8}, 2
    assert live()[0].pods(8) == 1
    now_s = OLD_S
    assert live()[0].pods(8) == 2
    there, known[0] = {"a": 4}, forest(box("s1", {"d1": ["a"]}))
    assert live()[0].pods(8) == 0
    known.clear()
    assert live() == ()
