"""What holds for every baseline on any cluster: real pods on real room, and honest views."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.placement.instances import aligned, mixed
from tests.sim.forests import ask, by_domain, counts, flat, tree
from topo.model.errors import BadInputError
from topo.model.ids import SWITCHBOX, Kind, NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.host import Host
from topo.placement.job.request import Eligibility, Request
from topo.sim.baselines import BASELINES, STRICT
from topo.sim.baselines.cluster import BaselineCluster, place

every_baseline = pytest.mark.parametrize("name", BASELINES)
domains = st.lists(st.integers(0, 8), min_size=1, max_size=5)
clusters = st.lists(st.lists(domains, min_size=1, max_size=4), min_size=1, max_size=4)
jobs = st.builds(
    ask, st.integers(1, 12), st.sampled_from((1, 2, 4, 8)), st.sampled_from((None, 1, 2, 3, 4))
)


@every_baseline
@settings(max_examples=60)
@given(tops=clusters, request=jobs)
def test_a_plan_is_all_pods_in_groups_on_room_that_is_there(name, tops, request):
    capacity = tree(*tops, size=8)
    groups = place(capacity, request, BASELINES[name])
    if groups is None:
        return
    assert [sum(pods for _, pods in group) for group in groups] == [
        *[request.pods_per_group] * request.whole_groups,
        *([request.tail] if request.tail else []),
    ]
    for node, pods in counts(groups).items():
        assert 0 < pods * request.gpus_per_pod <= capacity.free(NodeName(node))


@pytest.mark.parametrize("name", sorted(STRICT))
@pytest.mark.parametrize("seed", range(20))
def test_a_strict_policy_keeps_each_group_in_one_domain(name, seed):
    instance = mixed(seed)
    groups = place(instance.capacity, instance.request, BASELINES[name])
    view = next(BaselineCluster(instance.capacity).views(instance.request))
    if groups is None or view.group_tier is None:
        return
    for group in groups:
        hosts = [view.tree.position[node] for node, _ in group]
        assert len({view.tree.domain_of[view.group_tier][host] for host in hosts}) == 1


@pytest.mark.parametrize("name", sorted(STRICT))
@pytest.mark.parametrize("seed", range(20))
def test_without_a_tail_strict_policies_fit_what_has_whole_groups_enough(name, seed):
    capacity, request = (instance := aligned(seed)).capacity, instance.request
    view = next(BaselineCluster(capacity).views(request))
    assert view.group_tier is not None
    groups = sum(slots // request.pods_per_group for slots in view.slots[view.group_tier])
    fits = place(capacity, request, BASELINES[name]) is not None
    assert fits == (groups >= request.whole_groups)


@every_baseline
def test_the_order_of_arrival_changes_nothing(name):
    instance = mixed(3)
    hosts = list(instance.capacity.hosts())
    random.Random(1).shuffle(hosts)  # noqa: S311 - no secret
    shuffled = Capacity()
    for host in hosts:
        shuffled.upsert(host)
    for owner, booked in instance.capacity.bookings().items():
        shuffled.book(owner, booked)
    there, here = (
        place(capacity, instance.request, BASELINES[name])
        for capacity in (shuffled, instance.capacity)
    )
    assert there == here


@settings(max_examples=40)
@given(tops=clusters, steps=st.lists(st.tuples(st.integers(0, 79), st.integers(1, 8)), max_size=12))
def test_a_cluster_that_follows_jobs_equals_one_counted_anew(tops, steps):
    cluster = BaselineCluster(tree(*tops, size=8))
    capacity = cluster.capacity
    requests = [ask(1, gpus) for gpus in (1, 2, 8)]
    before = [next(cluster.views(request)) for request in requests]
    hosts = list(capacity.hosts())
    for number, (at, gpus) in enumerate(steps):
        name = hosts[at % len(hosts)].name
        cluster.book(f"job-{number}", {name: min(gpus, capacity.free(name))})
        if number % 3 == 2:
            cluster.release(f"job-{number}")
    anew = BaselineCluster(capacity)
    assert cluster.used == anew.used
    for request, kept in zip(requests, before, strict=True):
        assert next(cluster.views(request)) is kept
        assert next(anew.views(request)).slots == kept.slots


@every_baseline
def test_a_meaningless_request_is_refused_with_its_field(name):
    with pytest.raises(BadInputError, match="group_size"):
        place(flat([8]), Request(pods=1, gpus_per_pod=8, group_size=12), BASELINES[name])


@every_baseline
def test_a_job_larger_than_what_is_free_waits(name):
    assert place(tree([[8, 8], [8, 4]], size=8), ask(4, 8), BASELINES[name]) is None


@pytest.mark.parametrize("name", sorted(STRICT))
def test_a_strict_policy_has_no_place_for_a_group_larger_than_any_domain(name):
    assert place(tree([[8, 8], [8]], [[8, 8]], size=8), ask(4, 8, group=4), BASELINES[name]) is None


@every_baseline
def test_a_tail_that_fits_nowhere_keeps_the_whole_job_waiting_or_is_split(name):
    capacity = flat([8] * 4, [8, 0, 0, 0], [8, 0, 0, 0], size=8)
    groups = place(capacity, ask(6, 8, group=4), BASELINES[name])
    assert (groups is None) == (name in STRICT)


@every_baseline
def test_a_job_has_one_gpu_type_the_first_that_fits(name):
    capacity = Capacity()
    for number, gpu_type in enumerate(["a", "a", "b", "b", "b"]):
        capacity.upsert(Host(name=NodeName(f"n{number}"), gpus=8, gpu_type=gpu_type))
    for pods, found in ((2, {"n0", "n1"}), (3, {"n2", "n3", "n4"})):
        single = Request(pods=pods, gpus_per_pod=8, group_size=8)
        assert counts(place(capacity, single, BASELINES[name])).keys() == found
    assert place(capacity, Request(pods=4, gpus_per_pod=8, group_size=8), BASELINES[name]) is None


@every_baseline
def test_a_job_stays_inside_one_group_of_the_kind_it_names(name):
    capacity = tree([[8], [8]], [[8, 8], [8]], size=8)
    request = Request(pods=3, gpus_per_pod=8, group_size=8, within=SWITCHBOX)
    assert by_domain(capacity, place(capacity, request, BASELINES[name])) == {"d3": 2, "d4": 1}
    nowhere = Request(pods=1, gpus_per_pod=8, within=Kind("rack"))
    assert place(capacity, nowhere, BASELINES[name]) is None


@every_baseline
def test_a_job_uses_no_node_that_it_excludes(name):
    capacity = flat([8, 8], size=8)
    first = next(iter(capacity.hosts())).name
    wish = Eligibility(exclude=frozenset({first}))
    request = Request(pods=1, gpus_per_pod=8, eligible=wish)
    assert first not in counts(place(capacity, request, BASELINES[name]))
