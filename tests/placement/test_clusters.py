"""Seeded clusters are what they say: the same each time, with the shares and the load asked for."""

from collections import Counter
from itertools import islice

import pytest

from bench.placement.instances import Instance, aligned, mixed
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.request import flaw
from topo.sim.worlds.clusters import (
    CLOSED,
    GROUP_GPUS,
    LARGE,
    RAGGED,
    SHAPES,
    SMALL,
    cluster,
    requests,
)

MANY = 20_000


def state(capacity: Capacity) -> tuple[object, ...]:
    return list(capacity.hosts()), dict(capacity.bookings())


def test_equal_arguments_make_equal_clusters_and_another_seed_another():
    assert state(cluster(300, "8+16", 0.6, 1)) == state(cluster(300, "8+16", 0.6, 1))
    assert state(cluster(300, "8+16", 0.6, 1)) != state(cluster(300, "8+16", 0.6, 2))
    assert list(cluster(300, "8", 0.9, 1).hosts()) == list(cluster(300, "8", 0.3, 1).hosts())


@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_are_closed_small_and_large_as_often_as_said(shape):
    made = list(cluster(MANY, shape, 0.0, 5).hosts())
    assert len(made) == len({host.name for host in made}) == MANY
    gpus = Counter(host.gpus for host in made)
    assert gpus[4] / MANY == pytest.approx(SMALL, rel=0.2)
    assert gpus[16] / MANY == pytest.approx(LARGE, rel=0.2)
    assert sum(not host.is_open for host in made) / MANY == pytest.approx(CLOSED, rel=0.2)


@pytest.mark.parametrize(("shape", "sizes"), SHAPES.items())
def test_domains_have_the_sizes_of_their_shape_but_for_the_ragged(shape, sizes):
    domains = Counter(host.path for host in cluster(MANY, shape, 0.0, 5).hosts())
    ragged = sum(size not in sizes for size in domains.values())
    most = RAGGED * 1.5
    assert 0 < ragged / len(domains) < most
    in_top = Counter(path[0] for path in domains)
    assert all(size in range(10, 15) for size in list(in_top.values())[:-1])


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_the_load_is_booked_on_open_nodes_and_no_node_is_overbooked(load):
    capacity = cluster(3_000, "8", load, 3)
    opened = [host for host in capacity.hosts() if host.is_open]
    booked = sum(sum(gpus.values()) for gpus in capacity.bookings().values())
    assert booked / sum(host.gpus for host in opened) == pytest.approx(load, abs=0.02)
    assert booked == sum(capacity.used(host.name) for host in opened)
    assert all(capacity.used(host.name) <= host.gpus for host in opened)


def test_every_job_of_the_mix_is_a_meaningful_request():
    jobs = list(islice(requests(4), 2_000))
    assert all(flaw(job) is None for job in jobs)
    sizes = {job.pods * job.gpus_per_pod for job in jobs}
    assert (min(sizes), max(sizes)) == (1, 512)
    assert any(job.group_size == GROUP_GPUS and job.whole_groups and job.tail for job in jobs)


@pytest.mark.parametrize("instance", [aligned, mixed])
def test_instances_of_the_oracle_are_small_and_loaded(instance):
    for seed in range(20):
        asked: Instance = instance(seed)
        assert flaw(asked.request) is None
        assert 60 <= len(list(asked.capacity.hosts())) <= 260
        domains = Counter(host.path for host in asked.capacity.hosts())
        assert max(domains.values()) <= 16
    assert state(instance(3).capacity) == state(instance(3).capacity)
    assert all(aligned(seed).request.tail == 0 for seed in range(20))
