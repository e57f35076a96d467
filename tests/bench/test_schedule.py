"""What is made of the times of jobs on real schedulers."""

from bench import schedule
from bench.__main__ import ON_DEMAND
from bench.schedule import RIVALS, SHAPES
from bench.schedule_runs import Run

WITH_US, PLAIN = RIVALS[0], RIVALS[1]
PAIRS = SHAPES[1]


def run(bound_s: float, split: int = 0) -> Run:
    return Run(there_s=0.5, opened_s=0.75, bound_s=bound_s, groups=32, split=split, cpu_s=0.64)


def test_whole_groups_are_judged_by_the_median_and_the_same_jobs_without_us_only_shown():
    bound, split, cpu = schedule.of_runs(WITH_US, PAIRS, [run(1.5), run(2.5), run(1.9)])
    assert (bound.measured.value, bound.met) == (1.9, True)
    assert (split.measured.value, split.met, split.note) == (0, True, "of 96")
    assert (cpu.measured.value, cpu.unit) == (10, "ms")
    bound, split = schedule.of_runs(PLAIN, PAIRS, [run(9.0, split=30)])
    assert (bound.met, split.met, split.measured.value) == (None, None, 30)


def test_one_split_group_misses_the_budget():
    _, split, _ = schedule.of_runs(WITH_US, PAIRS, [run(1.5), run(1.5, split=1)])
    assert split.met is False


def test_each_size_of_cluster_has_an_entry_of_its_own():
    assert {"schedule-1000", "schedule-5000", "schedule-10000"} <= ON_DEMAND.keys()
