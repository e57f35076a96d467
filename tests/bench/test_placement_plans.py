"""Two runs of the placement benchmark are compared plan by plan."""

from dataclasses import replace

import pytest

from bench.placement.plans import Solved, compared, main, solved
from topo.placement.job.plan import Objective

VECTOR = Objective(0, (1, 2), 5, ((2, -1), (0, 1)), ((8, -2), (0, 2)), 0, 0, ())


def answer(**changed: object) -> Solved:
    return Solved(replace(VECTOR, **changed), 8, 8, 0.1)  # type: ignore[arg-type]


NONE = Solved(None, 0, 0, 0.1)


@pytest.mark.parametrize(
    ("old", "new", "better", "worse"),
    [
        (answer(), answer(), {}, {}),
        (answer(), answer(order=(4,)), {}, {}),
        (answer(), answer(span=(1, 1), whole_groups_left=4), {"tier1_groups": 1}, {}),
        (answer(), answer(whole_groups_left=4), {}, {"whole_groups_left": 1}),
        (NONE, answer(), {"fits": 1}, {}),
        (answer(), NONE, {}, {"fits": 1}),
        (NONE, NONE, {}, {}),
    ],
)
def test_a_plan_is_better_or_worse_at_the_first_number_that_differs(old, new, better, worse):
    found = compared([old], [new])
    assert (found.better, found.worse) == (better, worse)
    assert found.same == (not better and not worse)


def test_equal_arguments_give_equal_vectors():
    one, other = (solved("2", 200, 30) for _ in range(2))
    assert [each.vector for each in one] == [each.vector for each in other]
    assert {each.vector is None for each in one} == {True, False}


def test_a_saved_run_is_the_same_as_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bench.placement.plans.SIZES", (120,))
    saved = str(tmp_path / "old.json")
    assert main([saved, "--instances", "9"]) == 0
    assert main([str(tmp_path / "new.json"), "--against", saved, "--instances", "9"]) == 0
    told = capsys.readouterr().out
    assert told.count("better 0 {}, same") == 5
    assert told.count("worse 0 {}") == 5
