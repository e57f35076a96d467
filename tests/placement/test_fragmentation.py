from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.oracle.worlds import capacities, policies
from tests.support.capacity import host_at, partly_free
from topo.model.cluster import Taint
from topo.model.errors import BadInputError
from topo.model.ids import DRAGONFLY, NODE, SWITCHBOX, NodeName
from topo.model.rest.fragmentation import ShareDocument, TypeDocument
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host
from topo.placement.engine import place
from topo.placement.fragmentation import (
    DEFAULT_MIX,
    fragmentation,
    mix_of,
)
from topo.placement.job.plan import NoFit, Plan
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, Request
from topo.placement.view import shape_of

SIZES = (2, 4, 8, 12, 16, 24, 32, 64, 128)


def only(capacity: Capacity, **asked: object) -> TypeDocument:
    (report,) = fragmentation(capacity, **asked).types  # type: ignore[arg-type]
    return report


@given(st.data(), policies)
def test_the_largest_job_of_each_group_size_can_be_placed_and_one_pod_more_cannot(data, policy):
    capacity = data.draw(capacities(policy))
    for report in fragmentation(capacity, sizes=SIZES).types:
        for job in report.largest:
            # Of groups that no domain could hold even one is too many; less than one may fit.
            least = 1 if job.tier else job.group_size // job.gpus_per_pod
            asked = Request(
                pods=max(least, job.pods),
                gpus_per_pod=job.gpus_per_pod,
                group_size=job.group_size,
                eligible=Eligibility(gpu_type=report.gpu_type),
            )
            if job.pods:
                assert isinstance(place(capacity, asked), Plan)
                more = Request(
                    pods=job.pods + 1,
                    gpus_per_pod=job.gpus_per_pod,
                    group_size=job.group_size,
                    eligible=Eligibility(gpu_type=report.gpu_type),
                )
                assert isinstance(place(capacity, more), NoFit)
            else:
                assert isinstance(place(capacity, asked), NoFit)
            assert job.gpus == job.pods * job.gpus_per_pod


