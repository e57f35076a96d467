"""Groups that were told earlier are given again where they still fit, and only there."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.capacity import capacity_of, host
from topo.model.ids import GroupName, GroupPath, Kind, NodeName
from topo.placement.booking.confirm import confirm_groups
from topo.placement.capacity.capacity import Capacity
from topo.placement.engine import place
from topo.placement.job.plan import Plan, Pods
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, PlacementMode, Request

JOB = Request(pods=6, gpus_per_pod=8, group_size=32)


def six_dragonflies(policy: Policy | None = None) -> Capacity:
    """Two switchboxes of three dragonflies of four nodes of eight GPUs: `n<box>-<fly>-<node>`."""
    hosts = (
        host(f"n{box}-{fly}-{node}", (f"s{box}", f"d{box}-{fly}"))
        for box, fly, node in itertools.product(range(2), range(3), range(4))
    )
    return capacity_of(hosts, policy)


def pods(*names: str) -> Pods:
    return tuple((NodeName(name), 1) for name in names)


def fly(box: int, which: int, nodes: int = 4) -> Pods:
    return pods(*(f"n{box}-{which}-{node}" for node in range(nodes)))


def best(capacity: Capacity, request: Request = JOB) -> Plan:
    plan = place(capacity, request)
    assert isinstance(plan, Plan)
    return plan


def test_the_plan_of_now_is_itself() -> None:
    capacity = six_dragonflies()
    plan = best(capacity)
    given = [group.pods for group in plan.groups]
    assert confirm_groups(capacity, JOB, given, plan) is plan


def test_other_groups_that_fit_are_taken_with_their_own_numbers() -> None:
    capacity = six_dragonflies()
    given = [fly(1, 2), fly(1, 0, 2)]
    found = confirm_groups(capacity, JOB, given, best(capacity))
    assert isinstance(found, Plan)
    assert [group.pods for group in found.groups] == given
    assert [group.tail for group in found.groups] == [False, True]
    assert [ref.name for group in found.groups for ref in group.domains] == ["d1-2", "d1-0"]
    assert found.mode is PlacementMode.REQUIRED
    assert found.certified["split_groups"]
    assert found.objective.span == (1, 2)


def test_worse_groups_are_not_certified() -> None:
    capacity = six_dragonflies()
    found = confirm_groups(capacity, JOB, [fly(0, 0), fly(1, 0, 2)], best(capacity))
    assert isinstance(found, Plan)
    assert found.objective.span == (2, 2)
    assert not found.certified["top_groups"]


def change_booked(capacity: Capacity) -> None:
    capacity.book("pods", {NodeName("n1-2-1"): 4})


def change_gone(capacity: Capacity) -> None:
    capacity.remove(NodeName("n1-2-1"))


def change_closed(capacity: Capacity) -> None:
    host = capacity.host(NodeName("n1-2-1"))
    assert host is not None
    capacity.upsert(replace(host, ready=False))


def change_type(capacity: Capacity) -> None:
    host = capacity.host(NodeName("n1-2-1"))
    assert host is not None
    capacity.upsert(replace(host, gpu_type="B"))


def change_moved(capacity: Capacity) -> None:
    host = capacity.host(NodeName("n1-2-1"))
    assert host is not None
    path = GroupPath((GroupName("s1"), GroupName("d1-9")))
    capacity.upsert(replace(host, path=path))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (change_booked, "n1-2-1 has 4 free GPUs where 8 are needed"),
        (change_gone, "n1-2-1 is not there"),
        (change_closed, "n1-2-1 is not ready"),
        (change_type, "n1-2-1 does not fit the job's type"),
        (change_moved, "1 of the groups would be split"),
    ],
)
def test_what_came_between_is_said(change: Callable[[Capacity], None], part: str) -> None:
    capacity = six_dragonflies()
    change(capacity)
    found = confirm_groups(capacity, JOB, [fly(1, 2), fly(1, 0, 2)], best(capacity))
    assert isinstance(found, str)
    assert part in found


@pytest.mark.parametrize(
    "given",
    [
        [fly(0, 0)],
        [fly(0, 0), fly(0, 1)],
        [fly(0, 0, 2), fly(0, 1)],
        [fly(0, 0), fly(0, 1, 2), fly(0, 2, 2)],
        [],
    ],
)
def test_groups_of_another_shape_are_not_the_jobs(given: list[Pods]) -> None:
    capacity = six_dragonflies()
    found = confirm_groups(capacity, JOB, given, best(capacity))
    assert isinstance(found, str)
    assert "pods where the job's groups have" in found


def test_two_pods_on_a_node_with_room_for_one_do_not_fit() -> None:
    capacity = six_dragonflies()
    twice = ((NodeName("n0-0-0"), 2), *pods("n0-0-1", "n0-0-2"))
    found = confirm_groups(capacity, JOB, [twice, fly(0, 1, 2)], best(capacity))
    assert isinstance(found, str)
    assert "n0-0-0 has 8 free GPUs where 16 are needed" in found
    across = [fly(0, 0), pods("n0-0-3", "n0-1-0")]
    again = confirm_groups(capacity, JOB, across, best(capacity))
    assert isinstance(again, str)
    assert "n0-0-3" in again


def test_a_span_and_a_selector_count_for_given_groups_too() -> None:
    capacity = six_dragonflies()
    within = replace(JOB, within=Kind("switchbox"))
    found = confirm_groups(capacity, within, [fly(0, 0), fly(1, 0, 2)], best(capacity, within))
    assert found == "they are in 2 groups of kind switchbox"
    excluded = replace(JOB, eligible=Eligibility(exclude=frozenset({NodeName("n0-0-0")})))
    found = confirm_groups(capacity, excluded, [fly(0, 0), fly(0, 1, 2)], best(capacity, excluded))
    assert isinstance(found, str)
    assert "exclusions" in found


def test_a_split_group_is_taken_where_the_job_allows_it() -> None:
    capacity = six_dragonflies()
    split = [pods("n0-0-0", "n0-0-1", "n0-1-0", "n0-1-1"), fly(0, 2, 2)]
    preferred = replace(JOB, mode=PlacementMode.PREFERRED)
    found = confirm_groups(capacity, preferred, split, best(capacity, preferred))
    assert isinstance(found, Plan)
    assert found.mode is PlacementMode.PREFERRED
    assert [ref.name for ref in found.groups[0].domains] == ["d0-0", "d0-1"]
    assert isinstance(confirm_groups(capacity, JOB, split, best(capacity)), str)


def test_groups_that_are_kept_free_are_not_taken_while_others_do() -> None:
    kept = Policy(canonical_gpus=32, reserves=((GroupPath((GroupName("s1"),)), 3),))
    capacity = six_dragonflies(kept)
    plan = best(capacity)
    assert not plan.used_reserve
    found = confirm_groups(capacity, JOB, [fly(1, 0), fly(1, 1, 2)], plan)
    assert found == "they would use groups that are kept free in s1"
    other = confirm_groups(capacity, JOB, [fly(0, 2), fly(0, 0, 2)], plan)
    assert isinstance(other, Plan)
