"""An edit makes the new forest of the old one, and is as small as what differs."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.history.forests import forests, next_forests
from tests.publish.forests import VENDOR
from topo.history.edits import apply_edit, edit
from topo.history.rows import BrokenEditError
from topo.model.forest import Forest, Group, Reason, Status


@given(forests, forests)
def test_an_edit_makes_any_forest_of_any_other(old, new):
    """Also after it was written as JSON and read again."""
    assert apply_edit(json.loads(json.dumps(edit(old, new))), old) == new


@given(forests, st.data())
def test_an_edit_makes_the_next_forest_of_one(old, data):
    """Where most of it is the same, in the same order or another."""
    new = data.draw(next_forests(old))
    assert apply_edit(edit(old, new), old) == new


@given(forests)
def test_nothing_is_new_in_an_edit_of_a_forest_into_itself(forest):
    """What is told is which runs stay, and they are all of it."""
    told = edit(forest, forest)
    assert "new" not in json.dumps([[type(item).__name__ for item in each] for each in told])
    assert all(isinstance(item, list) for sequence in told for item in sequence)


def cut(forest: Forest) -> Forest:
    """The first node of the first dragonfly has lost a cable."""
    box = forest.roots[0]
    fly = box.children[0]
    assert isinstance(fly, Group)
    why = (Reason("link-down", "the link in slot 1 is down"),)
    first = replace(fly.children[0], status=Status.NOT_READY, reasons=why)
    fly = replace(fly, children=(first, *fly.children[1:]))
    box = replace(box, children=(fly, *box.children[1:]))
    return replace(forest, roots=(box, *forest.roots[1:]))


def test_what_did_not_change_is_told_as_runs_and_is_the_same_object_afterwards():
    """A cut cable in the vendor's shape: one node is told, its siblings by their numbers."""
    changed = cut(VENDOR)
    told = edit(VENDOR, changed)
    (box, rest), *others = told
    assert [rest, *others] == [[1, 2], [], [], []]
    (fly, other_fly) = box["child"]
    assert other_fly == [1, 2]
    assert "head" not in box
    assert [each for each in fly["child"] if isinstance(each, list)] == [[1, 2]]
    made = apply_edit(told, VENDOR)
    assert made == changed
    assert made.roots[1] is VENDOR.roots[1]


@pytest.mark.parametrize(
    "broken",
    [
        [[[0, 3]], [], [], []],
        [[[1, 1]], [], [], []],
        [[{"of": 7, "child": []}], [], [], []],
        [[{"of": 0}], [], [], []],
        [[{"new": ["a"]}], [], [], []],
        [[], [{"of": 0}], [], []],
        [[], []],
        [[7], [], [], []],
        None,
    ],
)
def test_an_edit_that_does_not_fit_is_refused(broken):
    """It names items that are not there, or is none."""
    with pytest.raises(BrokenEditError):
        apply_edit(broken, VENDOR)