@given(st.data(), policies)
def test_every_count_of_the_report_adds_up(data, policy):
    capacity = data.draw(capacities(policy))
    report = fragmentation(capacity)
    hosts = [host for host in capacity.hosts() if host.gpus]
    assert sum(one.nodes for one in report.types) == len(hosts)
    assert sum(one.gpus for one in report.types) == sum(host.gpus for host in hosts)
    for one in report.types:
        assert 0 <= one.unusable_gpus <= one.free_gpus <= one.gpus
        assert 0 <= one.integrity <= 1
        wish = Eligibility(gpu_type=one.gpu_type)
        slots = capacity.slots(wish, one.gpu_type, one.node_gpus)
        shape = shape_of(
            capacity, Request(pods=1, gpus_per_pod=one.node_gpus, eligible=wish), one.gpu_type
        )
        assert one.group_gpus == shape.canonical * shape.gpus
        rooms = capacity.layout().rolled(slots.free, shape.canonical_tier)
        assert one.whole_groups == (rooms // shape.canonical).sum()
        for row in one.tiers:
            states = row.pristine + row.partly_used + row.full + row.closed
            assert states == row.domains == sum(times for _, times in row.profile)
            assert row.whole_groups == sum(groups * times for groups, times in row.profile)
        top = sum(row.whole_groups for row in one.tiers if row.tier == capacity.tiers)
        assert top == one.whole_groups


def test_the_report_of_a_cluster_that_was_counted_by_hand():
    capacity = partly_free((8, 8, 0), (5, 7), (0, 0))
    for number in range(1, 9):
        host = host_at(3, 1, number)
        capacity.release(f"job-{host.name}")
        capacity.upsert(replace(host, ready=False))
    report = only(capacity)
    assert (report.gpu_type, report.nodes, report.open_nodes) == ("A", 56, 48)
    assert (report.gpus, report.free_gpus) == (448, 224)
    assert (report.node_gpus, report.group_gpus, report.whole_groups) == (8, 64, 2)
    assert report.integrity == pytest.approx(16 / 28)
    switchboxes, dragonflies = report.tiers
    assert (switchboxes.tier, switchboxes.kind, switchboxes.domains) == (2, SWITCHBOX, 3)
    assert switchboxes.profile == ((2, 1), (0, 2))
    assert (dragonflies.pristine, dragonflies.partly_used) == (2, 2)
    assert (dragonflies.full, dragonflies.closed) == (2, 1)
    assert dragonflies.profile == ((1, 2), (0, 5))


def test_gpus_that_a_mix_cannot_use_are_those_outside_the_groups_of_its_jobs():
    capacity = partly_free((8, 5), (3,))
    by_nodes = ShareDocument(1, 8, None, 1)
    by_four = ShareDocument(8, 8, 32, 1)
    by_eight = ShareDocument(8, 8, 64, 2)
    too_large = ShareDocument(16, 8, 64, 1)
    lost = {by_nodes: 0, by_four: (16 - 12) * 8, by_eight: 8 * 8, too_large: 16 * 8}
    for share, gpus in lost.items():
        assert only(capacity, mix=(share,)).unusable_gpus == gpus
    both = only(capacity, mix=(by_nodes, by_eight))
    assert both.unusable_gpus == pytest.approx((0 * 1 + 64 * 2) / 3)
    assert only(capacity, mix=()).unusable_gpus == 0


def test_each_gpu_type_has_a_report_and_its_own_usual_node():
    capacity = partly_free((8,))
    for number in range(1, 5):
        capacity.upsert(host_at(2, 1, number, gpus=4, gpu_type="B"))
    capacity.upsert(host_at(2, 1, 5, gpus=16, gpu_type="B"))
    capacity.upsert(host_at(2, 1, 6, gpus=0, gpu_type=""))
    first, second = fragmentation(capacity).types
    assert (first.gpu_type, first.node_gpus, first.nodes) == ("A", 8, 8)
    assert (second.gpu_type, second.node_gpus, second.nodes) == ("B", 4, 5)
    assert second.group_gpus == 32
    assert second.whole_groups == 1


def test_groups_that_no_domain_could_ever_hold_have_no_tier():
    largest = only(partly_free((8, 8)), sizes=(64, 128, 256)).largest
    assert [(job.gpus, job.tier) for job in largest] == [(128, 1), (128, 2), (0, None)]


def test_nodes_outside_of_groups_are_domains_of_their_own_kind():
    capacity = partly_free((8,))
    capacity.upsert(Host(name=NodeName("lone"), gpus=8, gpu_type="A"))
    report = only(capacity)
    found = {(row.tier, row.kind): row.domains for row in report.tiers}
    assert found == {(2, SWITCHBOX): 1, (2, NODE): 1, (1, DRAGONFLY): 1, (1, NODE): 1}


def test_tainted_nodes_are_not_open_to_the_jobs_of_the_report():
    capacity = partly_free((8,))
    capacity.upsert(replace(host_at(1, 1, 1), taints=(Taint("team"),)))
    report = only(capacity)
    assert (report.open_nodes, report.free_gpus, report.whole_groups) == (7, 56, 0)


def test_a_cluster_without_gpus_has_an_empty_report():
    assert fragmentation(Capacity()).types == ()
    assert fragmentation(Capacity()).mix == DEFAULT_MIX


@pytest.mark.parametrize("size", [0, -8])
def test_a_group_of_no_gpus_is_refused_as_input(size):
    with pytest.raises(BadInputError, match="sizes"):
        fragmentation(partly_free((8,)), sizes=(8, size))


def test_the_observed_mix_is_each_shape_with_how_often_it_came():
    small, large = Request(pods=1, gpus_per_pod=1), Request(pods=8, gpus_per_pod=8, group_size=64)
    assert mix_of([small, large, small]) == (
        ShareDocument(1, 1, None, 2),
        ShareDocument(8, 8, 64, 1),
    )


def test_the_group_told_is_the_one_that_placement_preserves_where_a_node_is_larger_than_it():
    capacity = Capacity(Policy(canonical_gpus=8))
    for number in (1, 2):
        capacity.upsert(host_at(1, 1, number, gpus=16))
    report = only(capacity)
    plan = place(capacity, Request(pods=1, gpus_per_pod=16))
    assert isinstance(plan, Plan)
    assert plan.objective.profile_tier1 == ((2, -1), (1, 1))
    assert plan.objective.whole_groups_left == report.whole_groups - 1
    assert (report.group_gpus, report.whole_groups, report.integrity) == (32, 1, 1.0)
