"""Whether a queue of Volcano has room for a gang."""

from typing import Any

import pytest

from master.controllers.nomination.queue_room import Asked, missing_room
from tests.controllers.nomination.objects import GPU, queue

ASKED = Asked(queue="q1", resource=GPU, gpus=16)


def why(*queues: Any, taken: dict[str, int] | None = None, total: int = 128) -> str:
    by_name = {each.metadata.name: each for each in queues}
    return missing_room(ASKED, by_name, taken=taken or {}, total=total)


def test_a_queue_without_a_limit_has_room():
    assert why(queue("q1")) == ""


@pytest.mark.parametrize(("used", "left"), [(48, None), (49, 15), (64, 0), (80, 0)])
def test_a_queue_has_its_capability_and_no_more(used: int, left: int | None):
    full = queue("q1", capability={GPU: "64"})
    said = f"queue q1 has {left} of 64 GPUs left where 16 are needed" if left is not None else ""
    assert why(full, taken={"q1": used}) == said


def test_what_the_queue_says_itself_counts_where_it_is_more():
    status = {"state": "Open", "allocated": {GPU: "56"}}
    full = queue("q1", capability={GPU: "64"}, status=status)
    assert "8 of 64" in why(full, taken={"q1": 8})


def test_what_others_are_guaranteed_is_not_there():
    other = queue("q2", guarantee={"resource": {GPU: "100"}})
    assert why(queue("q1"), other, taken={"q1": 12}) == ""
    assert "15 of 28" in why(queue("q1"), other, taken={"q1": 13})


def test_a_queue_has_no_more_than_the_one_above_it():
    above = queue("dept", capability={GPU: "32"})
    mine, sibling = queue("q1", parent="dept"), queue("q2", parent="dept")
    assert why(above, mine, sibling, taken={"q2": 16}) == ""
    said = why(above, mine, sibling, taken={"q2": 24})
    assert said == "queue dept has 8 of 32 GPUs left where 16 are needed"


def test_a_queue_that_is_closed_or_gone_says_so():
    assert why(queue("q1", status={"state": "Closed"})) == "queue q1 is Closed"
    assert why() == "queue q1 is not there"


def test_queues_above_each_other_in_a_circle_end_the_look():
    assert why(queue("q1", parent="q2"), queue("q2", parent="q1")) == ""
