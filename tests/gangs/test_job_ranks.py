"""Which ranks a job has now, as its object says after it was changed."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.admission.patching import WORDS, batch, task, volcano
from tests.gangs.job_kinds import made
from topo.gangs.job_kinds.batch_job import BATCH_JOB
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.job_set import JOB_SET
from topo.gangs.job_kinds.kinds import JOB_KINDS
from topo.gangs.job_kinds.stateful_set import STATEFUL_SET
from topo.gangs.job_kinds.training_operator import MPI_JOB, PYTORCH_JOB
from topo.gangs.job_kinds.volcano_job import VOLCANO_JOB
from topo.gangs.job_ranks import (
    MAX_RUNS,
    MOST_RANKS,
    NONE_UNMADE,
    JobRanks,
    UnmadeRanks,
    joined,
    read_job,
    unmade_ranks,
)
from topo.gangs.stamp import MAX_DOMAINS, own_domains_of
from topo.placement.job.request import OwnDomains

ODD: tuple[Any, ...] = (None, [], {}, [{}], "x", -1, 2**40, True, 0.5)
INDICES = st.frozensets(st.integers(0, 11))


def admitted(found: dict[str, Any]) -> dict[str, Any]:
    """The job as its admission leaves it, with a uid and a namespace."""
    job = made.admitted(found)
    job["metadata"] |= {"uid": "uid-1", "namespace": "jobs"}
    return job


def ranks(job: dict[str, Any], kind: JobKind) -> JobRanks:
    """The ranks that the job has now."""
    found = read_job(job, kind, WORDS)
    assert found is not None
    return found[1]


def _batch() -> dict[str, Any]:
    return batch(8)


def _resize_batch(job: Any, pods: int) -> None:
    job["spec"] |= {"completions": pods, "parallelism": pods}


def _resize_tasks(job: Any, pods: int) -> None:
    job["spec"]["tasks"][1]["replicas"] = pods - 1


def _resize_set(job: Any, pods: int) -> None:
    job["spec"]["replicas"] = pods


def _resize_jobs(job: Any, pods: int) -> None:
    job["spec"]["replicatedJobs"][0]["replicas"] = pods // 2


def _resize_torch(job: Any, pods: int) -> None:
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = pods - 1


def _resize_mpi(job: Any, pods: int) -> None:
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = pods


KINDS = {
    "batch Job": (BATCH_JOB, _batch, _resize_batch),
    "Volcano Job": (
        VOLCANO_JOB,
        lambda: volcano(task("master", 1, gpu_group_size="16"), task("worker", 7)),
        _resize_tasks,
    ),
    "StatefulSet": (STATEFUL_SET, lambda: made.stateful_set(8), _resize_set),
    "JobSet": (JOB_SET, lambda: made.job_set(made.replicated("a", 4, 2)), _resize_jobs),
    "PyTorchJob": (
        PYTORCH_JOB,
        lambda: made.roles(PYTORCH_JOB, "pytorchReplicaSpecs", Master=1, Worker=7),
        _resize_torch,
    ),
    "MPIJob": (MPI_JOB, lambda: made.roles(MPI_JOB, "mpiReplicaSpecs", Worker=8), _resize_mpi),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("pods", [4, 12])
def test_the_size_of_a_gang_is_that_of_its_job_now(name: str, pods: int) -> None:
    kind, make, resize = KINDS[name]
    job = admitted(make())
    before = read_job(job, kind, WORDS)
    assert before is not None
    assert before[1] == JobRanks((range(8),))
    resize(job, pods)
    assert read_job(job, kind, WORDS) == (before[0], JobRanks((range(pods),)))


def test_each_kind_that_states_its_size_is_tried_here() -> None:
    assert {each.title for each in JOB_KINDS if each.states_size} == {*KINDS}


def test_a_job_that_asks_for_no_groups_has_no_gang() -> None:
    assert read_job(batch(8, size=None), BATCH_JOB, WORDS) is None


def test_ranks_of_a_task_before_others_are_left_out_once_it_is_smaller() -> None:
    job = admitted(volcano(task("a", 4, gpu_group_size="16"), task("b", 4)))
    job["spec"]["tasks"][0]["replicas"] = 3
    found = ranks(job, VOLCANO_JOB)
    assert found == JobRanks((range(3), range(4, 8)))
    assert unmade_ranks(found, {0, 1, 2, 4}, ()) == UnmadeRanks(ended=frozenset({3}))


def test_a_job_set_with_smaller_jobs_keeps_the_ranks_that_their_pods_have() -> None:
    job = admitted(made.job_set(made.replicated("a", 2, 4)))
    job["spec"]["replicatedJobs"][0]["template"]["spec"] |= {"completions": 2, "parallelism": 2}
    assert ranks(job, JOB_SET) == JobRanks((range(2), range(4, 6)))


def test_indices_that_a_batch_job_calls_failed_or_completed_have_ended() -> None:
    job = admitted(_batch())
    job["status"] = {"failedIndexes": "2,3,6", "completedIndexes": "0-1,junk"}
    found = ranks(job, BATCH_JOB)
    assert found.ended == (range(4), range(6, 7))
    assert unmade_ranks(found, {4, 5}, ()).ended == {0, 1, 2, 3, 6}


def test_a_rank_whose_pod_is_there_has_not_ended() -> None:
    assert unmade_ranks(JobRanks((range(4),), (range(2),)), {1}, ()).ended == {0}


def test_a_job_of_a_job_set_says_which_ranks_have_ended_and_no_size() -> None:
    whole = admitted(made.job_set(made.replicated("a", 2, 4)))
    gang_id, of_set = read_job(whole, JOB_SET, WORDS) or ("", JobRanks())
    template = copy.deepcopy(whole["spec"]["replicatedJobs"][0]["template"])
    prefix = "jobset.sigs.k8s.io"
    labels = {"jobset-uid": "uid-1", "jobset-name": "train", "job-index": "1"}
    template["spec"]["template"]["metadata"]["labels"] = {
        f"{prefix}/{key}": value for key, value in labels.items()
    }
    part = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "jobs", "name": "train-a-1", "uid": "uid-2"},
        "status": {"failedIndexes": "2"},
        **template,
    }
    found = read_job(part, BATCH_JOB, WORDS)
    assert found == (gang_id, JobRanks(ended=(range(6, 7),)))
    assert joined([found[1]]) is None
    assert joined([found[1], of_set]) == joined([of_set, found[1]])
    assert joined([found[1], of_set]) == JobRanks((range(8),), (range(6, 7),))


@pytest.mark.parametrize(
    ("live", "succeeded", "later"),
    [
        (set(), set(), {3, 4, 5, 6, 7}),
        ({0, 1, 2}, set(), {3, 4, 5, 6, 7}),
        ({1, 2}, {0}, {4, 5, 6, 7}),  # that of rank 3 comes
        ({1, 2, 3}, {0}, {4, 5, 6, 7}),
        ({6, 7}, {0, 1, 2, 3, 4}, set()),
        ({4, 5, 6, 7}, set(), {0, 1, 2, 3}),  # it was lowered, and those go
    ],
)
def test_of_a_job_that_runs_in_part_the_lowest_ranks_come_first(
    live: set[int], succeeded: set[int], later: set[int]
) -> None:
    job = admitted(_batch())
    job["spec"]["parallelism"] = 3
    found = ranks(job, BATCH_JOB)
    assert found == JobRanks((range(8),), at_once=3)
    assert unmade_ranks(found, live, succeeded) == UnmadeRanks(later=frozenset(later))


@given(INDICES, INDICES, INDICES, st.integers(0, 12))
def test_live_ended_later_and_awaited_ranks_are_all_ranks_each_once(
    live: frozenset[int], ended: frozenset[int], succeeded: frozenset[int], at_once: int
) -> None:
    succeeded -= live
    job = JobRanks((range(12),), tuple(range(at, at + 1) for at in ended), at_once)
    found = unmade_ranks(job, live, succeeded)
    assert not (found.ended | found.later) & live
    assert not found.later & (found.ended | succeeded)
    awaited = set(range(12)) - found.ended - found.later - succeeded - live
    assert len(awaited) <= max(0, at_once - len(live - succeeded))
    assert not found.later or not awaited or max(awaited) < min(found.later)


def test_what_a_job_says_is_read_within_bounds() -> None:
    job = admitted(_batch())
    job["status"] = {"failedIndexes": ",".join(str(2 * at) for at in range(3 * MAX_RUNS))}
    assert len(ranks(job, BATCH_JOB).ended) <= MAX_RUNS
    large = JobRanks((range(MOST_RANKS + 1),), (range(3),), 5)
    assert unmade_ranks(large, (), ()) == NONE_UNMADE
    many = admitted(made.job_set(made.replicated("a", 2, 4)))
    spec = many["spec"]["replicatedJobs"][0]
    spec["replicas"], spec["template"]["spec"]["completions"] = 10**6, 3
    assert joined([ranks(many, JOB_SET)]) is None


@pytest.mark.parametrize(
    ("runs", "pods", "now"),
    [
        ([(4, 2)], 8, [(4, 2)]),
        ([(4, 2)], 4, [(2, 2)]),
        ([(4, 2)], 10, [(4, 2), (1, 2)]),
        ([(1, 2), (3, 4)], 8, [(1, 2), (1, 4), (1, 2)]),
        ([(0, 2), (3, 4)], 4, [(1, 4)]),
        ([(1, 4)], 4 * MAX_DOMAINS + 4, None),
        ([(0, 0)], 4, None),
    ],
)
def test_parts_with_domains_of_their_own_follow_the_size(
    runs: list[tuple[int, int]], pods: int, now: list[tuple[int, int]] | None
) -> None:
    made_with = tuple(OwnDomains(times, each, "rack") for times, each in runs)
    wanted = None if now is None else tuple(OwnDomains(*each, "rack") for each in now)
    assert own_domains_of(made_with, pods) == wanted


def _paths(found: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each field of a document."""
    listed = enumerate(found) if isinstance(found, list) else ()
    for key, each in found.items() if isinstance(found, dict) else listed:
        yield (*at, key)
        yield from _paths(each, (*at, key))


@pytest.mark.parametrize("name", KINDS)
def test_a_job_with_a_field_of_another_type_is_read_all_the_same(name: str) -> None:
    kind, make, _ = KINDS[name]
    job = admitted(make())
    job["status"] = {"failedIndexes": "1", "completedIndexes": "2", "restarts": 1}
    for path in _paths(job):
        for odd in ODD:
            broken = copy.deepcopy(job)
            at: Any = broken
            for part in path[:-1]:
                at = at[part]
            at[path[-1]] = odd
            found = read_job(broken, kind, WORDS)
            if found is not None:
                unmade_ranks(found[1], {0}, {1})
