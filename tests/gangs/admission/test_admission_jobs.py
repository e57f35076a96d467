"""A job at its creation: what its templates are stamped with, and what is said of a wrong one."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.admission.patching import (
    RULES,
    SIZE,
    WORDS,
    admitted,
    batch,
    patched,
    sample,
    stamps,
    task,
    volcano,
)
from topo.gangs.admission.outcome import Result
from topo.gangs.job_kinds.templates import MAX_CONTAINERS
from topo.gangs.job_kinds.volcano_job import MAX_TASKS
from topo.gangs.stamp import Stamp, read_stamp

MASTER = {"gpu-group-size": "64", "gang-pods": "8", "gang-pods-per-group": "8"}


def test_the_vendors_sample_is_stamped_on_both_tasks_and_starts_as_a_whole() -> None:
    job = sample()
    outcome = admitted(job)
    assert outcome.result is Result.STAMPED
    assert not outcome.warnings
    after = patched(job, outcome.patch)
    assert stamps(after) == [
        {**MASTER, "gang-rank-offset": "0"},
        {**MASTER, "gang-rank-offset": "1"},
    ]
    assert after["spec"]["minAvailable"] == 8


def test_nothing_but_the_stamps_and_min_available_is_changed() -> None:
    after = patched(sample(), admitted(sample()).patch)
    del after["spec"]["minAvailable"]
    for stamped, before in zip(after["spec"]["tasks"], sample()["spec"]["tasks"], strict=True):
        annotations = stamped["template"].pop("metadata")["annotations"]
        before["template"].pop("metadata", None)
        assert set(annotations) == {SIZE, *Stamp(1, 0, 1).annotations(WORDS)}
        assert stamped == before


@pytest.mark.parametrize("job", [sample(), batch(8), volcano(task("w", 3, gpu_group_size="16"))])
def test_the_same_job_again_gives_no_patch(job: dict[str, Any]) -> None:
    once = patched(job, admitted(job).patch)
    again = admitted(once)
    assert again.patch == ()
    assert again.result is Result.UNCHANGED


NPU = "huawei.com/Ascend910"
ASCEND = replace(RULES, gpu_resources=(NPU,))


def of_ascend(place: str, value: object = "32", pods: int = 8) -> dict[str, Any]:
    """A job of pods of eight NPUs with sp-block on the job or on its task."""
    marked = {"annotations": {"sp-block": value}}
    template: dict[str, Any] = {"spec": {"containers": [{"resources": {"limits": {NPU: 8}}}]}}
    template |= {"metadata": marked} if place == "task" else {}
    job = volcano({"name": "worker", "replicas": pods, "template": template})
    job["metadata"] |= marked if place == "job" else {}
    return job


@pytest.mark.parametrize("place", ["job", "task"])
def test_the_group_of_a_job_for_ascend_is_its_sp_block(place: str) -> None:
    job = of_ascend(place)
    once = patched(job, admitted(job, ASCEND).patch)
    (found,) = stamps(once)
    wanted = {**MASTER, "gpu-group-size": "32", "gang-pods-per-group": "4", "gang-rank-offset": "0"}
    assert {key: found[key] for key in found if key != "sp-block"} == wanted
    assert admitted(once, ASCEND).result is Result.UNCHANGED


def test_sp_block_is_read_only_where_npus_are_placed_and_below_our_own_annotation() -> None:
    assert admitted(of_ascend("job")).result is Result.UNCHANGED
    job = of_ascend("job")
    job["metadata"]["annotations"][SIZE] = "16"
    assert stamps(patched(job, admitted(job, ASCEND).patch))[0]["gpu-group-size"] == "16"


@pytest.mark.parametrize(
    ("value", "says"),
    [("0", "a whole number"), ("x", "a whole number"), (16, "in quotes"), ("12", "8")],
)
def test_an_sp_block_that_cannot_be_is_refused_at_its_place(value: object, says: str) -> None:
    outcome = admitted(of_ascend("job", value), ASCEND)
    assert outcome.refusal is not None
    assert outcome.refusal.where.endswith("[sp-block]")
    assert says in str(outcome.refusal)


def test_a_job_without_groups_is_no_business_of_ours() -> None:
    for job in (volcano(task("worker", 8)), batch(8, size=None)):
        outcome = admitted(job)
        assert outcome.result is Result.UNCHANGED
        assert not outcome.patch


def test_the_masters_task_has_rank_0_wherever_it_stands() -> None:
    job = volcano(task("worker", 3, gpu_group_size="16"), task("master", 1))
    after = stamps(patched(job, admitted(job).patch))
    assert [each["gang-rank-offset"] for each in after] == ["1", "0"]


def test_the_master_is_the_one_that_the_pytorch_plugin_is_told() -> None:
    tasks = task("worker", 3, gpu_group_size="16"), task("master", 2), task("chief", 1)
    job = volcano(*tasks, plugins={"pytorch": ["--worker=worker", "--master=chief"]})
    after = stamps(patched(job, admitted(job).patch))
    assert [each["gang-rank-offset"] for each in after] == ["1", "4", "0"]


def test_tasks_without_gpus_take_no_part_and_still_start_with_the_rest() -> None:
    job = volcano(task("mpimaster", 1, None, gpu_group_size="16"), task("mpiworker", 4))
    after = patched(job, admitted(job).patch)
    launcher, worker = stamps(after)
    assert launcher == {"gpu-group-size": "16"}
    assert worker == {
        "gpu-group-size": "16",
        "gang-pods": "4",
        "gang-rank-offset": "0",
        "gang-pods-per-group": "2",
    }
    assert after["spec"]["minAvailable"] == 5


def test_pods_that_differ_in_gpus_are_grouped_by_the_largest_with_a_warning() -> None:
    """A head of 4 GPUs beside workers of 8: pairs of pods, and ranks over both tasks."""
    job = volcano(task("master", 1, 4, gpu_group_size="16"), task("worker", 3, 8))
    outcome = admitted(job)
    after = stamps(patched(job, outcome.patch))
    assert [each["gang-pods-per-group"] for each in after] == ["2", "2"]
    assert [each["gang-rank-offset"] for each in after] == ["0", "1"]
    assert outcome.warnings == (
        "of pods with fewer GPUs (master 4) each is planned as one of 8 GPUs",
    )
    odd = admitted(volcano(task("master", 1, 4, gpu_group_size="12"), task("worker", 3, 8)))
    assert odd.refusal is not None
    assert "not a multiple of the 8 GPUs" in odd.refusal.what


def test_all_that_was_asked_is_copied_to_every_task() -> None:
    asked = {"gpu_group_mode": "preferred", "gpu_group_wait": "10m", "placement_mode": "nomination"}
    job = volcano(task("master", 1, gpu_group_size="16", **asked), task("worker", 3))
    worker = stamps(patched(job, admitted(job).patch))[1]
    assert {**worker, "gpu-group-wait": "10m", "placement-mode": "nomination"} == worker


def test_a_size_on_the_job_itself_counts_for_all_its_tasks() -> None:
    job = volcano(task("master", 1), task("worker", 3))
    job["metadata"]["annotations"] = {SIZE: "16"}
    after = stamps(patched(job, admitted(job).patch))
    assert [each["gpu-group-size"] for each in after] == ["16", "16"]


@pytest.mark.parametrize(
    ("spec", "tasks", "least"),
    [
        ({"minAvailable": 2}, {}, 2),
        ({"minAvailable": 0}, {}, 4),
        ({}, {"minAvailable": 3}, 3),
        ({}, {}, 4),
    ],
)
def test_the_users_own_min_available_stays(spec, tasks, least) -> None:
    job = volcano({**task("worker", 4, gpu_group_size="16"), **tasks}, **spec)
    assert patched(job, admitted(job).patch)["spec"]["minAvailable"] == least


def test_gpus_asked_as_requests_count_like_limits() -> None:
    job = volcano(task("worker", 4, gpu_group_size="16"))
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"metax-tech.com/gpu": "8"}}
    assert admitted(job).result is Result.STAMPED


@pytest.mark.parametrize(
    ("pods", "size", "per_group"),
    [(1, "64", 8), (3, "16", 2), (8, "1024", 128), (10_000, "64", 8), (1, "8", 1)],
)
def test_tails_one_pod_and_groups_larger_than_the_job_are_jobs_of_groups(pods, size, per_group):
    job = volcano(task("worker", pods, gpu_group_size=size))
    worker = stamps(patched(job, admitted(job).patch))[0]
    assert (worker["gang-pods"], worker["gang-pods-per-group"]) == (str(pods), str(per_group))


def test_stamps_of_another_job_are_corrected() -> None:
    job = patched(sample(), admitted(sample()).patch)
    job["spec"]["tasks"][1]["replicas"] = 15
    after = stamps(patched(job, admitted(job).patch))
    assert [each["gang-pods"] for each in after] == ["16", "16"]


def templates(job: Any) -> list[Any]:
    """The pod templates of a job of either kind."""
    found = [each["template"] for each in job["spec"].get("tasks", ())]
    return [*found, job["spec"]["template"]] if "template" in job["spec"] else found


def whys(job: Any) -> list[str]:
    """What the templates of a job say of why they get no groups."""
    found = (each.get("metadata", {}).get("annotations", {}) for each in templates(job))
    return [each[WORDS.ungrouped] for each in found if WORDS.ungrouped in each]


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no multiple": (
        volcano(task("worker", 4, gpu_group_size="60")),
        "not a multiple of the 8 GPUs of a pod",
        "give 56 or 64",
    ),
    "less than a pod": (volcano(task("worker", 4, gpu_group_size="4")), "not a multiple", "give 8"),
    "two sizes": (
        volcano(task("master", 1, gpu_group_size="16"), task("worker", 3, gpu_group_size="32")),
        f"is '16' at spec.tasks[0].template.metadata.annotations[{SIZE}] and '32' here",
        "give it once",
    ),
    "no number": (volcano(task("worker", 4, gpu_group_size="many")), "'many'", "whole number"),
    "no text": (volcano(task("worker", 4, gpu_group_size=16)), "'16'", "quotes"),
    "no GPUs": (
        volcano(task("worker", 4, None, gpu_group_size="16")),
        "no pod takes whole GPUs",
        "metax-tech.com/gpu",
    ),
    "no quantity": (
        volcano(task("worker", 4, "all", gpu_group_size="16")),
        "'all' is not a number of GPUs",
        "such as 8",
    ),
    "not Indexed": (
        batch(8, completionMode="NonIndexed"),
        "have no ranks",
        "set completionMode: Indexed",
    ),
    "not at once": (batch(8, parallelism=2), "2 of 8 pods run at once", "set parallelism: 8"),
    "no tasks": ({**volcano(), "metadata": {"annotations": {SIZE: "16"}}}, "no pod takes", "limit"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_job_is_told_what_is_wrong_and_how_to_mend_it(name: str) -> None:
    job, what, fix = WRONG[name]
    outcome = admitted(job)
    assert outcome.result is Result.INVALID
    assert outcome.refusal is not None
    after = patched(job, outcome.patch)
    assert set(whys(after)) == ({str(outcome.refusal)} if templates(job) else set())
    assert admitted(after).patch == ()
    assert what in outcome.refusal.what
    assert fix in outcome.refusal.fix
    assert outcome.refusal.where.startswith(("spec", "metadata"))


def test_a_wrong_job_loses_stamps_that_it_was_copied_with() -> None:
    """Else its pods would be gated, and nobody would open them."""
    job = patched(sample(), admitted(sample()).patch)
    for each in job["spec"]["tasks"]:
        each["template"]["metadata"]["annotations"][SIZE] = "60"
    after = patched(job, admitted(job).patch)
    for each in after["spec"]["tasks"]:
        assert read_stamp(each["template"]["metadata"]["annotations"], WORDS) is None


def _on_node() -> dict[str, Any]:
    job = volcano(task("worker", 2, gpu_group_size="16"))
    job["spec"]["tasks"][0]["template"]["spec"]["nodeName"] = "node-1"
    return job


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (
            volcano(
                task("worker", 4, gpu_group_size="16"),
                networkTopology={"mode": "hard", "highestTierAllowed": 1},
            ),
            "spec.networkTopology is set",
        ),
        (
            volcano({**task("worker", 4, gpu_group_size="16"), "partitionPolicy": {"x": 1}}),
            "spec.tasks[0].partitionPolicy is set",
        ),
        (_on_node(), "spec.tasks[0].template.spec.nodeName is set"),
        (volcano(task("worker", 0, gpu_group_size="16")), "made again with one at least"),
    ],
)
def test_what_the_user_decides_by_other_means_is_left_to_him_with_a_warning(job, why) -> None:
    outcome = admitted(job)
    assert outcome.result is Result.LEFT
    assert why in outcome.warnings[0]
    assert set(whys(patched(job, outcome.patch))) == {outcome.warnings[0]}


def test_a_job_that_was_mended_no_longer_says_why_it_had_no_groups() -> None:
    wrong = volcano(task("worker", 4, gpu_group_size="12"))
    copied = patched(wrong, admitted(wrong).patch)
    assert len(whys(copied)) == 1
    copied["spec"]["tasks"][0]["template"]["metadata"]["annotations"][SIZE] = "16"
    mended = patched(copied, admitted(copied).patch)
    assert whys(mended) == []
    assert admitted(mended).patch == ()


def test_affinity_selectors_and_gates_of_the_user_stay_and_the_job_gets_groups() -> None:
    job = volcano(task("worker", 4, gpu_group_size="16"))
    own = {
        "nodeSelector": {"pool": "a"},
        "affinity": {"nodeAffinity": {"x": []}},
        "schedulingGates": [{"name": "example.com/own"}],
    }
    job["spec"]["tasks"][0]["template"]["spec"] |= own
    after = patched(job, admitted(job).patch)
    spec = after["spec"]["tasks"][0]["template"]["spec"]
    assert {name: spec[name] for name in own} == own
    assert "gang-pods" in stamps(after)[0]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "annotations",
                    SIZE,
                    "spec",
                    "tasks",
                    "template",
                    "containers",
                    "replicas",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec"]), json_values))
def test_whatever_a_job_looks_like_it_is_judged(parts: dict[str, Any]) -> None:
    for version in ("batch.volcano.sh/v1alpha1", "batch/v1"):
        job = {"apiVersion": version, "kind": "Job", **copy.deepcopy(parts)}
        assert admitted(job).result in Result


@given(
    counts=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    per_group=st.integers(1, 6),
    master=st.integers(0, 4),
)
def test_the_ranks_of_all_pods_are_those_from_0_each_once(counts, per_group, master) -> None:
    tasks = [task(f"t{number}", pods) for number, pods in enumerate(counts)]
    tasks[master % len(tasks)]["name"] = "master"
    job = volcano(*tasks)
    job["metadata"]["annotations"] = {SIZE: str(8 * per_group)}
    outcome = admitted(job, RULES)
    if not sum(counts):
        assert outcome.result is Result.LEFT
        return
    ranks: list[int] = []
    for each in patched(job, outcome.patch)["spec"]["tasks"]:
        stamp = read_stamp(each["template"]["metadata"]["annotations"], WORDS)
        assert isinstance(stamp, Stamp)
        assert stamp.pods == sum(counts)
        assert stamp.pods_per_group == per_group
        ranks += range(stamp.rank_offset, stamp.rank_offset + each["replicas"])
        if each["name"] == "master":
            assert stamp.rank_offset == 0
    assert sorted(ranks) == list(range(sum(counts)))


@pytest.mark.parametrize("place", ["containers", "initContainers"])
def test_a_job_with_more_containers_than_can_be_judged_quickly_has_no_groups(place: str) -> None:
    job = sample()
    for task_of_job in job["spec"]["tasks"]:
        task_of_job["template"]["spec"][place] = [{} for _ in range(MAX_CONTAINERS // 2 + 1)]
    outcome = admitted(job)
    assert outcome.result is Result.INVALID
    assert "give them at most 2000" in str(outcome.refusal)


def test_of_a_job_with_too_many_tasks_only_the_first_are_read() -> None:
    job = sample()
    job["spec"]["tasks"] += [{"template": 8} for _ in range(5 * MAX_TASKS)]
    outcome = admitted(job)
    assert outcome.result is Result.INVALID
    assert "the job has 5002 tasks" in str(outcome.refusal)


def test_a_number_of_pods_beyond_what_kubernetes_has_is_none() -> None:
    """The API server refuses the job itself; the answer has no such number."""
    job = sample()
    job["spec"]["tasks"][1]["replicas"] = (1 << 64) - 1
    assert patched(job, admitted(job).patch)["spec"]["minAvailable"] == 1
