"""A stream of jobs: who starts when, and what the figures say about it."""

from dataclasses import replace

import pytest

from tests.sim.forests import flat, tree
from topo.model.errors import BadInputError
from topo.placement.capacity.capacity import Capacity
from topo.sim.baselines import STRICT
from topo.sim.baselines.cluster import BaselineCluster
from topo.sim.streams import stream
from topo.sim.streams.figures import Figures, average
from topo.sim.streams.jobs import MIXES, Flow, StreamJob, draw_jobs, request
from topo.sim.streams.reservation import ReservingStream
from topo.sim.streams.stream import OURS, POLICIES, PREFERRED, Stream, placer_of, run
from topo.sim.worlds.maps import capacity_of, grid


def job(number: int, arrival_s: float, duration_s: float, gpus: int) -> StreamJob:
    return StreamJob(number, arrival_s, duration_s, gpus, request(gpus))


def timeless(figures: Figures) -> Figures:
    """Without what depends on the machine."""
    return replace(figures, p50_us=0.0, p99_us=0.0)


def small() -> tuple[Capacity, tuple[StreamJob, ...]]:
    capacity = capacity_of(grid(3, 4, 8))
    return capacity, draw_jobs(MIXES["llm-tails"], Flow(jobs=120, load=1.1, capacity_gpus=768), 7)


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_streams_have_equal_figures(policy):
    capacity, jobs = small()
    assert timeless(run(capacity, jobs, policy)) == timeless(run(capacity, jobs, policy))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_job_that_fits_an_empty_cluster_starts_in_the_end(policy):
    capacity, jobs = small()
    found = run(capacity, jobs, policy)
    assert found.jobs == 120
    assert found.stuck == 0
    assert 0 < found.gar_pct <= 100
    assert 0 <= found.gir_pct <= 100


@pytest.mark.parametrize("policy", sorted({OURS, *STRICT}))
def test_policies_that_keep_groups_whole_split_none(policy):
    capacity, jobs = small()
    found = run(capacity, jobs, policy)
    assert found.split_jobs_pct == found.split_groups_pct == 0


def test_random_nodes_split_most_groups_and_span_most():
    capacity, jobs = small()
    found, ours = run(capacity, jobs, "random"), run(capacity, jobs, OURS)
    assert found.split_jobs_pct > 50
    assert found.over_span_pct > ours.over_span_pct


def test_the_capacity_given_stays_as_it_is():
    capacity, jobs = small()
    version = capacity.version
    run(capacity, jobs, OURS)
    assert capacity.version == version
    assert not capacity.bookings()


@pytest.mark.parametrize("policy", [OURS, "kueue-best-fit"])
def test_when_all_jobs_have_ended_all_is_free(policy):
    capacity, jobs = small()
    cluster = BaselineCluster(capacity)
    started: list[int] = []
    Stream(cluster, placer_of(cluster, policy), jobs).run(started.append)
    assert sum(started) == len(jobs)
    assert cluster.used[-1] == [0]
    assert not cluster.capacity.bookings()


def test_a_job_waits_until_the_one_before_it_ends():
    jobs = [job(0, 0, 600, 8), job(1, 60, 600, 8)]
    found = run(flat([8], size=8), jobs, OURS)
    assert found.wait_min == pytest.approx((0 + 9) / 2)


def test_a_small_job_starts_before_a_large_one_that_does_not_fit():
    jobs = [job(0, 0, 600, 8), job(1, 60, 600, 16), job(2, 120, 60, 8)]
    found = run(flat([8, 8], size=8), jobs, OURS)
    assert found.wait_min == pytest.approx((0 + 9 + 0) / 3)


def test_only_the_first_forty_that_wait_are_tried(monkeypatch):
    monkeypatch.setattr(stream, "DEPTH", 1)
    jobs = [job(0, 0, 600, 8), job(1, 60, 600, 16), job(2, 120, 60, 8)]
    found = run(flat([8, 8], size=8), jobs, OURS)
    assert found.wait_min == pytest.approx((0 + 9 + 18) / 3)


