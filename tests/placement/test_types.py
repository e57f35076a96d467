"""Jobs on several types of GPU: never mixed, and the best type wins."""

from tests.placement.asked import job, planned, refused, two_types
from tests.support.capacity import cluster, host, take
from topo.model.ids import Kind
from topo.placement.advice.refusal_reasons import reasons
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.plan import FitTest
from topo.placement.job.policy import Policy
from topo.placement.job.request import PlacementMode


def test_a_job_without_a_type_never_mixes_types():
    capacity = Capacity(Policy(gpu_types=("B",)))
    for number in range(4):
        capacity.upsert(host(f"a{number}", ("s1", "d1"), gpu_type="A"))
    for number in range(2):
        capacity.upsert(host(f"b{number}", ("s1", "d1"), gpu_type="B"))
    assert planned(capacity, job(2, group_size=None)).gpu_type == "B"
    assert planned(capacity, job(3, group_size=None)).gpu_type == "A"
    assert refused(capacity, job(5, group_size=None)).failed is FitTest.GPUS


def test_a_job_is_not_split_on_one_type_where_another_holds_it_whole():
    capacity = two_types(cluster((1, 1), size=2), (2,))
    plan = planned(capacity, job(2, group_size=16, mode=PlacementMode.PREFERRED))
    assert (plan.gpu_type, plan.objective.split_groups) == ("B", 0)
    assert all(plan.certified.values())


def test_types_compete_for_each_line_of_the_objective_and_their_order_decides_between_equals():
    capacity = two_types(cluster((2, 2), policy=Policy(canonical_gpus=16)), (2, 1))
    assert planned(capacity, job(1, group_size=16)).gpu_type == "B", "it costs no whole group"
    plan = planned(two_types(cluster((1, 1)), (2,)), job(2, group_size=8))
    assert (plan.gpu_type, plan.objective.span) == ("B", (1, 1))
    for order in ("A", "B"), ("B", "A"):
        capacity = two_types(cluster((2, 2), policy=Policy(gpu_types=order)), (2, 2))
        plan = planned(capacity, job(2, group_size=16))
        assert plan.gpu_type == order[0]
        assert all(plan.certified.values())


def test_a_refusal_is_told_of_the_type_on_which_the_job_could_fit_at_another_time():
    capacity = two_types(cluster((1, 1), (1, 1)), (1, 1))
    wish = job(2, group_size=16, within=Kind("dragonfly"), mode=PlacementMode.PREFERRED)
    assert refused(capacity, wish).text.startswith("no dragonfly can take all 2 pods")


def test_of_two_hundred_types_the_one_that_fits_best_is_found():
    capacity = Capacity(Policy(canonical_gpus=16))
    for number in range(200):
        for node in (1, 2):
            path = (f"s{number}", "d1")
            capacity.upsert(host(f"n{number}-{node}", path, gpu_type=f"T{number}"))
    take(capacity, "n150-1")
    assert planned(capacity, job(1, group_size=8)).gpu_type == "T150"
    assert planned(capacity, job(2, group_size=16)).gpu_type == "T0"


def test_of_types_that_refuse_alike_the_numbers_are_of_the_one_with_most_free_gpus():
    """One node of seven has no worker, so that its GPUs have no type."""
    capacity = cluster((2, 2, 2))
    capacity.upsert(host("silent", gpu_type=""))
    found = refused(capacity, job(7, group_size=8))
    assert (found.failed, found.gpu_type) == (FitTest.GPUS, "A")
    assert found.shortfall == {"needed": 56, "available": 48, "missing": 8}
    assert found.text.endswith(
        "48 are free on nodes that it may use, counted on GPU type A alone: "
        "all GPUs of a job are of one type"
    )
    told = reasons(capacity, found)
    assert "The type of 8 GPUs on 1 node is not known: no worker and no label says it." in told
    assert "Of 48 free GPUs on 6 nodes, 0 are in pieces smaller than a pod of 8." in told


def test_of_types_with_equally_many_free_gpus_a_refusal_is_of_one_with_a_name():
    capacity = cluster((1,))
    capacity.upsert(host("silent", gpu_type=""))
    assert refused(capacity, job(2, group_size=8)).gpu_type == "A"


def test_facts_of_a_refusal_are_of_its_type_where_another_has_more_free_gpus():
    """A has 16 free GPUs in halves of nodes, B one group less than the job needs."""
    capacity = two_types(cluster((2, 2)), (1, 1))
    for name in ("n1-1-1", "n1-1-2", "n1-2-1", "n1-2-2"):
        take(capacity, name, 1)
    found = refused(capacity, job(2, group_size=16))
    assert (found.failed, found.gpu_type) == (FitTest.GROUPS, "B")
    assert reasons(capacity, found)[1].startswith("Not the cause: 16 GPUs are free of 16 needed")
