"""Keys of a new job that look like ours and are not read: the user is told which, and what is."""

from typing import Any

import pytest

from tests.gangs.admission.patching import DOMAIN, SIZE, admitted, batch, sample, task, volcano
from topo.gangs.admission.outcome import Result
from topo.gangs.admission.unread_keys import MOST


def marked(job: dict[str, Any], kind: str, **values: str) -> dict[str, Any]:
    """The job with labels or annotations of its own under our domain."""
    found = {f"{DOMAIN}/{key.replace('_', '-')}": value for key, value in values.items()}
    return {**job, "metadata": {**job["metadata"], kind: found}}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("gpu-groupsize", "gpu-group-size"),
        ("gpu-group-sise", "gpu-group-size"),
        ("GPU-group-size", "gpu-group-size"),
        ("gpu-group-mod", "gpu-group-mode"),
        ("gpu-group-with-in", "gpu-group-within"),
        ("gpu-group-wait-s", "gpu-group-wait"),
        ("placement-mod", "placement-mode"),
    ],
)
def test_a_misspelt_annotation_is_told_with_the_one_that_was_meant(
    written: str, meant: str
) -> None:
    for job in (volcano(task("w", 2)), batch(2, size=None)):
        outcome = admitted(marked(job, "annotations", **{written: "16"}))
        (told,) = outcome.warnings
        assert f"metadata.annotations[{DOMAIN}/{written}] is not read" in told
        assert told.endswith(f"did you mean {DOMAIN}/{meant}?")
        assert outcome.result is Result.UNCHANGED
        assert not outcome.patch


def test_one_on_a_template_is_told_with_its_place() -> None:
    (told,) = admitted(volcano(task("w", 2), task("v", 2, gpu_groupsize="16"))).warnings
    assert told.startswith(f"spec.tasks[1].template.metadata.annotations[{DOMAIN}/gpu-groupsize]")


def test_the_name_under_another_domain_is_told() -> None:
    job = volcano(task("w", 2))
    for key in ("gpu-group-size", "metax.com/gpu-group-size"):
        job["metadata"]["annotations"] = {key: "16"}
        assert admitted(job).warnings == (
            f"metadata.annotations[{key}] is not read: did you mean {SIZE}?",
        )


def test_the_size_as_a_label_is_told_to_be_an_annotation() -> None:
    (told,) = admitted(marked(volcano(task("w", 2)), "labels", gpu_group_size="16")).warnings
    assert (
        told == f"metadata.labels[{SIZE}] is a label, which is not read: give it as an annotation"
    )


def test_a_wait_without_a_unit_counts_as_seconds_and_is_told() -> None:
    outcome = admitted(
        marked(volcano(task("w", 2, gpu_group_size="16")), "annotations", gpu_group_wait="10")
    )
    assert outcome.result is Result.STAMPED
    (told,) = outcome.warnings
    assert "'10', taken as seconds" in told
    assert not admitted(volcano(task("w", 2, gpu_group_size="16", gpu_group_wait="10m"))).warnings


def test_a_job_that_is_refused_is_told_of_its_misspelt_key_too() -> None:
    outcome = admitted(volcano(task("w", 2, gpu_group_size="12", gpu_group_mod="preferred")))
    assert outcome.refusal is not None
    assert len(outcome.warnings) == 1


@pytest.mark.parametrize("kind", ["annotations", "labels"])
def test_other_keys_of_the_domain_and_of_others_are_no_business_of_ours(kind: str) -> None:
    names = {"gpu": "8", "vgpu-memory": "1", "gpu-type": "C500", "node-usage": "training"}
    assert not admitted(marked(sample(), kind, **names)).warnings
    assert not admitted(marked(sample(), "annotations", gang_pods="2", gpu_group="0")).warnings


def test_many_keys_give_few_warnings() -> None:
    names = {f"gpu-group-size{number}": "1" for number in range(5000)}
    assert len(admitted(marked(volcano(task("w", 2)), "labels", **names)).warnings) == MOST
