"""GPUs that pods of a new job get by claims of devices: counted and stamped, or refused."""

from dataclasses import replace
from typing import Any

import pytest

from tests.gangs.admission.patching import RULES, WORDS, admitted, batch, patched, task, volcano
from topo.gangs.admission.claimed import MAX_CLAIMS
from topo.gangs.admission.outcome import ClaimedGpus, NamedGroup, Result, Rules
from topo.gangs.admission.pods import admit_pod

ALL = "request 'gpu' has allocationMode All of class gpus"
TEMPLATES = {"eight": ClaimedGpus(8), "nics": ClaimedGpus(0), "all": ClaimedGpus(0, ALL)}
SHARED = {"one": ClaimedGpus(0, "it is of class gpus"), "nic": ClaimedGpus(0)}
FIELD = "spec.template.spec.resourceClaims[0]"


def rules(templates: dict[str, ClaimedGpus] = TEMPLATES) -> Rules:
    """The rules of a master that knows these templates of the namespace `jobs`."""
    return replace(
        RULES,
        claim_template=lambda space, name: templates.get(name) if space == "jobs" else None,
        shared_claim=lambda _space, name: SHARED.get(name),
    )


def of_template(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "resourceClaimTemplateName": name} for name in names]


def job(claims: list[dict[str, str]], *, gpus: object = None, **annotations: str) -> dict[str, Any]:
    """Four pods in groups of 16 GPUs, with these claims each."""
    made = batch(4, gpus)
    made["metadata"]["namespace"] = "jobs"
    made["spec"]["template"]["spec"]["resourceClaims"] = claims
    made["spec"]["template"]["metadata"]["annotations"] |= annotations
    return made


def annotations_of(found: dict[str, Any]) -> dict[str, str]:
    made: dict[str, str] = found["spec"]["template"]["metadata"]["annotations"]
    return made


def test_a_job_whose_gpus_are_claimed_is_stamped_with_their_number() -> None:
    found = job(of_template("eight", "nics"))
    outcome = admitted(found, rules())
    assert outcome.result is Result.STAMPED
    stamped = annotations_of(patched(found, outcome.patch))
    assert stamped[WORDS.claimed_gpus] == "8"
    assert (stamped[WORDS.pods], stamped[WORDS.pods_per_group]) == ("4", "2")


def test_claims_and_requests_of_one_pod_are_added() -> None:
    found = job(of_template("eight"), gpus=8)
    stamped = annotations_of(patched(found, admitted(found, rules()).patch))
    assert (stamped[WORDS.claimed_gpus], stamped[WORDS.pods_per_group]) == ("8", "1")


def test_tasks_that_claim_and_tasks_that_request_are_one_gang() -> None:
    head, worker = task("head", 1, None, gpu_group_size="16"), task("worker", 3)
    head["template"]["spec"]["resourceClaims"] = of_template("eight")
    found = volcano(head, worker)
    found["metadata"]["namespace"] = "jobs"
    after = patched(found, admitted(found, rules()).patch)["spec"]["tasks"]
    claimed = [each["template"]["metadata"]["annotations"] for each in after]
    assert [each.get(WORDS.claimed_gpus) for each in claimed] == ["8", None]
    assert [each[WORDS.pods] for each in claimed] == ["4", "4"]


def test_a_number_that_was_copied_from_another_job_is_replaced_or_removed() -> None:
    copied = {WORDS.claimed_gpus: "16"}
    found = job(of_template("nics"), gpus=8, **copied)
    assert annotations_of(patched(found, admitted(found, rules()).patch))[WORDS.claimed_gpus] == "0"
    without = job(of_template("nics"), **copied)
    outcome = admitted(without, rules())
    assert outcome.refusal is not None
    assert "no pod takes whole GPUs" in outcome.refusal.what
    assert WORDS.claimed_gpus not in annotations_of(patched(without, outcome.patch))


