"""Each violation of a history of pods is provoked once, and histories that are well give none."""

from dataclasses import replace

import pytest

from tests.chaos.model.pod_history import PodHistory, PodVersion
from tests.chaos.model.verdicts import Kind

ROOMS = {"node-1": 8, "node-2": 8, "node-3": 8}
HOMES = {"node-1": "fly-1", "node-2": "fly-1", "node-3": "fly-2"}
A = PodVersion(uid="a-0", gang="a", group=0, gpus=8, seen_s=1.0)
A_1 = replace(A, uid="a-1")
B = replace(A, uid="b-0", gang="b")


def judged(*versions: PodVersion) -> list[Kind]:
    history = PodHistory(ROOMS, HOMES)
    return [found.kind for each in versions for found in history.see(each)]


def on(pod: PodVersion, planned: str, node: str = "", *, gated: bool = False) -> PodVersion:
    return replace(pod, planned=planned, node=node, gated=gated)


def test_two_gangs_that_are_opened_onto_one_node_are_told() -> None:
    assert judged(on(A, "node-1"), on(B, "node-1")) == [Kind.GPU_TWICE]
    assert judged(on(A, "node-1", "node-1"), on(B, "node-2", "node-1")) == [Kind.GPU_TWICE]


def test_a_plan_behind_a_gate_owns_nothing_and_one_that_is_over_no_more() -> None:
    assert judged(on(A, "node-1"), on(B, "node-1", gated=True)) == []
    assert judged(on(A, "node-1"), replace(A, is_over=True), on(B, "node-1")) == []


def test_pods_of_a_gang_may_take_each_others_places() -> None:
    first = on(A, "node-1", gated=True), on(A_1, "node-2", gated=True)
    opened = on(A, "node-1"), on(A_1, "node-2"), on(A, "node-1", "node-2")
    assert judged(*first, *opened, on(A_1, "node-2", "node-1")) == []


def test_a_gate_that_is_closed_again_is_told() -> None:
    assert judged(on(A, "node-1"), on(A, "node-1", gated=True)) == [Kind.GATE_CLOSED]


def test_a_gang_that_is_opened_while_a_pod_has_no_place_is_told() -> None:
    assert judged(A, A_1, on(A, "node-1")) == [Kind.OPENED_IN_PART]
    assert judged(on(A, "node-1", gated=True), on(A_1, "node-2", gated=True), on(A, "node-1")) == []


def test_a_group_in_two_domains_is_told() -> None:
    found = judged(A, on(A, "node-1", "node-1"), on(A_1, "node-3", "node-3"))
    assert found == [Kind.SPLIT]


@pytest.mark.parametrize(
    ("since_s", "leaving", "found"), [(2.0, set(), 1), (0.5, set(), 0), (2.0, {"a"}, 0)]
)
def test_a_hold_of_what_a_pod_surely_has_is_told(
    since_s: float, leaving: set[str], found: int
) -> None:
    history = PodHistory(ROOMS, HOMES)
    assert not list(history.see(on(A, "node-1", "node-1")))
    history.leaving |= leaving
    told = list(history.certain("node-1", since_s, 1))
    assert [each.kind for each in told] == [Kind.GPU_TWICE] * found
    assert not list(history.certain("node-2", since_s, 8))
