"""What is made of the times of jobs on real schedulers."""

from bench.__main__ import ON_DEMAND
from bench.scheduling import jobs
from bench.scheduling.follower import PodTimes
from bench.scheduling.jobs import RIVALS, SHAPES
from bench.scheduling.runs import Run, split_groups

WITH_US, PLAIN = RIVALS[0], RIVALS[1]
PAIRS = SHAPES[1]


def run(bound_s: float, split: int = 0, slipped: int = 0) -> Run:
    return Run(
        first_s=0.25,
        there_s=0.5,
        opened_s=0.75,
        bound_s=bound_s,
        groups=32,
        split=split,
        slipped=slipped,
        cpu_s=0.64,
        spans=1,
    )


def test_whole_groups_are_judged_by_the_median_and_the_same_jobs_without_us_only_shown():
    bound, split, cpu = jobs.of_runs(WITH_US, PAIRS, [run(1.5), run(2.5), run(1.9)])
    assert (bound.measured.value, bound.met) == (1.9, True)
    assert bound.note.startswith("the first pod there after 0.25 s, all after 0.5 s, all opened")
    assert (split.measured.value, split.met, split.note) == (0, True, "of 96")
    assert (cpu.measured.value, cpu.unit) == (10, "ms")
    bound, split = jobs.of_runs(PLAIN, PAIRS, [run(9.0, split=30)])
    assert (bound.met, split.met, split.measured.value) == (None, None, 30)


def test_one_split_group_misses_the_budget():
    _, split, _ = jobs.of_runs(WITH_US, PAIRS, [run(1.5), run(1.5, split=1)])
    assert split.met is False


def test_pods_that_were_made_without_a_gate_are_said() -> None:
    bound, *_ = jobs.of_runs(WITH_US, PAIRS, [run(1.5), run(1.5, slipped=3)])
    assert bound.note.endswith("; 3 pods made without a gate")


def test_each_size_of_cluster_has_an_entry_of_its_own():
    assert {"schedule-1000", "schedule-5000", "schedule-10000"} <= ON_DEMAND.keys()


def test_a_pod_that_is_not_bound_splits_neither_its_group_nor_those_after_it() -> None:
    home = {"n1": "d1", "n2": "d1", "n3": "d2", "n4": "d2"}

    def split(*nodes: str) -> int:
        pods = [PodTimes(rank, 0.0, node=node) for rank, node in enumerate(nodes)]
        return split_groups(reversed(pods), 2, home)

    assert split("n1", "n2", "n3", "n4") == 0
    assert split("", "n1", "n3", "n4") == 0
    assert split("n1", "n3", "n2", "n4") == 2