@pytest.mark.parametrize(
    ("claim", "field", "said"),
    [
        (
            {"resourceClaimTemplateName": "all"},
            "resourceClaimTemplateName",
            f"the ResourceClaimTemplate all says no number of GPUs: {ALL}",
        ),
        (
            {"resourceClaimName": "one"},
            "resourceClaimName",
            "all pods share the GPUs of the ResourceClaim one",
        ),
    ],
)
def test_what_is_no_number_of_gpus_of_one_pod_is_refused_with_its_field(
    claim: dict[str, str], field: str, said: str
) -> None:
    for gpus in (None, 8):
        found = job([{"name": "gpu", **claim}], gpus=gpus)
        outcome = admitted(found, rules())
        assert outcome.result is Result.INVALID
        assert outcome.refusal is not None
        assert said in outcome.refusal.what
        assert outcome.refusal.where == f"{FIELD}.{field}"
        assert WORDS.ungrouped in annotations_of(patched(found, outcome.patch))


def test_a_claim_that_pods_share_and_that_is_of_no_gpus_is_no_matter() -> None:
    for name in ("nic", "unknown"):
        found = job([{"name": "nic", "resourceClaimName": name}], gpus=8)
        assert admitted(found, rules()).result is Result.STAMPED


def test_a_template_that_is_not_known_is_waited_for_where_no_other_gpus_are_asked_for() -> None:
    found = job(of_template("late"))
    outcome = admitted(found, rules())
    assert outcome.result is Result.AWAITED
    assert outcome.refusal is not None
    assert outcome.refusal.where == f"{FIELD}.resourceClaimTemplateName"
    assert admitted(job(of_template("late"), gpus=8), rules()).result is Result.STAMPED
    known = rules({"late": ClaimedGpus(8)})
    assert admitted(found, known).result is Result.STAMPED


def test_too_many_claims_are_refused() -> None:
    found = job(of_template(*["nics"] * (MAX_CLAIMS + 1)))
    refusal = admitted(found, rules()).refusal
    assert refusal is not None
    assert refusal.where == "spec.template.spec.resourceClaims"


def pod(*names: str, **annotations: str) -> dict[str, Any]:
    """A pod of the PodGroup `own`, with claims of these templates."""
    return {
        "metadata": {"namespace": "jobs", "annotations": {WORDS.rank: "1", **annotations}},
        "spec": {
            "schedulingGroup": {"podGroupName": "own"},
            "containers": [{}],
            "resourceClaims": of_template(*names),
        },
    }


def test_a_pod_of_a_pod_group_gets_the_number_of_its_claims() -> None:
    group = NamedGroup({WORDS.size: "16"}, min_count=4)
    known = replace(rules(), named_group=lambda _space, _name: group)
    found = pod("eight")
    outcome = admit_pod(found, known)
    assert outcome.result is Result.GATED
    assert patched(found, outcome.patch)["metadata"]["annotations"][WORDS.claimed_gpus] == "8"
    assert admit_pod(pod("late"), known).result is Result.AWAITED
    refused = admit_pod(pod("all"), known)
    assert refused.result is Result.LEFT
    assert "says no number of GPUs" in refused.warnings[0]
    assert admit_pod(pod("nics"), known).result is Result.UNCHANGED
    asks_nothing = replace(known, named_group=lambda _space, _name: NamedGroup({}, 4))
    assert admit_pod(pod("late"), asks_nothing).result is Result.UNCHANGED


def test_a_pod_of_a_stamped_template_is_gated_for_the_gpus_that_it_claims() -> None:
    """The stamp decides: the claim template may be gone by then."""
    stamped = annotations_of(
        patched(job(of_template("eight")), admitted(job(of_template("eight")), rules()).patch)
    )
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}
    index = {"batch.kubernetes.io/job-completion-index": "1"}
    made = pod("eight", **stamped, **index)
    made["metadata"]["ownerReferences"] = [owner]
    assert admit_pod(made, rules({})).result is Result.GATED
    del made["spec"]["resourceClaims"]
    assert admit_pod(made, rules({})).result is Result.UNCHANGED
