"""PodGroups below a CompositePodGroup as one gang: ranks, and what is no gang."""

import itertools
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.gangs.group_tree import MAX_DEPTH, GroupTree, TreeGroup, group_tree
from topo.model.errors import Refusal


def leaf(name: str, least: int = 4, created_s: float = 0.0, **more: Any) -> TreeGroup:
    """A PodGroup."""
    return TreeGroup(name=name, is_leaf=True, least=least, created_s=created_s, **more)


def composite(name: str, least: int = 1, created_s: float = 0.0, key: str = "") -> TreeGroup:
    """A CompositePodGroup."""
    return TreeGroup(name=name, is_leaf=False, least=least, created_s=created_s, topology_key=key)


def whole(root: TreeGroup, children: dict[str, list[TreeGroup]]) -> GroupTree:
    found = group_tree(root, children)
    assert isinstance(found, GroupTree)
    return found


def test_ranks_run_through_the_pod_groups_by_age_and_then_by_name() -> None:
    groups = [leaf("train-10"), leaf("late", 2, 9.0), leaf("train-2", 8)]
    tree = whole(composite("train", 3), {"train": groups})
    assert [each.name for each in tree.leaves] == ["train-2", "train-10", "late"]
    assert tree.pods == 14
    assert [tree.offset(each.name) for each in tree.leaves] == [0, 8, 12]


def test_levels_in_between_keep_their_pod_groups_beside_each_other() -> None:
    children = {
        "train": [composite("b", created_s=1.0), composite("a")],
        "a": [leaf("a-0", created_s=5.0), leaf("a-1", created_s=6.0)],
        "b": [leaf("b-0")],
    }
    tree = whole(composite("train"), children)
    assert [each.name for each in tree.leaves] == ["a-0", "a-1", "b-0"]
    assert [each.name for each in tree.between] == ["a", "b"]


def test_a_tree_without_a_group_that_it_needs_is_not_there_yet() -> None:
    root = composite("train", 2)
    assert group_tree(root, {"train": [leaf("a")]}) is None
    assert group_tree(root, {}) is None
    inner = {"train": [composite("x"), leaf("a")]}
    assert group_tree(root, inner) is None
    assert group_tree(root, {**inner, "x": [leaf("b")]}) is not None


def test_a_tree_that_is_its_own_ancestor_or_too_deep_is_refused() -> None:
    loop = group_tree(composite("a"), {"a": [composite("b")], "b": [composite("a")]})
    assert isinstance(loop, Refusal)
    names = [f"level-{number}" for number in range(MAX_DEPTH + 1)]
    deep = {above: [composite(below)] for above, below in itertools.pairwise(names)}
    deep[names[-1]] = [leaf("end")]
    assert isinstance(group_tree(composite(names[0]), deep), Refusal)
    del deep[names[-1]]
    deep[names[-2]] = [leaf("end")]
    assert whole(composite(names[0]), deep).pods == 4


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([leaf("a", 3), leaf("b")], "groups of 2 pods do not fill the PodGroups up to a"),
        ([leaf("a", topology_key="k")], "the PodGroup a has a constraint and 4 pods"),
        ([leaf("a", is_gang=False)], "the PodGroup a is basic"),
        ([leaf("a", 4), leaf("b", 3)], None),
        ([leaf("a", 2, topology_key="k"), leaf("b", 2)], None),
    ],
)
def test_groups_that_do_not_fit_their_pod_group_are_refused(
    groups: list[TreeGroup], said: str | None
) -> None:
    tree = whole(composite("train"), {"train": groups})
    found = tree.misfit("a", 2)
    assert (found is None) if said is None else (found is not None and said in found.what)


def test_a_pod_group_behind_an_uneven_one_is_refused_and_so_is_a_constraint_in_between() -> None:
    tree = whole(composite("train"), {"train": [leaf("a", 3), leaf("b")]})
    assert tree.misfit("b", 2) is not None
    children = {"train": [composite("x", key="k")], "x": [leaf("a", 2)]}
    found = whole(composite("train"), children).misfit("a", 2)
    assert found is not None
    assert "CompositePodGroup x below train has a constraint" in found.what


@st.composite
def trees(draw: st.DrawFn) -> tuple[TreeGroup, dict[str, list[TreeGroup]]]:
    """A root and up to three levels below it, each group with an age."""
    children: dict[str, list[TreeGroup]] = {}
    numbers = itertools.count()

    def fill(name: str, depth: int) -> None:
        made = []
        for _ in range(draw(st.integers(1, 3))):
            child, age = f"g{next(numbers)}", float(draw(st.integers(0, 3)))
            if depth < MAX_DEPTH and draw(st.booleans()):
                made.append(composite(child, created_s=age))
                fill(child, depth + 1)
            else:
                made.append(leaf(child, draw(st.integers(1, 4)), age))
        children[name] = made

    fill("root", 1)
    return composite("root"), children


@given(trees(), st.randoms(use_true_random=False))
def test_each_pod_has_one_rank_and_keeps_it_when_a_younger_group_comes(
    made: tuple[TreeGroup, dict[str, list[TreeGroup]]], random: Random
) -> None:
    root, children = made
    tree = whole(root, children)
    ranks = [tree.offset(each.name) + index for each in tree.leaves for index in range(each.least)]
    assert ranks == list(range(tree.pods))
    shuffled = {name: random.sample(below, len(below)) for name, below in children.items()}
    assert whole(root, shuffled) == tree
    later = {**children, "root": [*children["root"], leaf("young", 2, 9.0)]}
    grown = whole(root, later)
    assert [grown.offset(each.name) for each in tree.leaves] == [
        tree.offset(each.name) for each in tree.leaves
    ]
    assert grown.offset("young") == tree.pods
