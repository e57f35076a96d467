"""The forest as Volcano's HyperNodes, and the safe way there."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.publish.forests import VENDOR, box, fly, forest, forests, group, node
from topo.model.errors import BrokenInvariantError
from topo.model.forest import Forest
from topo.model.ids import NVLINK_CLIQUE, NVLINK_DOMAIN, Kind
from topo.publish.hypernode_steps import HyperNodeStep, next_step
from topo.publish.hypernodes import HyperNode, HyperNodes, hypernodes, spec, validate

MAX_STEPS = 12


def leaf(name: str, *nodes: str) -> HyperNode:
    return HyperNode(name=name, tier=1, tier_name="dragonfly", nodes=frozenset(nodes))


def above(name: str, *groups: str, nodes: tuple[str, ...] = ()) -> HyperNode:
    of, alone = frozenset(groups), frozenset(nodes)
    return HyperNode(name=name, tier=2, tier_name="switchbox", groups=of, nodes=alone)


def tree(*hypernodes: HyperNode) -> HyperNodes:
    return {each.name: each for each in hypernodes}


def watched(
    present: HyperNodes, step: HyperNodeStep, order: list[str]
) -> list[dict[str, HyperNode]]:
    """What somebody who watches sees while a step is written in an order."""
    now, seen = dict(present), list[dict[str, HyperNode]]()
    for name in order:
        if name in step.delete:
            del now[name]
        else:
            now[name] = {**step.create, **step.rewrite}[name]
        seen.append(dict(now))
    return seen


def steps(present: HyperNodes, wanted: HyperNodes) -> list[HyperNodeStep]:
    """All steps on the way, each written as it stands."""
    found: list[HyperNodeStep] = []
    while step := next_step(present, wanted):
        found.append(step)
        assert len(found) <= MAX_STEPS, "the way has no end"
        present = watched(present, step, names_of(step))[-1]
    assert present == wanted
    return found


def names_of(step: HyperNodeStep) -> list[str]:
    return [*step.create, *step.rewrite, *sorted(step.delete)]


def test_the_vendors_forest_is_four_leaves_under_two_hypernodes_of_tier_two():
    found = hypernodes(VENDOR)
    validate(found)
    assert found["dragonfly-1"] == leaf("dragonfly-1", "node-1", "node-2")
    assert found["switchbox-2"] == above("switchbox-2", "dragonfly-3", "dragonfly-4")
    assert [each.tier for each in found.values()].count(1) == 4
    assert len(found) == 6


def test_the_spec_is_in_the_words_of_the_api():
    assert spec(hypernodes(VENDOR)["switchbox-1"]) == {
        "tier": 2,
        "tierName": "switchbox",
        "members": [
            {"type": "HyperNode", "selector": {"exactMatch": {"name": "dragonfly-1"}}},
            {"type": "HyperNode", "selector": {"exactMatch": {"name": "dragonfly-2"}}},
        ],
    }


def test_a_node_in_a_switchbox_without_a_dragonfly_is_a_member_of_the_switchbox():
    found = hypernodes(forest(box("box", {"fly": ["a", "b"]}, ["c"])))
    assert found == tree(leaf("fly", "a", "b"), above("box", "fly", nodes=("c",)))


def test_a_switchbox_keeps_its_tier_while_no_dragonfly_is_there():
    """A job that asks for tier 1 wants a dragonfly, never a whole switchbox."""
    found = hypernodes(forest(box("box", {}, ["a", "b"])))
    assert found == tree(above("box", nodes=("a", "b")))


def test_every_group_of_a_kind_has_one_tier():
    small, large = box("small", {}, ["a"]), box("large", {"fly": ["b", "c"]})
    rows = forest(group("row-1", Kind("row"), 2, [small]), group("row-2", Kind("row"), 3, [large]))
    assert {each.tier_name: each.tier for each in hypernodes(rows).values()} == {
        "dragonfly": 1,
        "switchbox": 2,
        "row": 3,
    }


def test_kinds_inside_each_other_in_both_ways_still_make_a_tree():
    one = group("one", Kind("x"), 2, [group("two", Kind("y"), 1, [node("a")])])
    other = group("three", Kind("y"), 2, [group("four", Kind("x"), 1, [node("b")])])
    validate(hypernodes(forest(one, other)))


def test_nvlink_domains_stand_above_their_cliques():
    clique = group("clique-1", NVLINK_CLIQUE, 1, [node("a"), node("b")])
    found = hypernodes(forest(group("domain-1", NVLINK_DOMAIN, 2, [clique])))
    assert (found["clique-1"].tier, found["domain-1"].tier) == (1, 2)


def test_groups_without_a_node_below_them_are_not_there():
    assert hypernodes(forest(box("box", {"fly": []}), fly("other", []))) == {}


def test_a_node_that_kubernetes_could_not_have_is_no_member():
    """One member of another name would make the API server refuse the whole group."""
    found = hypernodes(forest(fly("fly", ["node-1", "Node_2", "a..b", "x" * 254])))
    assert found == tree(leaf("fly", "node-1"))


def test_groups_of_one_name_are_two_hypernodes_also_when_their_kinds_differ():
    found = hypernodes(forest(box("same", {"same": ["a", "b"]}), box("Other", {"x": ["c", "d"]})))
    validate(found)
    assert len(found) == 4
    assert sum(name.startswith("same-") for name in found) == 2
    assert sum(name.startswith("other-") for name in found) == 1


@pytest.mark.parametrize(
    "broken",
    [
        tree(leaf("a", "node"), leaf("b", "node")),
        tree(leaf("a", "node"), above("b", "a"), above("c", "a")),
        tree(above("a", "missing")),
        tree(leaf("a")),
        tree(above("a", "b"), above("b", "a")),
    ],
    ids=["two leaves", "two parents", "missing", "empty", "circle"],
)
def test_a_tree_with_a_fault_is_never_written(broken):
    with pytest.raises(BrokenInvariantError):
        validate(broken)


@given(forests())
def test_what_is_published_of_any_forest_is_a_sound_tree(of: Forest):
    found = hypernodes(of)
    validate(found)
    placed = {vertex.name for _, vertex in of.walk() if not hasattr(vertex, "children")}
    assert set(chain.from_iterable(each.nodes for each in found.values())) == placed


def test_a_node_that_moves_is_let_go_before_it_is_taken_in():
    before = tree(leaf("fly-1", "a", "b"), leaf("fly-2", "c"), above("box", "fly-1", "fly-2"))
    after = tree(leaf("fly-1", "b"), leaf("fly-2", "a", "c"), above("box", "fly-1", "fly-2"))
    first, second = steps(before, after)
    assert first == HyperNodeStep({}, tree(leaf("fly-1", "b")), frozenset())
    assert second == HyperNodeStep({}, tree(leaf("fly-2", "a", "c")), frozenset())


def test_from_nothing_the_leaves_come_first_and_each_is_written_once():
    first, second = steps({}, hypernodes(VENDOR))
    assert sorted(first.create) == ["dragonfly-1", "dragonfly-2", "dragonfly-3", "dragonfly-4"]
    assert sorted(second.create) == ["switchbox-1", "switchbox-2"]


def test_to_nothing_a_parent_goes_before_its_children():
    first, second = steps(hypernodes(VENDOR), {})
    assert first.delete == {"switchbox-1", "switchbox-2"}
    assert second.delete == {"dragonfly-1", "dragonfly-2", "dragonfly-3", "dragonfly-4"}


def test_two_leaves_that_change_all_their_members_never_have_none():
    before = tree(leaf("fly-1", "a"), leaf("fly-2", "b"), above("box", "fly-1", "fly-2"))
    after = tree(leaf("fly-1", "b"), leaf("fly-2", "a"), above("box", "fly-1", "fly-2"))
    assert steps(before, after)[-1].create == tree(above("box", "fly-1", "fly-2"))


def test_what_somebody_edited_is_written_back():
    wanted = hypernodes(VENDOR)
    fly_1 = wanted["dragonfly-1"]
    edited = {**wanted, "dragonfly-1": replace(fly_1, nodes=fly_1.nodes | {"node-9"}, tier=7)}
    (only,) = steps(edited, wanted)
    assert only == HyperNodeStep({}, {"dragonfly-1": fly_1}, frozenset())


def test_a_leaf_that_somebody_deleted_comes_back_and_its_parent_is_not_touched():
    wanted = hypernodes(VENDOR)
    without = {name: each for name, each in wanted.items() if name != "dragonfly-1"}
    (only,) = steps(without, wanted)
    assert only == HyperNodeStep({"dragonfly-1": wanted["dragonfly-1"]}, {}, frozenset())


def test_hypernodes_that_name_each_other_in_a_circle_go():
    assert steps(tree(above("a", "b"), above("b", "a")), {})


def is_sound(now: Mapping[str, HyperNode]) -> bool:
    try:
        validate(now)
    except BrokenInvariantError:
        return False
    return True


@given(forests(), forests(), st.randoms(use_true_random=False))
def test_who_watches_never_sees_a_broken_tree(one: Forest, other: Forest, chance):
    """From any forest to any other, with the writes of each step in any order."""
    present, wanted = hypernodes(one), hypernodes(other)
    for _ in range(MAX_STEPS):
        step = next_step(present, wanted)
        if not step:
            break
        order = names_of(step)
        chance.shuffle(order)
        seen = watched(present, step, order)
        assert all(map(is_sound, seen))
        present = seen[-1]
    assert present == wanted


@given(forests(), forests())
def test_a_hypernode_is_written_twice_at_most_on_the_way(one: Forest, other: Forest):
    """Once to let go, once to take in; one that would be empty in between goes and comes again."""
    found = steps(hypernodes(one), hypernodes(other))
    for name in {*hypernodes(one), *hypernodes(other)}:
        assert sum(name in names_of(step) for step in found) <= 2


@st.composite
def broken_trees(draw: st.DrawFn) -> HyperNodes:
    """What somebody may have made of our HyperNodes by hand."""
    names = [f"dragonfly-{each}" for each in range(4)] + [f"switchbox-{each}" for each in range(2)]
    some = st.frozensets(st.sampled_from(["a", "b", "c", "d"]), max_size=3)
    groups = st.frozensets(st.sampled_from([*names, "missing"]), max_size=3)
    chosen = draw(st.lists(st.sampled_from(names), unique=True))
    return tree(
        *(
            HyperNode(name=name, tier=1, tier_name="x", nodes=draw(some), groups=draw(groups))
            for name in chosen
        )
    )


@given(broken_trees(), forests(nodes=4))
def test_from_whatever_somebody_made_of_it_the_way_ends_where_it_should(present, of: Forest):
    steps(present, hypernodes(of))