def test_a_job_that_fits_nowhere_is_stuck_and_the_others_run():
    jobs = [job(0, 0, 60, 24), job(1, 10, 60, 8)]
    found = run(flat([8, 8], size=8), jobs, OURS)
    assert found.stuck == 1
    assert found.wait_min == 0


def test_jobs_that_fit_nowhere_do_not_stand_in_the_way(monkeypatch):
    monkeypatch.setattr(stream, "DEPTH", 2)
    jobs = [*(job(n, n, 60, 24) for n in range(5)), job(5, 10, 60, 8)]
    found = run(flat([8, 8], size=8), jobs, "first-fit")
    assert (found.stuck, found.wait_min) == (4, 0)


def test_an_attempt_with_slots_enough_in_the_wrong_places_is_blocked_by_topology():
    capacity = flat([8] * 4, [8] * 4, size=8)
    jobs = [job(0, 0, 900, 24), job(1, 1, 900, 24), job(2, 2, 60, 16)]
    found = run(capacity, jobs, OURS)
    assert found.blocked_pct == pytest.approx(100 / 4)
    split = run(capacity, jobs, PREFERRED)
    assert split.blocked_pct == 0
    assert split.split_groups_pct == pytest.approx(100 / 3)
    assert split.wait_min < found.wait_min


def test_a_job_that_takes_more_top_groups_than_it_must_counts_as_over_span():
    top = [[0] * 7 + [8], [8] * 8, [8] * 8]
    capacity = tree(top, [[8] * 8, [0] * 8], size=8)
    jobs = [job(0, 0, 60, 128)]
    assert run(capacity, jobs, OURS).over_span_pct == 0
    assert run(capacity, jobs, "slurm-block").over_span_pct == 100


def test_jobs_of_the_first_fifth_only_fill_the_cluster():
    jobs = [job(0, 0, 600, 16), *(job(n, n * 1000, 60, 8) for n in range(1, 5))]
    found = run(flat([8, 8], size=8), jobs, "first-fit")
    assert found.split_groups_pct == 0
    assert found.gar_pct == pytest.approx(100 * 60 / 1000 / 2)


def test_the_mean_over_seeds_is_the_mean_of_each_figure():
    capacity, jobs = small()
    one = run(capacity, jobs, OURS)
    assert average([one, replace(one, wait_min=one.wait_min + 2, stuck=3)]) == replace(
        one, wait_min=one.wait_min + 1, stuck=3
    )


def test_a_policy_that_there_is_not_is_refused_with_those_there_are():
    with pytest.raises(BadInputError, match="kueue-best-fit"):
        run(flat([8]), [], "slurm")


def test_a_cluster_without_gpus_is_refused():
    with pytest.raises(BadInputError, match="no GPUs"):
        run(Capacity(), [], OURS)


BIG = [job(0, 0, 600, 64), job(1, 60, 600, 128), job(2, 120, 900, 64), job(3, 130, 300, 64)]
"""A big job waits for two domains; the next would still run when it could start, the last not."""


def test_a_big_job_starts_when_its_nodes_are_free_and_only_shorter_jobs_before_it():
    capacity = capacity_of(grid(1, 2, 8))
    waits = {0: 0, 1: 9, 2: 18, 3: 0}
    found = run(capacity, BIG, OURS, queue=ReservingStream)
    assert found.wait_min == pytest.approx(sum(waits.values()) / 4)
    assert found.big_wait_min == pytest.approx(waits[1])
    assert run(capacity, BIG, OURS).big_wait_min > waits[1]


@pytest.mark.parametrize("policy", [OURS, "volcano", "kueue-best-fit"])
def test_with_a_reservation_every_job_starts_and_all_is_free_in_the_end(policy):
    capacity = capacity_of(grid(2, 2, 8))
    jobs = draw_jobs(MIXES["uneven"], Flow(jobs=150, load=1.3, capacity_gpus=256), 3)
    started: dict[type[Stream], int] = {}
    for queue in (Stream, ReservingStream):
        cluster, counts = BaselineCluster(capacity.copy()), list[int]()
        queue(cluster, placer_of(cluster, policy), jobs).run(counts.append)
        started[queue] = sum(counts)
        assert not cluster.capacity.bookings()
    assert started[ReservingStream] == started[Stream] > 140
