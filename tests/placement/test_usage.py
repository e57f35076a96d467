"""The bars beside a plan: what is there, free and taken, group by group."""

from tests.support.capacity import host
from topo.model.ids import GroupName, GroupPath, Kind, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import Plan
from topo.placement.job.request import Request
from topo.placement.quality.measure import group_usage

BOX, FLY = Kind("switchbox"), Kind("dragonfly")


def path(*names: str) -> GroupPath:
    return GroupPath(tuple(GroupName(name) for name in names))


def test_a_row_for_every_group_of_a_used_node_with_what_is_free_and_taken() -> None:
    capacity = Capacity()
    for each in (
        host("n1", ("s1", "d1")),
        host("n2", ("s1", "d1")),
        host("n3", ("s1", "d2")),
        host("n4", ("s1", "d2"), ready=False),
        host("n5", ("d3",)),
        host("n6"),
    ):
        capacity.upsert(each)
    capacity.book("other", {NodeName("n2"): 4})
    plan = place(capacity, Request(pods=5, gpus_per_pod=4, group_size=12))
    assert isinstance(plan, Plan)
    assert [tuple(row.values()) for row in group_usage(capacity, plan)] == [
        (path("s1"), BOX, 2, 20, 20),
        (path("s1", "d1"), FLY, 1, 12, 12),
        (path("s1", "d2"), FLY, 1, 8, 8),
    ]


def test_a_root_dragonfly_is_told_once_and_a_node_in_no_group_not_at_all() -> None:
    capacity = Capacity()
    capacity.upsert(host("n1", ("s1", "d1")))
    capacity.upsert(host("n5", ("d3",)))
    capacity.upsert(host("n6"))
    capacity.book("other", {NodeName("n1"): 8})
    plan = place(capacity, Request(pods=4, gpus_per_pod=4, group_size=8))
    assert isinstance(plan, Plan)
    assert [tuple(row.values()) for row in group_usage(capacity, plan)] == [
        (path("d3"), FLY, 1, 8, 8)
    ]
