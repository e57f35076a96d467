"""Whether a queue of Volcano has room for a gang."""

from typing import Any

import pytest

from master.controllers.nomination.queues.quota import AskedGpus, MissingQuota, Usage, missing_quota
from tests.controllers.nomination.objects import GPU, queue

ASKED = AskedGpus(gang="g", queue="q1", resource=GPU, gpus=16)


def missing(
    *queues: Any,
    taken: dict[str, int] | None = None,
    wanted: dict[str, int] | None = None,
    total: int = 128,
) -> MissingQuota | None:
    by_name = {each.metadata.name: each for each in queues}
    return missing_quota(ASKED, by_name, Usage(taken=taken or {}, wanted=wanted, total=total))


def why(*queues: Any, **more: Any) -> str:
    found = missing(*queues, **more)
    return found.text if found is not None else ""


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


@pytest.mark.parametrize(
    ("mine", "others", "said"),
    [
        ({"capability": {GPU: "8"}}, {}, "its capability were 16, or in queue q2"),
        ({"capability": {GPU: "8"}}, {"capability": {GPU: "15"}}, "its capability were 16"),
        (
            {},
            {"guarantee": {"resource": {GPU: "120"}}},
            "other queues were guaranteed 8 GPUs less, or in queue q2",
        ),
    ],
)
def test_a_gang_that_its_queue_could_never_hold_is_told_the_smallest_change(
    mine: Any, others: Any, said: str
):
    found = missing(queue("q1", **mine), queue("q2", **others))
    assert found is not None
    assert found.never
    assert found.text == f"queue q1 may have 8 GPUs and 16 are needed; it would fit if {said}"


def test_a_gang_larger_than_queue_and_cluster_is_told_no_change_of_the_queue():
    found = missing(queue("q1", capability={GPU: "8"}), queue("q2"), total=12)
    assert found is not None
    assert found.text == "queue q1 may have 8 GPUs and 16 are needed; the cluster has 12"


def test_what_others_ask_for_leaves_a_queue_its_share_by_weight():
    """Gated pods ask, too: seen in Volcano, a queue did not start until the other's job went."""
    queues = queue("q1", weight=1), queue("q2", weight=3)
    asked = {"q1": 128, "q2": 128}
    assert why(*queues, wanted=asked, taken={"q1": 16}) == ""
    assert why(*queues, wanted=asked, taken={"q1": 17}) == (
        "queue q1 has 17 of the 32 GPUs that its weight (1 of 4) gives it now where 16 are needed;"
        " asked for: q1 128, q2 128"
    )
    assert why(*queues, wanted={"q1": 128, "q2": 32}, taken={"q1": 80}) == ""
    assert why(*queues, wanted=None, taken={"q1": 17}) == "", "capacity gives no such share"
    assert why(*queues, queue("q3", deserved={GPU: "8"}), wanted=asked, taken={"q1": 17}) == ""
