"""What an API server is answered: patches, warnings, 422 with the fix, or an error of HTTP."""

from typing import Any

import orjson
import pytest

from master.admission.reviews import Invalid, Reviewed, review
from tests.admission.asking import asked, response
from tests.gangs.admission.patching import RULES, admitted, batch, sample, task, volcano
from topo.model.errors import BadInputError

WRONG = volcano(task("worker", 4, gpu_group_size="60"))
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}


def reviewed(content: bytes, invalid: Invalid = "warn") -> Reviewed:
    return review(content, RULES, invalid)


def test_the_vendors_sample_is_allowed_with_the_patch_of_its_stamps() -> None:
    found = reviewed(asked(sample()))
    assert (found.kind, found.result) == ("volcano-job", "stamped")
    said = response(found.answer)
    assert said["allowed"] is True
    assert said["patch"] == list(admitted(sample()).patch)
    assert "warnings" not in said


@pytest.mark.parametrize(
    ("made", "kind"), [(volcano(task("w", 1)), "volcano-job"), (batch(2, size=None), "job")]
)
def test_what_asks_for_no_groups_is_allowed_as_it_is(made: dict[str, Any], kind: str) -> None:
    found = reviewed(asked(made))
    assert (found.kind, found.result) == (kind, "unchanged")
    assert response(found.answer) == {"uid": response(found.answer)["uid"], "allowed": True}


def test_a_wrong_job_runs_without_groups_and_its_user_is_warned() -> None:
    found = reviewed(asked(WRONG))
    assert found.result == "invalid"
    said = response(found.answer)
    assert said["allowed"] is True
    (warning,) = said["warnings"]
    assert "runs without groups" in warning
    assert "give 56 or 64" in warning


def test_a_wrong_job_is_refused_with_422_and_the_fix_where_that_is_asked_for() -> None:
    found = reviewed(asked(WRONG), "deny")
    assert found.result == "refused"
    said = response(found.answer)
    assert said["allowed"] is False
    assert said["status"]["code"] == 422
    assert "60 is not a multiple of the 8 GPUs of a pod" in said["status"]["message"]
    assert "give 56 or 64" in said["status"]["message"]


def test_what_the_user_decides_himself_is_never_refused() -> None:
    own = volcano(task("worker", 4, gpu_group_size="16"), networkTopology={"mode": "hard"})
    assert response(reviewed(asked(own), "deny").answer)["allowed"] is True


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "DELETE"},
        {"kind": {"group": "apps", "version": "v1", "kind": "DaemonSet"}},
        {"kind": {"group": "", "version": "v2", "kind": "Pod"}},
        {"kind": "Pod"},
        {"kind": None},
    ],
)
def test_what_nobody_judges_here_is_allowed_and_told(request_: dict[str, Any]) -> None:
    found = reviewed(asked(POD, **request_), "deny")
    assert (found.kind, found.result) == ("other", "unchanged")
    said = response(found.answer)
    assert said["allowed"] is True
    assert said["warnings"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"a":' * 5000,
        orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}),
        asked(POD, uid=""),
        asked(POD, uid=5),
        asked(POD, uid="x" * 1000),
        asked(POD).replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
        asked(POD).replace(b"AdmissionReview", b"ConversionReview"),
    ],
)
def test_what_is_no_review_of_v1_is_an_error_that_names_the_version(content: bytes) -> None:
    with pytest.raises(BadInputError, match=r"admissionReviewVersions: \[v1\]"):
        reviewed(content)


@pytest.mark.parametrize("found", [None, "pod", [], 5, {"metadata": [], "spec": "x"}])
def test_an_object_that_is_none_is_allowed_as_it_is(found: object) -> None:
    for version in ("v1", "batch/v1", "batch.volcano.sh/v1alpha1"):
        kind = "Pod" if version == "v1" else "Job"
        content = asked({"apiVersion": version, "kind": kind}, object=found)
        assert response(reviewed(content, "deny").answer)["allowed"] is True


def test_a_warning_is_one_line_of_ascii_that_fits_a_header() -> None:
    wrong = volcano(task("w", 4, gpu_group_size="6\n4" + "é" * 5000))
    (warning,) = response(reviewed(asked(wrong)).answer)["warnings"]
    assert warning.isascii()
    assert warning.isprintable()
    assert len(warning) <= 400


def test_a_thousand_tasks_are_judged_and_more_are_told_to_be_too_many() -> None:
    tasks = [task(f"t{number}", 1) for number in range(1001)]
    job = volcano(*tasks[:1000])
    job["metadata"]["annotations"] = {"metax-tech.com/gpu-group-size": "64"}
    assert len(response(reviewed(asked(job)).answer)["patch"]) == 1001
    job["spec"]["tasks"] = tasks
    (warning,) = response(reviewed(asked(job)).answer)["warnings"]
    assert "1001 tasks" in warning


def test_what_depends_on_groups_that_are_not_known_yet_has_no_answer() -> None:
    native = volcano(task("w", 4, gpu_group_size="16", placement_mode="native"))
    found = reviewed(asked(native), "deny")
    assert (found.answer, found.kind, found.result) == (b"", "volcano-job", "undecided")
